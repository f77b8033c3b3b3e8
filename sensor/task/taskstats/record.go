package taskstats

import (
	"encoding/binary"

	"reckon/sensor"
)

const (
	// minVersion is the first version with records that name the process (ac_tgid).
	minVersion = 12
	// flagLastThread is AGROUP of linux/acct.h: the thread was the last of its process.
	flagLastThread = 0x20

	commSize = 32
)

// threadStats is the used part of struct taskstats.
type threadStats struct {
	version      uint16
	flags        byte
	comm         [commSize]byte
	uid, pid     uint32
	ppid, tgid   uint32
	btime        uint64 // when the thread began, seconds since the Unix epoch
	elapsed      uint64 // lifetime of the thread, µs
	groupElapsed uint64 // lifetime of the process, µs
	utime, stime uint64 // µs, sampled at clock ticks
	runReal      uint64 // ns, the same for all threads (of a process record)
	runtime      uint64 // ns, precise to the last tick or switch
	wait         uint64 // ns
	minflt, majflt, nvcsw, nivcsw,
	readBytes, writeBytes, cancelled uint64
	hiwater uint64 // KiB
}

// recordLayouts lists the known layouts of struct taskstats, as the number of bytes inserted after each delay. Most versions
// append fields at the end, but Linux 6.14 and later insert one or two fields of 8 bytes after each delay. The version
// number does not show that. [New] therefore looks for the process id in its own record.
func recordLayouts() []int { return []int{0, 8, 16} }

// belongsTo reports whether a record with layout d belongs to a process, as far as that can be determined.
func belongsTo(b []byte, d int, pid, ppid uint32) bool {
	var s threadStats
	return s.parse(b, d) && s.pid == pid && s.ppid == ppid
}

// parse reads struct taskstats of include/uapi/linux/taskstats.h.
func (s *threadStats) parse(b []byte, d int) bool {
	if len(b) < 328+4*d {
		return false
	}
	*s = threadStats{version: binary.NativeEndian.Uint16(b)}
	if s.version < 8 {
		return false
	}
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	s.flags = b[8]
	s.wait = u64(24)
	o := 3 * d // after the delays of CPU, block I/O and swapping
	s.runReal, s.runtime = u64(64+o), u64(72+o)
	copy(s.comm[:], b[80+o:])
	s.uid, s.pid, s.ppid = u32(120+o), u32(128+o), u32(132+o)
	s.btime = uint64(u32(136 + o))
	s.elapsed, s.utime, s.stime = u64(144+o), u64(152+o), u64(160+o)
	s.minflt, s.majflt = u64(168+o), u64(176+o)
	s.hiwater = u64(200 + o)
	s.readBytes, s.writeBytes, s.cancelled = u64(248+o), u64(256+o), u64(264+o)
	s.nvcsw, s.nivcsw = u64(272+o), u64(280+o)
	o = 5 * d // after the fields of reclaim and thrashing
	if s.version >= 10 && len(b) >= 352+o {
		s.btime = u64(344 + o)
	}
	o = 6 * d // and of compaction
	if s.version >= minVersion && len(b) >= 384+o {
		s.tgid, s.groupElapsed = u32(368+o), u64(376+o)
	}
	return true
}

// endedThreadTotals sums the ended threads of a process.
type endedThreadTotals struct {
	runtime, utime, stime, wait uint64
	runReal                     uint64 // ns; utime + stime of the threads seen
	minflt, majflt              uint64
	nvcsw, nivcsw               uint64
	readBytes, writeBytes       uint64
	cancelled                   uint64
	hiwater                     uint64
	heard                       uint64 // boot time
}

func (a *endedThreadTotals) add(s *threadStats) {
	a.runtime += s.runtime
	a.utime += s.utime
	a.stime += s.stime
	a.runReal += s.runReal
	a.wait += s.wait
	a.minflt += s.minflt
	a.majflt += s.majflt
	a.nvcsw += s.nvcsw
	a.nivcsw += s.nivcsw
	a.readBytes += s.readBytes
	a.writeBytes += s.writeBytes
	a.cancelled += s.cancelled
	a.hiwater = max(a.hiwater, s.hiwater)
}

// maxPartials bounds the processes with ended threads that are remembered.
const maxPartials = 8192

// processCollector combines the records of threads into records of processes.
type processCollector struct {
	layout    int                           // see layouts
	threads   map[uint32]*endedThreadTotals // by process
	free      []*endedThreadTotals
	since     uint64 // boot time of the previous call
	now, wall uint64 // boot and wall time of this one

	one, all threadStats // of the message at hand
}

// addRecords handles the records of one read.
func (c *processCollector) addRecords(b []byte, family uint16, p *sensor.Pass) {
	for {
		kind, body, rest, ok := nextMessage(b)
		if !ok {
			return
		}
		b = rest
		if kind == family && len(body) >= genlHeader && body[0] == cmdNew {
			c.addRecord(body[genlHeader:], p)
		}
	}
}

// addRecord adds the exit record of one thread to its process. The record of the last thread of a multi-threaded process
// is followed by one of the whole process. message then appends the process to p.
func (c *processCollector) addRecord(b []byte, p *sensor.Pass) {
	one, all := false, false
	eachAttribute(b, func(kind uint16, v []byte) {
		switch kind {
		case typeAggrPID:
			eachAttribute(v, func(kind uint16, v []byte) {
				one = one || kind == typeStats && c.one.parse(v, c.layout)
			})
		case typeAggrTGID:
			eachAttribute(v, func(kind uint16, v []byte) {
				all = all || kind == typeStats && c.all.parse(v, c.layout)
			})
		}
	})
	if !one || c.one.tgid == 0 || int32(c.one.tgid) < 0 {
		return
	}
	if c.one.flags&flagLastThread == 0 {
		c.addThread(&c.one)
		return
	}
	c.emitProcess(all, p)
}

// addThread remembers a thread that ended before its process.
func (c *processCollector) addThread(s *threadStats) {
	a := c.endedThreads(s)
	if a == nil {
		if len(c.threads) >= maxPartials {
			return // the record of all threads still holds its CPU time
		}
		if n := len(c.free); n > 0 {
			a, c.free = c.free[n-1], c.free[:n-1]
		} else {
			a = new(endedThreadTotals)
		}
		*a = endedThreadTotals{}
		c.threads[s.tgid] = a
	}
	a.add(s)
	a.heard = c.now
}

// endedThreads returns the amounts of the threads of a process that ended earlier, or nil if there are none. It drops records
// from before the start of the process. A thread that lost its processor while ending may report after its process,
// when another process may already have the id.
func (c *processCollector) endedThreads(s *threadStats) *endedThreadTotals {
	a := c.threads[s.tgid]
	if a != nil && a.heard+s.groupElapsed*1000 < c.since { // before the process began
		c.dropThreads(s.tgid, a)
		return nil
	}
	return a
}

func (c *processCollector) dropThreads(tgid uint32, a *endedThreadTotals) {
	delete(c.threads, tgid)
	c.free = append(c.free, a)
}

// emitProcess appends the record of a process to p.
func (c *processCollector) emitProcess(threads bool, p *sensor.Pass) {
	s := &c.one
	var t endedThreadTotals
	if a := c.endedThreads(s); a != nil {
		t = *a
		c.dropThreads(s.tgid, a)
	}
	t.add(s)
	have := sensor.FieldWait | sensor.FieldSwitches | sensor.FieldPeak | sensor.FieldParent
	if whole := !threads || t.runReal >= c.all.runReal; whole {
		have |= sensor.FieldFaults | sensor.FieldIO
	}
	if threads {
		t.runtime = max(t.runtime, c.all.runtime)
		t.wait = max(t.wait, c.all.wait)
		t.nvcsw = max(t.nvcsw, c.all.nvcsw)
		t.nivcsw = max(t.nivcsw, c.all.nivcsw)
	} else {
		t.runtime = runTime(&t, s)
	}
	p.Exited = append(p.Exited, sensor.Process{
		PID: int32(s.tgid), PPID: int32(s.ppid), UID: s.uid, Start: c.startTime(s), Life: s.groupElapsed * 1000,
		Have: have, State: 'X', Comm: sensor.CommOf(s.comm[:15]),
		WaitNanos: t.wait, Voluntary: t.nvcsw, Involuntary: t.nivcsw,
		PeakBytes: t.hiwater << 10,
	})
	q := &p.Exited[len(p.Exited)-1]
	if have&sensor.FieldFaults != 0 {
		q.MinorFaults, q.MajorFaults = t.minflt, t.majflt
		q.ReadBytes, q.WriteBytes, q.CancelledBytes = t.readBytes, t.writeBytes, t.cancelled
	}
	q.UserNanos = t.runtime
	if t.utime+t.stime > 0 {
		q.Have |= sensor.FieldCPUSplit
		q.SystemNanos = uint64(float64(t.runtime) * (float64(t.stime) / float64(t.utime+t.stime)))
		q.SystemNanos = min(q.SystemNanos, t.runtime)
		q.UserNanos = t.runtime - q.SystemNanos
	}
}

// runTime returns the run time of a single-threaded process, including the time since the scheduler last updated it. If the thread
// never yielded, it ran whenever it was not waiting. If the thread was preempted, the result is less certain, because switches,
// interrupts and the hypervisor take about 0.1 % of the time. Over a long life that exceeds the missing time, which is one tick at most.
func runTime(t *endedThreadTotals, s *threadStats) uint64 {
	const (
		longestTick = 10e6 // ns, CONFIG_HZ=100
		unsure      = 500
	)
	ran := s.elapsed * 1000
	not := t.wait
	if s.nivcsw != 0 {
		not += ran / unsure
	}
	if s.nvcsw != 0 || ran < not || ran-not > t.runtime+longestTick {
		return t.runtime
	}
	return max(t.runtime, ran-not)
}

// startTime returns the start of a process in nanoseconds since boot. The record has the second in which the last thread of
// the process began, and the lifetimes of that thread and of the process. The process ended between the last two calls
// of Drain, which narrows the result further.
func (c *processCollector) startTime(s *threadStats) uint64 {
	const second = 1_000_000_000
	life := s.groupElapsed * 1000
	epoch := int64(c.wall - c.now)
	lo := int64((s.btime+s.elapsed/1e6)*second) - epoch - int64(life)
	hi := lo + second
	if a, b := int64(c.since)-int64(life), int64(c.now)-int64(life); max(lo, a) <= min(hi, b) {
		lo, hi = max(lo, a), min(hi, b)
	}
	return uint64(max(lo+(hi-lo)/2, 0))
}

// dropStale drops threads of processes with a missed end.
func (c *processCollector) dropStale() {
	const hour = 3600 * 1_000_000_000
	if len(c.threads) < maxPartials/2 {
		return
	}
	for tgid, a := range c.threads {
		if a.heard+hour < c.now {
			c.dropThreads(tgid, a)
		}
	}
}
