package rapl

import (
	"reckon/metric"
	"reckon/sensor"
)

// Sensor exports the meters of a [Source] as node series and provides them to attribution.
type Sensor struct {
	source *Source
	meters []sensor.Meter
	series sensor.MeterSeries
}

var _ sensor.MeterSource = (*Sensor)(nil)

// New opens the zones below root as a sensor; see [Open].
func New(root string) (*Sensor, error) {
	s, err := Open(root)
	if err != nil {
		return nil, err
	}
	return &Sensor{source: s}, nil
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return s.source.Name() }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc { return []*metric.Desc{sensor.NodeEnergy} }

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	var err error
	s.meters, err = s.source.ReadMeters(s.meters[:0])
	s.series.Append(b, s.meters)
	return err
}

// ReadMeters implements sensor.MeterSource.
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	return s.source.ReadMeters(dst)
}

// Close implements sensor.Sensor.
func (s *Sensor) Close() error { return s.source.Close() }
