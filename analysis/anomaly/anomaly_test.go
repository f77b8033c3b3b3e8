package anomaly

import (
	"math"
	"math/rand/v2"
	"testing"
)

const day = 96 // steps of a quarter of an hour

// made returns days of a daily pattern with noise.
func made(days int, seed uint64, change func(i int, v float64) float64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	y := make([]float64, days*day)
	for i := range y {
		y[i] = 100 + 40*math.Sin(2*math.Pi*float64(i)/day) + 3*r.NormFloat64()
		if change != nil {
			y[i] = change(i, y[i])
		}
	}
	return y
}

// TestPlanted: each planted fault yields one event, detected within the allowed delay; -v prints the delay.
func TestPlanted(t *testing.T) {
	const at = 12*day + 30
	for _, c := range []struct {
		name  string
		fault func(i int, v float64) float64
		delay int // steps
		kind  Kind
	}{
		{"spike", func(i int, v float64) float64 {
			if i >= at && i < at+2 {
				return v + 80
			}
			return v
		}, 0, High},
		{"shift", func(i int, v float64) float64 {
			if i >= at {
				return v + 40
			}
			return v
		}, 2, ""},
		{"small shift", func(i int, v float64) float64 {
			if i >= at && i < at+day {
				return v + 9
			}
			return v
		}, day / 4, Shift},
		{"drop", func(i int, v float64) float64 {
			if i >= at && i < at+8 {
				return 0
			}
			return v
		}, 0, Low},
		{"stuck", func(i int, v float64) float64 {
			if i >= at && i < at+day {
				return 130
			}
			return v
		}, day / 2, ""},
		{"drift", func(i int, v float64) float64 {
			if i >= at && i < at+day {
				return v + 60*float64(i-at)/day
			}
			return v
		}, day / 2, ""},
		{"missing season", func(i int, v float64) float64 {
			if i >= at && i < at+day {
				return 100
			}
			return v
		}, day / 2, ""},
	} {
		got := Detect(made(14, 7, c.fault), Config{Day: day})
		if len(got) != 1 {
			t.Errorf("%s: %d events, want 1: %+v", c.name, len(got), got)
			continue
		}
		e := got[0]
		if e.First < at || e.First > at+c.delay || c.kind != "" && e.Kind != c.kind {
			t.Errorf("%s: %s at %d, want %s at %d to %d", c.name, e.Kind, e.First, c.kind, at, at+c.delay)
		}
		t.Logf("%s: found after %d steps of a quarter of an hour, score %.1f", c.name, e.First-at, e.Score)
	}
}

// TestQuiet: usual values yield no event.
func TestQuiet(t *testing.T) {
	events, days := 0, 0
	for seed := range uint64(20) {
		for _, y := range [][]float64{made(21, seed, nil), made(21, seed, func(int, float64) float64 { return 5 }), made(21, seed, func(i int, v float64) float64 {
			if i%day >= 20 && i%day < 23 { // a burst that recurs every day
				return v + 200
			}
			return v
		})} {
			events += len(Detect(y, Config{Day: day}))
			days += 21
		}
	}
	if rate := float64(events) / float64(days); rate >= 0.02 {
		t.Errorf("%.3f false events a day", rate)
	}
}

// TestCausal: the score of a step does not change when later data is cut off.
func TestCausal(t *testing.T) {
	y := made(10, 3, func(i int, v float64) float64 {
		if i > 8*day {
			return v + 30
		}
		return v
	})
	whole := Scores(y, Config{Day: day})
	for _, n := range []int{day, 3*day + 7, 8*day + 1, 9 * day} {
		for i, s := range Scores(y[:n], Config{Day: day}) {
			if s != whole[i] {
				t.Fatalf("step %d of %d: %v, with all data %v", i, n, s, whole[i])
			}
		}
	}
}

// TestOdd: no input causes a failure or a score that is not finite.
func TestOdd(t *testing.T) {
	nan := math.NaN()
	for name, y := range map[string][]float64{
		"nothing": nil, "one": {1}, "two": {1, 2}, "holes": {nan, nan, nan}, "infinite": {1, math.Inf(1), 2, math.Inf(-1)},
		"zeros": make([]float64, 500), "huge": made(5, 1, func(i int, v float64) float64 { return v * 1e300 }), "gaps": made(10, 1, func(i int, v float64) float64 {
			if i%3 == 0 || i > 4*day && i < 6*day {
				return nan
			}
			return v
		}),
	} {
		for i, s := range Scores(y, Config{Day: day}) {
			if math.IsNaN(s) || math.IsInf(s, 0) || s < 0 {
				t.Errorf("%s: score %v at %d", name, s, i)
			}
		}
		if e := Detect(y, Config{Day: day}); name != "infinite" && name != "huge" && len(e) > 1 {
			t.Errorf("%s: %d events", name, len(e))
		}
	}
}

func TestClimbing(t *testing.T) {
	line := func(n int, f func(i int) float64) []float64 {
		y := make([]float64, n)
		for i := range y {
			y[i] = f(i)
		}
		return y
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name  string
		y     []float64
		limit float64
		want  bool
	}{
		{"a leak", line(24, func(i int) float64 { return 100 + 10*float64(i) }), 1000, true},
		{"too far away", line(24, func(i int) float64 { return 100 + 10*float64(i) }), 1100, false}, // 77 steps
		{"just near enough", line(24, func(i int) float64 { return 100 + 10*float64(i) }), 1050, true},
		{"eleven values", line(11, func(i int) float64 { return 100 + 10*float64(i) }), 400, false},
		{"twelve values", line(12, func(i int) float64 { return 100 + 10*float64(i) }), 400, true},
		{"level", line(48, func(int) float64 { return 500 }), 1000, false},
		{"noise", line(48, func(int) float64 { return 500 + 50*r.NormFloat64() }), 1000, false},
		{"a leak with noise", line(48, func(i int) float64 { return 100 + 10*float64(i) + 10*r.NormFloat64() }), 900, true},
		{"a saw", line(48, func(i int) float64 { return 100 + 50*float64(i%12) }), 800, false},
		{"one jump", line(48, func(i int) float64 {
			if i > 40 {
				return 800
			}
			return 100
		}), 1000, false},
		{"at the limit already", line(24, func(i int) float64 { return 100 + 10*float64(i) }), 300, false},
		{"no limit", line(24, func(i int) float64 { return 100 + 10*float64(i) }), 0, false},
	} {
		got, ok := DetectClimb(c.y, c.limit, 72)
		if ok != c.want {
			t.Errorf("%s: %v, %+v", c.name, ok, got)
		}
	}
}

func TestPeers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	group := func(n int, odd func(t int) float64) [][]float64 {
		out := make([][]float64, n)
		for i := range out {
			for k := range 24 {
				v := 100 + 10*r.NormFloat64()
				if i == 3 {
					v += odd(k)
				}
				out[i] = append(out[i], v)
			}
		}
		return out
	}
	for _, c := range []struct {
		name string
		n    int
		odd  func(t int) float64
		want int
	}{
		{"alike", 20, func(int) float64 { return 0 }, 0},
		{"one far above", 20, func(int) float64 { return 200 }, 1},
		{"one far below", 20, func(int) float64 { return -200 }, 1},
		{"seven are no group", 7, func(int) float64 { return 200 }, 0},
		{"eight are", 8, func(int) float64 { return 300 }, 1},
		{"for half of the time", 20, func(t int) float64 { return 200 * float64(t%2) }, 0},
		{"on both sides", 20, func(t int) float64 { return 300 - 600*float64(t%2) }, 0},
	} {
		got := FindOutliers(group(c.n, c.odd))
		if len(got) != c.want || c.want == 1 && got[0].Index != 3 {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if got := FindOutliers(nil); got != nil {
		t.Errorf("%+v", got)
	}
}

func BenchmarkDetect(b *testing.B) {
	y := made(35, 1, nil)
	b.ReportAllocs()
	for b.Loop() {
		Detect(y, Config{Day: day})
	}
}

// Scores returns the score of every step; 1 is the default threshold.
func Scores(y []float64, c Config) []float64 {
	d := newDetector(y, c)
	out := make([]float64, len(y))
	for t := range y {
		out[t] = d.scoreStep(t).score
	}
	return out
}
