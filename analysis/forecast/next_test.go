package forecast

import (
	"math"
	"testing"
)

func TestNextRun(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name             string
		runs             []float64
		point, low, high float64
		n                int
		err              float64
	}{
		{"one", []float64{10}, 10, 10, 10, 1, nan},
		{"three have no error yet", []float64{10, 20, 30}, 20, 11, 29, 3, nan},
		{"four have", []float64{10, 10, 10, 10}, 10, 10, 10, 4, 0},
		{"what was not measured does not count", []float64{nan, 10, -1, math.Inf(1), 10}, 10, 10, 10, 2, nan},
		{"the work changed five runs ago", []float64{100, 100, 100, 100, 100, 10, 10, 10, 10, 10}, 100, 10, 100, 10, 0},
		{"all zero", []float64{0, 0, 0, 0}, 0, 0, 0, 4, nan},
	} {
		got, ok := NextRun(c.runs)
		if !ok || math.Abs(got.Point-c.point) > 1e-9 || math.Abs(got.Low-c.low) > 1e-9 || math.Abs(got.High-c.high) > 1e-9 || got.Runs != c.n {
			t.Errorf("%s: %+v", c.name, got)
		}
		if math.IsNaN(got.Error) != math.IsNaN(c.err) || got.Error > c.err+1e-9 {
			t.Errorf("%s: error %v, want %v", c.name, got.Error, c.err)
		}
	}
	if _, ok := NextRun([]float64{nan}); ok {
		t.Error("a forecast from nothing")
	}
}
