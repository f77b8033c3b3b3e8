package stress

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCheck(t *testing.T) {
	one := func(l Level) Program { return Constant(l, time.Second) }
	for _, c := range []struct {
		name string
		p    Program
		want string // in the error; "" is none
	}{
		{"a core", one(Level{CPU: 1}), ""},
		{"a microsecond", Constant(Level{CPU: 1}, time.Microsecond), ""},
		{"nothing", Program{}, "no steps"},
		{"all 0", one(Level{}), "every step"},
		{"no time", Constant(Level{CPU: 1}, 0), "above 0"},
		{"time back", Constant(Level{CPU: 1}, -time.Second), "above 0"},
		{"two years", Constant(Level{CPU: 1}, 2*maxDuration), "a year"},
		{"not a number", one(Level{Memory: math.NaN()}), "memory_bytes is NaN"},
		{"below 0", one(Level{Network: -1}), "network_bytes_per_second is -1"},
		{"endless", one(Level{DiskRead: math.Inf(1)}), "io_read"},
		{"too few workers", Program{Steps: []Step{{Level{CPU: 3}, 1}}, Workers: 2}, "by 2 workers"},
		{"too many workers", Program{Steps: []Step{{Level{CPU: 3}, 1}}, Workers: 1 << 20}, "workers"},
		{"too many cores", one(Level{CPU: 1e6}), "at most"},
	} {
		err := c.p.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestWorkers(t *testing.T) {
	for cores, want := range map[float64]int{0: 0, 0.4: 1, 1: 1, 1.5: 2, 4: 4} {
		if got := Constant(Level{CPU: cores}, 1).workers(); got != want {
			t.Errorf("%g cores: %d workers, want %d", cores, got, want)
		}
	}
	p := Program{Steps: []Step{{Level{CPU: 0.8}, 1}}, Workers: 2}
	if got := p.workers(); got != 2 {
		t.Errorf("2x40%%: %d workers", got)
	}
}

func TestRamp(t *testing.T) {
	p, err := Ramp(Level{CPU: 2, Memory: 100}, 0, 1, 5, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var cores []float64
	for _, s := range p.Steps {
		cores = append(cores, s.Level[CPU])
		if s.Duration != 2*time.Second || s.Level[Memory] != 50*s.Level[CPU] {
			t.Errorf("step %+v", s)
		}
	}
	if want := []float64{0, 0.5, 1, 1.5, 2}; !reflect.DeepEqual(cores, want) {
		t.Errorf("cores %v, want %v", cores, want)
	}
	if p, err := Ramp(Level{CPU: 2}, 0.5, 1, 1, time.Second); err != nil || p.Steps[0].Level[CPU] != 1 {
		t.Errorf("one step: %+v, %v", p, err)
	}
	if _, err := Ramp(Level{CPU: 2}, 0, 1, 0, time.Second); err == nil {
		t.Error("no steps: no error")
	}
	if _, err := Ramp(Level{CPU: 2}, 0, 1, 2000, time.Second); err == nil {
		t.Error("steps of half a millisecond: no error")
	}
}

func TestRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "steps")
		d := time.Duration(rapid.Int64Range(int64(n)*int64(time.Millisecond), int64(time.Hour)).Draw(t, "length"))
		seed := rapid.Uint64().Draw(t, "seed")
		most := Level{CPU: 4, Memory: 1 << 30, Network: 5e6}
		p, err := Random(most, n, d, seed)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := Random(most, n, d, seed); !reflect.DeepEqual(p, again) {
			t.Fatal("the same seed gave another program")
		}
		// One resource less leaves the others unchanged.
		less, _ := Random(most.Only(CPU), n, d, seed)
		for i, s := range p.Steps {
			if less.Steps[i].Level[CPU] != s.Level[CPU] {
				t.Fatalf("step %d: CPU %g alone, %g with others", i, less.Steps[i].Level[CPU], s.Level[CPU])
			}
			for r, v := range s.Level {
				if v < 0 || v > most[r] {
					t.Fatalf("step %d: %s is %g of %g", i, Resource(r), v, most[r])
				}
			}
			if diff := s.Duration - d/time.Duration(n); diff < 0 || diff > 1 {
				t.Fatalf("step %d of %d in %s lasts %s", i, n, d, s.Duration)
			}
		}
		if len(p.Steps) != n || p.Duration() != d {
			t.Fatalf("%d steps in %s, want %d in %s", len(p.Steps), p.Duration(), n, d)
		}
	})
}

func TestCut(t *testing.T) {
	p := Program{Steps: []Step{{Level{CPU: 1}, 2 * time.Second}, {Level{CPU: 2}, time.Second}}}
	for d, want := range map[time.Duration]int{time.Second: 1, 2 * time.Second: 1, 2500 * time.Millisecond: 2, time.Hour: 2} {
		got := p.Cut(d)
		if len(got.Steps) != want || got.Duration() != min(d, 3*time.Second) {
			t.Errorf("cut at %s: %+v", d, got)
		}
	}
}

// The integral is the integral of the steps, at any time.
func TestCurve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Program
		for range rapid.IntRange(1, 8).Draw(t, "n") {
			p.Steps = append(p.Steps, Step{Level{CPU: float64(rapid.IntRange(0, 9).Draw(t, "level"))}, time.Duration(rapid.IntRange(1, 1000).Draw(t, "length"))})
		}
		c := newCurve(p, CPU)
		at := time.Duration(rapid.IntRange(-10, 9000).Draw(t, "at"))
		var want float64
		left := at
		for _, s := range p.Steps {
			if left > 0 {
				want += s.Level[CPU] * float64(min(left, s.Duration))
			}
			left -= s.Duration
		}
		if got := c.integralTo(at); got != want {
			t.Fatalf("due at %d: %g, want %g (%v)", at, got, want, p.Steps)
		}
		if c.end() != p.Duration() {
			t.Fatalf("end %s, want %s", c.end(), p.Duration())
		}
	})
}

// The amount owed is the amount due less done less dropped, and never beyond the limit.
func TestPace(t *testing.T) {
	c := newCurve(Program{Steps: []Step{{Level{CPU: 1}, 10 * time.Second}, {Level{CPU: 0}, time.Second}, {Level{CPU: 0.5}, 10 * time.Second}}}, CPU)
	rapid.Check(t, func(t *rapid.T) {
		p := pacer{targetCurve: c}
		var at time.Duration
		var done float64
		for range 50 {
			at += time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "dt"))
			done += rapid.Float64Range(0, 2e9).Draw(t, "work")
			owed := p.amountDue(at, done)
			if owed > float64(maxCatchUp) || owed < -float64(maxCatchUp) {
				t.Fatalf("owed %g at %s", owed, at)
			}
			if got := c.integralTo(at) - done - p.given; math.Abs(got-owed) > 1 {
				t.Fatalf("owed %g, but due less done less given is %g", owed, got)
			}
		}
	})
	// Within the limit nothing is dropped.
	p := pacer{targetCurve: c}
	if got := p.amountDue(400*time.Millisecond, 0); got != 400e6 || p.given != 0 {
		t.Errorf("400 ms late: owed %g, given up %g", got, p.given)
	}
	if got := p.amountDue(2*time.Second, 0); got != 500e6 || p.given != 1500e6 {
		t.Errorf("2 s late: owed %g, given up %g", got, p.given)
	}
}

// The deficit or excess of a step does not carry over to the next; the amount due since the
// last call does.
func TestPaceAtBorders(t *testing.T) {
	c := newCurve(Program{Steps: []Step{{Level{CPU: 1}, 10 * time.Second}, {Level{CPU: 0.1}, 10 * time.Second}}}, CPU)
	for name, x := range map[string]struct {
		before, after time.Duration // readings before and after the boundary
		done, want    float64
	}{
		"denied":                  {9900 * time.Millisecond, 10100 * time.Millisecond, 2e9, 0.11e9},
		"kept":                    {9900 * time.Millisecond, 10100 * time.Millisecond, 9.9e9, 0.11e9},
		"too much":                {9900 * time.Millisecond, 10100 * time.Millisecond, 12e9, 0.11e9},
		"held back at the border": {9 * time.Second, 13 * time.Second, 9e9, 0.05e9}, // 3 s at 0.1, limited
		"a moment longer":         {9600 * time.Millisecond, 10101 * time.Millisecond, 2e9, 0.0101e9},
		"as long as is caught up": {9600 * time.Millisecond, 10100 * time.Millisecond, 2e9, 0.41e9},
	} {
		p := pacer{targetCurve: c}
		p.amountDue(x.before, x.done)
		if got := p.amountDue(x.after, x.done); math.Abs(got-x.want) > 1 {
			t.Errorf("%s: %.4g s are owed, want %.4g", name, got/1e9, x.want/1e9)
		}
	}
}

func BenchmarkOwed(b *testing.B) {
	p, err := Ramp(Level{CPU: 4}, 0, 1, 1000, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	q := pacer{targetCurve: newCurve(p, CPU)}
	b.ReportAllocs()
	for b.Loop() {
		q.amountDue(time.Minute, 1e9)
	}
}
