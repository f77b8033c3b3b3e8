package account

import (
	"cmp"
	"slices"
	"time"

	"reckon/sensor"
	"reckon/workload"
)

// A process reports the CPU time of the children that it has waited for, including their
// own waited-for children (cutime and cstime of proc_pid_stat(5)). The share of it that was
// charged to no process is the work of children that lived between two readings and left no
// exit record, and the last moments of children that were seen. It is charged here, by
// these rules:
//
//   - Sources with complete exit records are not reconciled, except over a gap.
//   - New time waits for one tick where a living child was read before its parent, as ids
//     wrap around: the child may have ended in between.
//   - What a seen child was charged is owed: its parent's child times will show it.
//   - The last moments of a seen child go to the child's part: at the rate of its last
//     readings, or everything that is open if its parent has had no unseen children. Where the
//     parent has ended with it, the nearest ancestor that is alive shows both.
//   - The rest goes to the parent's part, or, where its seen children are process groups of
//     their own, to the short work of their owner. So does an exit record without a process
//     group (taskstats) of a child that no reading saw. Where no child was seen by then and the
//     first one is a group of its own, neither figure is exact.
//   - Nothing is taken from process 1, or from a process that adopts orphans: the owner of
//     the orphans is unknown. Nothing goes to a part that a control group charges, and
//     nothing is taken while children are in one.

// offspring is the record of a process's children, kept for processes that have had some.
type offspring struct {
	user, system uint64  // child times as last reported, nanoseconds
	known        uint64  // of them, accounted for: charged, owed before, or older than the ledger
	owed         uint64  // charged for children that are gone, not yet in the child times
	owedAt       uint64  // tick of the last addition to owed
	unseenAt     uint64  // tick at which it last had unseen children, 0 for never
	rate         float64 // cores used by those it waited for, from the last two readings
	usual        float64 // cores that unseen children used of late
	doubtedAt    uint64  // tick at which it was last unclear whether a seen child used the rest

	reaper     bool // it was seen to adopt an orphan
	same, away uint32
	awayPart   *Part  // part of the last child that was seen in another part
	counted    uint64 // tick at which a child was last seen in a part with a control group, 0 for never
	merged     uint64 // charged to its part for children that no reading saw, before one was seen

	open uint64 // not accounted for in this tick
	// crossed is the last tick in which a living descendant was read before this process:
	// the descendant may have ended, and been waited for, in between. New time is then held
	// for one tick, until its process can be identified. ripe reports that some of open was
	// held.
	crossed, held    uint64
	ripe             bool
	fresh            uint64 // growth of the child times in this tick
	inUser, inSystem uint64 // and its parts, in the last tick in which they grew
}

// kin returns the record of the process's children, created if need be.
func (e *process) kin() *offspring {
	if e.children == nil {
		e.children = new(offspring)
	}
	return e.children
}

// legacy is the CPU time that the process adds to its parent's child times, as far as it was charged.
func (e *process) legacy() uint64 {
	v := e.last.user + e.last.system
	if e.children != nil {
		v += e.children.known + e.children.owed
	}
	return v
}

// owedFor is the number of ticks for which the charge of a gone child may be missing from
// the child times: its parent may wait for it late. Children of a parent that ignores
// SIGCHLD never appear in them.
const owedFor = 3

// cloistered is the number of ticks for which a parent of children in a control group is
// left alone after the last of them was seen.
const cloistered = 60

// clockStep is the possible lag of child times: both figures are cut to clock ticks of 10 ms.
const clockStep = 2 * uint64(10*time.Millisecond)

// tailSlack is added to the estimate of what a child used after it was last seen.
const tailSlack = uint64(20 * time.Millisecond)

// lineage is the working state of one tick.
type lineage struct {
	leaving []*process // gone since the last tick
	left    []*process // gone in the last tick
	parents []*process // with grown child times, or with time owed
	gap     bool       // the ledger was restored: exit records of what ended meanwhile are missing
	settled bool       // every exit is recorded in this tick: nothing is left to reconcile
	told    bool       // the source reports child times
	held    uint64     // by offspring, in this tick
	elapsed uint64     // between the last two ticks

	beforeLast uint64             // time of the pass before that of l.before
	sights     map[int32]sighting // by process, of which no child was seen before
	newThreads uint64             // threads of the processes that this tick was the first to see
	// unseenForks: more processes and threads began than readings saw, since the last tick and between the two before; false if unknown.
	unseenForks [2]bool
}

// beginLineage prepares a tick.
func (l *Ledger) beginLineage(pass *sensor.Pass) {
	l.line.settled = pass.Complete && pass.Lost == 0 && !l.line.gap
	l.line.told, l.line.held, l.line.newThreads = false, 0, 0
}

// countForks notes whether processes or threads began that no reading saw, since the last reading of the machine.
func (l *Ledger) countForks(m *sensor.Machine) {
	t := &l.line
	unseen := m != nil && l.machine.Forks != 0 && grown(l.machine.Forks, m.Forks) > t.newThreads
	t.unseenForks = [2]bool{unseen, t.unseenForks[0]}
}

// follow records the parent of a living process and the CPU time of its children. first
// reports that the ledger begins with this tick.
func (l *Ledger) follow(e *process, p *sensor.Process, isNew, first bool) {
	if p.Have&sensor.FieldParent != 0 {
		if !l.line.settled {
			l.placeChild(e, p.PPID)
		}
		if isNew || e.ppid != p.PPID {
			e.ppid = p.PPID
			e.above = l.highest(e)
		}
		if e.above > e.pid && !l.line.settled {
			l.cross(e)
		}
	}
	if isNew {
		l.line.newThreads += uint64(max(p.Threads, 1))
	}
	if isNew && !first && p.Start+clockStep >= l.lastAt {
		e.based = true // from zero
	}
	if now := p.ChildUserNanos + p.ChildSystemNanos; p.Have&sensor.FieldChildren != 0 && now > 0 {
		o := e.kin()
		if !e.based {
			o.known = now // from before the ledger, or of a process that could not be read
		}
		o.open, o.fresh = grown(o.known, now), grown(o.user+o.system, now)
		if o.fresh > 0 {
			o.inUser, o.inSystem = grown(o.user, p.ChildUserNanos), grown(o.system, p.ChildSystemNanos)
		}
		o.user, o.system = p.ChildUserNanos, p.ChildSystemNanos
	}
	if p.Have&sensor.FieldChildren != 0 {
		l.line.told, e.based = true, true
	}
	if o := e.children; o != nil && (o.open > 0 || o.owed > 0) {
		l.line.parents = append(l.line.parents, e)
	}
}

// placeChild records for a parent where its child is charged, and whether it adopted the child.
func (l *Ledger) placeChild(e *process, parent int32) {
	counted := e.part.counted()
	if e.ppid == parent && !counted {
		return
	}
	q := l.table[parent]
	if q == nil {
		return
	}
	o := q.kin()
	switch {
	case e.ppid != 0 && e.ppid != parent:
		o.reaper = true // its parent ended, and this one took its place
	case counted:
		o.counted = l.tick
	case e.part == q.part:
		o.same++
		o.merged = 0
	default:
		o.away++
		o.awayPart = e.part
		if o.merged > 0 && o.leads() {
			l.evidence.doubts = append(l.evidence.doubts, doubt{l.unseenPart(q), q.part, o.merged, false})
		}
		o.merged = 0
	}
}

// sighting is how many children of a process are new in a reading, in its own process group and elsewhere.
type sighting struct {
	pgid       int32
	same, away uint32
}

// sight looks at the children that are new in a reading, for records without a process group of other children that no reading saw:
// records are taken in before what lives. It goes through the reading once, and only where no child of a parent was seen before.
func (l *Ledger) sight(pass *sensor.Pass) {
	t := &l.line
	clear(t.sights)
	for i := range pass.Exited {
		p := &pass.Exited[i]
		if p.Have&(sensor.FieldGroup|sensor.FieldParent) != sensor.FieldParent || p.PPID <= 1 {
			continue
		}
		if pgid, ok := l.childless(p.PPID, pass.Live); ok {
			if t.sights == nil {
				t.sights = map[int32]sighting{}
			}
			t.sights[p.PPID] = sighting{pgid: pgid}
		}
	}
	if len(t.sights) == 0 {
		return
	}
	for i := range pass.Live {
		p := &pass.Live[i]
		s, ok := t.sights[p.PPID]
		if !ok || p.Have&sensor.FieldGroup == 0 {
			continue
		}
		if p.PGID == s.pgid {
			s.same++
		} else {
			s.away++
		}
		t.sights[p.PPID] = s
	}
}

// childless returns the process group of a living process outside of other workloads of which no child was seen before.
func (l *Ledger) childless(pid int32, live []sensor.Process) (pgid int32, ok bool) {
	if q := l.table[pid]; q != nil {
		if o := q.children; q.part.kind != workload.Group || o != nil && (o.same+o.away > 0 || o.counted != 0) {
			return 0, false
		}
	}
	// As it is now: its entry may be of an earlier reading, or restored.
	i, ok := slices.BinarySearchFunc(live, pid, func(q sensor.Process, pid int32) int { return cmp.Compare(q.PID, pid) })
	if !ok || live[i].Have&sensor.FieldGroup == 0 {
		return 0, false
	}
	return live[i].PGID, true
}

// merge notes what a record without a process group charged to the part of its parent, of which no child was seen.
func (l *Ledger) merge(e *process, p *sensor.Process, nanos uint64) {
	if q := l.table[p.PPID]; p.Have&(sensor.FieldGroup|sensor.FieldParent) == sensor.FieldParent && q != nil && q.part == e.part && q.part.kind == workload.Group {
		if o := q.kin(); o.same+o.away == 0 {
			o.merged += nanos
		}
	}
}

// highest returns the highest process id among the ancestors of a process.
func (l *Ledger) highest(e *process) int32 {
	q := l.table[e.ppid]
	if q == nil {
		return e.ppid // it is met later in this pass, or cannot be seen
	}
	return max(q.pid, q.above)
}

// cross marks the ancestors of a process that were read after it (a pass goes by ids):
// the process was alive before they were read.
func (l *Ledger) cross(e *process) {
	at := e
	for range maxLineage {
		q := l.table[at.ppid]
		if q == nil || q == at {
			return
		}
		if q.pid > e.pid {
			q.kin().crossed = l.tick
		}
		if at = q; at.above <= e.pid {
			return
		}
	}
}

// counted reports whether a control group charges the CPU time of the part.
func (p *Part) counted() bool { return p.cg.Have&sensor.CgroupCPU != 0 }

// depart notes that a process is gone.
func (l *Ledger) depart(e *process) {
	if !e.left {
		e.left = true
		l.line.leaving = append(l.line.leaving, e)
	}
}

// owe adds the charges of a process that is gone, its children included, to what its parent
// is owed: the child times of the parent will show it, or those of the nearest ancestor
// that is not gone.
func (l *Ledger) owe(e *process, nanos uint64) {
	if q := l.heir(e); q != nil {
		o := q.kin()
		o.owed += nanos
		o.owedAt = l.tick
	}
}

// stillOwed keeps what the charges of an ended process added: its parent has not waited for it yet.
func (l *Ledger) stillOwed(e *process) {
	if l.line.settled || !e.passed {
		return
	}
	if q := l.heir(e); q != nil && q.children != nil {
		q.children.owedAt = l.tick
	}
}

// heir returns the nearest ancestor of a process that is not gone, or nil.
func (l *Ledger) heir(e *process) *process {
	for range maxLineage {
		q := l.table[e.ppid]
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

// maxLineage bounds a walk through ancestors.
const maxLineage = 64

// reconcile charges the CPU time in the child times of parents that no process was
// charged for. elapsed is the time since the last tick and capacity the CPU time that the
// machine has in it and in the tick before, both in nanoseconds.
func (l *Ledger) reconcile(elapsed, capacity uint64) {
	t := &l.line
	// A child starts after its parent.
	slices.SortFunc(t.leaving, func(a, b *process) int {
		return cmp.Or(cmp.Compare(b.start, a.start), cmp.Compare(b.pid, a.pid))
	})
	for _, e := range t.leaving {
		l.owe(e, e.legacy())
		e.passed = true
	}
	for _, e := range t.parents {
		o := e.children
		o.cover(t.settled, o.crossed == l.tick && !t.settled && !t.gap, l.tick)
		t.held += o.held
	}
	if !t.settled {
		l.chargeTails(t.left, true, elapsed, capacity)
		l.chargeTails(t.leaving, false, elapsed, capacity)
		for _, e := range t.parents {
			l.chargeUnseen(e, elapsed, capacity)
		}
	}
	for _, e := range t.parents {
		e.children.open, e.children.fresh = 0, 0
	}
	if !t.settled {
		l.evidence.unsettled = true
		l.evidence.childless = l.evidence.childless || !t.told
	}
	t.left, t.leaving = t.leaving, t.left[:0]
	t.parents, t.gap = t.parents[:0], false
}

// cover subtracts owed time from open time and leaves open what can be charged: new time
// only if hold is false, and nothing where exit records are complete (settled).
func (o *offspring) cover(settled, hold bool, tick uint64) {
	covered := min(o.open, o.owed)
	o.owed -= covered
	o.open -= covered
	o.known += covered
	ripe := min(o.held, o.open)
	o.ripe = ripe > 0
	if o.held = 0; hold {
		o.held = o.open - ripe
		o.open = ripe
	}
	o.known += o.open
	if settled {
		o.known += o.owed
		o.open, o.owed = 0, 0
		return
	}
	if o.owed > 0 && tick > o.owedAt+owedFor {
		o.owed = min(o.owed, clockStep)
	}
}

// chargeTails charges the last moments of children that were seen and are gone. With held it
// charges the time that was held for those that were gone in the last tick.
func (l *Ledger) chargeTails(gone []*process, held bool, elapsed, capacity uint64) {
	for _, e := range gone {
		q, _ := l.payer(e)
		if !q.shows(e, held) {
			continue
		}
		most := uint64(float64(elapsed) * e.rate * 1.25)
		if l.mayHaveSiblings(e, held) {
			most = min(most, e.legacy()) // seen in the middle of its life, on average
		}
		l.takeTail(q.children, min(q.children.open, most+tailSlack), e)
	}
	l.doubtTails(gone, held, elapsed)
	for _, e := range gone {
		// More than its rate explains: neither the payer nor an ancestor before it has had unseen children of late.
		q, usual := l.payer(e)
		if q.shows(e, held) && usual == 0 && !l.mayHaveSiblings(e, held) {
			l.takeTail(q.children, min(q.children.open, capacity), e)
		}
	}
}

// takeTail charges the last moments of a gone child: to its part, and where its own children are process groups of their own
// what those used of it, by its last readings, to where they belong.
func (l *Ledger) takeTail(o *offspring, nanos uint64, e *process) {
	if e.children.leads() && e.rate > 0 {
		theirs := min(nanos, uint64(float64(nanos)*e.children.rate/e.rate))
		l.take(o, theirs, l.unseenPart(e))
		nanos -= theirs
	}
	l.take(o, nanos, e.part)
}

// doubtTails notes what is left open where a gone child may have been charged with too little: it may have siblings, or it used more
// than its last readings let expect, as a process does that others kept from running, and siblings that no reading saw are not known
// to use as much.
func (l *Ledger) doubtTails(gone []*process, held bool, elapsed uint64) {
	var known map[*offspring]bool
	for _, e := range gone {
		q, usual := l.payer(e)
		if !q.shows(e, held) {
			continue
		}
		o := q.children
		doubtful := o.open
		if !l.mayHaveSiblings(e, held) {
			if usual == 0 {
				continue // it is charged with all
			}
			doubtful = grown(uint64(float64(elapsed)*usual*1.25)+tailSlack, o.open)
		}
		if doubtful <= clockStep {
			continue
		}
		if known == nil {
			known = map[*offspring]bool{}
		}
		l.evidence.doubts = append(l.evidence.doubts, doubt{e.part, l.unseenPart(q), doubtful, known[o]})
		known[o], o.doubtedAt = true, l.tick
	}
}

// mayHaveSiblings reports whether a gone child that one reading saw may have siblings that no reading saw: there were unseen forks.
// A parent that runs one short command after the other has one alive at each reading. Where the number of forks is not known and
// its parent is gone, too, there may be, since then whatever the next ancestor started would be taken for its own.
func (l *Ledger) mayHaveSiblings(e *process, held bool) bool {
	before, unseen := l.before, l.line.unseenForks[0]
	if q := l.table[e.ppid]; l.machine.Forks == 0 && q != nil && q.passed {
		unseen = true
	}
	if held { // it was gone in the last tick
		before, unseen = l.line.beforeLast, unseen || l.line.unseenForks[1]
	}
	return unseen && e.start > before
}

// shows reports whether open child times of a process, which may be nil, may be the last moments of one that is gone and belongs to
// another part. A process that was dead when it was last read has none.
func (q *process) shows(e *process, held bool) bool {
	return q != nil && q.children != nil && q.children.open > 0 && q.children.ripe == held && q.part != e.part && e.dead == 0
}

// payer returns the process whose child times include those of a gone process: its parent, or the nearest living ancestor if the
// parent is gone, too. It is nil if one of these ancestors adopts orphans: the owner of its children is unknown. usual is how many cores
// unseen children of these ancestors used of late, 0 if they had none.
func (l *Ledger) payer(e *process) (q *process, usual float64) {
	for range maxLineage {
		q := l.table[e.ppid]
		if q == nil || q.pid == 1 || q.start > e.start+uint64(time.Second) {
			break
		}
		if o := q.children; o != nil {
			if o.reaper {
				break
			}
			if o.unseenAt != 0 && l.tick <= o.unseenAt+cloistered {
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

// chargeUnseen charges the CPU time of children that no reading saw.
func (l *Ledger) chargeUnseen(e *process, elapsed, capacity uint64) {
	o := e.children
	if o.open > clockStep {
		if l.tick > o.unseenAt+cloistered {
			o.usual = 0
		}
		// Some, so that it is known that there were, even if a seen child may have used it all.
		o.usual = max(o.usual*0.9, 1e-3)
		if o.doubtedAt != l.tick {
			o.usual = max(o.usual, float64(o.open)/float64(max(elapsed, 1)))
		}
		o.unseenAt = l.tick
	}
	switch {
	case o.open == 0:
	case o.open > capacity: // covers a time in which it was charged to other
	case e.pid == 1, o.reaper: // the owner of orphans is unknown
	case o.counted != 0 && l.tick <= o.counted+cloistered:
	case o.away > o.same && !o.leads():
	default:
		if e.part.kind == workload.Group && o.same+o.away == 0 {
			o.merged += o.open
		}
		l.take(o, o.open, l.unseenPart(e))
	}
}

// unseenPart returns the part that children of a process which no reading saw are charged to: its own, or the short work of
// the owner of those that were seen, where they are process groups of their own.
func (l *Ledger) unseenPart(e *process) *Part {
	if !e.children.leads() {
		return e.part
	}
	a := e.children.awayPart
	return l.part(Identified{Identity: workload.Identity{
		Workload: workload.MakeID(workload.Short, a.owner+"/"+l.config.Node), Owner: a.owner,
	}}, l.lastAt)
}

// leads reports whether the children that were seen are process groups of their own: so are those that nobody saw.
func (o *offspring) leads() bool {
	return o != nil && o.away > o.same && (o.awayPart.kind == workload.Group || o.awayPart.kind == workload.Short)
}

// leads reports whether the children of a process that no reading saw are process groups of their own: those that were seen are, or
// where there are none those that are new in this reading.
func (l *Ledger) leads(pid int32) bool {
	s := l.line.sights[pid]
	return l.table[pid].children.leads() || s.away > s.same
}

// take charges the part with nanos of the open time, unless its control group charges it, which one that was removed
// before it could be read does not.
func (l *Ledger) take(o *offspring, nanos uint64, part *Part) {
	o.open -= nanos
	if part.counted() && part.cgroup != nil {
		return
	}
	var u usage
	u.user = split(nanos, o.inUser, o.inSystem)
	u.system = nanos - u.user
	part.now.used.add(u)
	part.now.late += nanos
	part.commands.other += nanos
}
