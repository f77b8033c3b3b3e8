package misuse

import (
	"fmt"
	"math"
	"time"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

// Line is a figure on an even grid of time; NaN where it is not known.
type Line struct {
	Start  time.Time
	Step   time.Duration
	Values []float64
}

// stretch is the time in which a figure was above a limit for at least some time on end.
type stretch struct {
	first, last   time.Time
	seconds, mean float64
}

// above finds it: all steps that are part of a window of that length, known throughout,
// whose mean is at the limit or above.
func (l *Line) above(limit float64, window time.Duration) (s stretch, found bool) {
	if l == nil || l.Step <= 0 {
		return s, false
	}
	n := max(1, int((window+l.Step-1)/l.Step))
	in := make([]bool, len(l.Values))
	sum := 0.0
	known := 0 // steps on end that are known
	for i, v := range l.Values {
		if math.IsNaN(v) {
			sum, known = 0, 0
			continue
		}
		sum, known = sum+v, known+1
		if known > n {
			sum -= l.Values[i-n]
		}
		if known >= n && sum/float64(n) >= limit {
			for k := i - n + 1; k <= i; k++ {
				in[k] = true
			}
		}
	}
	total := 0.0
	for i, yes := range in {
		if !yes {
			continue
		}
		at := l.Start.Add(time.Duration(i) * l.Step)
		if !found {
			s.first, found = at, true
		}
		s.last = at.Add(l.Step)
		s.seconds += l.Step.Seconds()
		total += l.Values[i] * l.Step.Seconds()
	}
	if found {
		s.mean = total / s.seconds
	}
	return s, found
}

// when is the time of a stretch for people, in UTC, which is what all times of the server are.
func (s *stretch) when() string {
	return fmt.Sprintf("for %s from %s UTC on", Span(s.seconds), s.first.UTC().Format("2006-01-02 15:04"))
}

// thrashing: swapping, reading its own pages back from disk, or held back by its quota, for
// at least the time of the rule on end. Where only totals are known, over its whole life.
func thrashing(w *Workload, p *Policy) (out []Finding) {
	t := p.MemoryThrashing
	wall := w.Wall()
	if !t.On || wall < t.Minimum.Seconds() {
		return nil
	}
	whole := stretch{first: w.Start, last: w.Last, seconds: wall}
	for _, k := range []struct {
		part, figure, unit string
		severity           Severity
		line               *Line
		limit              float64
		mean               float64 // over its whole life; NaN when not known
	}{
		{"faults", "major faults in that time", "1/s", Medium, w.Faults, t.FaultRate, per(w.MajorFaults, wall)},
		{"swap", "swapped out in that time", "ratio", Medium, w.Swapped, t.SwapShare, w.swapped()},
		{"quota", "held back by the quota in that time", "ratio", Low, w.Throttles, t.ThrottledShare, per(w.Throttled, wall)},
	} {
		s, found := whole, k.mean >= k.limit
		s.mean = k.mean
		if k.line != nil {
			s, found = k.line.above(k.limit, time.Duration(t.Minimum))
		}
		if !found || k.part == "swap" && (!known(w.SwapPeak) || *w.SwapPeak < leastSwap) {
			continue
		}
		out = append(out, w.finding(MemoryThrashing, k.severity, k.part, "memory-thrashing."+k.part,
			phrase.Words{"rate": format.Count(math.Round(s.mean)), "share": format.Percent(s.mean), "when": s.when()},
			Evidence{Text: k.figure, Value: s.mean, Unit: k.unit, Limit: limit(k.limit)},
			Evidence{Text: "for", Value: s.seconds, Unit: "seconds", Limit: limit(t.Minimum.Seconds())}))
	}
	return out
}

// leastSwap is what is worth a word, bytes; the pages of programs that sleep are swapped out
// for good.
const leastSwap = 64 << 20

func per(total *float64, seconds float64) float64 {
	if !known(total) {
		return math.NaN()
	}
	return *total / seconds
}

func (w *Workload) swapped() float64 {
	if !known(w.SwapPeak) || !known(w.MemoryPeak) {
		return math.NaN()
	}
	return *w.SwapPeak / (*w.MemoryPeak + *w.SwapPeak)
}
