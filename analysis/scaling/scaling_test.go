package scaling

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func runsOf(f Fit, noise float64, rnd *rand.Rand, sizes ...float64) []Run {
	var out []Run
	for _, n := range sizes {
		out = append(out, Run{Size: n, Seconds: f.OneCore / f.Speedup(n) * (1 + noise*(2*rnd.Float64()-1))})
	}
	return out
}

// TestExact recovers the parameters that the runs were generated with, over many powers of ten.
func TestExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		want := Fit{OneCore: math.Pow(10, 6*rnd.Float64()), Serial: rnd.Float64() * 0.5}
		got, err := Amdahl(runsOf(want, 0, rnd, 1, 4, 64, 4096))
		if err != nil || math.Abs(got.Serial-want.Serial) > 1e-9 || math.Abs(got.OneCore/want.OneCore-1) > 1e-9 || got.Error > 1e-9 {
			t.Fatalf("Amdahl: got %+v, want %+v: %v", got, want, err)
		}
		want.Crosstalk = rnd.Float64() * 1e-3
		got, err = USL(runsOf(want, 0, rnd, 1, 2, 8, 32, 128))
		if err != nil || math.Abs(got.Serial-want.Serial) > 1e-7 || math.Abs(got.Crosstalk-want.Crosstalk) > 1e-9 {
			t.Fatalf("USL: got %+v, want %+v: %v", got, want, err)
		}
	}
}

// TestNoise: fitted parameters stay close and within bounds, and the error has the
// size of the noise.
func TestNoise(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		got, err := Amdahl(runsOf(Fit{OneCore: 1000, Serial: 0.1}, 0.05, rnd, 1, 2, 4, 8, 16, 32))
		if err != nil || math.Abs(got.Serial-0.1) > 0.03 || got.Error > 0.06 || got.SerialLow > got.Serial || got.SerialHigh < got.Serial {
			t.Fatalf("got %+v: %v", got, err)
		}
	}
}

func TestFew(t *testing.T) {
	for _, runs := range [][]Run{nil, {{Size: 8, Seconds: 100}}, {{Size: 8, Seconds: 100}, {Size: 8, Seconds: 110}}} {
		if _, err := Amdahl(runs); !errors.Is(err, ErrTooFew) {
			t.Errorf("%v: %v", runs, err)
		}
	}
	if _, err := USL([]Run{{Size: 1, Seconds: 100}, {Size: 8, Seconds: 20}}); !errors.Is(err, ErrTooFew) {
		t.Error(err)
	}
	got, err := Amdahl([]Run{{Size: 1, Seconds: 100}, {Size: 10, Seconds: 19}})
	if err != nil || math.Abs(got.Serial-0.1) > 1e-9 || !math.IsNaN(got.Error) || !math.IsNaN(got.SerialLow) {
		t.Errorf("two sizes have no error to tell: %+v %v", got, err)
	}
	for _, r := range []Run{{Size: 0, Seconds: 1}, {Size: 1, Seconds: 0}, {Size: math.NaN(), Seconds: 1}, {Size: 1, Seconds: math.Inf(1)}, {Size: -4, Seconds: 3}} {
		if _, err := Amdahl([]Run{{Size: 1, Seconds: 100}, {Size: 2, Seconds: 60}, r}); err == nil || errors.Is(err, ErrTooFew) {
			t.Errorf("%v was taken: %v", r, err)
		}
	}
}

func TestLimit(t *testing.T) {
	if s, n := (Fit{Serial: 0.05}).Limit(); math.Abs(s-20) > 1e-9 || !math.IsInf(n, 1) {
		t.Errorf("Amdahl: %g at %g", s, n)
	}
	f := Fit{Serial: 0.05, Crosstalk: 0.001}
	s, n := f.Limit()
	if f.Speedup(n*1.1) >= s || f.Speedup(n*0.9) >= s {
		t.Errorf("USL: %g at %g is not the highest", s, n)
	}
	if f := (Fit{}); f.Speedup(64) != 64 {
		t.Errorf("without serial share 64 cores give %g", f.Speedup(64))
	}
}

// TestBounds: for runs that follow no law, parameters stay in bounds.
func TestBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		var runs []Run
		for range 3 + rnd.IntN(8) {
			runs = append(runs, Run{Size: float64(1 + rnd.IntN(1000)), Seconds: 0.1 + 1e4*rnd.Float64()})
		}
		for _, law := range []func([]Run) (Fit, error){Amdahl, USL} {
			f, err := law(runs)
			if errors.Is(err, ErrTooFew) {
				continue
			}
			if err != nil || !(f.Serial >= 0 && f.Serial <= 1) || !(f.Crosstalk >= 0) || !(f.OneCore > 0) {
				t.Fatalf("%v: %+v %v", runs, f, err)
			}
		}
	}
}
