package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// threads runs n threads that end. Each computes, writes 256 KiB to a folder, and reports its waiting time and bytes
// from its files in /proc. If remove is set, the data is deleted before it reaches storage.
func threads(n int, dir string, remove bool) (waited float64, written, reached uint64) {
	said := make([][2][1024]byte, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			runtime.LockOSThread() // the thread ends with the function
			var now unix.Timespec
			for _ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); now.Nano() < int64(20*time.Millisecond); {
				_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
			}
			if f, err := os.Create(filepath.Join(dir, fmt.Sprint(i))); err == nil {
				_, _ = f.Write(make([]byte, 256<<10))
				if remove {
					_ = os.Remove(f.Name())
				} else {
					_ = f.Sync()
				}
				_ = f.Close()
			}
			for k, name := range []string{"/proc/thread-self/io", "/proc/thread-self/schedstat"} {
				fd, _ := unix.Open(name, unix.O_RDONLY, 0)
				_, _ = unix.Read(fd, said[i][k][:])
				_ = unix.Close(fd)
			}
		})
	}
	all.Wait()
	for i := range said {
		var ran, wait, wrote, cancelled uint64
		for line := range strings.Lines(string(said[i][0][:])) {
			_, _ = fmt.Sscanf(line, "write_bytes: %d", &wrote)
			_, _ = fmt.Sscanf(line, "cancelled_write_bytes: %d", &cancelled)
		}
		_, _ = fmt.Sscan(string(said[i][1][:]), &ran, &wait)
		waited, written, reached = waited+float64(wait)/1e9, written+wrote, reached+wrote-min(wrote, cancelled)
	}
	return waited, written, reached
}
