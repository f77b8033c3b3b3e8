package account

import "reckon/sensor"

// Children that no reading saw are charged where those belong that were seen: the parent's part, or process groups of their own.

// childPlaces records the parts in which the children of a process were seen.
type childPlaces struct {
	same, away uint32 // in its own part, and in others
	awayPart   *Part  // part of the last child that was seen in another part
	otherPart  *Part  // of another owner's: the last one before that
	beneath    *Part  // part of the last descendant that was seen in another part
	merged     uint64 // charged to its part for children that no reading saw, before one was seen in another part
	// dealt is the time that records of children without a process group owe to those with groups of their own, nanoseconds.
	dealt float64
}

// newChildren is the number of children of a process that are new in a pass, in its own process group and elsewhere.
type newChildren struct {
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
				t.sights = map[int32]newChildren{}
			}
			t.sights[p.PPID] = newChildren{pgid: pgid}
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
	p := findLiving(live, pid)
	if p == nil || p.Have&sensor.FieldGroup == 0 {
		return 0, false
	}
	return p.PGID, true
}

// markGuessedPartUncertain records the doubt about an exit record without a process group, because its part was guessed. That is the part
// of the parent if no child was seen, or the part of one of the children seen. nanos is the CPU time in the record.
func (tab *table) markGuessedPartUncertain(e *process, p *sensor.Process, nanos uint64) {
	q := tab.byID[p.PPID]
	if p.Have&(sensor.FieldGroup|sensor.FieldParent) == sensor.FieldParent && e.part.kind.Folded() &&
		(p.PPID <= 1 || q != nil && q.children != nil && q.children.reaper) {
		tab.line.orphans[e.part] += nanos
		return
	}
	if p.Have&(sensor.FieldGroup|sensor.FieldParent) != sensor.FieldParent || q == nil || !q.part.kind.Group() {
		return
	}
	for range maxAncestors {
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
		if other.isFoldable() {
			other = tab.parts.shortWork(other.owner)
		}
		if e.part != q.part {
			other = q.part
		}
		tab.doubts.addErrorBounds(e.part, other, errorBounds{over: nanos})
		tab.doubts.addErrorBounds(other, e.part, errorBounds{lack: nanos})
	}
}

// markOrphansUncertain records that an orphan may belong to the process group of an ended process, as its parent did.
func (tab *table) markOrphansUncertain() {
	t := &tab.line
	for short, nanos := range t.orphans {
		for _, e := range t.leaving {
			if e.part.kind.Group() && e.part.owner == short.owner {
				tab.doubts.addErrorBounds(e.part, short, errorBounds{lack: nanos})
				tab.doubts.addErrorBounds(short, e.part, errorBounds{over: nanos})
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
			tab.markOwnUncertain(e.part, o.beneath, o.open)
		case e.part.kind.Group() && o.away == 0:
			o.merged, tab.doubts.guesses = o.merged+o.open, true
		}
		tab.chargeUnseenTime(e, o.open)
	}
}

// chargeUnseenTime charges the open CPU time of unseen children. If some children seen are process groups of their own, it
// splits the time by the number of sightings, because longer-lived children are seen more often. Both figures are then
// inexact.
func (tab *table) chargeUnseenTime(e *process, nanos uint64) {
	o := e.children
	if p := tab.unseenPart(e); !o.hasMixedChildren() {
		tab.chargeOpenTime(o, nanos, p)
		if other := o.otherPart; p != e.part && other != nil && other.isFoldable() { // as of a daemon that serves several users
			other = tab.parts.shortWork(other.owner)
			tab.doubts.addErrorBounds(p, other, errorBounds{over: nanos})
			tab.doubts.addErrorBounds(other, p, errorBounds{lack: nanos})
		}
		return
	}
	away := shareOf(nanos, uint64(o.away), uint64(o.same))
	other := o.awayPart
	if o.awayPart.isFoldable() {
		other = tab.parts.shortWork(other.owner)
	} else {
		away = 0
	}
	tab.chargeOpenTime(o, nanos-away, e.part)
	tab.chargeOpenTime(o, away, other)
	tab.doubts.addErrorBounds(e.part, other, errorBounds{over: nanos - away, lack: away})
	tab.doubts.addErrorBounds(other, e.part, errorBounds{over: away, lack: nanos - away})
}

// hasGuessedTime reports whether time was charged for children that were never seen.
func (o *childTimes) hasGuessedTime() bool { return o != nil && o.merged > 0 && o.same+o.away == 0 }

// hasMixedChildren reports whether more than a hundredth of the children seen belong to another part than most of them.
func (o *childTimes) hasMixedChildren() bool {
	return o != nil && min(o.same, o.away) > max(o.same, o.away)/useTolerance
}

// countChild counts a child that was seen in the part of its parent q or in another part. Older sightings count less.
func (o *childTimes) countChild(part *Part, q *process) {
	if o.same+o.away >= maxSightings {
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

// maxSightings is the number of counted children above which all counts are halved.
const maxSightings = 1000

// correctChildPlace corrects the recorded place of a child that was first read between its fork and its setsid(2).
func (tab *table) correctChildPlace(e *process, was *Part) {
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

// isFoldable reports whether the part would be folded into the short work of its owner if it ended soon, or is that short work.
func (p *Part) isFoldable() bool { return p.kind.Group() || p.kind.Folded() }

// mostlyOwnGroups reports whether most of the children seen are process groups of their own. Unseen children are then assumed to
// be as well.
func (o *childTimes) mostlyOwnGroups() bool {
	return o != nil && o.away > o.same && o.awayPart.isFoldable()
}

// isOwnGroup reports whether an exit record without a process group is charged as a process group of
// its own. It follows the majority of the children seen, or of the new children in this pass. With
// a mixture, records are distributed in the same proportion.
func (tab *table) isOwnGroup(pid int32, nanos uint64) bool {
	o, s := tab.byID[pid].children, tab.line.sights[pid]
	if !o.hasMixedChildren() || !o.awayPart.isFoldable() {
		return o.mostlyOwnGroups() || s.away > s.same
	}
	o.dealt += float64(nanos) * float64(o.away) / float64(o.same+o.away)
	if o.dealt < float64(nanos)/2 {
		return false
	}
	o.dealt -= float64(nanos)
	return true
}
