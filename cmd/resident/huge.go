package resident

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// hugePage is the size of a huge page, bytes (x86-64, and arm64 with pages of 4 KiB).
	hugePage = 2 << 20
	// minHugeHeap is the smallest live heap in bytes for which copying into huge pages is worth its cost. Smaller heaps
	// fit the processor's caches better.
	minHugeHeap = 256 << 20
	// leastMapping is the smallest mapping in bytes that may hold the heap, because the heap grows by 64 MiB.
	leastMapping = 32 << 20
	// dense is the number of resident pages of 512 from which on they are joined: more memory becomes resident for the rest.
	dense = 480
)

// HugePages starts to collapse a large heap into huge pages once a minute until ctx ends, and returns at once. It does
// nothing if the administrator disabled huge pages (never in /sys/kernel/mm/transparent_hugepage/enabled), or before
// Linux 6.1. With a heap of gigabytes, the garbage collector and queries spend most of their time on page table walks,
// twice as much in a virtual machine.
func HugePages(ctx context.Context) {
	enabled, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || bytes.Contains(enabled, []byte("[never]")) || os.Getpagesize() != hugePage/512 {
		return
	}
	go func() {
		timer := time.NewTimer(time.Minute)
		defer timer.Stop()
		for ; ; timer.Reset(time.Minute) {
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
			if liveHeap() < minHugeHeap {
				continue
			}
			if _, err := joinHeap(pauseAfter(ctx, collapsePages)); errors.Is(err, unix.EINVAL) {
				return // an older kernel
			}
		}
	}()
}

// pauseAfter returns a function that calls collapse and then waits three times as long as the call took. While the
// kernel copies pages, no thread of the program gets new memory.
func pauseAfter(ctx context.Context, collapse func(from, length uint64) error) func(from, length uint64) error {
	return func(from, length uint64) error {
		began := time.Now()
		err := collapse(from, length)
		rest := time.NewTimer(3 * time.Since(began))
		defer rest.Stop()
		select {
		case <-rest.C:
		case <-ctx.Done():
		}
		return err
	}
}

func collapsePages(from, length uint64) error {
	if _, _, no := unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(length), unix.MADV_COLLAPSE); no != 0 {
		return no
	}
	return nil
}

func joinHeap(collapse func(from, length uint64) error) (size uint64, err error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var vec [leastMapping / hugePage * 512]byte
	return collapseMappings(f, func(from, length uint64) ([]byte, error) {
		v := vec[:length/(hugePage/512)]
		_, _, no := unix.Syscall(unix.SYS_MINCORE, uintptr(from), uintptr(length), uintptr(unsafe.Pointer(&v[0])))
		if no != 0 {
			return nil, no
		}
		return v, nil
	}, collapse)
}

// collapseMappings calls collapse for the resident ranges of large anonymous mappings, which it reads from maps
// (proc_pid_maps(5)). It queries residency in units of at most leastMapping bytes. It returns EINVAL if every call
// did, because the kernel then does not support the request.
func collapseMappings(maps io.Reader, resident func(from, length uint64) ([]byte, error), collapse func(from,
	length uint64) error) (size uint64,
	err error) {
	var refused error
	others := false
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var from, to, offset, inode uint64
		var rights, device string
		line := lines.Text()
		n, bad := fmt.Sscanf(line, "%x-%x %s %x %s %d", &from, &to, &rights, &offset, &device, &inode)
		if bad != nil || n < 6 || inode != 0 || rights != "rw-p" || to < from+leastMapping || strings.HasSuffix(line, "]") &&
			!strings.HasSuffix(line, "heap]") {
			continue
		}
		from, to = (from+hugePage-1)/hugePage*hugePage, to/hugePage*hugePage
		for ; from < to; from += leastMapping {
			pages, bad := resident(from, min(to-from, leastMapping))
			if bad != nil {
				continue // it was unmapped meanwhile
			}
			for i := range len(pages) / 512 {
				if countResident(pages[i*512:][:512]) < dense {
					continue
				}
				at := from + uint64(i)*hugePage
				switch bad := collapse(at, hugePage); {
				case errors.Is(bad, unix.EINVAL):
					refused = bad // here; elsewhere it may do
				case bad != nil:
					others = true
				default:
					size += hugePage
				}
			}
		}
	}
	if size > 0 || others {
		refused = nil
	}
	return size, errors.Join(refused, lines.Err())
}

// countResident returns the number of resident pages.
func countResident(pages []byte) (n int) {
	for _, p := range pages {
		n += int(p & 1)
	}
	return n
}
