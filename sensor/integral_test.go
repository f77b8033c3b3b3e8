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
	for _, step := range [][2]float64{{500, 0}, {510, 10}, {510, 10}, {3, 10}, {5, 12}, {4, 12}, {6, 14}} {
		if got := o.Add(step[0]); got != step[1] {
			t.Errorf("register %v: %v, want %v", step[0], got, step[1])
		}
	}
}
