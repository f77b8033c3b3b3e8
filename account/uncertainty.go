package account

import "reckon/sensor"

// Without exit records it is sometimes unclear which part CPU time belongs to: a process that ended since its last
// reading, another one that ended, or one that no reading saw. It is charged to the likely one and the doubt is
// recorded here. A figure is inexact if more than a hundredth of it is unclear over its whole life.

// pair is two parts, where time charged to one may belong to the other.
type pair struct{ part, rest *Part }

// errorBounds are upper bounds, in nanoseconds of CPU time, of the excess charged to a part and of the time that it lacks.
type errorBounds struct{ over, lack uint64 }

func (u *errorBounds) add(other errorBounds) { u.over, u.lack = u.over+other.over, u.lack+other.lack }

// uncertainties collects the error bounds of the CPU times of all parts.
type uncertainties struct {
	noted map[pair]errorBounds // void if both parts are folded into one
	about map[*Part]uncertainty
	// guessed is the time charged to parts for children of gone processes without a child that was ever seen, nanoseconds.
	guessed map[*Part]uint64
	guesses bool // living processes have such, too
}

// uncertainty holds the error bounds of one part: the permanent ones, and the ones at the last export, which may be
// resolved later.
type uncertainty struct{ known, open errorBounds }

// addErrorBounds records that rest may have used time charged to part, or part time charged to rest.
func (d *uncertainties) addErrorBounds(part, rest *Part, u errorBounds) {
	if part == rest || u == (errorBounds{}) {
		return
	}
	sum := d.noted[pair{part, rest}]
	sum.add(u)
	d.noted[pair{part, rest}] = sum
}

// errorBoundsOf returns the error bounds of the CPU time of a part.
func (d *uncertainties) errorBoundsOf(p *Part) errorBounds {
	u := d.about[p]
	u.known.add(u.open)
	return u.known
}

// state returns the serialized uncertainty of a part. Amounts that might have been resolved later become permanent by a restart.
func (d *uncertainties) state(p *Part) [2]uint64 {
	u := d.errorBoundsOf(p)
	return [2]uint64{u.over, u.lack}
}

// resolveUncertainties adds the recorded error bounds to the parts. They stay open if the part may still be folded into the other one.
func (tab *table) resolveUncertainties() {
	d := &tab.doubts
	for p, u := range d.about {
		if p.group == nil { // forgotten
			delete(d.about, p)
			continue
		}
		if u.open != (errorBounds{}) {
			u.open = errorBounds{}
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
			d.addToPart(part, u, settled)
		}
	}
	if d.guesses {
		d.guesses = false
		for _, e := range tab.byID {
			if o := e.children; o != nil && o.merged > 0 {
				d.guesses = true
				if o.hasGuessedTime() && !e.passed {
					tab.markGuessUncertain(e.part, o.merged, false)
				}
			}
		}
	}
	for p, nanos := range d.guessed {
		if settled := p.isFinal(); p.phase != absorbed {
			tab.markGuessUncertain(p, nanos, settled)
			if !settled {
				continue
			}
		}
		delete(d.guessed, p)
	}
}

// markGuessUncertain records that the nanos charged to p for unseen children may belong to other process groups. If
// root started the children, they may belong to any user.
func (tab *table) markGuessUncertain(p *Part, nanos uint64, settled bool) {
	tab.doubts.addToPart(p, errorBounds{over: nanos}, settled)
	for owner, short := range tab.parts.shortOf {
		if owner == p.owner || p.owner == rootOwner {
			tab.doubts.addToPart(short, errorBounds{lack: nanos}, settled)
		}
	}
}

// addToPart adds to the error bounds of a part, permanently if settled is set.
func (d *uncertainties) addToPart(p *Part, u errorBounds, settled bool) {
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
func (d *uncertainties) cpuCertainty(p *Part, c certainty) certainty {
	u, bearable := d.errorBoundsOf(p), p.CPU()/useTolerance+clockStep/2
	switch {
	case u.over > bearable:
		return c.worse(certaintyOfLack(sensor.LackWhose, fromSeen))
	case u.lack > bearable:
		return c.worse(certaintyOfLack(sensor.LackUnread, fromSeen))
	}
	return c
}
