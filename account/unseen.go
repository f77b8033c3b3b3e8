package account

import "reckon/sensor"

// Children that no reading saw are charged where those belong that were seen: the parent's part, or process groups of their own.

// whereabouts are the places where the children of a process were seen.
type whereabouts struct {
	same, away uint32 // in its own part, and in others
	awayPart   *Part  // part of the last child that was seen in another part
	otherPart  *Part  // of another owner's: the last one before that
	beneath    *Part  // part of the last descendant that was seen in another part
	merged     uint64 // charged to its part for children that no reading saw, before one was seen in another part
	// dealt is the time that records of children without a process group owe to those with groups of their own, nanoseconds.
	dealt float64
}

// sighting is the number of children of a process that are new in a reading, in its own process group and elsewhere.
type sighting struct {
	pgid       int32
	same, away uint32
}

// countLivingChildren counts the living children of those parents that have an exit record without a process group and
// no child seen so far. It must run before live processes are recorded. It scans the pass once, or not at all.
func (tab *table) countLivingChildren(pass *sensor.Pass) {
	t := &tab.line
	clear(t.sights)
	for i := range pass.Exited {
		p := &pass.Exited[i]
		if p.Have&(sensor.FieldGroup|sensor.FieldParent) != sensor.FieldParent || p.PPID <= 1 {
			continue
		}
		if pgid, ok := tab.groupOfLiving(p.PPID, pass.Live); ok {
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

// groupOfLiving returns the process group of a living process outside of other workloads, if no child was seen before.
func (tab *table) groupOfLiving(pid int32, live []sensor.Process) (pgid int32, ok bool) {
	if q := tab.byID[pid]; q != nil {
		if o := q.children; !q.part.kind.Group() || o != nil && (o.same+o.away > 0 || o.counted != 0) {
			return 0, false
		}
	}
	// Its current state: its entry may be from an earlier reading, or restored.
	p := livingOf(live, pid)
	if p == nil || p.Have&sensor.FieldGroup == 0 {
		return 0, false
	}
	return p.PGID, true
}

// doubtGuessedPart records the doubt about an exit record without a process group, because its part was guessed. That is the part
// of the parent if no child was seen, or the part of one of the children seen. nanos is the CPU time in the record.
func (tab *table) doubtGuessedPart(e *process, p *sensor.Process, nanos uint64) {
	q := tab.byID[p.PPID]
	if p.Have&(sensor.FieldGroup|sensor.FieldParent) == sensor.FieldParent && e.part.kind.Folded() &&
		(p.PPID <= 1 || q != nil && q.children != nil && q.children.reaper) {
		tab.line.orphans[e.part] += nanos
		return
	}
	if p.Have&(sensor.FieldGroup|sensor.FieldParent) != sensor.FieldParent || q == nil || !q.part.kind.Group() {
		return
	}
	for range maxLineage {
		up := tab.byID[q.ppid]
		if q.pgid != 0 || up == nil || up.part != q.part || up.pid == 1 {
			break
		}
		q = up
	}
	switch o := q.childRecord(); {
	case o.same+o.away == 0 && q.part == e.part && q.left:
		tab.doubts.guessed[e.part] += nanos
	case o.same+o.away == 0 && q.part == e.part:
		o.merged, tab.doubts.guesses = o.merged+nanos, true
	case o.hasMixedChildren():
		other := o.awayPart
		if other.foldable() {
			other = tab.parts.shortWork(other.owner)
		}
		if e.part != q.part {
			other = q.part
		}
		tab.doubts.addDoubt(e.part, other, uncertain{over: nanos})
		tab.doubts.addDoubt(other, e.part, uncertain{lack: nanos})
	}
}

// doubtOrphans records that an orphan may belong to the process group of an ended process, like its parent.
func (tab *table) doubtOrphans() {
	t := &tab.line
	for short, nanos := range t.orphans {
		for _, e := range t.leaving {
			if e.part.kind.Group() && e.part.owner == short.owner {
				tab.doubts.addDoubt(e.part, short, uncertain{lack: nanos})
				tab.doubts.addDoubt(short, e.part, uncertain{over: nanos})
			}
		}
	}
	clear(t.orphans)
}

// chargeUnseen charges the CPU time of children that no reading saw.
func (tab *table) chargeUnseen(e *process, elapsed, capacity uint64) {
	o := e.children
	if o.open > clockStep {
		if tab.tick > o.unseenAt+rememberTicks {
			o.usual = 0
		}
		// Not zero, which stands for no unseen children, even if a seen child may have used everything.
		o.usual = max(o.usual*0.9, 1e-3)
		if o.doubtedAt != tab.tick {
			o.usual = max(o.usual, float64(o.open)/float64(max(elapsed, 1)))
		}
		o.unseenAt = tab.tick
	}
	switch {
	case o.open == 0:
	case o.open > capacity: // covers a time in which it was charged to other
	case e.pid == 1, o.reaper: // the owner of orphans is unknown
	case o.hasCgroupChild(tab.tick):
	case o.away > o.same && !o.mostlyOwnGroups():
	default:
		switch {
		case o.away == 0 && o.beneath != nil:
			tab.doubtOwn(e.part, o.beneath, o.open)
		case e.part.kind.Group() && o.away == 0:
			o.merged, tab.doubts.guesses = o.merged+o.open, true
		}
		tab.takeUnseen(e, o.open)
	}
}

// takeUnseen charges the open CPU time of unseen children. If some children seen are process groups of their own, it
// splits the time by the number of sightings, because longer-lived children are seen more often. Both figures are then
// inexact.
func (tab *table) takeUnseen(e *process, nanos uint64) {
	o := e.children
	if p := tab.unseenPart(e); !o.hasMixedChildren() {
		tab.chargeOpen(o, nanos, p)
		if other := o.otherPart; p != e.part && other != nil && other.foldable() { // as of a daemon that serves several users
			other = tab.parts.shortWork(other.owner)
			tab.doubts.addDoubt(p, other, uncertain{over: nanos})
			tab.doubts.addDoubt(other, p, uncertain{lack: nanos})
		}
		return
	}
	away := split(nanos, uint64(o.away), uint64(o.same))
	other := o.awayPart
	if o.awayPart.foldable() {
		other = tab.parts.shortWork(other.owner)
	} else {
		away = 0
	}
	tab.chargeOpen(o, nanos-away, e.part)
	tab.chargeOpen(o, away, other)
	tab.doubts.addDoubt(e.part, other, uncertain{over: nanos - away, lack: away})
	tab.doubts.addDoubt(other, e.part, uncertain{over: away, lack: nanos - away})
}

// hasGuessedTime reports whether time was charged for children that were never seen.
func (o *childTimes) hasGuessedTime() bool { return o != nil && o.merged > 0 && o.same+o.away == 0 }

// hasMixedChildren reports whether more than a hundredth of the children seen belong to another part than most of them.
func (o *childTimes) hasMixedChildren() bool {
	return o != nil && min(o.same, o.away) > max(o.same, o.away)/bearableUse
}

// countChild counts a child that was seen in the part of its parent q or in another part. Older sightings count less.
func (o *childTimes) countChild(part *Part, q *process) {
	if o.same+o.away >= manySeen {
		o.same, o.away = o.same/2, o.away/2
	}
	if part == q.part {
		o.same++
		return
	}
	o.away++
	if o.awayPart != nil && o.awayPart.owner != part.owner {
		o.otherPart = o.awayPart
	}
	o.awayPart = part
}

// manySeen is the number of children that were seen after which they are counted half.
const manySeen = 1000

// strayedChild corrects the recorded place of a child whose first reading fell between its fork and its setsid(2).
func (tab *table) strayedChild(e *process, was *Part) {
	q := tab.byID[e.ppid]
	if q == nil || q.children == nil || was != q.part || e.part == was || e.part.hasCgroupCPU() {
		return
	}
	if o := q.children; o.same > 0 {
		o.same--
		o.away++
		o.awayPart = e.part
	}
}

// unseenPart returns the part to charge for most unseen children of a process. This is the part of the process, or
// the short work of the owner if the children seen are process groups of their own.
func (tab *table) unseenPart(e *process) *Part {
	if !e.children.mostlyOwnGroups() {
		return e.part
	}
	return tab.parts.shortWork(e.children.awayPart.owner)
}

// foldable reports whether the part is folded into the short work of its owner, or is that, if it ends soon.
func (p *Part) foldable() bool { return p.kind.Group() || p.kind.Folded() }

// mostlyOwnGroups reports whether most of the children seen are process groups of their own. Unseen children are then assumed to
// be as well.
func (o *childTimes) mostlyOwnGroups() bool {
	return o != nil && o.away > o.same && o.awayPart.foldable()
}

// isOwnGroup reports whether an exit record without a process group is charged as a process group of
// its own. It follows the majority of the children seen, or of the new children in this pass. With
// a mixture, records are distributed in the same proportion.
func (tab *table) isOwnGroup(pid int32, nanos uint64) bool {
	o, s := tab.byID[pid].children, tab.line.sights[pid]
	if !o.hasMixedChildren() || !o.awayPart.foldable() {
		return o.mostlyOwnGroups() || s.away > s.same
	}
	o.dealt += float64(nanos) * float64(o.away) / float64(o.same+o.away)
	if o.dealt < float64(nanos)/2 {
		return false
	}
	o.dealt -= float64(nanos)
	return true
}
