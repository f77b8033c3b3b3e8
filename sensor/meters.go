package sensor

import "reckon/metric"

// NodeEnergy describes the energy that each meter of a node has counted. All sensors with meters export it with
// [MeterSeries].
var NodeEnergy = metric.NewDesc("reckon_node_energy_joules_total", metric.Counter, metric.Joules, []string{"domain", "zone", "method"},
	"Energy that a meter of the node has counted, by domain and zone. Do not sum domains, because they overlap: psys and board "+
		"include packages, package includes core and uncore.")

// NodePower is the present power of a meter of the node.
var NodePower = metric.NewDesc("reckon_node_power_watts", metric.Gauge, metric.Watts, []string{"domain", "zone", "method"},
	"Current power of a meter of the node, by domain and zone. Domains overlap as those of reckon_node_energy_joules_total.")

// MeterDescs lists the series of [MeterSeries].
func MeterDescs() []*metric.Desc { return []*metric.Desc{NodeEnergy, NodePower} }

// MeterSeries exports meters as series of the node. Its zero value is ready for use. It allocates only for new meters.
// It is not safe for concurrent use.
type MeterSeries struct {
	rows map[meterKey]*meterRows
}

type meterKey struct {
	domain Domain
	zone   string
}

type meterRows struct{ joules, watts *metric.Series }

// Append adds the readings to b.
func (s *MeterSeries) Append(b *metric.Batch, meters []Meter) {
	if s.rows == nil {
		s.rows = make(map[meterKey]*meterRows)
	}
	for i := range meters {
		m := &meters[i]
		r := s.rows[meterKey{m.Domain, m.Zone}]
		if r == nil {
			r = new(meterRows)
			s.rows[meterKey{m.Domain, m.Zone}] = r
		}
		if m.HasJoules {
			if r.joules == nil {
				r.joules = metric.NewSeries(NodeEnergy, string(m.Domain), m.Zone, "measured")
			}
			b.Add(r.joules, m.Joules)
		}
		if m.HasWatts {
			if r.watts == nil {
				r.watts = metric.NewSeries(NodePower, string(m.Domain), m.Zone, "measured")
			}
			b.Add(r.watts, m.Watts)
		}
	}
}
