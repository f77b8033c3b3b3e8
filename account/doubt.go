package account

import "reckon/sensor"

// Without exit records it is sometimes unclear which part CPU time belongs to: a process that ended since its last
// reading, another one that ended, or one that no reading saw. It is charged to the likely one and the doubt is
// recorded here. A figure is inexact if more than a hundredth of it is unclear over its whole life.

// pair is a part and another part that may have received its time, or the other way round.
type pair struct{ part, rest *Part }

// uncertain is CPU time in nanoseconds: upper bounds of the excess charged to a part and of the amount that it lacks.
type uncertain struct{ over, lack uint64 }

func (u *uncertain) add(o uncertain) { u.over, u.lack = u.over+o.over, u.lack+o.lack }

// doubts collects unclear amounts.
type doubts struct {
	noted map[pair]uncertain // void if both parts are folded into one
	about map[*Part]doubt
	// guessed is the time charged to parts for children of gone processes without a child that was ever seen, nanoseconds.
	guessed map[*Part]uint64
	guesses bool // living processes have such, too
}

// doubt is the uncertain amount of one part: permanent, and at the last export including amounts that may be resolved later.
type doubt struct{ known, open uncertain }

// addDoubt records that rest may have used time charged to part, or part time charged to rest.
func (d *doubts) addDoubt(part, rest *Part, u uncertain) {
	if part == rest || u == (uncertain{}) {
		return
	}
	sum := d.noted[pair{part, rest}]
	sum.add(u)
	d.noted[pair{part, rest}] = sum
}

// doubtOf returns the uncertainty of a part.
func (d *doubts) doubtOf(p *Part) uncertain {
	u := d.about[p]
	u.known.add(u.open)
	return u.known
}

// state returns the serialized uncertainty of a part. Amounts that might have been resolved later become permanent by a restart.
func (d *doubts) state(p *Part) [2]uint64 {
	u := d.doubtOf(p)
	return [2]uint64{u.over, u.lack}
}

// settleDoubts distributes the recorded doubts. A doubt stays open if the part may still be folded into the other one.
func (tab *table) settleDoubts() {
	d := &tab.doubts
	for p, u := range d.about {
		if p.group == nil { // forgotten
			delete(d.about, p)
			continue
		}
		if u.open != (uncertain{}) {
			u.open = uncertain{}
			d.about[p] = u
		}
	}
	for at, u := range d.noted {
		part, rest := tab.parts.accountOf(at.part), tab.parts.accountOf(at.rest)
		settled := part.isFinal() && rest.isFinal()
		if settled || part == rest {
			delete(d.noted, at)
		}
		if part != rest {
			d.add(part, u, settled)
		}
	}
	if d.guesses {
		d.guesses = false
		for _, e := range tab.byID {
			if o := e.children; o != nil && o.merged > 0 {
				d.guesses = true
				if o.hasGuessedTime() && !e.passed {
					tab.doubtGuess(e.part, o.merged, false)
				}
			}
		}
	}
	for p, nanos := range d.guessed {
		if settled := p.isFinal(); p.phase != absorbed {
			tab.doubtGuess(p, nanos, settled)
			if !settled {
				continue
			}
		}
		delete(d.guessed, p)
	}
}

// doubtGuess records that the nanos charged to p for unseen children may belong to other process groups. If root
// started the children, they may belong to any user.
func (tab *table) doubtGuess(p *Part, nanos uint64, settled bool) {
	tab.doubts.add(p, uncertain{over: nanos}, settled)
	for owner, short := range tab.parts.shortOf {
		if owner == p.owner || p.owner == rootOwner {
			tab.doubts.add(short, uncertain{lack: nanos}, settled)
		}
	}
}

// add adds to the uncertainty of a part, permanently if it is settled.
func (d *doubts) add(p *Part, u uncertain, settled bool) {
	if p.group == nil {
		return // forgotten
	}
	sum := d.about[p]
	if settled {
		sum.known.add(u)
	} else {
		sum.open.add(u)
	}
	d.about[p] = sum
}

// isFinal reports whether the part can no longer be folded into another one.
func (p *Part) isFinal() bool { return p.phase >= exported }

// cpuCertainty returns the certainty of the CPU time of a part. It is worse than c if more than 1 % of
// that time plus half a clock step may belong to another part, or may be missing.
func (d *doubts) cpuCertainty(p *Part, c certainty) certainty {
	u, bearable := d.doubtOf(p), p.CPU()/bearableUse+clockStep/2
	switch {
	case u.over > bearable:
		return c.worse(lacking(sensor.LackWhose, fromSeen))
	case u.lack > bearable:
		return c.worse(lacking(sensor.LackUnread, fromSeen))
	}
	return c
}
