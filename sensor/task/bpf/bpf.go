// Package bpf holds the common code of sources that load BPF programs: permission checks,
// explanations of refusals, the possible number of processors, and the reading of iterators.
//
// Its functions may be called from any goroutine.
package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Permitted returns an error if this process may not load BPF programs. It tests that with the cheapest privileged operation, because
// reading the kernel's types takes long. It also returns an error on kernels that are known to be unsafe.
func Permitted() error {
	if err := checkRelease(kernelRelease()); err != nil {
		return err
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.LRUHash, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return err
	}
	return m.Close()
}

// NewIteration returns a file descriptor that reads an attached iterator from the start. It calls bpf(2) with
// BPF_ITER_CREATE itself, because the library's function allocates.
func NewIteration(link int) (int, error) {
	const bpfIterCreate = 33
	attr := struct{ link, flags uint32 }{link: uint32(link)}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, bpfIterCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return -1, fmt.Errorf("create an iterator: %w", errno)
	}
	return int(fd), nil
}

// Missed returns the number of events for which a program did not run because they interrupted the program itself.
func Missed(programs ...*ebpf.Program) (n uint64) {
	for _, p := range programs {
		if s, err := p.Stats(); err == nil {
			n += s.RecursionMisses
		}
	}
	return n
}

// RaiseMemlock lifts the limit of locked memory of this process. It fails if the limit is already lifted.
func RaiseMemlock() error {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &was); err != nil || was.Cur == unix.RLIM_INFINITY {
		return errors.New("locked memory is not limited")
	}
	return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
}

// PossibleCPUs returns the highest possible processor number plus one (Documentation/admin-guide/cputopology.rst).
func PossibleCPUs(root string) uint32 {
	text, err := os.ReadFile(filepath.Join(root, "/sys/devices/system/cpu/possible"))
	if err == nil {
		last := strings.TrimSpace(string(text))
		last = last[strings.LastIndexAny(last, ",-")+1:]
		if n, err := strconv.ParseUint(last, 10, 16); err == nil {
			return uint32(n) + 1
		}
	}
	return uint32(runtime.NumCPU())
}
