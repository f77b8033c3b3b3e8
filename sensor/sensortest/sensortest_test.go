package sensortest

import (
	"path/filepath"
	"testing"

	"reckon/metric"
	"reckon/sensor"
)

var energy = &metric.Desc{
	Name: "reckon_zone_energy_joules_total", Help: "Energy used by the zone since boot.",
	Kind: metric.Counter, Unit: metric.Joules, Labels: []string{"zone"},
}

// meter is a minimal sensor.
type meter struct {
	series *metric.Series
	value  float64
}

func (m *meter) Name() string          { return "meter" }
func (m *meter) Descs() []*metric.Desc { return []*metric.Desc{energy} }
func (m *meter) Close() error          { return nil }
func (m *meter) Read(b *metric.Batch) error {
	m.value++
	b.Add(m.series, m.value)
	return nil
}

func TestSuite(t *testing.T) {
	m := &meter{series: metric.NewSeries(energy, "package-0")}
	Run(t, func(*testing.T) sensor.Sensor { return m }, Options{
		Empty: func(root string) (sensor.Sensor, error) {
			return nil, sensor.Unavailable("no meter in "+filepath.Join(root, "sys"), "", nil)
		},
	})
}

// list is a recorded source of processes.
type list struct{ pass sensor.Pass }

func (l *list) Name() string { return "list" }
func (l *list) Close() error { return nil }
func (l *list) Read(p *sensor.Pass) error {
	l.pass.Boot++
	p.Boot = l.pass.Boot
	p.Live = append(p.Live, l.pass.Live...)
	return nil
}

func TestTaskSuite(t *testing.T) {
	l := &list{pass: sensor.Pass{Live: []sensor.Process{{PID: 1}, {PID: 2, UserNanos: 7}}}}
	RunTasks(t, func(*testing.T) sensor.TaskSource { return l }, TaskOptions{Recorded: true})
}
