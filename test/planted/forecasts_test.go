package planted

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
)

// step and forecast1 are the parts of the JSON of a forecast that are compared.
type step struct {
	At                time.Time
	Median, Low, High float64
	Mean              *float64
}

type forecast1 struct {
	Figure   string
	Kept     bool
	Backtest *float64
	Error    *struct{ Mean float64 }
	Flags    []string
	Steps    []step
}

// future is a subject of forecasts: what it will use, and what it has at most.
type future struct {
	command  string
	of       map[string]func(time.Time) float64
	capacity map[string]float64
	// rough is set where jobs come that nobody planned: the mean of the days before is expected.
	rough bool
	// climbs is set where a level climbs: it is no mistake to be behind it.
	climbs string
	flags  string // which every figure must have
}

// everyDay continues a daily job into the days to come.
func everyDay(f func(time.Time) float64, now time.Time, hour, hours, more float64) func(time.Time) float64 {
	return func(t time.Time) float64 {
		if h := hourOf(t); t.Before(now) || h < hour || h >= hour+hours {
			return f(t)
		}
		return f(t) + more
	}
}

func (p *plan) futures() []future {
	cores := func(node, owner, name string) func(time.Time) float64 { return coresOf(p.loadsOf(node, owner, name)) }
	memory := func(node, owner, name string, more float64) func(time.Time) float64 {
		f := bytesOf(p.loadsOf(node, owner, name))
		return func(t time.Time) float64 { return f(t) + more }
	}
	big1, sim := p.of("big1"), p.last("sim")
	daily := func(f func(time.Time) float64, more float64) func(time.Time) float64 {
		return everyDay(f, p.hour, 2, 3, more)
	}
	busy := daily(cores("big1", "", ""), sim.used)
	type by = map[string]func(time.Time) float64
	return []future{
		{command: "forecast --node big1", of: by{"cores": busy, "memory_bytes": daily(memory("big1", "", "", idleBytes), sim.peak),
			"watts": func(t time.Time) float64 { return big1.watts(busy(t)) }}, capacity: map[string]float64{"cores": 64, "memory_bytes": big1.memory}},
		{command: "forecast --node hush1", of: by{"cores": cores("hush1", "", ""), "memory_bytes": memory("hush1", "", "", idleBytes),
			"watts": p.of("hush1").wattsOf()}, capacity: map[string]float64{"cores": 16}, flags: "stale"},
		{command: "forecast --owner www", of: by{"cores": cores("", "www", ""), "memory_bytes": memory("", "www", "", 0)}},
		{command: "forecast --owner alice", of: by{"cores": daily(fixed(0), sim.used), "memory_bytes": daily(fixed(0), sim.peak)}},
		{command: "forecast unit/web.service", of: by{"cores": cores("", "", "web"), "memory_bytes": memory("", "", "web", 0)},
			capacity: map[string]float64{"memory_bytes": 16 * gib}},
		{command: "forecast unit/fifth.service", of: by{"cores": cores("", "", "fifth"), "memory_bytes": memory("", "", "fifth", 0)}},
		{command: "forecast unit/hush.service", of: by{"cores": cores("", "", "hush"), "memory_bytes": memory("", "", "hush", 0)}, flags: "stale"},
		{command: "forecast unit/leaky.service", of: by{"cores": cores("", "", "leaky"), "memory_bytes": memory("", "", "leaky", 0)},
			capacity: map[string]float64{"memory_bytes": 16 * gib}, climbs: "memory_bytes"},
		{command: "forecast unit/grown.service", of: by{"cores": cores("", "", "grown"), "memory_bytes": memory("", "", "grown", 0)}},
		{command: "forecast deployment/shop/cart", of: by{"cores": cores("", "", "cart"), "memory_bytes": memory("", "", "cart", 0)},
			capacity: map[string]float64{"memory_bytes": 4 * gib}},
		{command: "forecast", of: by{"cores": p.site(daily(fixed(0), sim.used))}, capacity: map[string]float64{"cores": 208}, rough: true},
	}
}

// site is the use of cores of the machines that have samples of a day, in the mean of days with the jobs of bob and dora.
func (p *plan) site(sim func(time.Time) float64) func(time.Time) float64 {
	var list []*load
	for _, m := range p.machines {
		if m.silent.IsZero() && m.from.Before(p.hour.AddDate(0, 0, -1)) {
			list = append(list, m.loads...)
		}
	}
	f := coresOf(list)
	return func(t time.Time) float64 { return f(t) + sim(t) + 8*2.0/24/3 + 2*4.0/24/2 }
}

// wrong compares a forecast with what comes.
func (f *future) wrong(got *forecast1) (wrong []string) {
	truth := f.of[got.Figure]
	bad := func(format string, args ...any) { wrong = append(wrong, got.Figure+": "+fmt.Sprintf(format, args...)) }
	if len(got.Steps) < 40 {
		bad("%d steps", len(got.Steps))
		return wrong
	}
	inside, mean, came := 0, 0.0, 0.0
	off := 0.0
	if got.Backtest != nil {
		off = 3 * *got.Backtest
	}
	for i, s := range got.Steps {
		v := over(truth, s.At, s.At.Add(time.Hour))
		if s.Low > s.Median || s.Median > s.High || s.Low < 0 {
			bad("%v: %g to %g about %g", s.At, s.Low, s.High, s.Median)
		}
		if c := f.capacity[got.Figure]; c > 0 && s.High > c*1.001 {
			bad("%v: up to %g of %g", s.At, s.High, c)
		}
		if room := 0.03*v + 0.02; v >= s.Low-room && v <= s.High+room {
			inside++
		}
		if i == 0 && math.Abs(expected(s)-v) > math.Max(0.06*v+0.03, off) && !f.rough {
			bad("the next hour is %.4g, %.4g was planted; the error is stated as %.3g", expected(s), v, off/3)
		}
		mean, came = mean+expected(s)/float64(len(got.Steps)), came+v/float64(len(got.Steps))
	}
	if share := float64(inside) / float64(len(got.Steps)); share < 0.85 {
		bad("the band of 95 %% holds %.0f %% of the hours", 100*share)
	}
	room := math.Max(0.06*came+0.01, off)
	if f.rough {
		room = math.Max(0.15*came, off)
	}
	if f.climbs != got.Figure && math.Abs(mean-came) > room {
		bad("the mean is %.4g, %.4g was planted; the error is stated as %.3g", mean, came, off/3)
	}
	if !strings.Contains(strings.Join(got.Flags, " "), f.flags) {
		bad("the flags are %v, without %s", got.Flags, f.flags)
	}
	return wrong
}

func expected(s step) float64 {
	if s.Mean != nil {
		return *s.Mean
	}
	return s.Median
}

var amounts = regexp.MustCompile(amount)

// row compares the line of a table with the steps that it sums up: next hour, mean, least, most and band.
func row(line string, steps []step) error {
	next := expected(steps[0])
	least, most, sum, low, high := next, next, 0.0, steps[0].Low, steps[0].High
	for _, s := range steps {
		v := expected(s)
		least, most, sum = math.Min(least, v), math.Max(most, v), sum+v/float64(len(steps))
		low, high = math.Min(low, s.Low), math.Max(high, s.High)
	}
	shown := amounts.FindAllString(line, -1)
	for i, v := range []float64{next, sum, least, most, low, high} {
		if i >= len(shown) {
			return fmt.Errorf("%d numbers", len(shown))
		}
		if err := near(v, 1e-9).holds(shown[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkForecasts compares forecasts, as text and as JSON, with what comes.
func (s *site) checkForecasts(t *testing.T, p *plan) {
	for _, f := range p.futures() {
		args := strings.Fields(f.command)
		var got struct{ Forecasts []forecast1 }
		check(t, json.Unmarshal([]byte(s.ask(append(args, "--format", "json")...)), &got))
		text := s.ask(args...)
		found := map[string]bool{}
		for i := range got.Forecasts {
			one := &got.Forecasts[i]
			if found[one.Figure] = true; f.of[one.Figure] != nil {
				for _, wrong := range f.wrong(one) {
					t.Errorf("%s: %s", f.command, wrong)
				}
			}
			name := strings.TrimSuffix(one.Figure, "_bytes")
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, name+" ") {
					if err := row(strings.TrimPrefix(line, name), one.Steps); err != nil {
						t.Errorf("%s: %v: %s", f.command, err, line)
					}
				}
			}
		}
		for figure := range f.of {
			if !found[figure] {
				t.Errorf("%s: no forecast of %s\n%s", f.command, figure, text)
			}
		}
	}
}
