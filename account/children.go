package account

import (
	"cmp"
	"slices"
	"time"

	"reckon/sensor"
)

// A process reports the CPU time of its reaped children, including their own reaped children
// (cutime and cstime of proc_pid_stat(5)). The part that was charged to no process belongs to
// children that lived between two readings without an exit record, and to the last moments of
// children that were read. It is charged here by these rules:
//
//   - Sources with complete exit records are not reconciled, except over a gap.
//   - New time waits for one tick if a living child was read before its parent, as happens when ids
//     wrap around: the child may have ended in between.
//   - CPU time charged to a child is owed: its parent's child times will include it.
//   - The last moments of a child that was read go to the child's part: at the rate of its last
//     readings, or all open time if its parent has had no unseen children. If the parent ended as
//     well, the nearest living ancestor shows both; see tails.go.
//   - The rest goes to the parent's part or, if its known children are process groups of their own,
//     to the short work of their owner. So does an exit record without a process group (taskstats) of
//     a child that no reading saw. With both kinds of children it is divided; see unseen.go.
//   - Uncertainty about this is recorded; see uncertainty.go.
//   - Nothing is taken from process 1 or a process that adopts orphans, because the owner of the
//     orphans is unknown. Nothing goes to a part charged by its control group, and nothing is taken
//     while children are in one.

// childTimes holds the facts about the children of a process. It is kept for processes with children or with several threads.
type childTimes struct {
	user, system uint64  // child times as last reported, nanoseconds
	known        uint64  // accounted part: charged, owed earlier, or older than the ledger
	owed         uint64  // charged for children that are gone, not yet in the child times
	owedAt       uint64  // tick of the last addition to owed
	unseenAt     uint64  // tick at which it last had unseen children, 0 for never
	rate         float64 // cores used by those it waited for, from the last two readings
	usual        float64 // cores that unseen children used of late
	doubtedAt    uint64  // tick at which it was last unclear whether a seen child used the rest

	reaper   bool   // it was seen to adopt an orphan
	threaded bool   // it was seen with several threads
	counted  uint64 // tick at which a child was last seen in a part with a control group, 0 for never
	childPlaces
	wakeups

	open uint64 // not accounted for in this tick
	// crossed is the last tick in which a living descendant was read before this process. The
	// descendant may have ended and been reaped in between, so new time is held for one tick until
	// its process can be identified. ripe reports that some of open was held.
	crossed, held    uint64
	ripe             bool
	fresh            uint64 // growth of the child times in this tick
	inUser, inSystem uint64 // and its parts, in the last tick in which they grew
}

// childRecord returns the childTimes of a process, and creates them if needed.
func (e *process) childRecord() *childTimes {
	if e.children == nil {
		e.children = new(childTimes)
	}
	return e.children
}

// futureChildTime returns the CPU time charged to the process that its parent's child times will show when it exits.
func (e *process) futureChildTime() uint64 {
	v := e.last.user + e.last.system
	if e.children != nil {
		v += e.children.known + e.children.owed
	}
	return v
}

// owedTicks is the number of ticks for which an exited child's CPU time may be missing from its parent's child times. The
// parent may call wait late. If the parent ignores SIGCHLD, the kernel never adds that time.
const owedTicks = 3

// rememberTicks is the number of ticks for which the ledger remembers that a parent had children in a control group, or
// children that no reading saw.
const rememberTicks = 60

// hasCgroupChild reports whether a child was recently seen in a control group. Its parent's child times are then not used.
func (o *childTimes) hasCgroupChild(tick uint64) bool {
	return o.counted != 0 && tick <= o.counted+rememberTicks
}

// clockTick is the resolution of start and child times in procfs, ns: USER_HZ is 100 on every architecture that Go runs on.
const clockTick = uint64(10 * time.Millisecond)

// clockStep is the possible lag of child times, because two figures are both rounded down to clock ticks.
const clockStep = 2 * clockTick

// tailSlack is added to the estimate of a child's use after its last reading.
const tailSlack = uint64(20 * time.Millisecond)

// reconciliation is the state of one tick for matching the CPU time of exited processes with the child times of their parents.
type reconciliation struct {
	leaving []*process // gone since the last tick
	left    []*process // gone in the last tick
	parents []*process // with grown child times, or with time owed
	gap     bool       // the ledger was restored: exit records from the time between are missing
	missed  missedExits
	// CPU time in this tick of unseen processes without a process group that outlived their parents, by short work.
	orphans  map[*Part]uint64
	settled  bool   // every exit is recorded in this tick: nothing is left to reconcile
	reported bool   // the source reports child times
	held     uint64 // by offspring, in this tick
	elapsed  uint64 // between the last two ticks

	beforeLast uint64                // time of the pass before l.before
	sights     map[int32]newChildren // by process without a child that was seen before
	newThreads uint64                // threads of the processes that this tick was the first to see
	// unseenForks: more processes and threads began than readings saw, since the last tick and between the two before; false if unknown.
	unseenForks [2]bool

	// behind are processes that are gone, with last moments that may be shown a tick later, in the last tick and in this one.
	behind [2][]*process
	// unpaid are ended processes with last CPU time in no child times, in this tick and in the previous one.
	unpaid [2][]*Part
	rest   uint64 // charged to other in the last tick, nanoseconds

	live   []sensor.Process
	tails  []exitTail  // of one call
	claims []tailClaim // of one payer
}

// countForks records whether processes or threads that no reading saw were created since the last reading of the
// machine.
func (tab *table) countForks(m *sensor.Machine) {
	t := &tab.line
	unseen := m != nil && tab.machine.Forks != 0 && counterIncrease(tab.machine.Forks, m.Forks) > t.newThreads
	t.unseenForks = [2]bool{unseen, t.unseenForks[0]}
}

// recordParent records the parent of a living process and the CPU time of its reaped children. first is
// true in the first tick of the ledger.
func (tab *table) recordParent(e *process, p *sensor.Process, isNew, first bool) {
	if p.Have&sensor.FieldParent != 0 {
		if !tab.line.settled {
			tab.placeChild(e, p.PPID)
		}
		if isNew || e.ppid != p.PPID {
			e.ppid = p.PPID
			e.above = tab.highestAncestorID(e)
		}
		if e.above > e.pid && !tab.line.settled {
			tab.markAncestors(e)
		}
	}
	if isNew {
		tab.line.newThreads += uint64(max(p.Threads, 1))
	}
	if isNew && !first && p.Start+clockStep >= tab.lastAt {
		e.based = true // from zero
	}
	if now := p.ChildUserNanos + p.ChildSystemNanos; p.Have&sensor.FieldChildren != 0 && now > 0 {
		o := e.childRecord()
		if !e.based {
			o.known = now // from before the ledger, or of a process that could not be read
		}
		o.open, o.fresh = counterIncrease(o.known, now), counterIncrease(o.user+o.system, now)
		if o.fresh > 0 {
			o.inUser, o.inSystem = counterIncrease(o.user, p.ChildUserNanos), counterIncrease(o.system, p.ChildSystemNanos)
		}
		o.user, o.system = p.ChildUserNanos, p.ChildSystemNanos
	}
	if p.Have&sensor.FieldChildren != 0 {
		tab.line.reported, e.based = true, true
	}
	if o := e.children; o != nil {
		o.recordWakeups(p, tab.tick)
	}
	if o := e.children; o != nil && (o.open > 0 || o.owed > 0) {
		tab.line.parents = append(tab.line.parents, e)
	}
}

// placeChild records for a parent where its child is charged, and whether it adopted the child.
func (tab *table) placeChild(e *process, parent int32) {
	counted := e.part.hasCgroupCPU()
	if e.ppid == parent && !counted {
		return
	}
	q := tab.byID[parent]
	if q == nil {
		return
	}
	o := q.childRecord()
	o.watchParent(tab, parent)
	switch {
	case e.ppid != 0 && e.ppid != parent:
		o.reaper = true // its parent ended, and this one took its place
	case counted:
		o.counted = tab.tick
	case e.part == q.part:
		o.countChild(e.part, q)
	default:
		o.countChild(e.part, q)
		for a, n := q, 0; a != nil && a.part == q.part && n < maxAncestors; a, n = tab.byID[a.ppid], n+1 {
			tab.markMergedUncertain(a, e.part)
		}
	}
}

// markMergedUncertain records that a process may have been charged with CPU time of its descendants in another part.
// The error bound shrinks with the number of children seen in the process's own part.
func (tab *table) markMergedUncertain(q *process, part *Part) {
	o := q.childRecord()
	if part.isFoldable() {
		tab.markOwnUncertain(q.part, part, o.merged/uint64(1+o.same/4))
		o.beneath = part
	}
	o.merged = 0
}

// markOwnUncertain records that part of the time charged to a part may belong to the short work of another part's owner.
func (tab *table) markOwnUncertain(part, other *Part, nanos uint64) {
	if nanos > 0 {
		short := tab.parts.shortWork(other.owner)
		tab.doubts.addErrorBounds(part, short, errorBounds{over: nanos})
		tab.doubts.addErrorBounds(short, part, errorBounds{lack: nanos})
	}
}

// highestAncestorID returns the highest process id among the ancestors of a process.
func (tab *table) highestAncestorID(e *process) int32 {
	q := tab.byID[e.ppid]
	if q == nil {
		return e.ppid // it is met later in this pass, or cannot be seen
	}
	return max(q.pid, q.above)
}

// markAncestors marks the ancestors of a process that have a higher process id. A pass reads processes in the order of
// their ids, so the process was still alive when these ancestors were read.
func (tab *table) markAncestors(e *process) {
	at := e
	for range maxAncestors {
		q := tab.byID[at.ppid]
		if q == nil || q == at {
			return
		}
		if q.pid > e.pid {
			q.childRecord().crossed = tab.tick
		}
		if at = q; at.above <= e.pid {
			return
		}
	}
}

// hasCgroupCPU reports whether a control group charges the CPU time of the part.
func (p *Part) hasCgroupCPU() bool { return p.cg.Have&sensor.CgroupCPU != 0 }

// recordExit records that a process has ended.
func (tab *table) recordExit(e *process) {
	if !e.left {
		e.left = true
		tab.line.leaving = append(tab.line.leaving, e)
		if e.children.hasGuessedTime() {
			tab.doubts.guessed[e.part] += e.children.merged
			e.children.merged = 0
		}
	}
}

// recordOwed records that nanos, the CPU time charged to an exited process, will appear later in the child times of
// an ancestor. That is its parent or, if the parent is gone, the nearest living ancestor.
func (tab *table) recordOwed(e *process, nanos uint64) {
	if q := tab.livingAncestor(e); q != nil {
		o := q.childRecord()
		o.owed += nanos
		o.owedAt = tab.tick
	}
}

// keepOwed keeps the owed time of an ended process, because its parent has not reaped it yet.
func (tab *table) keepOwed(e *process) {
	if tab.line.settled || !e.passed {
		return
	}
	if q := tab.livingAncestor(e); q != nil && q.children != nil {
		q.children.owedAt = tab.tick
	}
}

// livingAncestor returns the nearest ancestor of a process that is still alive, or nil.
func (tab *table) livingAncestor(e *process) *process {
	for range maxAncestors {
		q := tab.byID[e.ppid]
		if q == nil || q.start > e.start+uint64(time.Second) {
			return nil
		}
		if !q.passed {
			return q
		}
		e = q
	}
	return nil
}

// maxAncestors limits the length of a walk through the ancestors of a process.
const maxAncestors = 64

// closeTick closes the tick for parents and children. reading is the time that the pass took, in nanoseconds; m may be nil.
func (tab *table) closeTick(elapsed, reading uint64, m *sensor.Machine) {
	tab.countForks(m)
	tab.reconcile(elapsed, reading, cpuCapacity(elapsed+tab.line.elapsed, tab.now, m)) // part of it was held in the previous tick
	tab.line.elapsed = elapsed
}

// reconcile charges CPU time that appears in parents' child times but was charged to no process. All arguments are in
// nanoseconds. elapsed is the time since the last tick, reading the duration of the pass, and capacity the CPU time
// available in this tick and the last.
func (tab *table) reconcile(elapsed, reading, capacity uint64) {
	t := &tab.line
	// A child starts after its parent.
	slices.SortFunc(t.leaving, func(a, b *process) int {
		return cmp.Or(cmp.Compare(b.start, a.start), cmp.Compare(b.pid, a.pid))
	})
	for _, e := range t.leaving {
		tab.recordOwed(e, e.futureChildTime())
		e.passed = true
	}
	for _, e := range t.parents {
		o := e.children
		o.subtractOwed(t.settled, o.crossed == tab.tick && !t.settled && !t.gap, tab.tick)
		t.held += o.held
	}
	if !t.settled {
		spans := tickSpans{elapsed, elapsed + reading, capacity}
		tab.chargeTails(t.left, true, spans)
		t.behind = [2][]*process{t.behind[1], t.behind[0][:0]}
		tab.chargeTails(append(t.leaving, t.behind[0]...), false, spans)
		for _, e := range t.parents {
			tab.chargeUnseen(e, elapsed, capacity)
		}
	}
	tab.collectUnpaid()
	tab.markOrphansUncertain()
	if t.gap {
		t.missed.at = tab.tick
		for _, e := range t.leaving {
			tab.markWaitMissing(e)
			if !e.gone && !e.part.hasCgroupCPU() {
				t.missed.parts = append(t.missed.parts, e.part)
			}
		}
	}
	for _, e := range t.parents {
		e.children.open, e.children.fresh = 0, 0
	}
	t.live = nil
	if !t.settled {
		tab.evidence.unsettled = true
		tab.evidence.childless = tab.evidence.childless || !t.reported
	}
	t.left, t.leaving = t.leaving, t.left[:0]
	t.parents, t.gap = t.parents[:0], false
}

// subtractOwed subtracts owed time from the open child time and leaves the chargeable rest in o.open. Set complete if
// exit records are complete: nothing is left then. Set hold to keep time that opened in this tick for the next one.
func (o *childTimes) subtractOwed(complete, hold bool, tick uint64) {
	covered := min(o.open, o.owed)
	o.owed -= covered
	o.open -= covered
	o.known += covered
	ripe := min(counterIncrease(covered, o.held), o.open) // children that are gone used the older time first
	o.ripe = ripe > 0
	if o.held = 0; hold {
		o.held = o.open - ripe
		o.open = ripe
	}
	o.known += o.open
	if complete {
		o.known += o.owed
		o.open, o.owed = 0, 0
		return
	}
	if o.owed > 0 && tick > o.owedAt+owedTicks {
		o.owed = min(o.owed, clockStep)
	}
}

// findPayer returns the process that has the CPU time of the exited process e in its child times: the parent, or the
// nearest living ancestor. It returns nil if one of these ancestors adopts orphans, because the parent of those
// children is unknown. usual is the number of cores that unseen children of these ancestors used recently.
func (tab *table) findPayer(e *process) (q *process, usual float64) {
	for range maxAncestors {
		q := tab.byID[e.ppid]
		if q == nil || q.pid == 1 || q.start > e.start+uint64(time.Second) {
			break
		}
		if o := q.children; o != nil {
			if o.reaper {
				break
			}
			if o.unseenAt != 0 && tab.tick <= o.unseenAt+rememberTicks {
				usual += o.usual
			}
		}
		if !q.passed {
			return q, usual
		}
		e = q
	}
	return nil, 0
}

// collectUnpaid collects the parts with exited processes that appear in no child times. Process 1 or another adopter
// of orphans reaped them, or their parent ignores SIGCHLD.
func (tab *table) collectUnpaid() {
	t := &tab.line
	t.unpaid[0], t.unpaid[1] = t.unpaid[1][:0], t.unpaid[0]
	rest := t.rest
	if t.rest = 0; t.settled {
		return
	}
	for i, e := range append(t.leaving, t.behind[0]...) {
		q, _ := tab.findPayer(e)
		late := i >= len(t.leaving)
		switch {
		case e.gone || e.dead != 0 || e.part.hasCgroupCPU():
		case q != nil && (q.children == nil || q.children.fresh > 0 || e.futureChildTime() <= clockStep || slices.Contains(t.behind[1], e)):
		case late && rest > clockStep/2:
			tab.doubts.addErrorBounds(e.part, tab.parts.other, errorBounds{lack: rest})
		case !late && !slices.Contains(t.unpaid[0], e.part):
			t.unpaid[0] = append(t.unpaid[0], e.part)
		}
	}
}

// markWaitMissing records that the CPU wait of a process is incomplete. It ended while no agent ran, so its wait since the last
// save is unknown.
func (tab *table) markWaitMissing(e *process) {
	if tab.line.gap && !e.gone && e.dead == 0 {
		e.part.lost |= lackWait
	}
}

// missedExits holds the time and the parts of processes that ended before a restored ledger first read the machine.
type missedExits struct {
	at    uint64  // tick of the first reading, 0 for none
	parts []*Part // of those that were known
	nanos uint64  // that those or others used: charged to parents by their child times, or to other
}

// markMissedUncertain records the uncertainty after a restart of the agent. nanos is CPU time charged to other. Processes
// that ended before the restart may have used it, or the time that only the child times of their parents show.
func (tab *table) markMissedUncertain(nanos uint64) {
	m := &tab.line.missed
	m.nanos += nanos
	for _, p := range tab.parts.order {
		if p.kind.Folded() {
			m.parts = append(m.parts, p)
			if m.nanos > clockStep {
				p.lost |= lackWait
			}
		}
	}
	for _, p := range m.parts {
		tab.doubts.addErrorBounds(p, tab.parts.other, errorBounds{lack: m.nanos})
	}
	m.parts = nil
}

// markUnpaidUncertain records that the parts collected by collectUnpaid may lack some of the nanos charged to other. Their last
// moments appear in no child times. Child times are cut to clock ticks, so up to one tick more may be missing.
func (tab *table) markUnpaidUncertain(nanos uint64) {
	if tab.line.rest = nanos; nanos <= clockStep/2 {
		return
	}
	for i, parts := range tab.line.unpaid {
		for _, p := range parts {
			if i == 0 || !slices.Contains(tab.line.unpaid[0], p) {
				tab.doubts.addErrorBounds(p, tab.parts.other, errorBounds{lack: nanos + clockStep/2})
			}
		}
	}
}

// chargeOpenTime charges nanos of open child time to the part. It only subtracts the time if the part still has a control
// group with a CPU counter, because that counter includes it.
func (tab *table) chargeOpenTime(o *childTimes, nanos uint64, part *Part) {
	o.open -= nanos
	if tab.line.gap && nanos > clockStep {
		part.lost |= lackWait
	}
	if part.hasCgroupCPU() && part.cgroup != nil {
		return
	}
	if tab.line.gap {
		tab.line.missed.nanos += nanos
		tab.doubts.addErrorBounds(part, tab.parts.other, errorBounds{over: nanos})
	}
	var u usage
	u.user = shareOf(nanos, o.inUser, o.inSystem)
	u.system = nanos - u.user
	part.now.used.add(u)
	part.now.late += nanos
	part.commands.other += nanos
}
