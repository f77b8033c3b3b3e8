package importer

import (
	"cmp"
	"maps"
	"slices"
)

// undoDeduction returns the deduction for a process that had not ended to its ancestor.
func (a *growthStep) undoDeduction(s *procState) {
	if s.By != 0 {
		a.returned[s.By] = a.returned[s.By].sumUse(s.Deducted)
	}
}

// giveBack adds returned amounts to the growth of the processes that are in this reading.
func (a *growthStep) giveBack() {
	for by, amount := range a.returned {
		k := procKey{PID: by}
		if _, here := a.now[k]; here {
			a.grown[k] = a.grown[k].sumUse(amount)
			delete(a.returned, by)
		}
	}
}

// sumUse adds another use; unknown figures count as zero.
func (u processUse) sumUse(v processUse) processUse {
	for i := range u {
		u[i] += max(v[i], 0)
	}
	return u
}

// deductMissing handles processes that are missing from this reading. It subtracts their use from the growth of the ancestor
// that waited for them, because a wait adds their whole use at once. An ancestor that was missing and reappears counts
// as the one that waited for the processes that ended meanwhile.
func (a *growthStep) deductMissing() {
	ended := maps.Clone(a.gone)
	for k, s := range a.j.Procs {
		_, here := a.now[k]
		_, other := a.gone[k]
		if !here && !other && (s.Deducted == processUse{} || a.waitedElsewhere(&s)) {
			a.undoDeduction(&s)
			s.By, s.Deducted = 0, processUse{}
			ended[k] = s
		}
	}
	a.giveBack()
	// In descending order of use: a small amount matches the growth of an ancestor by chance.
	keys := slices.SortedFunc(maps.Keys(ended), func(x, y procKey) int {
		return cmp.Or(cmp.Compare(ended[y].Used[usedCPU], ended[x].Used[usedCPU]), x.compare(y))
	})
	for _, k := range keys {
		s := ended[k]
		s.By, s.Deducted = a.deductUse(s.PPID, s.Used)
		if s != a.j.Procs[k] {
			a.gone[k] = s
		}
	}
}

// maxDepth limits how far up ancestors are searched.
const maxDepth = 64

// growthTolerance is the tolerance when the growth of a parent is compared with the use of the children that it waited for.
// Some releases of sonar write whole seconds and whole KiB.
var growthTolerance = processUse{1, 1024, 1024}

// deductUse subtracts the use of an ended process from the growth of its nearest ancestor in this reading, if that growth
// is large enough. It returns the process id of that ancestor, or 0, and the subtracted amount.
func (a *growthStep) deductUse(parent uint32, use processUse) (by uint32, deducted processUse) {
	for range maxDepth {
		if parent == 0 {
			break
		}
		k := procKey{PID: parent}
		if _, here := a.now[k]; here {
			g := a.grown[k]
			for i, v := range use {
				if g[i] < v-growthTolerance[i] {
					continue
				}
				deducted[i] = max(min(g[i], v), 0)
				g[i] -= deducted[i]
			}
			a.grown[k] = g
			return parent, deducted
		}
		gone, had := a.j.Procs[k]
		if !had {
			break
		}
		parent = gone.PPID
	}
	return 0, processUse{}
}

// waitedElsewhere reports whether the use of an ended process was deducted from the wrong ancestor. This is so if a
// nearer ancestor was missing when the process ended and has reappeared.
func (a *growthStep) waitedElsewhere(s *procState) bool {
	if len(a.back) == 0 {
		return false
	}
	parent := s.PPID
	for range maxDepth {
		if parent == 0 || parent == s.By {
			return false
		}
		if seen, back := a.back[parent]; back {
			return s.Seen >= seen
		}
		gone, had := a.j.Procs[procKey{PID: parent}]
		if !had {
			return false
		}
		parent = gone.PPID
	}
	return false
}

// maxAbsent limits the number of missing processes that a job keeps the state of.
const maxAbsent = 4096

// forgetAbsent drops the states of processes that have been missing for long, or that are too many.
func (j *jobState) forgetAbsent(t int64) {
	var absent []procKey
	for k, s := range j.Procs {
		switch {
		case t-s.Seen > maxJobSilence:
			delete(j.Procs, k)
		case s.Seen < t:
			absent = append(absent, k)
		}
	}
	if len(absent) <= maxAbsent {
		return
	}
	slices.SortFunc(absent, func(a, b procKey) int {
		return cmp.Or(cmp.Compare(j.Procs[a].Seen, j.Procs[b].Seen), a.compare(b))
	})
	for _, k := range absent[:len(absent)-maxAbsent] {
		delete(j.Procs, k)
	}
}
