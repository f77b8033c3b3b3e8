package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// regular is the use of a service with days, weekends and some noise, hours of weeks.
func regular(r *rand.Rand, weeks int) []float64 {
	level, swing, weekend, noise := 0.2+3*r.Float64(), 0.2+0.6*r.Float64(), 0.3+0.7*r.Float64(), 0.02+0.08*r.Float64()
	phase, sharp := 24*r.Float64(), 1+3*r.Float64()
	out := make([]float64, weeks*7*24)
	for h := range out {
		shape := math.Pow((1+math.Sin(2*math.Pi*(float64(h)-phase)/24))/2, sharp)
		v := level * (1 - swing + 2*swing*shape)
		if h/24%7 >= 5 {
			v *= weekend
		}
		out[h] = max(v*(1+noise*r.NormFloat64()), 0)
	}
	return out
}

// TestBandsOfRegularUse: bands of services that repeat their weeks are about as wide as the errors are large, and hold what they should.
func TestBandsOfRegularUse(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const horizon, origins = 48, 5
	width, off, inside, hours := 0.0, 0.0, 0.0, 0.0
	for range 24 {
		y := regular(r, 7)
		for o := range origins {
			end := len(y) - horizon*(o+1)
			got := Run(Input{Values: y[end-35*24 : end], Start: time.Unix(0, 0), Step: time.Hour, Horizon: horizon})
			for k, v := range y[end : end+horizon] {
				width += (got.High[k] - got.Low[k]) / math.Abs(v)
				off += math.Abs(v-got.Point[k]) / math.Abs(v)
				hours++
				if v >= got.Low[k] && v <= got.High[k] {
					inside++
				}
			}
		}
	}
	t.Logf("%.0f hours: %.1f mean errors wide, %.1f %% inside", hours, width/off, 100*inside/hours)
	if width > 6*off || inside < 0.94*hours || inside > 0.97*hours {
		t.Errorf("bands are %.1f mean errors wide and hold %.1f %%; want at most 6, and 94 to 97 %%", width/off, 100*inside/hours)
	}
}

// TestMeanOfBursts: work that runs a fifth of the time at one core has a median of 0 and a mean of 0.2.
func TestMeanOfBursts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	y := make([]float64, 35*24)
	for h := range y {
		if r.Float64() < 0.2 {
			y[h] = 1
		}
	}
	got := Run(Input{Values: y, Start: time.Unix(0, 0), Step: time.Hour, Horizon: 48})
	mean, median := 0.0, 0.0
	for k := range got.Mean {
		mean, median = mean+got.Mean[k]/48, median+got.Point[k]/48
	}
	if math.Abs(mean-0.2) > 0.06 || median > 0.1 {
		t.Errorf("mean %.3f, median %.3f; want 0.2 and 0", mean, median)
	}
}
