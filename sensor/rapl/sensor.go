package rapl

import (
	"reckon/metric"
	"reckon/sensor"
)

// nodeEnergy is what every meter of the node counts.
var nodeEnergy = &metric.Desc{
	Name: "reckon_node_energy_joules_total", Kind: metric.Counter, Unit: metric.Joules,
	Help:   "Energy that a meter of the node has counted, by domain and zone; domains overlap and are not to be summed: psys holds packages, package holds core and uncore.",
	Labels: []string{"domain", "zone", "method"},
}

// Sensor gives the meters of a [Source] as series of the node.
type Sensor struct {
	source *Source
	meters []sensor.Meter
	series map[sensor.Domain]map[string]*metric.Series
}

// New opens the zones below root as a sensor; see [Open].
func New(root string) (*Sensor, error) {
	s, err := Open(root)
	if err != nil {
		return nil, err
	}
	return &Sensor{source: s, series: make(map[sensor.Domain]map[string]*metric.Series)}, nil
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return s.source.Name() }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// Descs lists the series of the sensor, also where it is not available.
func Descs() []*metric.Desc { return []*metric.Desc{nodeEnergy} }

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	var err error
	s.meters, err = s.source.ReadMeters(s.meters[:0])
	for i := range s.meters {
		m := &s.meters[i]
		zones := s.series[m.Domain]
		if zones == nil {
			zones = make(map[string]*metric.Series)
			s.series[m.Domain] = zones
		}
		row := zones[m.Zone]
		if row == nil {
			row = metric.NewSeries(nodeEnergy, string(m.Domain), m.Zone, "measured")
			zones[m.Zone] = row
		}
		b.Add(row, m.Joules)
	}
	return err
}

// Close implements sensor.Sensor.
func (s *Sensor) Close() error { return s.source.Close() }
