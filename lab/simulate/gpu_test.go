package simulate_test

import (
	"strings"
	"testing"
	"time"

	"reckon/lab/simulate"
	"reckon/metric"
)

// TestGPUs: a simulated device has power, temperature, clocks and memory errors, and draws and warms more where it computes.
func TestGPUs(t *testing.T) {
	s := made(t, simulate.Config{Nodes: 16, GPUNodes: 2, Jobs: 400, For: 24 * time.Hour})
	least, most := map[string]float64{}, map[string]float64{}
	for i, name := range s.Names() {
		if !strings.HasPrefix(name, "gpu") {
			continue
		}
		n := s.Node(i)
		for at := s.From.Add(time.Minute); at.Before(s.End()); at = at.Add(10 * time.Minute) {
			if n.Advance(at); n.Down() {
				continue
			}
			var b metric.Batch
			if err := n.Sensor().Read(&b); err != nil {
				t.Fatal(err)
			}
			for _, x := range b.Samples {
				key := x.Series.Desc.Name + "|" + strings.Join(x.Series.Values[min(3, len(x.Series.Values)):], "|")
				if v, ok := least[key]; !ok || x.Value < v {
					least[key] = x.Value
				}
				most[key] = max(most[key], x.Value)
			}
		}
	}
	for key, want := range map[string][2]float64{
		"reckon_gpu_power_watts|": {55, 315}, "reckon_gpu_temperature_celsius|core": {31, 69}, "reckon_gpu_clock_hertz|compute": {345e6, 1980e6},
	} {
		if low, ok := least[key]; !ok || low < want[0]-1 || most[key] > want[1]+1 || most[key]-low < (want[1]-want[0])/4 {
			t.Errorf("%s is %v to %v (there: %v), want most of %v", key, low, most[key], ok, want)
		}
	}
	if v, ok := most["reckon_gpu_ecc_errors_total|uncorrected"]; !ok || v != 0 {
		t.Errorf("memory errors %v, there: %v", v, ok)
	}
}
