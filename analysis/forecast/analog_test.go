package forecast

import (
	"math"
	"testing"
)

// TestAnalogs: the values after a burst are forecast from those after earlier bursts, at whatever hour these occurred.
func TestAnalogs(t *testing.T) {
	bursts := func(n int, level float64) []float64 {
		y := made(20, func(int) float64 { return level })
		for _, at := range []int{50, 97, 121, 170, 203, 240, 277, 300, 331, 365, 402, 440, 477 - n} {
			for i, v := range []float64{10, 40, 80, 30, 5} { // five hours
				if at+i < len(y) {
					y[at+i] += v
				}
			}
		}
		return y[:477]
	}
	for n, want := range map[int][]float64{1: {40, 80, 30, 5, 0, 0}, 3: {30, 5, 0, 0, 0, 0}, 6: {0, 0, 0, 0, 0, 0}} {
		for _, level := range []bool{false, true} {
			got := forecastByAnalogs(bursts(n, 100), 6, 6, level)
			for k, v := range want {
				if math.Abs(got[k]-100-v) > 1e-9 {
					t.Errorf("%d hours after a burst began, by level %v: %v, want %v more than 100", n, level, got, want)
					break
				}
			}
		}
	}
	if got := forecastByAnalogs(made(3, daily)[:6+6+2*maxAnalogs-1], 6, 6, false); got != nil {
		t.Errorf("%v from a step too few", got)
	}
	if got := forecastByAnalogs(made(3, daily)[:6+6+2*maxAnalogs], 6, 6, false); len(got) != 6 {
		t.Errorf("%v", got)
	}
	if got := weightedMedian([]weighted{{3, 1}, {1, 1}, {2, 5}}); got != 2 {
		t.Errorf("median %v, want 2", got)
	}
}

// TestWithoutOrigin: the error at an origin is the error of weights from origins that share no step with it, or of equal weights if there
// are none: not of the methods that were best at that origin.
func TestWithoutOrigin(t *testing.T) {
	h := newHistory(prepareHistory(Input{Values: made(3, daily), Horizon: 24}))
	good, bad := []float64{h.y[50], h.y[51]}, []float64{1e3, 1e3}
	for _, c := range []struct {
		name    string
		origins []int
		without int
		equal   bool
	}{
		{"all", []int{50}, noOrigin, false}, {"the only one", []int{50}, 0, true},
		{"the other shares a step", []int{49, 50}, 0, true}, {"the other shares none", []int{50, 52}, 1, false},
	} {
		tr := &trial{methods: allMethods()[:2], origins: c.origins, steps: 2, mae: []float64{1, 2}, forecast: make([][][]float64, 2)}
		for range c.origins {
			tr.forecast[0], tr.forecast[1] = append(tr.forecast[0], good), append(tr.forecast[1], bad)
		}
		if w := tr.methodWeights(h, c.without); w[0] != 1 || (w[1] == 1) != c.equal {
			t.Errorf("without %s: %v", c.name, w)
		}
	}
}
