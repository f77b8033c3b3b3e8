package account

import (
	"reckon/account/tally"
	"reckon/sensor"
)

// Tally records the per-process counts of a source up to the last tick. Amounts of unidentified
// processes go to other, so that
//
//	Σ workloads + other = total of the source
func (l *Ledger) Tally(spec *sensor.TallySpec, pass *sensor.TallyPass) {
	if l.parts.other == nil {
		return // no tick yet
	}
	all := l.parts.tallies.RecordReading(l.at.lastTick(), spec, pass)
	for i := range all {
		w := &all[i]
		if i > 0 && w.PID == all[i-1].PID && w.Start == all[i-1].Start && w.Until == all[i-1].Until {
			w.Account = all[i-1].Account
		} else {
			w.Account = l.chargeable(w.PID, w.Start, w.Until)
		}
	}
	l.parts.tallies.ChargeAwaited(spec)
}

// chargeable returns the account for the activity of a process. It returns nil while the process may still be
// identified, which ends with the tick until. After that, it returns the account of other. A living process is not
// charged after a single pass. That pass may have fallen between fork and setsid(2), setuid(2) or the move to its
// control group, and all activity since would go to the parent.
func (l *Ledger) chargeable(pid int32, start, until uint64) *tally.Account {
	e := l.table.byID[pid]
	late := pid == 0 || l.at.tick >= until
	if pid != 0 && e != nil && sensor.SameStart(e.start, start) && e.part != nil {
		switch young := e.start > l.at.before && !e.gone; {
		case young && !late:
			return nil
		case l.table.excess.of[e] != nil:
			return &l.table.excess.of[e].tally
		case !e.part.rejectsCharges():
			return &e.part.tally
		case e.part.phase == absorbed:
			return &l.parts.ensurePart(Identified{Identity: l.parts.foldTarget(e.part)}, e.part.start).tally
		}
	}
	if late {
		return &l.parts.other.tally
	}
	return nil
}

// isActive reports whether the part has more events than an idle process group would have. It counts events of the given
// weight and above.
func (p *Part) isActive(weight sensor.TallyWeight) bool { return exceedsIdle(&p.tally, weight) }

func exceedsIdle(a *tally.Account, weight sensor.TallyWeight) bool {
	return a.Exceeds(tally.Limits{Bytes: float64(maxReducedIO), Nanos: float64(maxReducedCPU), Calls: float64(maxReducedCalls)}, weight)
}
