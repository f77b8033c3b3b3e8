package quantiles

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 4}, 4}, {[]float64{8, 2, 6, 4}, 5}} {
		if got := Median(c.v); got != c.want {
			t.Errorf("%v: %g, want %g", c.v, got, c.want)
		}
	}
	if !math.IsNaN(Median(nil)) || !math.IsNaN(Linear(nil, 0.5)) || Nearest([]int(nil), 0.5) != 0 {
		t.Error("no values have a quantile")
	}
}

func TestQuantiles(t *testing.T) {
	v := make([]float64, 100)
	for i := range v {
		v[i] = float64(i + 1)
	}
	for q, want := range map[float64][2]float64{0: {1, 1}, 0.5: {50.5, 50}, 0.95: {95.05, 95}, 0.99: {99.01, 99}, 1: {100, 100}} {
		if got := Linear(v, q); math.Abs(got-want[0]) > 1e-9 {
			t.Errorf("quantile %g: %g, want %g", q, got, want[0])
		}
		if got := Nearest(v, q); got != want[1] {
			t.Errorf("nearest %g: %g, want %g", q, got, want[1])
		}
	}
}
