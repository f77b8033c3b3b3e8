package misuse

import (
	"math"
	"time"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

// Line is a figure on an even time grid; NaN where unknown.
type Line struct {
	Start  time.Time
	Step   time.Duration
	Values []float64
}

// interval is a period of at least a minimum duration with a figure above a limit.
type interval struct {
	first, last   time.Time
	seconds, mean float64
}

// stretchAbove returns the time from the first to the last step that lies in a window with a mean of at least limit. Windows have the
// given length, and all their values must be known. The mean and the seconds in s cover only steps in such windows.
func (l *Line) stretchAbove(limit float64, window time.Duration) (s interval, found bool) {
	if l == nil || l.Step <= 0 {
		return s, false
	}
	n := max(1, int((window+l.Step-1)/l.Step))
	in := make([]bool, len(l.Values))
	sum := 0.0
	known := 0 // consecutive known steps
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

// formatPeriod formats the time of a stretch for people, in UTC, as all times of the server.
func (s *interval) formatPeriod() phrase.Text {
	return phrase.Join("for ", Span(s.seconds), " from ", phrase.Moment(s.first, "2006-01-02 15:04"), " UTC on")
}

func (t *MemoryThrashingRule) needs() (Needs, bool) { return Needs{Ran: t.Minimum}, t.On }

func (t *MemoryThrashingRule) lines() (least map[string]float64, folded bool) {
	return map[string]float64{"major_faults": 3000, "cpu_throttled_seconds": 30, "swap_peak_bytes": leastSwap}, false
}

// judge finds work that, for at least the rule's duration without a break, swaps, rereads its own pages from disk, or
// is throttled by its quota. If only totals are known, it takes their mean over the whole run.
func (t *MemoryThrashingRule) judge(w *Workload, _ *Policy) (out []Finding) {
	wall := w.Wall()
	whole := interval{first: w.Start, last: w.Last, seconds: wall}
	for _, k := range []struct {
		part, figure, unit string
		severity           Severity
		line               *Line
		limit              float64
		mean               float64 // over the whole run; NaN if unknown
	}{
		{"faults", "major faults in that time", "1/s", Medium, w.Lines["major_faults"], t.FaultRate, perSecond(w.MajorFaults, wall)},
		{"swap", "swapped out in that time", "ratio", Medium, w.Lines["swap_peak_bytes"], t.SwapShare, w.swappedBytes()},
		{"quota", "throttled by the quota in that time", "ratio", Low, w.Lines["cpu_throttled_seconds"], t.ThrottledShare,
			perSecond(w.ThrottledSeconds, wall)},
	} {
		s, found := whole, k.mean >= k.limit
		s.mean = k.mean
		if k.line != nil {
			s, found = k.line.stretchAbove(k.limit, time.Duration(t.Minimum))
		}
		if !found || k.part == "swap" && (!isKnown(w.SwapBytes) || *w.SwapBytes < leastSwap) {
			continue
		}
		out = append(out, w.newFinding(MemoryThrashing, k.severity, k.part, "memory-thrashing."+k.part,
			phrase.Words{"rate": phrase.Number(s.mean, k.unit, format.Count(math.Round(s.mean))), "share": phrase.Percent(s.mean),
				"when": s.formatPeriod()},
			Evidence{Text: k.figure, Value: s.mean, Unit: k.unit, Limit: limit(k.limit)},
			Evidence{Text: "for", Value: s.seconds, Unit: "seconds", Limit: limit(t.Minimum.Seconds())}))
	}
	return out
}

// leastSwap is the minimum swap for a finding in bytes. The pages of sleeping programs are swapped out permanently.
const leastSwap = 64 << 20

func (w *Workload) swappedBytes() float64 {
	if !isKnown(w.SwapBytes) || !isKnown(w.MemoryPeakBytes) {
		return math.NaN()
	}
	return *w.SwapBytes / (*w.MemoryPeakBytes + *w.SwapBytes)
}
