package ebpf

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// gone is a process that is not in the table any more and whose exit record has not
// come yet.
type gone struct {
	process sensor.Process
	total   total
	until   uint64 // pass
	zombie  bool   // it was one when it was last seen
}

// holdPasses is for how many passes a process stays in the table while its exit record is
// awaited: charging it anew when the record comes late would count it twice.
const holdPasses = 12

// Read fills p. What ended before it is read first, so a process that ends meanwhile
// is told alive now and ended in the next pass.
func (s *Source) Read(p *sensor.Pass) error {
	if s.kernel == nil {
		return errors.New("read: the source is closed")
	}
	p.Boot, p.Joined = bootTime(), true
	s.pass++
	s.drain()
	s.live, s.threads = s.live[:0], s.threads[:0]
	first := len(p.Live)
	if err := s.iterate(s.kernel.walk.FD(), p); err != nil {
		return fmt.Errorf("read the task iterator: %w", err)
	}
	if len(p.Live) == first {
		return errors.New("read the task iterator: it told no process")
	}
	if s.afterWalk != nil {
		s.afterWalk()
	}
	live := p.Live[first:]
	s.addThreads(live)
	missing := s.finish(live)
	s.hold(live, missing)
	s.last = append(s.last[:0], live...)
	s.live, s.was = s.was, s.live
	if err := s.collect(p, live, missing); err != nil {
		return err
	}
	for i := range s.held {
		p.Live = append(p.Live, s.held[i].process)
	}
	s.tellLost(p)
	s.tidySets(p)
	return nil
}

// collect moves the exit records to p. Where processes are gone without one, it has the kernel tell those
// that were not freed yet, too; every few passes it is asked anyway.
//
// Two kinds of records wait for the next pass: that of a process that was read alive, and that of
// one that began after the pass, for whom this pass may lack the leader of its group and its
// parent: they began after the table was read, too.
func (s *Source) collect(p *sensor.Pass, live []sensor.Process, missing int) error {
	if missing > 0 || len(s.done) > 0 || len(s.held) > 0 || s.pass%4 == 0 {
		if err := s.claim(); err != nil {
			return err
		}
	}
	later := s.done[:0]
	for i := range s.done {
		d := &s.done[i]
		j := find(live, d.PID)
		if d.Start > p.Boot || j >= 0 && live[j].Start == d.Start {
			later = append(later, *d)
			continue
		}
		p.Exited = append(p.Exited, *d)
	}
	s.done = later
	s.held = slices.DeleteFunc(s.held, func(h gone) bool {
		if h.zombie && !h.total.ended {
			// It was a zombie before we began to trace; what was told then is final.
			h.process.State, h.process.Threads = 'X', 0
			p.Exited = append(p.Exited, h.process)
			return true
		}
		return h.total.ended
	})
	return nil
}

// claim has the kernel tell the processes that were waited for but not freed yet, then
// takes those that were freed meanwhile.
func (s *Source) claim() error {
	if s.kernel.claim != nil {
		if err := s.iterate(s.kernel.claim.FD(), nil); err != nil {
			return fmt.Errorf("read the processes that ended: %w", err)
		}
	}
	s.drain()
	return nil
}

// Drain appends the processes that ended since the last call: for those who read the
// table from another source. Read is not called then.
func (s *Source) Drain(p *sensor.Pass) error {
	if s.kernel == nil {
		return errors.New("read exit records: the source is closed")
	}
	s.pass++
	s.last, s.was = s.last[:0], s.was[:0]
	if err := s.claim(); err != nil {
		return err
	}
	p.Exited = append(p.Exited, s.done...)
	s.done = s.done[:0]
	s.tellLost(p)
	s.tidySets(p)
	return nil
}

// tellLost adds the records for which the ring had no room.
func (s *Source) tellLost(p *sensor.Pass) {
	p.Lost += s.lost - s.told
	s.told = s.lost
}

func bootTime() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return uint64(ts.Nano())
}

// iterate runs an iterator program over everything it visits.
func (s *Source) iterate(link int, p *sensor.Pass) error {
	fd, err := iterCreate(link)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Read(fd, s.buf)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return nil
		}
		if err := s.parse(s.buf[:n], p); err != nil {
			return err
		}
	}
}

// iterCreate is the command BPF_ITER_CREATE of bpf(2). The library's way to do this
// allocates.
func iterCreate(link int) (int, error) {
	const bpfIterCreate = 33
	attr := struct{ link, flags uint32 }{link: uint32(link)}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, bpfIterCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return -1, fmt.Errorf("create an iterator: %w", errno)
	}
	return int(fd), nil
}

// parse takes records that follow each other. The kernel never splits one.
func (s *Source) parse(b []byte, p *sensor.Pass) error {
	for len(b) > 0 {
		var size int
		kind := kindOf(b)
		switch kind {
		case kindPass:
			size = passSize
		case kindProcess, kindClaim:
			size = processSize
		case kindThread:
			size = threadSize
		default:
			return fmt.Errorf("a record of unknown kind %d", kind)
		}
		if len(b) < size {
			return fmt.Errorf("a record of kind %d has %d bytes of %d", kind, len(b), size)
		}
		at := unsafe.Pointer(&b[0])
		switch kind {
		case kindPass:
			s.lost = (*tasksPass)(at).Lost
		case kindProcess:
			if p != nil {
				s.addProcess((*tasksProcess)(at), p)
			}
		case kindThread:
			s.threads = append(s.threads, *(*tasksThread)(at))
		case kindClaim:
			s.addClaim((*tasksProcess)(at))
		}
		b = b[size:]
	}
	return nil
}

func (s *Source) addProcess(r *tasksProcess, p *sensor.Pass) {
	p.Live = append(p.Live, sensor.Process{})
	q := &p.Live[len(p.Live)-1]
	identity(q, r)
	q.PeakBytes = r.Peak // pages, until finish
	s.live = append(s.live, total{use: usageOf(r), pages: r.Pages, delta: r.Delta, flags: r.Flags, seq: r.Seq})
}

// addThreads adds each thread to its process.
func (s *Source) addThreads(live []sensor.Process) {
	i := 0
	for k := range s.threads {
		th := &s.threads[k]
		if i >= len(live) || live[i].PID != th.Pid {
			if i = find(live, th.Pid); i < 0 {
				i = 0
				continue // its process began or ended meanwhile
			}
		}
		t := &s.live[i]
		if int32(th.Seq-t.seq) < 0 {
			// Read before a thread of the process ended: it may be that one, whose
			// time is in the total already.
			continue
		}
		u := threadUsage(th)
		t.use.add(&u)
	}
}

// find looks for a process. The table is in order of ids, as the iterator goes.
func find(live []sensor.Process, pid int32) int {
	lo, hi := 0, len(live)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if live[mid].PID < pid {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(live) && live[lo].PID == pid {
		return lo
	}
	return -1
}

// finish makes figures of what was read, and returns how many processes of the last
// pass are neither in the table nor have an exit record.
func (s *Source) finish(live []sensor.Process) (missing int) {
	j := 0
	for i := range live {
		q, t := &live[i], &s.live[i]
		for j < len(s.last) && s.last[j].PID < q.PID {
			if !s.was[j].ended {
				missing++
			}
			j++
		}
		var was *sensor.Process
		t.wait = t.use.wait
		if j < len(s.last) && s.last[j].PID == q.PID {
			if s.last[j].Start == q.Start {
				was = &s.last[j]
				t.follow(&s.was[j])
			} else if !s.was[j].ended {
				missing++
			}
			j++
		}
		counters(q, &t.use, was)
		peak := q.PeakBytes
		q.PeakBytes = 0
		memory(q, t, peak, s.page)
	}
	for ; j < len(s.last); j++ {
		if !s.was[j].ended {
			missing++
		}
	}
	return missing
}

// follow carries over what a pass knows from the one before.
func (t *total) follow(was *total) {
	t.use.wait = was.use.wait + max(t.wait, was.wait) - was.wait
	if t.flags&unstable != 0 {
		t.use = was.use
	}
	t.use.atLeast(&was.use)
	if t.flags&(haveMemory|exact) == haveMemory {
		t.delta = was.delta
	}
}

// hold keeps the processes of the last pass that are gone without a record.
func (s *Source) hold(live []sensor.Process, missing int) {
	s.held = slices.DeleteFunc(s.held, func(h gone) bool {
		return h.total.ended || h.until <= s.pass || find(live, h.process.PID) >= 0
	})
	if s.kernel.exits != nil || missing == 0 {
		return
	}
	for j := range s.last {
		q := &s.last[j]
		if s.was[j].ended || find(live, q.PID) >= 0 {
			continue
		}
		h := gone{process: *q, total: s.was[j], until: s.pass + holdPasses, zombie: q.State == 'Z' && q.Threads <= 1}
		h.process.State, h.process.Threads = 'Z', 1
		h.process.Anon, h.process.File, h.process.Shmem, h.process.Swap = 0, 0, 0, 0
		s.held = append(s.held, h)
	}
}
