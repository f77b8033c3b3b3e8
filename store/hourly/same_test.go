package hourly

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

func all() []*labels.Matcher {
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+")}
}

// lives generates samples of counters and gauges that start, end, go stale and restart at
// random, a minute apart, over some days. Most increases are uniform.
func lives(r *raw, rng *rand.Rand, n int, from, to int64) {
	const every = 60_000
	for i := range n {
		var c, g []point
		at := from
		if i%3 > 0 {
			at += rng.Int64N((to - from) / 2)
		}
		rate, v := 0.5+rng.Float64()*4, 0.0
		level := rng.Float64() * 100
		if i%3 == 0 {
			v = 1e4
		}
		for at < to {
			length := rng.Int64N(30*hour) + 5*60_000
			c = append(c, point{t: at, v: v})
			g = append(g, point{t: at, v: level})
			end := min(at+length, to)
			for at += every + rng.Int64N(1000); at < end; at += every {
				v += rate * (0.5 + rng.Float64()) * every / 1000
				level += rng.Float64()*4 - 2
				if rng.IntN(2000) == 0 {
					v = rate
				}
				c = append(c, point{t: at, v: v})
				g = append(g, point{t: at, v: level})
			}
			if at >= to {
				break
			}
			c = append(c, point{t: c[len(c)-1].t + 1, v: stale})
			g = append(g, point{t: g[len(g)-1].t + 1, v: stale})
			at += rng.Int64N(10 * hour)
			v = 0
		}
		r.append(lset("c_total", "i", fmt.Sprint(i)), c...)
		r.append(lset("g", "i", fmt.Sprint(i)), g...)
	}
}

// Rates and increases from hours equal those from all samples, on both sides of the time
// from which on all samples are read and across it.
func TestSameAsSamples(t *testing.T) {
	for seed := range uint64(2) {
		r := openRaw(t)
		s := openStore(t, r, t.TempDir())
		rng := rand.New(rand.NewPCG(seed, 7))
		const days = 3
		lives(r, rng, 30, t0, t0+days*day+5*hour)
		r.seal(t0 + days*day + 2*hour)
		pass(t, s)
		for _, c := range []struct {
			text        string
			step        int64
			each, whole float64 // allowed relative difference, of one series and of all together
		}{
			{"increase(c_total[1d])", day, 0.03, 0.005},
			{"rate(c_total[6h])", 6 * hour, 0.04, 0.005},
			{"rate(c_total[2h])", 2 * hour, 0.05, 0.005},
			{"avg_over_time(g[1d])", day, 0.15, 0.03},
		} {
			// Steps that are whole hours, and ones that are not.
			for _, shift := range []int64{0, 23 * 60_000} {
				from, to := t0+c.step+shift, t0+days*day+4*hour
				want, _ := query(t, r, c.text, from, to, c.step, 0)
				got, infos := query(t, s, c.text, from, to, c.step, lookback)
				if len(infos) != 1 {
					t.Fatalf("it is not said that hours were read: %v", infos)
				}
				if c.text[0] == 'a' && shift > 0 {
					c.each = 2 // a run shorter than an hour may be in another step
				}
				differ(t, fmt.Sprintf("seed %d, %s, shift %d min", seed, c.text, shift/60_000), got, want, c.each, c.whole)
			}
		}
	}
}

func differ(t *testing.T, name string, got, want promql.Matrix, each, whole float64) {
	t.Helper()
	find := map[string]map[int64]float64{}
	for _, s := range got {
		find[s.Metric.Get("i")] = map[int64]float64{}
		for _, p := range s.Floats {
			find[s.Metric.Get("i")][p.T] = p.F
		}
	}
	var sumWant, sumGot, worst float64
	n := 0
	for _, s := range want {
		most := 0.0 // of the series at any time
		for _, p := range s.Floats {
			most = max(most, math.Abs(p.F))
		}
		for _, p := range s.Floats {
			v := find[s.Metric.Get("i")][p.T]
			sumWant += p.F
			sumGot += v
			n++
			worst = max(worst, math.Abs(v-p.F)/most)
		}
	}
	off := math.Abs(sumGot-sumWant) / sumWant
	t.Logf("%s: sum off by %.3f %%, worst %.2f %% of %d", name, 100*off, 100*worst, n)
	if off > whole || worst > each {
		t.Errorf("%s: sum off by %.3f %%, worst %.2f %% of %d", name, 100*off, 100*worst, n)
	}
}

// BenchmarkYear runs the query of a page over a year: hours of 400 series, and the writing
// of one of their days.
func BenchmarkYear(b *testing.B) {
	r := openRaw(b)
	dir := b.TempDir()
	s := openStore(b, r, dir)
	for i := range 400 {
		var one []point
		for at := t0; at < t0+64*day+3*hour; at += 10 * 60_000 {
			one = append(one, point{t: at, v: float64(at-t0) / 1000 * float64(i)})
		}
		r.append(lset("c_total", "i", fmt.Sprint(i)), one...)
	}
	r.seal(t0 + 64*day + 2*hour)
	began := time.Now()
	if err := s.Pass(b.Context()); err != nil {
		b.Fatal(err)
	}
	made := time.Since(began)
	b.ReportAllocs()
	for b.Loop() {
		if got, _ := query(b, s, "sum(rate(c_total[1d]))", t0+day, t0+64*day, day, lookback); len(got) != 1 {
			b.Fatal(got)
		}
	}
	b.ReportMetric(float64(made.Milliseconds())/64, "ms/day-made")
	b.ReportMetric(float64(s.Bytes())/(400*24*64), "B/hour")
}
