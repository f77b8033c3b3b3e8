package external

import (
	"errors"
	"testing"

	"reckon/sensor"
)

// Nothing configured: each reader is unavailable under its own name, and none is an
// interface that holds a nil pointer.
func TestSensorsUnconfigured(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Sensors(Options{Root: t.TempDir()}) {
		if seen[e.Name] {
			t.Errorf("%s is listed twice", e.Name)
		}
		seen[e.Name] = true
		s, err := e.Open()
		if !errors.Is(err, sensor.ErrUnavailable) || s != nil {
			t.Errorf("%s: sensor %v, error %v; want none and ErrUnavailable", e.Name, s, err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d readers, want textfile, scrape and custom", len(seen))
	}
}
