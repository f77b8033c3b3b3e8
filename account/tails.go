package account

import (
	"cmp"
	"slices"
)

// tickSpans are durations within a tick, in nanoseconds.
type tickSpans struct {
	tick     uint64 // since the last one
	reading  uint64 // from the beginning of the last pass to the end of this one
	capacity uint64 // of all processors
}

// exitTail is the CPU time that an exited process used after its last reading. That time is part of the payer's child
// times, together with the time of other exited processes and unseen children.
type exitTail struct {
	of      *process
	payer   *process
	usual   float64 // cores that unseen children of the payer, and of ancestors before it, used of late
	loner   bool    // it has no unseen siblings that began after its only reading
	sole    bool    // no unseen child is likely to have begun since the last tick, or usual is the use of those
	parent  bool    // it has had children, and may have unseen ones that began since the last tick
	charged uint64
}

// tailClaim sums the tails of one part that have the same payer.
type tailClaim struct {
	part    *Part
	likely  uint64 // use at most by the rates of its processes
	most    uint64 // use at most at all
	charged uint64
}

// chargeTails charges the CPU time that exited processes used after their last reading. Set held to charge the time
// that was kept for the processes that exited in the previous tick.
func (tab *table) chargeTails(gone []*process, held bool, s tickSpans) {
	t := &tab.line
	t.tails = t.tails[:0]
	for _, e := range gone {
		q, usual := tab.findPayer(e)
		late := slices.Contains(t.behind[0], e)
		if !held && !late && q.mayLag(e) {
			t.behind[1] = append(t.behind[1], e)
		}
		if q.canShowTail(e, held) && (e.part != q.part || !q.children.hasCgroupChild(tab.tick)) {
			one := exitTail{of: e, payer: q, usual: usual, loner: !tab.mayHaveSiblings(e, held || late), sole: usual > 0 ||
				!tab.unseenSince(held || late), parent: e.children != nil && tab.unseenSince(held || late)}
			if !held && tab.wokenOnce(q, e, s) {
				one.usual, one.loner, one.sole = 0, true, true
			}
			t.tails = append(t.tails, one)
		}
	}
	slices.SortStableFunc(t.tails, func(a, b exitTail) int { return cmp.Compare(a.payer.pid, b.payer.pid) })
	for rest := t.tails; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].payer == rest[0].payer {
			n++
		}
		tab.divideTails(rest[:n], s)
		rest = rest[n:]
	}
}

// divideTails divides the open child times of a payer over its exited children. It first gives each child what its rate explains, and
// then up to a fixed slack more. If no other children are likely, it divides the rest as well; otherwise the rest stays open.
func (tab *table) divideTails(tails []exitTail, s tickSpans) {
	o := tails[0].payer.children
	all := o.open
	alone := !slices.ContainsFunc(tails, func(t exitTail) bool { return t.usual > 0 || !t.loner })
	chargeWanted(tails, all, func(t *exitTail) uint64 {
		most := uint64(float64(s.tick) * t.of.rate * 1.25)
		if !t.loner {
			most = min(most, t.of.futureChildTime()) // seen in the middle of its life, on average
		}
		return most
	})
	left := all - sumCharged(tails)
	chargeWanted(tails, left, func(*exitTail) uint64 { return tailSlack })
	if left = all - sumCharged(tails); alone && left > 0 {
		chargeWanted(tails, min(left, s.capacity), func(t *exitTail) uint64 { return max(t.charged, 1) << 20 })
	}
	tab.markTailsUncertain(tails, all, s)
	for i := range tails {
		tab.chargeTail(o, &tails[i])
	}
}

// chargeWanted charges each tail with the amount that it wants, or with its share of nanos if that is less.
func chargeWanted(tails []exitTail, nanos uint64, want func(*exitTail) uint64) {
	sum := 0.0
	for i := range tails {
		sum += float64(want(&tails[i]))
	}
	for i := range tails {
		t := &tails[i]
		v := float64(want(t))
		if v == 0 {
			continue
		}
		d := min(uint64(v), nanos)
		if sum > float64(nanos) {
			d = min(nanos, uint64(v/sum*float64(nanos)+0.5))
		}
		sum -= v
		nanos -= d
		t.charged += d
	}
}

// sumCharged returns the sum charged to tails.
func sumCharged(tails []exitTail) (sum uint64) {
	for i := range tails {
		sum += tails[i].charged
	}
	return sum
}

// chargeTail charges the last CPU time of an exited child to its part. If the child's own children are process groups,
// their share goes to their part, in the proportion of the last readings.
func (tab *table) chargeTail(o *childTimes, t *exitTail) {
	e, own, theirs := t.of, t.charged, uint64(0)
	if k := e.children; k != nil && k.away > 0 && k.awayPart.isFoldable() && (k.mostlyOwnGroups() || e.rate == 0) {
		other := tab.parts.shortWork(k.awayPart.owner)
		if e.rate > 0 {
			theirs = min(own, uint64(float64(own)*k.rate/e.rate))
		}
		own -= theirs
		tab.chargeOpenTime(o, theirs, other)
		unclear := errorBounds{over: own, lack: theirs}
		if least := min(own, theirs); e.rate > 0 && t.loner && t.sole {
			unclear = errorBounds{least, least}
		}
		tab.doubts.addErrorBounds(e.part, other, unclear)
		tab.doubts.addErrorBounds(other, e.part, errorBounds{over: unclear.lack, lack: unclear.over})
	}
	tab.chargeOpenTime(o, own, e.part)
}

// markTailsUncertain records the uncertainty of charged tails. all is the open child time of their payer.
//
//   - If unseen siblings are possible, because processes began unseen and the parent was woken more
//     than once, a tail may be none or all of it.
//   - With several tails, time may be charged to the wrong one. Their rates limit the error if they
//     explain all of it. Otherwise some exceeded their rates after waiting for a processor.
//   - If unseen siblings are not known to use the rest, the rest may belong to a tail.
func (tab *table) markTailsUncertain(tails []exitTail, all uint64, s tickSpans) {
	q, o := tails[0].payer, tails[0].payer.children
	left := all - sumCharged(tails)
	siblings, usual := false, 0.0
	for i := range tails {
		siblings = siblings || !tails[i].loner || !tails[i].sole
		usual = max(usual, tails[i].usual)
	}
	claims := tab.claimTails(tails, all, s)
	if siblings {
		claims = append(claims, tailClaim{tab.unseenPart(q), all, all, left})
		left = 0
		o.doubtedAt = tab.tick
	}
	likely, most := uint64(0), uint64(0)
	for i := range claims {
		likely += claims[i].likely
		most += claims[i].most
	}
	for i := range claims {
		c := &claims[i]
		up, sum := c.likely, likely
		if siblings || likely+clockStep < all { // they may have slept until their last reading
			up, sum = c.most, most
		}
		u := errorBounds{over: counterIncrease(counterIncrease(sum-up, all), c.charged), lack: counterIncrease(c.charged, min(up, all))}
		if rest := mainRival(claims, i); rest != nil {
			tab.doubts.addErrorBounds(c.part, rest, u)
		}
	}
	if usual == 0 {
		return
	}
	if extra := counterIncrease(uint64(float64(s.tick)*usual*1.25)+tailSlack, left); extra > clockStep {
		rest := tab.unseenPart(q)
		for i := range claims {
			tab.doubts.addErrorBounds(claims[i].part, rest, errorBounds{lack: extra})
		}
		tab.doubts.addErrorBounds(rest, claims[0].part, errorBounds{over: extra})
		o.doubtedAt = tab.tick
	}
}

// claimTails returns the share that each part claims.
func (tab *table) claimTails(tails []exitTail, all uint64, s tickSpans) []tailClaim {
	claims := tab.line.claims[:0]
	for i := range tails {
		t := &tails[i]
		at := slices.IndexFunc(claims, func(c tailClaim) bool { return c.part == t.of.part })
		if at < 0 {
			at, claims = len(claims), append(claims, tailClaim{part: t.of.part})
		}
		c, most := &claims[at], all
		if t.of.children == nil { // and one thread
			most = min(all, s.reading)
		}
		likely := most
		if t.loner && !t.parent {
			likely = min(most, uint64(float64(s.reading)*t.of.rate*1.25)+tailSlack)
		}
		c.most, c.likely, c.charged = c.most+most, c.likely+likely, c.charged+t.charged
	}
	tab.line.claims = claims
	return claims
}

// mainRival returns the other part that most of a claim's uncertainty concerns, or nil if there is none.
func mainRival(claims []tailClaim, claim int) (rest *Part) {
	most := uint64(0)
	for i := range claims {
		if c := &claims[i]; i != claim && c.part != claims[claim].part && (rest == nil || c.likely > most) {
			rest, most = c.part, c.likely
		}
	}
	return rest
}

// mayHaveSiblings reports whether an exited child that a single reading saw may have unseen siblings. There must have been forks that no
// reading explains. A parent that runs short commands in sequence has one of them alive at each reading. If forks are not counted and the
// parent is gone, siblings are assumed, because the next ancestor's children are indistinguishable.
func (tab *table) mayHaveSiblings(e *process, held bool) bool {
	before, unseen := tab.before, tab.unseenSince(held)
	if q := tab.byID[e.ppid]; tab.machine.Forks == 0 && q != nil && q.passed {
		unseen = true
	}
	if held { // it was gone in the last tick
		before = tab.line.beforeLast
	}
	return unseen && e.start > before
}

// unseenSince reports whether processes that no reading saw began since the last tick, or with held since the one before.
func (tab *table) unseenSince(held bool) bool {
	return tab.line.unseenForks[0] || held && tab.line.unseenForks[1]
}

// mayLag reports whether the last CPU time of an exited process may reach the child times of q only in the next tick.
// That is so if q was read before the process ended.
func (q *process) mayLag(e *process) bool {
	return q != nil && q.pid < e.pid && e.dead == 0 && (q.children == nil || q.children.fresh == 0 || q.children.owed > clockStep)
}

// canShowTail reports whether the open child times of q can be the last CPU time of the exited process e. q may be nil. A
// process that was dead at its last reading used no CPU time after it.
func (q *process) canShowTail(e *process, held bool) bool {
	return q != nil && q.children != nil && q.children.open > 0 && q.children.ripe == held && e.dead == 0
}
