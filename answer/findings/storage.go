package findings

import (
	"maps"
	"math"
	"slices"

	"reckon/analysis/fairshare"
)

// minTraffic is the traffic of a node in bytes per second below which shares are not evaluated.
const minTraffic = 1 << 20

// leastWaiting is the mean number of threads waiting for storage from which an owner counts as wanting more.
const leastWaiting = 0.02

// storageTrace returns the traffic of disks and network file systems on the machine as a resource. Its capacity is the total
// traffic, because the real capacity depends on the access pattern. The use of an owner is the owner's share of the
// bytes. The resource is contended while tasks wait, by PSI or else by the storage wait of owners' threads. An owner
// who waits wants all of it, and others want what they use. Without figures of waiting there are no findings. waited is
// in the order of owner names.
func (m *machine) storageTrace(r *rangeReading) (t fairshare.Trace, waited []line) {
	steps, second := r.stepCount(), 1/r.step.Seconds()
	var all, waits line
	for _, o := range m.owners {
		for i, v := range o.io {
			if !math.IsNaN(v) {
				all.add(steps, i, v)
			}
		}
		for i, v := range o.ioWait {
			if !math.IsNaN(v) {
				waits.add(steps, i, v*second)
			}
		}
	}
	if all == nil || waits == nil { // waiting is required
		return t, nil
	}
	t = fairshare.Trace{Step: r.step.Seconds(), Capacity: 1, Machine: make(line, steps), Pressure: m.ioWaits.divideBy(m.ioWatched)}
	if t.Pressure == nil {
		t.Pressure = waits
	}
	for _, name := range slices.Sorted(maps.Keys(m.owners)) {
		o := m.owners[name]
		if o.io == nil && o.ioWait == nil {
			continue
		}
		use, want := make(line, steps), make(line, steps)
		for i := range use {
			if all[i]*second >= minTraffic && o.io != nil && !math.IsNaN(o.io[i]) {
				use[i] = o.io[i] / all[i]
			}
			if want[i] = use[i]; o.ioWait != nil && o.ioWait[i]*second >= leastWaiting {
				want[i] = 1
			}
		}
		t.Owners = append(t.Owners, fairshare.Owner{Name: name, Use: use, Want: want,
			Inexact: eitherFlag(m.inexactUse(o, exactRead, r), m.inexactUse(o, exactWritten, r))})
		waited = append(waited, o.ioWait)
	}
	return t, waited
}

// eitherFlag returns true for the steps at which a or b is.
func eitherFlag(a, b []bool) []bool {
	if a == nil {
		return b
	}
	for i := range b {
		a[i] = a[i] || b[i]
	}
	return a
}

// waitedFor returns the thread-seconds that other owners waited for a resource while owner used more than a fair share
// of it. known is false if waiting is not measured.
func (t *nodeTrace) waitedFor(owner string, l fairshare.Limits) (sum float64, known bool) {
	if t.waited == nil {
		return 0, false
	}
	for _, s := range fairshare.Steps(t.trace, l, owner) {
		for k, w := range t.waited {
			if s.I < len(w) && !math.IsNaN(w[s.I]) && t.trace.Owners[k].Name != owner {
				sum, known = sum+w[s.I], true
			}
		}
	}
	return sum, known
}
