package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	day  = 24
	week = 7 * day
)

// made returns a series of some days, as a function of the hour.
func made(days int, f func(i int) float64) []float64 {
	y := make([]float64, days*day)
	for i := range y {
		y[i] = f(i)
	}
	return y
}

func daily(i int) float64 { return 100 + 50*math.Sin(2*math.Pi*float64(i)/day) }

// weekly has a daily swing on five days of seven.
func weekly(i int) float64 {
	if i/day%7 >= 5 {
		return 20
	}
	return daily(i)
}

func noise(r *rand.Rand, size float64, f func(int) float64) func(int) float64 {
	return func(i int) float64 { return f(i) + size*r.NormFloat64() }
}

func hourly(y []float64) Input { return Input{Values: y, Step: time.Hour, Horizon: day} }

// sound checks what must hold for every forecast.
func sound(t *testing.T, in Input, r Result) {
	t.Helper()
	if len(r.Point) != in.Horizon || len(r.Low) != in.Horizon || len(r.High) != in.Horizon {
		t.Fatalf("%d, %d and %d steps, want %d", len(r.Point), len(r.Low), len(r.High), in.Horizon)
	}
	for k, v := range r.Point {
		for _, x := range []float64{v, r.Low[k], r.High[k]} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("step %d: %v", k, x)
			}
			if x < in.Floor || in.Capacity > 0 && x > in.Capacity {
				t.Fatalf("step %d: %v is not within %v to %v", k, x, in.Floor, in.Capacity)
			}
		}
		if r.Low[k] > v || v > r.High[k] {
			t.Fatalf("step %d: %v is not within its band %v to %v", k, v, r.Low[k], r.High[k])
		}
	}
}

// TestOdd: unusual histories have a defined answer and the flag that explains it.
func TestOdd(t *testing.T) {
	nan := math.NaN()
	holes := func(y []float64, from, to int) []float64 {
		for i := from; i < to; i++ {
			y[i] = nan
		}
		return y
	}
	spike := made(28, daily)
	spike[400] = 1e12
	zeroSpike := made(28, func(int) float64 { return 0 })
	zeroSpike[300] = 1e12
	for _, c := range []struct {
		name      string
		in        Input
		flag, not Flags
		low, high float64 // of the first day's forecast
	}{
		{"nothing", hourly(nil), NoHistory, 0, 0, 0},
		{"only holes", hourly([]float64{nan, nan, math.Inf(1)}), NoHistory, 0, 0, 0},
		{"one sample", hourly([]float64{5}), Short, 0, 5, 5},
		{"two samples", hourly([]float64{5, 7}), Short, 0, 5, 7},
		{"a step short of two days", hourly(made(2, daily)[1:]), Short, 0, 0, 300},
		{"two days", hourly(made(2, daily)), 0, Short, 49, 151},
		{"all zeros", hourly(made(28, func(int) float64 { return 0 })), Constant, Short, 0, 0},
		{"constant", hourly(made(28, func(int) float64 { return 7 })), Constant, Short, 7, 7},
		{"spike", hourly(spike), Spike, 0, 45, 155},
		{"zeros and a spike", hourly(zeroSpike), Spike | Constant, 0, 0, 0},
		{"nine in ten recorded", hourly(holes(made(20, daily), 100, 148)), Gaps, 0, 45, 155},
		{"more than nine in ten recorded", hourly(holes(made(20, daily), 100, 147)), 0, Gaps, 45, 155},
		{"a year of gaps", hourly(append(append(made(10, daily), holes(made(365, daily), 0, 365*day)...), made(3, daily)...)), 0, Short | NoHistory, 0, 200},
		{"a week without a record", hourly(append(append(made(9, func(int) float64 { return 1e6 }), holes(made(7, daily), 0, week)...), made(5, daily)...)), Gaps, 0, 30, 170},
		{"the last step missing", hourly(holes(made(28, daily), 28*day-1, 28*day)), 0, Stale, 45, 155},
		{"the last two steps missing", hourly(holes(made(28, daily), 28*day-2, 28*day)), Stale, 0, 45, 155},
		{"no day's step", Input{Values: made(10, daily), Step: 7 * time.Minute, Horizon: 12}, 0, Short, 30, 170},
		{"nothing to forecast", Input{Values: made(10, daily), Step: time.Hour}, 0, 0, 0, 0},
		{"infinite values", hourly(append(made(5, daily), math.Inf(1), math.Inf(-1), 100)), 0, 0, 0, 200},
		{"huge values", hourly(made(28, func(i int) float64 { return daily(i) * 1e300 })), 0, 0, 0, math.MaxFloat64},
		{"tiny values", hourly(made(28, func(i int) float64 { return daily(i) * 1e-300 })), 0, 0, 0, 1},
		{"growing beyond the capacity", Input{Values: made(28, func(i int) float64 { return float64(i) }), Step: time.Hour, Horizon: 48, Capacity: 680}, Clipped, 0, 600, 680},
		{"falling below zero", hourly(made(28, func(i int) float64 { return max(672-float64(i)*1.01, 0) })), 0, 0, 0, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Run(c.in)
			sound(t, c.in, r)
			if r.Flags&c.flag != c.flag || r.Flags&c.not != 0 {
				t.Errorf("flags %v, want %v and not %v", r.Flags.Names(), c.flag.Names(), c.not.Names())
			}
			for k, v := range r.Point {
				if v < c.low-1e-9 || v > c.high+1e-9 {
					t.Errorf("step %d: %v is not within %v to %v", k, v, c.low, c.high)
					break
				}
			}
		})
	}
}

// TestSeasons: seasons are detected where they exist, and only there.
func TestSeasons(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		y    []float64
		want []time.Duration
	}{
		{"day", made(28, noise(r, 5, daily)), []time.Duration{24 * time.Hour}},
		{"day and week", made(28, noise(r, 5, weekly)), []time.Duration{24 * time.Hour, 168 * time.Hour}},
		{"none", made(28, noise(r, 5, func(int) float64 { return 100 })), nil},
		{"seven hours", made(28, noise(r, 2, func(i int) float64 { return 100 + 30*math.Sin(2*math.Pi*float64(i)/7) })), []time.Duration{7 * time.Hour}},
	} {
		got := Run(hourly(c.y))
		if !slices.Equal(got.Seasons, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got.Seasons, c.want)
		}
		if (got.Flags&Seasonless != 0) != (c.want == nil) {
			t.Errorf("%s: flags %v", c.name, got.Flags.Names())
		}
	}
}

// TestBetter: on series with a season the error is smaller than the seasonal naive forecast's, and
// the band contains the future values.
func TestBetter(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name  string
		f     func(int) float64
		ratio float64 // ratio of the error to the seasonal naive forecast's
	}{
		{"day", noise(r, 10, daily), 0.85},
		{"week", noise(r, 10, weekly), 0.75},
		{"growth", noise(r, 5, func(i int) float64 { return daily(i) + float64(i)/4 }), 0.9},
		{"the swing grows with the level", func(i int) float64 { return daily(i) * math.Exp(float64(i)/800+0.05*r.NormFloat64()) }, 0.9},
	} {
		var ours, naive, inside, n float64
		for range 12 {
			y := made(30, c.f)
			truth := y[28*day:]
			in := Input{Values: y[:28*day], Step: time.Hour, Horizon: 2 * day}
			got := Run(in)
			sound(t, in, got)
			ours += MAE(truth, got.Point)
			naive += MAE(truth, repeatSeason(in.Values, day, 2*day))
			for k, v := range truth {
				n++
				if got.Low[k] <= v && v <= got.High[k] {
					inside++
				}
			}
		}
		if ours > c.ratio*naive {
			t.Errorf("%s: the error is %.2f of the seasonal naive one's, want %.2f or less", c.name, ours/naive, c.ratio)
		}
		if inside/n < 0.88 {
			t.Errorf("%s: the band holds %.1f %%", c.name, 100*inside/n)
		}
	}
}

// TestLevelShift tests both sides: two days at another level are a shift, one day is not yet.
func TestLevelShift(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for days, want := range map[int]bool{0: false, 1: false, 2: true, 4: true, 7: true} {
		y := made(20, noise(r, 2, daily))
		for i := len(y) - days*day; i < len(y); i++ {
			y[i] += 300
		}
		got := Run(hourly(y))
		if (got.Flags&LevelShift != 0) != want {
			t.Errorf("%d days at another level: flags %v", days, got.Flags.Names())
		}
		if days == 2 && (got.Point[0] < 300 || got.Point[0] > 500) {
			t.Errorf("after the shift the forecast is %.0f, want about 400", got.Point[0])
		}
	}
}

// TestClockChange: work that starts at nine by the wall clock is forecast for nine on both sides of a clock change.
func TestClockChange(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here:", err)
	}
	for _, end := range []time.Time{
		time.Date(2026, 3, 28, 12, 0, 0, 0, berlin), // the clock is set forward within the horizon
		time.Date(2026, 4, 1, 0, 0, 0, 0, berlin),   // and within the history
		time.Date(2026, 10, 24, 12, 0, 0, 0, berlin),
		time.Date(2026, 10, 29, 0, 0, 0, 0, berlin),
	} {
		work := func(at time.Time) float64 {
			if h := at.In(berlin).Hour(); h >= 9 && h < 17 {
				return 100
			}
			return 10
		}
		n, horizon := 20*day, 36
		start := end.Add(-time.Duration(n) * time.Hour)
		y := make([]float64, n)
		for i := range y {
			y[i] = work(start.Add(time.Duration(i) * time.Hour))
		}
		r := Run(Input{Values: y, Start: start, Step: time.Hour, Location: berlin, Horizon: horizon})
		if r.Flags&ClockChange == 0 {
			t.Errorf("until %v: flags %v", end, r.Flags.Names())
		}
		for k, v := range r.Point {
			if at := end.Add(time.Duration(k) * time.Hour); math.Abs(v-work(at)) > 5 {
				t.Errorf("%v: %.1f, want %.0f", at, v, work(at))
			}
		}
	}
}

// TestPastOnly: a forecast does not depend on future values: the reported error comes from the past alone, and the same values
// give the same forecast.
func TestPastOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	y := made(28, noise(r, 10, weekly))
	a := Run(hourly(y[:20*day]))
	clone := slices.Clone(y[:20*day])
	b := Run(hourly(clone))
	if !slices.Equal(a.Point, b.Point) || !slices.Equal(clone, y[:20*day]) {
		t.Error("the forecast is not a function of the past alone, or changed it")
	}
	if a.Origins != 3 || !(a.BacktestMAE > 0) || !(a.NaiveMAE > a.BacktestMAE) {
		t.Errorf("%d origins, error %v, seasonal naive %v", a.Origins, a.BacktestMAE, a.NaiveMAE)
	}
}

func FuzzRun(f *testing.F) {
	f.Add([]byte{1, 2, 3, 255, 0, 7}, uint8(24), int64(3600))
	f.Add(make([]byte, 400), uint8(50), int64(300))
	f.Fuzz(func(t *testing.T, data []byte, horizon uint8, step int64) {
		y := make([]float64, len(data))
		for i, b := range data {
			switch y[i] = float64(b); b {
			case 255:
				y[i] = math.NaN()
			case 254:
				y[i] = math.Inf(1)
			case 253:
				y[i] = 1e307
			}
		}
		in := Input{Values: y, Step: time.Duration(step%1e6) * time.Second, Horizon: int(horizon), Capacity: 1e6, Start: time.Unix(1.7e9, 0)}
		sound(t, in, Run(in))
	})
}

func TestScores(t *testing.T) {
	y, f := []float64{1, 2, 0, math.NaN()}, []float64{2, 2, 0, 9}
	if got := MAE(y, f); math.Abs(got-1.0/3) > 1e-12 {
		t.Errorf("MAE %v", got)
	}
	if got := SMAPE(y[:3], f[:3]); math.Abs(got-200.0/9) > 1e-12 {
		t.Errorf("sMAPE %v", got)
	}
	if got := Scale([]float64{1, 2, 3, 5}, 2); got != 2.5 {
		t.Errorf("scale %v", got)
	}
	if got := OWA(10, 20, 1, 4); got != 0.375 {
		t.Errorf("OWA %v", got)
	}
	if got := MSIS([]float64{5, 12}, []float64{0, 0}, []float64{10, 10}, 2); math.Abs(got-(20+80)/2/2) > 1e-9 {
		t.Errorf("MSIS %v", got)
	}
}

func BenchmarkRun(b *testing.B) {
	r := rand.New(rand.NewPCG(9, 10))
	in := hourly(made(28, noise(r, 10, weekly)))
	b.ReportAllocs()
	for b.Loop() {
		Run(in)
	}
}
