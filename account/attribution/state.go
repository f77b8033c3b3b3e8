package attribution

import (
	"errors"
	"slices"

	"reckon/sensor"
)

// State is the serialized state of [Meters]. A restarted agent needs it to charge the energy used while it was down and
// to keep the learned idle power.
type State struct {
	Boot    uint64            `json:"boot"`
	Gauges  []GaugeState      `json:"gauges"`
	Streams []StreamState     `json:"streams"`
	Picks   map[string]string `json:"picks"`
	Debt    float64           `json:"debt"`
}

// GaugeState is one serialized meter.
type GaugeState struct {
	Source string  `json:"source"`
	Domain string  `json:"domain"`
	Zone   string  `json:"zone"`
	Joules float64 `json:"joules"`
	Boot   uint64  `json:"boot"`
}

// StreamState is one serialized stream.
type StreamState struct {
	Domain string  `json:"domain"`
	Zone   string  `json:"zone"`
	Model  bool    `json:"model,omitempty"`
	Wait   float64 `json:"wait"`
	Load   float64 `json:"load"`
	Known  float64 `json:"known"`
	// Quiet is the observation with the lowest load in each hour.
	Quiet []observation `json:"quiet,omitempty"`
}

// State returns the serialized state.
func (m *Meters) State() State {
	s := State{Boot: m.last, Debt: m.debt, Picks: make(map[string]string, len(m.picks))}
	for d, name := range m.picks {
		s.Picks[string(d)] = name
	}
	for k, g := range m.gauges {
		if g.primed && g.joules > 0 && !g.covered {
			s.Gauges = append(s.Gauges, GaugeState{k.source, string(k.domain), k.zone, g.joules, g.at})
		}
	}
	for i := range m.streams {
		t := &m.streams[i]
		st := StreamState{Domain: t.Domain, Zone: t.Zone, Model: t.Model, Wait: t.wait, Load: t.load, Known: t.known}
		for _, o := range t.learned.slots {
			if o.Set {
				st.Quiet = append(st.Quiet, o)
			}
		}
		s.Streams = append(s.Streams, st)
	}
	return s
}

// maxPlausible is larger than any true value. A larger value in a saved state shows that the state is corrupt.
const maxPlausible = 1e18

func isPlausible(v float64) bool { return v >= 0 && v < maxPlausible }

// Restore continues an empty Meters from a state of the same boot.
func (m *Meters) Restore(s State) error {
	bad := errors.New("the saved state of the meters is damaged")
	if !isPlausible(-s.Debt) {
		return bad
	}
	for _, g := range s.Gauges {
		if !isPlausible(g.Joules) || g.Boot > s.Boot {
			return bad
		}
	}
	for _, t := range s.Streams {
		if !isPlausible(t.Wait) || !isPlausible(t.Load) || !isPlausible(t.Known) || len(t.Quiet) > idleSlots ||
			slices.ContainsFunc(t.Quiet, func(o observation) bool { return !isPlausible(o.Watts) || o.Load < 0 || o.Load > 1 }) {
			return bad
		}
	}
	m.gauges = make(map[gaugeKey]*gauge, len(s.Gauges))
	m.picks = make(map[sensor.Domain]string)
	m.index = make(map[streamKey]int)
	m.streams = nil
	m.last, m.debt, m.resumed = s.Boot, s.Debt, true
	for d, name := range s.Picks {
		m.picks[sensor.Domain(d)] = name
	}
	for _, g := range s.Gauges {
		m.gauges[gaugeKey{g.Source, sensor.Domain(g.Domain), g.Zone}] =
			&gauge{joules: g.Joules, at: g.Boot, moved: s.Boot, primed: true, proven: true, resumed: true}
	}
	for _, t := range s.Streams {
		k := streamKey{t.Domain, t.Zone, ""}
		if t.Model {
			k.method = Modelled
		}
		if _, twice := m.index[k]; twice {
			*m = Meters{}
			return bad
		}
		m.index[k] = len(m.streams)
		st := Stream{Domain: t.Domain, Zone: t.Zone, Model: t.Model, Package: packageOf(t.Domain, t.Zone), wait: t.Wait, load: t.Load,
			known: t.Known}
		copy(st.learned.slots[:], t.Quiet)
		m.streams = append(m.streams, st)
	}
	return nil
}
