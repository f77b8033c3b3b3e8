package attribution

// Idle power is learned for each stream. It is the mean power in the ten seconds with the lowest utilisation of the
// last day, times one minus that utilisation. It is exact for a node that was idle once in the day. For other nodes it
// is too low, so that no workload's use is hidden in idle energy. A fitted model replaces it.
const (
	idleSpan  = 10.0   // seconds of one observation
	idleSlot  = 3600.0 // seconds for which the observation with the lowest load is kept
	idleSlots = 24
	// sameLoad is the largest difference of utilisation at which observations are compared by power.
	sameLoad = 0.01
)

// observation is the mean power at a mean utilisation.
type observation struct {
	Load  float64 `json:"load"`
	Watts float64 `json:"watts"`
	Set   bool    `json:"set"`
}

// isBetter reports whether a is the better observation of idle power than b.
func (a observation) isBetter(b observation) bool {
	switch {
	case !a.Set || !b.Set:
		return a.Set
	case a.Load < b.Load-sameLoad:
		return true
	}
	return a.Load <= b.Load+sameLoad && a.Watts < b.Watts
}

// idlePower learns the idle power of a stream.
type idlePower struct {
	slots [idleSlots]observation
	at    int
	spent float64 // seconds in the slot

	joules, seconds, load float64 // of the current observation; load is utilisation·seconds
}

// addEnergy adds the energy of the stream over a period with a mean utilisation.
func (d *idlePower) addEnergy(joules, seconds, load float64) {
	d.joules += joules
	d.seconds += seconds
	d.load += load * seconds
	if d.seconds < idleSpan {
		return
	}
	o := observation{Load: min(max(d.load/d.seconds, 0), 1), Watts: d.joules / d.seconds, Set: true}
	if d.spent += d.seconds; d.spent > idleSlot {
		d.spent = 0
		d.at = (d.at + 1) % idleSlots
		d.slots[d.at] = observation{}
	}
	if o.Watts > 0 && o.isBetter(d.slots[d.at]) {
		d.slots[d.at] = o
	}
	d.joules, d.seconds, d.load = 0, 0, 0
}

// watts returns the idle power and true, or false while it is unknown.
func (d *idlePower) watts() (w float64, ok bool) {
	var best observation
	for _, o := range d.slots {
		if o.isBetter(best) {
			best = o
		}
	}
	return best.Watts * (1 - best.Load), best.Set
}

// splitEnergy divides energy into active and idle.
func (d *idlePower) splitEnergy(joules, seconds, load float64) (active, inactive float64) {
	w, ok := d.watts()
	inactive = w * seconds
	if !ok {
		inactive = joules * (1 - min(max(load, 0), 1))
	}
	inactive = min(max(inactive, 0), joules)
	return joules - inactive, inactive
}
