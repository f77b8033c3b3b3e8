package attribution

import (
	"math"
	"reckon/sensor"
)

// gauge is the state of one meter of one source.
type gauge struct {
	joules, watts float64
	before        float64 // the counter before it fell; the fall may have been one false reading
	fell          bool
	resumed       bool   // restored, and not read since
	covered       bool   // another meter counted while it was away
	at            uint64 // boot time of the last good reading
	moved         uint64 // boot time at which it last increased, or was first seen
	primed        bool
	still         bool // it stalled under load, and has not increased since
	proven        bool // it has increased, or reported power: it is a meter and not a constant register
	odd           int  // implausible readings in a row
	delta         float64
	resync        bool // this tick started a new count: earlier energy is lost
	came          bool // delta is from this tick
	alive         bool
}

type gaugeKey struct {
	source string
	domain sensor.Domain
	zone   string
}

// read records one reading. It drops an implausible reading and returns the reason.
func (g *gauge) read(r *sensor.Meter, load *Load) (why string) {
	switch {
	case r.HasJoules:
		return g.readCounter(r.Joules, load)
	case r.HasWatts:
		return g.readPower(r.Watts, load)
	}
	return ""
}

func (g *gauge) readCounter(joules float64, load *Load) (why string) {
	if math.IsNaN(joules) || math.IsInf(joules, 0) || joules < 0 {
		return "shows no number"
	}
	most := maxWatts * (float64(load.Boot-min(g.at, load.Boot))/1e9 + 1)
	switch {
	case !g.primed:
		g.primed, g.moved = true, load.Boot
	case g.covered && joules == g.joules: // it has not increased
	case g.covered, g.resumed && joules < g.joules: // counted by another meter meanwhile, or reset with the agent
		g.resync = true
		g.recordIncrease(load)
	case joules < g.joules:
		// The counter fell, so the increase in between is unknown. The next reading decides whether
		// it was reset or this reading was false.
		g.before, g.fell, why = g.joules, true, "fell"
		g.joules, g.at, g.odd, g.resync = joules, load.Boot, 0, true
		return why
	case g.fell && joules >= g.before:
		g.joules = g.before
		if joules-g.before > most {
			break // the true counter is somewhere in between
		}
		g.delta, g.came = joules-g.before, true
		g.recordIncrease(load)
	case joules-g.joules > most:
		if g.odd++; g.odd < maxImplausible {
			return "jumped by more than any machine draws"
		}
		g.resync = true
	case joules > g.joules:
		g.delta, g.came = joules-g.joules, true
		g.recordIncrease(load)
	}
	g.covered = g.covered && g.still
	g.joules, g.at, g.odd, g.fell, g.resumed = joules, load.Boot, 0, false, false
	g.alive = !g.still
	return why
}

// recordIncrease records that the counter increased: the meter works.
func (g *gauge) recordIncrease(load *Load) { g.moved, g.proven, g.still = load.Boot, true, false }

// excludeIfStalled excludes a counter that does not change while the machine is loaded. The counter stays excluded
// until it increases again, even if the machine becomes idle meanwhile.
func (g *gauge) excludeIfStalled(load *Load) {
	if load.CPU > minLoad && load.Boot-g.moved > stalledAfter {
		g.still = true
	}
}

func (g *gauge) readPower(watts float64, load *Load) (why string) {
	switch {
	case math.IsNaN(watts) || math.IsInf(watts, 0) || watts < 0 || watts > maxWatts:
		return "shows no power"
	case watts == 0 && load.CPU > minLoad:
		return "shows zero under load"
	}
	if g.primed && load.Boot > g.at && load.Boot-g.at <= maxBridge {
		g.delta = (watts + g.watts) / 2 * float64(load.Boot-g.at) / 1e9
		g.came = true
	} else {
		g.resync = true
	}
	if g.covered {
		g.delta, g.came, g.covered, g.resync = 0, false, false, true
	}
	g.primed, g.proven, g.watts, g.at, g.moved, g.alive = true, true, watts, load.Boot, load.Boot, true
	return ""
}
