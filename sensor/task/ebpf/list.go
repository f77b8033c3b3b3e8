package ebpf

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// processLister reads the process table through the program list, into memory that the kernel and this process share.
type processLister struct {
	program *ebpf.Program
	shared  []byte // struct listing of task.bpf.c
	order   []listedProcess
	spare   []listedProcess // for sorting
	run     testRun
}

// listedProcess is a record of the listing. Records are in the order of process starts.
type listedProcess struct {
	pid int32
	at  uint32 // offset in words
}

// testRun is the part of union bpf_attr (include/uapi/linux/bpf.h) that BPF_PROG_TEST_RUN takes.
type testRun struct {
	fd, result                          uint32
	inSize, outSize                     uint32
	in, out                             uint64
	repeat, duration                    uint32
	contextSize, contextOutSize         uint32
	context, contextOut                 uint64
	flags, processor, batchSize, unused uint32
}

// headerBytes is the place where the records begin, in bytes.
const headerBytes = 8

// openListing maps the memory of the program.
func openListing(p *ebpf.Program, m *ebpf.Map) (*processLister, error) {
	shared, err := unix.Mmap(m.FD(), 0, int(m.ValueSize()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the memory of the list: %w", err)
	}
	return &processLister{program: p, shared: shared}, nil
}

func (l *processLister) close() error {
	if l == nil {
		return nil
	}
	return unix.Munmap(l.shared)
}

// readAll has the kernel list all processes, and reports whether all had room. It does not allocate.
func (l *processLister) readAll() (whole bool, err error) {
	l.run = testRun{fd: uint32(l.program.FD())}
	if _, _, no := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&l.run)), unsafe.Sizeof(l.run)); no != 0 {
		return false, no
	}
	return *(*uint32)(unsafe.Pointer(&l.shared[4])) == 0, nil
}

// records returns the words that were listed.
func (l *processLister) records() []byte {
	used := *(*uint32)(unsafe.Pointer(&l.shared[0]))
	return l.shared[headerBytes:][:8*int(used)]
}

// idDigit is the number of bits that one pass of the radix sort uses. A process id has at most 22 bits (PID_MAX_LIMIT
// in include/linux/threads.h), which takes two passes.
const idDigit = 11

// sortByID sorts list by process id in linear time. It also returns the memory that is no longer used.
func sortByID(list, spare []listedProcess) (sorted, unused []listedProcess) {
	spare = slices.Grow(spare[:0], len(list))[:len(list)]
	for shift := 0; shift < 2*idDigit; shift += idDigit {
		var at [1 << idDigit]uint32 // place of the next record with a digit
		for _, r := range list {
			at[r.pid>>shift&(1<<idDigit-1)]++
		}
		sum := uint32(0)
		for i, n := range at {
			at[i] = sum
			sum += n
		}
		for _, r := range list {
			digit := r.pid >> shift & (1<<idDigit - 1)
			spare[at[digit]] = r
			at[digit]++
		}
		list, spare = spare, list
	}
	return list, spare
}

// listProcesses reads the process table into s.table, in order of process ids. It returns false if the table is incomplete.
func (s *Source) listProcesses() (bool, error) {
	l := s.kernel.list
	whole, err := l.readAll()
	if err != nil {
		return false, fmt.Errorf("list the processes: %w", err)
	}
	if !whole {
		return false, nil
	}
	all := l.records()
	l.order = l.order[:0]
	for at := 0; at < len(all); {
		b := all[at:]
		size, err := recordSize(b)
		if err != nil {
			return false, err
		}
		switch recordKind(b) {
		case kindPass:
			s.beginPass((*tasksPass)(unsafe.Pointer(&b[0])))
		case kindSame:
			l.order = append(l.order, listedProcess{(*tasksSame)(unsafe.Pointer(&b[0])).Pid, uint32(at)})
		case kindProcess:
			l.order = append(l.order, listedProcess{(*tasksProcess)(unsafe.Pointer(&b[0])).Pid, uint32(at)})
		}
		at += size
	}
	// Processes are listed as they began, which is the order of their ids until these start over.
	if !slices.IsSortedFunc(l.order, func(a, b listedProcess) int { return int(a.pid) - int(b.pid) }) {
		l.order, l.spare = sortByID(l.order, l.spare)
	}
	for _, r := range l.order {
		b := all[r.at:]
		if recordKind(b) == kindSame {
			s.table.keepRow(r.pid)
			continue
		}
		p := *(*tasksProcess)(unsafe.Pointer(&b[0])) // the memory is read only
		s.table.addFull(s.adjustStart(&p), s.page)
	}
	return true, nil
}
