package all

import (
	"errors"
	"testing"

	"reckon/metric"
	"reckon/sensor"
)

// TestSensors opens every sensor of this machine: each is available or returns the
// reason, under the name of its entry, and no two describe a metric of the same name.
func TestSensors(t *testing.T) {
	names := make(map[string]bool)
	owner := make(map[string]string)
	descs := make(map[string]*metric.Desc)
	for _, e := range Sensors("/") {
		if names[e.Name] {
			t.Errorf("%s is listed twice", e.Name)
		}
		names[e.Name] = true
		s, err := e.Open()
		if err != nil {
			if s != nil {
				t.Errorf("%s: a sensor and an error", e.Name)
			}
			if !errors.Is(err, sensor.ErrUnavailable) {
				t.Errorf("%s: %v", e.Name, err)
			}
			continue
		}
		if s.Name() != e.Name {
			t.Errorf("%s calls itself %s", e.Name, s.Name())
		}
		for _, d := range s.Descs() {
			if other := descs[d.Name]; other != nil && other != d {
				t.Errorf("%s is described by %s and by %s", d.Name, owner[d.Name], e.Name)
			}
			owner[d.Name], descs[d.Name] = e.Name, d
		}
		var b metric.Batch
		if err := s.Read(&b); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
}
