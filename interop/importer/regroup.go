package importer

import "reckon/interop/sonar"

// sonar sums processes with the same parent and name that have no children. If only one of them is left, or one gets a
// child, it is reported separately again: its use moves from the sum to its number, and vice versa.

// moveUse subtracts moved use from the growth of its destination, and from the amount missing at its origin.
func (a *growthStep) moveUse(procs []*sonar.Process) {
	for _, p := range procs {
		k := toProcKey(p)
		if k.PID == 0 {
			a.mergeSeparate(k)
			continue
		}
		if before, had := a.j.Procs[k]; !had || before.Seen < a.j.Last {
			a.splitOff(p)
		}
	}
}

// mergeSeparate moves separately reported processes into the sum that now includes them.
func (a *growthStep) mergeSeparate(sum procKey) {
	for _, k := range sortedProcs(a.j.Procs) {
		s := a.j.Procs[k]
		if _, here := a.now[k]; here || k.PID == 0 || s.PPID != sum.PPID || s.Cmd != sum.Cmd || s.Seen < a.j.Last {
			continue
		}
		if moved := a.moveMissing(&s, sum); moved {
			a.gone[k] = s
		}
	}
}

// splitOff moves a process out of the sum that included it.
func (a *growthStep) splitOff(p *sonar.Process) {
	sum := procKey{PPID: p.PPID, Cmd: p.Cmd}
	s, had := a.j.Procs[sum]
	if !had || s.Seen < a.j.Last || p.CPU <= 0 || startedWithin(p, a.t-a.j.Last) {
		return
	}
	if _, here := a.now[sum]; here {
		sum = sum.endedKey(&s) // its missing part
		if s, had = a.gone[sum]; !had {
			return
		}
	} else if g, had := a.gone[sum]; had {
		s = g
	}
	if a.moveMissing(&s, toProcKey(p)) {
		a.gone[sum] = s
	}
}

// moveMissing subtracts the missing use of a process from the growth of another one.
func (a *growthStep) moveMissing(s *procState, to procKey) bool {
	g, moved := a.grown[to], false
	for i := range g {
		if v := min(g[i], s.Used[i]); v > 0 {
			g[i] -= v
			s.Used[i] -= v
			moved = true
		}
	}
	a.grown[to] = g
	return moved
}

// startedWithin reports whether a process started less than the given number of seconds ago, by its mean.
func startedWithin(p *sonar.Process, seconds int64) bool {
	return p.Mean > 0 && p.CPU/p.Mean < float64(seconds)
}
