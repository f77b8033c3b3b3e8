package account

import "reckon/sensor"

// A parent that slept at one reading and got a processor once until the next was woken once. It has
// reaped one child, or several that ended at the same time. Since then it cannot have started and
// reaped another child, except within its own time slice.

// wakeups is the number of times that a parent with one thread was scheduled.
type wakeups struct {
	turns  uint64 // as last reported; 0 if unknown
	asleep bool   // at that reading
	once   bool   // it was asleep at the reading before, and got a processor at most once since
	tick   uint64 // of that reading
}

// recordWakeups records a reading of the parent.
func (o *childTimes) recordWakeups(p *sensor.Process, tick uint64) {
	w := &o.wakeups
	if w.tick == tick {
		return
	}
	w.tick = tick
	known := p.Have&sensor.FieldTurns != 0 && p.Turns > 0
	w.once = known && w.turns > 0 && w.asleep && p.Turns <= w.turns+1
	if w.turns, w.asleep = 0, p.State == 'S'; known {
		w.turns = p.Turns
	}
}

// watchParent begins to count the wakeups of a parent when a pass shows its first child. The parent may have been read before that child.
func (o *childTimes) watchParent(tab *table, pid int32) {
	if o.turns != 0 {
		return
	}
	if p := findLiving(tab.line.live, pid); p != nil {
		o.recordWakeups(p, tab.tick)
	}
}

// wokenOnce reports whether the payer q of an exited process e was woken only once since the last tick. It then cannot have
// reaped a second child that began since. All processes between q and e must belong to the part of e.
func (tab *table) wokenOnce(q, e *process, s tickSpans) bool {
	o := q.children
	if !o.once || (q.rate-o.rate)*float64(s.tick) > float64(clockStep)/2 {
		return false
	}
	for at := e; at.ppid != q.pid; {
		up := tab.byID[at.ppid]
		if up == nil || up == at || up.part != e.part {
			return false
		}
		at = up
	}
	return true
}
