package account

import (
	"math"

	"reckon/sensor"
)

// Memory may come and go between two readings of a control group, so the need has two bounds. The lower one comes from
// the readings, the high-water marks of processes and a limit that caused a kill; needBounds is the upper one.

// needBounds is the highest needed memory that a control group can have had since it began.
type needBounds struct {
	most  uint64 // bytes; the largest number if only the peak bounds it, 0 before the first reading
	read  groupMemory
	since processReports // the last reading
	now   processReports // in this tick
	limit uint64         // its own, bytes; 0 for none
}

// groupMemory is the memory of a control group at a reading.
type groupMemory struct {
	Filled, Needed, Shmem, Kernel, Current, CPU, Kills, Failures uint64
}

func readGroupMemory(c *sensor.Cgroup) groupMemory {
	return groupMemory{c.Filled, c.Needed(), c.Shmem, c.Kernel, c.Current, c.UsageNanos, c.OOMKills, c.OOMEvents}
}

// processReports sums what the processes of a control group report since its last reading.
type processReports struct {
	high   uint64 // the sum of their high-water marks, the highest of the ticks, bytes
	vague  bool   // some have none, or may not have been seen
	killed bool   // one was chosen by the OOM killer
	below  uint64 // the lowest limit of a group below that was the cause, bytes; 0 for none
}

// addProcess adds a process.
func (s *processReports) addProcess(proc *sensor.Process) {
	switch {
	case proc.Have&sensor.FieldPeak != 0:
		s.high += proc.PeakBytes
	case proc.Anon+proc.File+proc.Shmem > 0 || proc.Have&sensor.FieldMemory == 0 && proc.Life == 0:
		s.vague = true // a process that ended in another one's address space has none of its own
	}
	s.killed = s.killed || proc.OOMKilled
}

// merge adds the reports of other processes for the same time.
func (s *processReports) merge(o processReports) {
	high := s.high + o.high
	s.mergeLater(o)
	s.high = high
}

func (s *processReports) mergeLater(o processReports) {
	s.high, s.vague, s.killed = max(s.high, o.high), s.vague || o.vague, s.killed || o.killed
	if s.below == 0 || o.below != 0 && o.below < s.below {
		s.below = o.below
	}
}

// boundNeeded records a reading of the control group and its processes' reports for the last tick. Needed memory since
// the previous reading is at most the amount then plus the pages filled since, and at most the sum of its processes.
// Set gone if the group was removed, so that only the processes are left. caused reports whether processes were killed
// because of the group's own limit; the group then needed all of that limit. That requires that the group reached its
// limit and that its processes can have filled it. In version 2, the kernel does not count such failures if the machine
// or a parent group lacked memory.
func (m *memory) boundNeeded(c *sensor.Cgroup, gone bool) (caused bool) {
	b := m.ensureBounds()
	b.since.mergeLater(b.now)
	b.now = processReports{}
	last, now := b.read, readGroupMemory(c)
	if c.Have&sensor.CgroupMemoryMax != 0 {
		b.limit = c.MemoryMax
	} else if !gone {
		b.limit = 0
	}
	if b.most != 0 && last == now && !gone && !b.since.killed {
		return false // nothing has run
	}
	most := uint64(math.MaxUint64)
	if !gone && c.Have&(sensor.CgroupFilled|sensor.CgroupMemory) == sensor.CgroupFilled|sensor.CgroupMemory {
		filled := counterIncrease(last.Filled, now.Filled)
		most = last.Needed + filled + filled/bytesPerTableByte + counterIncrease(last.Shmem, now.Shmem) + counterIncrease(last.Kernel,
			now.Kernel)
		if most < filled {
			most = math.MaxUint64
		}
	}
	high := b.since.high + max(last.Shmem, now.Shmem) + max(last.Kernel, now.Kernel)
	if !b.since.vague {
		most = min(most, high)
	}
	killed := (b.since.killed || now.Kills > last.Kills) && (b.since.below == 0 || b.since.below >= b.limit)
	failed := c.Have&sensor.CgroupMemoryEvents == 0 || now.Failures > last.Failures || gone
	full := c.Have&sensor.CgroupPeak != 0 && c.Peak+countBatch >= b.limit || gone && !b.since.vague
	if killed && failed && full && b.limit != 0 && (b.since.vague || high+high/8 >= b.limit) {
		m.neededPeak, m.peak, most, caused = max(m.neededPeak, b.limit), max(m.peak, b.limit), max(most, b.limit), true
	}
	b.most, b.read, b.since = max(b.most, most, now.Needed), now, processReports{}
	return caused
}

const (
	bytesPerTableByte = 512     // bytes of small pages that a byte of their tables is for
	countBatch        = 1 << 20 // the kernel counts memory of groups in batches, bytes
)

// needRange returns the lowest and the highest need in bytes that a peak allows. most is 0 if no control group reports the peak.
func (m *memory) needRange(peak, needed uint64) (low, most uint64) {
	if peak == 0 {
		return needed, 0
	}
	if low = min(needed, peak); m.bounds != nil && m.bounds.most != 0 {
		most = min(max(m.bounds.most, low), peak)
	}
	return low, most
}

func (m *memory) ensureBounds() *needBounds {
	if m.bounds == nil {
		m.bounds = new(needBounds)
	}
	return m.bounds
}

// boundMemory records this tick's reading of the part's control group. Set gone if the group was removed, and settled
// if no process can have been missed.
func (p *Part) boundMemory(gone, settled bool) {
	b := p.memory.ensureBounds()
	b.now.vague = b.now.vague || !settled || b.most == 0 && p.created == 0
	now := b.now
	if p.memory.boundNeeded(&p.cg, gone) {
		now.below = b.limit
	}
	if gone {
		p.memory.peak = max(p.memory.peak, p.memory.neededPeak) // its last moments'
	}
	b.now = now // for the whole
}

// addPart adds the processes of a part in this tick, and its minimum needed memory. The job group may be nil.
func (w *jobGroup) addPart(p *Part) {
	b := p.memory.bounds
	if w != nil {
		w.memory.neededPeak = max(w.memory.neededPeak, p.memory.neededPeak)
	}
	if b == nil {
		return
	}
	if w != nil {
		w.memory.ensureBounds().now.merge(b.now)
	}
	b.now = processReports{}
}

// needState is the saved part of needBounds: its maximum, and the filled and the needed memory at the last reading.
type needState [3]uint64

// wholeState is saved of a whole workload: its peak, its needed peak and its needState.
type wholeState [2 + len(needState{})]uint64

func (b *needBounds) savedState() (s needState) {
	if b != nil {
		s = needState{b.most, b.read.Filled, b.read.Needed}
	}
	return s
}

// restore restores the saved bounds. The earlier number of kills is lost.
func (m *memory) restore(s needState) {
	if s == (needState{}) {
		return
	}
	b := m.ensureBounds()
	b.most = s[0]
	b.read = groupMemory{Filled: s[1], Needed: s[2], Kills: math.MaxUint64, Failures: math.MaxUint64}
}
