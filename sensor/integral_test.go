package sensor

import (
	"math"
	"testing"
	"time"
)

func TestIntegral(t *testing.T) {
	var i Integral
	start := time.Unix(1000, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for _, step := range []struct{ at, watts, want float64 }{
		{0, 100, 0},
		{1, 100, 100},
		{2, 200, 250},             // trapezoid
		{2, 999, 250},             // no time, no energy
		{1, 999, 250},             // the clock went back
		{3, 1, 1250},              // from 999 W at 1 s
		{200, 1, 1250},            // a gap
		{201, 1, 1251},            //
		{202, -5, 1251.5},         // a rail that feeds back counts as nothing
		{203, math.NaN(), 1251.5}, // blank
		{204, 1, 1251.5},          // and the second before is unknown
		{205, 9.2e12, 1251.5},     // blank value of a register
		{206, 1, 1251.5},
		{207, 1, 1252.5},
	} {
		if got := i.Add(at(step.at), step.watts); math.Abs(got-step.want) > 1e-9 {
			t.Errorf("at %v s, %v W: %v J, want %v", step.at, step.watts, got, step.want)
		}
	}
	if i.Total() != 1252.5 {
		t.Errorf("total %v", i.Total())
	}
}

func TestOdometer(t *testing.T) {
	var o Odometer
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		raw, want float64
		refused   bool
	}{
		{500, 0, false}, {510, 10, false}, {510, 10, false},
		{3, 10, true}, {5, 12, false}, // a reset
		{4, 12, true}, {6, 13, false}, // a false reading: nothing is lost
		{0, 13, true}, {0, 13, false}, {7, 20, false}, // a reset to zero
		{math.NaN(), 20, true}, {-1, 20, true}, {math.Inf(1), 20, true}, {17, 30, false},
		{3.7e12, 30, true}, {27, 40, false}, // a spike
		{9000, 40, true}, {9010, 40, true}, {9020, 40, false}, {9030, 50, false}, // it counts from elsewhere now
		{5, 50, true}, {3, 50, true}, {4, 51, false}, // two resets
	} {
		now = now.Add(time.Second)
		got, err := o.Add(now, "energy", "x", step.raw, 20)
		if n, alone := Implausible(err); got != step.want || step.refused != (err != nil) || !alone || (n == 1) != step.refused {
			t.Errorf("step %d, register %v: %v (%v), want %v", i, step.raw, got, err, step.want)
		}
	}
	w := Register{Wrap: 1000}
	for i, step := range [][2]float64{{990, 0}, {5, 15}, {900, 895}} {
		if got, err := w.Add(now, "energy", "x", step[0], 1e6); got != step[1] || err != nil {
			t.Errorf("step %d, a register that wraps: %v, %v, want %v", i, got, err, step[1])
		}
	}
}
