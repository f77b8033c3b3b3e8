package procfs

import (
	"slices"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// spaceSharer is a process that uses the address space of another process, its owner. It is a child of vfork(2) that has not
// executed a program yet, or of clone(2) with CLONE_VM.
type spaceSharer struct {
	pid, owner int32
	start      uint64
}

// SameSpace reports whether two processes share one address space (kcmp(2), KCMP_VM). The caller needs permission to
// read both. refused reports that the kernel or a system call filter rejected the call.
func SameSpace(a, b int32) (same, refused bool) {
	const vm = 1
	r, _, err := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), vm, 0, 0, 0)
	return err == 0 && r == 0, err != 0 && err != unix.ESRCH
}

func sameSpace(a, b int32) bool {
	same, _ := SameSpace(a, b)
	return same
}

// shareSpaces removes the memory figures of processes that share the address space of another process, so that shared
// memory is counted once, for the oldest process. Only new processes are compared with their parents, because a process
// shares an address space from its start or never. live is sorted by process id.
func (s *Source) shareSpaces(live []sensor.Process) {
	for _, y := range s.young {
		p := findProcess(live, y.pid)
		if p == nil || p.Start != y.start || p.Kernel || p.PPID <= 1 || !sameSpace(p.PID, p.PPID) {
			continue
		}
		owner := p.PPID
		if i := slices.IndexFunc(s.sharers, func(o spaceSharer) bool { return o.pid == owner }); i >= 0 {
			owner = s.sharers[i].owner
		}
		s.sharers = append(s.sharers, spaceSharer{y.pid, owner, y.start})
	}
	s.young = s.young[:0]
	for i, o := range s.sharers { // the owner may have ended
		if findProcess(live, o.owner) != nil || findProcess(live, o.pid) == nil {
			continue
		}
		for k := range s.sharers[i:] {
			if q := &s.sharers[i+k]; q.owner == o.owner {
				q.owner = o.pid
			}
		}
	}
	s.sharers = slices.DeleteFunc(s.sharers, func(o spaceSharer) bool {
		p, of := findProcess(live, o.pid), findProcess(live, o.owner)
		if p == nil || of == nil || p == of || p.Start != o.start || !sameSpace(o.pid, o.owner) {
			return true
		}
		p.Space, of.Space = uint64(o.owner), uint64(o.owner)
		p.Anon, p.File, p.Shmem, p.Swap, p.Huge, p.PeakBytes = 0, 0, 0, 0, 0, 0
		p.Have &^= sensor.FieldPeak
		return false
	})
}

// findProcess looks for a process in a table in order of ids.
func findProcess(live []sensor.Process, pid int32) *sensor.Process {
	i, ok := slices.BinarySearchFunc(live, pid, func(p sensor.Process, pid int32) int { return int(p.PID) - int(pid) })
	if !ok {
		return nil
	}
	return &live[i]
}

// threadStatus returns the status of a living thread of a process after its first thread has ended, or nil.
func (s *Source) threadStatus(e *processEntry) []byte {
	if s.listThreads(e) != nil {
		return nil
	}
	for i := range e.threads.list {
		if tid := e.threads.list[i].tid; tid != e.p.PID {
			f, err := s.openTask(e.p.PID, tid, processFileNames[statusFile])
			if err != nil {
				continue
			}
			text, err := s.readAll(f)
			f.close()
			if err == nil && len(text) > 0 {
				return text
			}
		}
	}
	return nil
}
