// Package resident reduces the resident memory of a program after it has started.
//
// A large program touches most of its own code and tables while it starts, and the kernel
// maps 64 KiB around each touched page (fault_around_bytes): most of the program
// is then resident, and a tenth of that is used again.
package resident

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Shed unmaps the unmodified pages of the program's file and returns the size of their address
// ranges in bytes. Pages are reloaded on use from the page cache or the file (madvise(2),
// MADV_DONTNEED on a private file mapping). It is safe for concurrent use.
func Shed() (bytes uint64, err error) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0, err
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return shed(f, exe, func(from, length uint64) error {
		if _, _, no := unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(length), unix.MADV_DONTNEED); no != 0 {
			return no
		}
		return nil
	})
}

// shed calls drop for each mapping of exe that is not writable (proc_pid_maps(5)).
func shed(maps io.Reader, exe string, drop func(from, length uint64) error) (bytes uint64, err error) {
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
		if one := drop(from, to-from); one != nil {
			err = errors.Join(err, fmt.Errorf("%x-%x: %w", from, to, one))
			continue
		}
		bytes += to - from
	}
	return bytes, errors.Join(err, lines.Err())
}
