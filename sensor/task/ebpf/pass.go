package ebpf

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

// endedProcess is a process that is no longer in the table but has no exit record yet.
type endedProcess struct {
	process sensor.Process
	total   taskTotal
	until   uint64 // pass
	zombie  bool   // it was one when it was last seen
}

// holdPasses is the number of passes that a process remains in the table while its exit record is pending. If it were
// removed earlier, a late record would charge it again.
const holdPasses = 12

// Read fills p with the live and the ended processes. It reads exit records before the process table. A process that
// ends in between is therefore alive in this pass and ended in the next one.
func (s *Source) Read(p *sensor.Pass) error {
	if s.kernel == nil {
		return errors.New("read: the source is closed")
	}
	p.Boot, p.Joined = bootTime(), true
	s.pass++
	s.drainRing()
	if err := s.readTasks(); err != nil {
		return err
	}
	if s.afterWalk != nil {
		s.afterWalk()
	}
	p.Opens, s.opened = append(p.Opens, s.opened...), s.opened[:0]
	first := len(p.Live)
	p.Live = slices.Grow(p.Live, len(s.table.rows)+len(s.held))
	for _, w := range s.table.rows {
		p.Live = append(p.Live, w.process)
	}
	missing := s.keepEnding()
	s.table.freeLeft()
	if err := s.collectExits(p, p.Live[first:], missing); err != nil {
		return err
	}
	for i := range s.held {
		p.Live = append(p.Live, s.held[i].process)
	}
	s.reportLost(p)
	s.tidySets(p)
	return nil
}

// readTasks reads the table.
func (s *Source) readTasks() error {
	for again := false; ; again = true {
		s.table.beginPass(again)
		s.threads = s.threads[:0]
		if err := s.readTable(); err != nil {
			s.table.forgetAll() // the pass has replaced a part of it
			return err
		}
		if !s.table.holes || again {
			break
		}
		// A pass failed that the kernel takes for reported.
		if err := s.kernel.reportAll(); err != nil {
			return fmt.Errorf("have the kernel report all processes: %w", err)
		}
	}
	if len(s.table.next) == 0 {
		return errors.New("read the task iterator: it reported no process")
	}
	s.addThreads()
	s.table.computeFigures()
	s.table.dedupeMemory()
	s.table.endPass()
	return nil
}

// readTable reads all processes into the table. It uses the list if the kernel has one and all processes fit.
func (s *Source) readTable() error {
	if s.kernel.list != nil {
		if whole, err := s.listProcesses(); whole || err != nil {
			return err
		}
	}
	if err := s.runIterator(s.kernel.walk.FD()); err != nil {
		return fmt.Errorf("read the task iterator: %w", err)
	}
	return nil
}

// collectExits moves exit records to p. If processes have disappeared without a record, and every few passes, it also asks
// the kernel for ended processes that it has not released.
//
// Two kinds of records wait for the next pass. The first belong to processes that this pass has read as alive. The
// second belong to processes that began after this pass, because p may lack their parent and group leader.
func (s *Source) collectExits(p *sensor.Pass, live []sensor.Process, missing int) error {
	if missing > 0 || len(s.done) > 0 || len(s.held) > 0 || s.pass%4 == 0 {
		if err := s.claimReaped(); err != nil {
			return err
		}
	}
	later := s.done[:0]
	for i := range s.done {
		d := &s.done[i]
		j := findIndex(live, d.PID)
		if d.Start > p.Boot || j >= 0 && live[j].Start == d.Start {
			later = append(later, *d)
			continue
		}
		p.Exited = append(p.Exited, *d)
	}
	s.done = later
	s.held = slices.DeleteFunc(s.held, func(h endedProcess) bool {
		if h.zombie && !h.total.ended {
			// It was a zombie before tracing began, so the last report was final.
			h.process.State, h.process.Threads = 'X', 0
			p.Exited = append(p.Exited, h.process)
			return true
		}
		return h.total.ended
	})
	return nil
}

// claimReaped makes the kernel report processes that were reaped but not released. It then reads the records of processes
// that were released in the meantime.
func (s *Source) claimReaped() error {
	if s.kernel.claim != nil {
		if err := s.runIterator(s.kernel.claim.FD()); err != nil {
			return fmt.Errorf("read the processes that ended: %w", err)
		}
	}
	s.drainRing()
	return nil
}

// Drain appends the processes that ended since the last call. It is for callers that read live processes from another
// source and never call Read.
func (s *Source) Drain(p *sensor.Pass) error {
	if s.kernel == nil {
		return errors.New("read exit records: the source is closed")
	}
	s.pass++
	s.table.forgetAll()
	if err := s.claimReaped(); err != nil {
		return err
	}
	p.Exited = append(p.Exited, s.done...)
	p.Opens, s.opened = append(p.Opens, s.opened...), s.opened[:0]
	s.done = s.done[:0]
	s.reportLost(p)
	s.tidySets(p)
	return nil
}

// reportLost adds the records that did not fit into the ring.
func (s *Source) reportLost(p *sensor.Pass) {
	p.Lost += s.lost - s.reported
	s.reported = s.lost
	if s.full > s.swept && s.kernel.harvest != nil {
		s.swept = s.full
		s.deleteEndedThreads()
	}
}

// beginPass records the head of a pass.
func (s *Source) beginPass(r *tasksPass) { s.lost, s.full, s.level = r.Lost, r.Full, r.Level }

// deleteEndedThreads deletes the counts of ended threads if their process is gone but the kernel did not report its
// end. That happens, for example, on a processor that was removed.
func (s *Source) deleteEndedThreads() {
	if s.level != 0 {
		return // the numbers are numbers of the first pid namespace
	}
	var of tasksLife
	var gone []tasksLife
	var kept tasksKept
	for all := s.kernel.harvest.Iterate(); all.Next(&of, &kept); {
		if unix.Kill(int(of.Tgid), 0) == unix.ESRCH {
			gone = append(gone, of)
		}
	}
	for i := range gone {
		_ = s.kernel.harvest.Delete(&gone[i])
	}
}

func bootTime() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return uint64(ts.Nano())
}

// runIterator runs an iterator program over everything it visits.
func (s *Source) runIterator(link int) error {
	fd, err := bpf.NewIteration(link)
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
		if err := s.parseRecords(s.buf[:n]); err != nil {
			return err
		}
	}
}

// parseRecords reads consecutive records. The kernel never splits one.
func (s *Source) parseRecords(b []byte) error {
	for len(b) > 0 {
		size, err := recordSize(b)
		if err != nil {
			return err
		}
		at := unsafe.Pointer(&b[0])
		switch recordKind(b) {
		case kindPass:
			s.beginPass((*tasksPass)(at))
		case kindProcess:
			s.table.addFull(s.adjustStart((*tasksProcess)(at)), s.page)
		case kindSame:
			s.table.keepRow((*tasksSame)(at).Pid)
		case kindThread:
			s.threads = append(s.threads, *(*tasksThread)(at))
		case kindClaim:
			s.addClaim(s.adjustStart((*tasksProcess)(at)))
		}
		b = b[size:]
	}
	return nil
}

// recordSize returns the size of the first record, which is whole.
func recordSize(b []byte) (size int, err error) {
	kind := recordKind(b)
	switch kind {
	case kindPass:
		size = passSize
	case kindProcess, kindClaim:
		size = processSize
	case kindThread:
		size = threadSize
	case kindSame:
		size = sameSize
	default:
		return 0, fmt.Errorf("a record of unknown kind %d", kind)
	}
	if len(b) < size {
		return 0, fmt.Errorf("a record of kind %d has %d bytes of %d", kind, len(b), size)
	}
	return size, nil
}

// adjustStart converts the start of a process, in our copy of a record, to the clock of this process.
func (s *Source) adjustStart(r *tasksProcess) *tasksProcess {
	r.Start = s.clock.Here(r.Start)
	return r
}

// addThreads adds each thread to its process.
func (s *Source) addThreads() {
	var w *taskRow
	for k := range s.threads {
		th := &s.threads[k]
		if w == nil || w.process.PID != th.Pid {
			if w = findRow(s.table.next, th.Pid); w == nil {
				continue // its process began or ended meanwhile
			}
		}
		if !w.full || int32(th.Seq-w.total.seq) < 0 || th.Harvested > 0 && th.Harvested != w.total.harvested {
			// It was read before a thread of the process ended, possibly that one, which is in the
			// total already. Or it began after the process was read as one without threads that has
			// not run.
			continue
		}
		u := threadUsage(th)
		w.total.use.add(&u)
	}
}

// findIndex returns the index of a process in live, or -1. live is sorted by process id.
func findIndex(live []sensor.Process, pid int32) int {
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

// computeFigures computes figures from a complete reading.
func (t *taskTable) computeFigures() {
	for _, w := range t.next {
		if !w.full {
			continue
		}
		w.total.wait = w.total.use.wait
		known := w.was != 0
		if known {
			w.carryOver(&t.before[w.was-1], t.harvests)
		}
		setCounters(&w.process, &w.total.use, known)
	}
}

// carryOver sets values that only the previous pass had. The kernel keeps the I/O of threads that ended before tracing
// began only until the process reaps a child. From then on, carryOver adds the value of the earlier pass.
func (w *taskRow) carryOver(b *previousRecord, harvests bool) {
	if !harvests {
		w.total.use.wait = b.use.wait + max(w.total.wait, b.wait) - b.wait
	}
	if now, was := &w.total.use, &b.use; w.total.flags&childIO > b.flags&childIO && w.total.flags&partial != 0 {
		w.total.carry = &taskUsage{
			readBytes: was.readBytes - min(was.readBytes, now.readBytes), writeBytes: was.writeBytes - min(was.writeBytes, now.writeBytes),
			cancelled: was.cancelled - min(was.cancelled, now.cancelled),
		}
	}
	if w.total.carry != nil {
		w.total.use.add(w.total.carry)
	}
	if w.total.flags&unstable != 0 {
		w.total.use = b.use
	}
	w.total.use.raiseTo(&b.use)
}

// keepEnding keeps the processes that left the table without a record, and returns their number.
func (s *Source) keepEnding() (missing int) {
	s.held = slices.DeleteFunc(s.held, func(h endedProcess) bool {
		return h.total.ended || h.until <= s.pass || s.table.find(h.process.PID) != nil
	})
	for _, w := range s.table.left {
		if w.total.ended {
			continue
		}
		missing++
		if s.kernel.exits != nil || s.table.find(w.process.PID) != nil {
			continue
		}
		h := endedProcess{process: w.process, total: w.total, until: s.pass + holdPasses, zombie: w.process.State == 'Z' &&
			w.process.Threads <= 1}
		h.process.State, h.process.Threads = 'Z', 1
		h.process.Anon, h.process.File, h.process.Shmem, h.process.Swap, h.process.Huge, h.process.Space = 0, 0, 0, 0, 0, 0
		s.held = append(s.held, h)
	}
	return missing
}
