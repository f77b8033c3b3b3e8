package counters

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
)

// readOnline opens the list of processors that are online, and returns it.
func (s *Source) readOnline() ([]int, error) {
	f, err := os.Open(sysfs.Path(s.root, "sys/devices/system/cpu/online"))
	if err != nil {
		return nil, fmt.Errorf("read which processors are online: %w", err)
	}
	s.online, s.text = f, make([]byte, 4096)
	n, err := f.ReadAt(s.text, 0)
	cpus := sysfs.Numbers(string(s.text[:n]))
	if len(cpus) == 0 {
		return nil, errors.Join(fmt.Errorf("read which processors are online: %q", s.text[:n]), err)
	}
	s.was = append(s.was[:0], s.text[:n]...)
	return cpus, nil
}

// followOnline opens the events of processors that came online since the previous reading. The kernel itself closes
// the events of offline processors. gaps reports whether a processor ran without events for some time.
func (s *Source) followOnline() (gaps bool, err error) {
	n, _ := s.online.ReadAt(s.text, 0)
	if bytes.Equal(s.text[:n], s.was) {
		return false, nil
	}
	now, before := sysfs.Numbers(string(s.text[:n])), sysfs.Numbers(string(s.was))
	if len(now) == 0 {
		return false, fmt.Errorf("read which processors are online: %q", s.text[:n])
	}
	s.was = append(s.was[:0], s.text[:n]...)
	fresh := slices.DeleteFunc(now, func(cpu int) bool { return slices.Contains(before, cpu) })
	return len(fresh) > 0, s.openEvents(fresh)
}

// flushLong charges threads that have been on their processors since the previous reading.
func (s *Source) flushLong() {
	for cpu := range s.since {
		tid, since := s.runningThread(cpu)
		if since == s.since[cpu] && tid != 0 {
			runOn(s.flush.FD(), uint32(cpu)) // a processor that went offline meanwhile refuses
			_, since = s.runningThread(cpu)
		}
		s.since[cpu] = since
	}
}

// runningThread returns the id of the thread that runs on a processor, or 0, and the time of the last counter reading there. It
// reads the first fields of struct stint in bpf/counters.bpf.c.
func (s *Source) runningThread(cpu int) (tid uint32, since uint64) {
	if _, err := s.stints.ReadAt(s.scratch[:], int64(cpu)*s.size); err != nil {
		return 0, 0
	}
	return binary.NativeEndian.Uint32(s.scratch[:]), binary.NativeEndian.Uint64(s.scratch[8:])
}

// runOn runs a raw tracepoint program on a processor. It calls bpf(2) with BPF_PROG_TEST_RUN itself, because the
// library's function allocates.
func runOn(program int, cpu uint32) {
	const bpfProgTestRun, onCPU = 10, 1
	attr := struct {
		program, result     uint32
		sizeIn, sizeOut     uint32
		dataIn, dataOut     uint64
		repeat, duration    uint32
		contextIn, contexts uint32
		context, contextOut uint64
		flags, cpu          uint32
	}{program: uint32(program), flags: onCPU, cpu: cpu}
	_, _, _ = unix.Syscall(unix.SYS_BPF, bpfProgTestRun, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}
