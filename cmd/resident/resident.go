// Package resident reduces the resident memory of a program after it has started.
//
// A large program touches most of its own code and tables while it starts, and the kernel maps 64
// KiB around each touched page (fault_around_bytes). Most of the program is therefore resident,
// although only a tenth of it is used again.
package resident

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// area is a mapping of the program's file that is not writable.
type area struct{ from, length uint64 }

// chunkSize is the size of the mappings that a program is divided into. More of a larger mapping is resident than is
// used, and smaller mappings cause more page faults.
const chunkSize = 16 << 10

// programAreas returns the areas of this program.
func programAreas() ([]area, error) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseAreas(f, exe)
}

// parseAreas returns the areas of a program (proc_pid_maps(5)).
func parseAreas(maps io.Reader, exe string) (all []area, err error) {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var from, to, offset, inode uint64
		var rights, device string
		line := lines.Text()
		n, bad := fmt.Sscanf(line, "%x-%x %s %x %s %d", &from, &to, &rights, &offset, &device, &inode)
		if bad != nil || n < 6 || to <= from || !strings.HasSuffix(line, " "+exe) || len(rights) < 4 || rights[1] == 'w' ||
			rights[3] != 'p' {
			continue
		}
		all = append(all, area{from, to - from})
	}
	return all, lines.Err()
}

// releasePages releases the resident pages of areas. On use, the kernel reloads them from the page cache or the file
// (madvise(2), MADV_DONTNEED on a private file mapping). Other goroutines may use the areas at the same time.
func releasePages(all []area) {
	for _, a := range all {
		_ = a.adviseKernel(unix.MADV_DONTNEED) // pages that cannot be unmapped stay resident
	}
}

// splitMappings divides areas into mappings of a chunk, because the kernel maps pages around a touched page only within its
// mapping. To make mappings differ, it excludes every other chunk from core dumps, which omit unmodified pages of files anyway.
func splitMappings(all []area) {
	for _, a := range all {
		for at := (a.from + chunkSize) &^ (2*chunkSize - 1); at < a.from+a.length; at += 2 * chunkSize {
			if from := max(at, a.from); (area{from, min(at+chunkSize, a.from+a.length) - from}).adviseKernel(unix.MADV_DONTDUMP) != nil {
				return // too many mappings (vm.max_map_count)
			}
		}
	}
}

func (a area) adviseKernel(advice uintptr) error {
	if _, _, no := unix.Syscall(unix.SYS_MADVISE, uintptr(a.from), uintptr(a.length), advice); no != 0 {
		return no
	}
	return nil
}
