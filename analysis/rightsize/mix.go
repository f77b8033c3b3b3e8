package rightsize

import (
	"math"

	"reckon/figure"
	"reckon/metric"
)

// weightedUse is the distribution of one-second use over days, with weights that fall with age.
type weightedUse struct {
	days    int
	total   float64 // weight of all seconds
	mean    float64 // cores
	zero    float64 // weight of seconds without use
	first   int32   // index of buckets[0]
	buckets []float64
}

// mergeDays merges the last days. The weight of a day halves with each week of age.
func mergeDays(days []Day) *weightedUse {
	m := &weightedUse{}
	for i, d := range lastDays(days, CoreDays) {
		if d.Cores == nil || d.Cores.Count == 0 {
			continue
		}
		ago := float64(min(len(days), CoreDays) - 1 - i)
		m.addHistogram(d.Cores, math.Exp2(-ago/halfLife))
		m.days++
	}
	if m.total > 0 {
		m.mean /= m.total
	}
	return m
}

func (m *weightedUse) addHistogram(h *metric.Histogram, weight float64) {
	m.total += weight * float64(h.Count)
	m.mean += weight * h.Sum
	m.zero += weight * float64(h.ZeroCount)
	if len(h.Buckets) == 0 {
		return
	}
	low, high := h.Offset, h.Offset+int32(len(h.Buckets))
	if len(m.buckets) > 0 {
		low, high = min(low, m.first), max(high, m.first+int32(len(m.buckets)))
	}
	if low != m.first || int(high-low) != len(m.buckets) {
		grown := make([]float64, high-low)
		if len(m.buckets) > 0 {
			copy(grown[m.first-low:], m.buckets)
		}
		m.first, m.buckets = low, grown
	}
	for i, n := range h.Buckets {
		m.buckets[h.Offset-m.first+int32(i)] += weight * float64(n)
	}
}

// quantile returns the use that is not exceeded in a share of the time, interpolated geometrically inside a bucket.
func (m *weightedUse) quantile(q float64) float64 {
	rank, seen := q*m.total, m.zero
	if rank <= seen {
		return 0
	}
	last := 0.0
	for i, n := range m.buckets {
		if n == 0 {
			continue
		}
		at := float64(m.first) + float64(i)
		last = math.Exp2(at / 8)
		if rank <= seen+n*(1+1e-12) {
			return math.Exp2((at - 1 + min((rank-seen)/n, 1)) / 8)
		}
		seen += n
	}
	return last
}

// ceiling returns the upper bound of the bucket of a quantile: nothing in the bucket is above it.
func (m *weightedUse) ceiling(q float64) float64 {
	v := m.quantile(q)
	if v == 0 {
		return 0
	}
	return math.Exp2(math.Ceil(8*math.Log2(v)-1e-9) / 8)
}

// weightAbove returns the weight of the seconds with more use than v.
func (m *weightedUse) weightAbove(v float64) float64 {
	left := 0.0
	at := 8 * math.Log2(v) // in buckets
	for i := len(m.buckets) - 1; i >= 0; i-- {
		high := float64(m.first) + float64(i)
		switch {
		case high-1 >= at:
			left += m.buckets[i]
		case high > at:
			left += m.buckets[i] * (high - at)
		default:
			return left
		}
	}
	return left
}

// cappedSum returns the sum of the use of all seconds, each capped at v.
func (m *weightedUse) cappedSum(v float64) float64 {
	sum := 0.0
	for i, n := range m.buckets {
		sum += n * min(math.Exp2((float64(m.first)+float64(i)-0.5)/8), v)
	}
	return sum
}

// bestRequest returns the request that minimises its size plus price times the share of time with more use. The result is the
// upper bound of a bucket, for which that share is exact.
func (m *weightedUse) bestRequest(price float64) float64 {
	best, least := 0.0, price*(m.total-m.zero)/m.total
	left := 0.0
	for i := len(m.buckets) - 1; i >= 0; i-- {
		v := math.Exp2((float64(m.first) + float64(i)) / 8)
		if cost := v + price*left/m.total; cost < least {
			best, least = v, cost
		}
		left += m.buckets[i]
	}
	return best
}

// testDays is the number of days that a rule is tested on.
const testDays = 14

// testCores tests a rule on each of the last days, given only the days before it.
func testCores(days []Day, rule func(past []Day) (float64, bool)) *Test {
	t := &Test{}
	used, asked, above, seconds := 0.0, 0.0, 0.0, 0.0
	for i := max(len(days)-testDays, LeastDays); i < len(days); i++ {
		h := days[i].Cores
		if h == nil || h.Count == 0 {
			continue
		}
		v, ok := rule(days[:i])
		if !ok {
			continue
		}
		m := &weightedUse{}
		m.addHistogram(h, 1)
		t.Days++
		seconds += m.total
		asked += v * m.total
		used += m.cappedSum(v)
		above += m.weightAbove(v)
	}
	if t.Days == 0 || asked == 0 {
		return nil
	}
	t.Slack, t.Above = max(1-used/asked, 0), above/seconds
	return t
}

// testMemory tests the request for memory like [testCores], with the peaks of days.
func testMemory(days []Day, rule func(past []Day) (float64, bool)) *Test {
	t := &Test{}
	used, asked, above := 0.0, 0.0, 0.0
	for i := max(len(days)-testDays, LeastDays); i < len(days); i++ {
		peak, ok := figure.Known(days[i].MemoryPeak)
		v, enough := rule(days[:i])
		if !ok || !enough {
			continue
		}
		t.Days++
		asked += v
		used += min(peak, v)
		if peak > v*(1+1e-9) {
			above++
		}
	}
	if t.Days == 0 || asked == 0 {
		return nil
	}
	t.Slack, t.Above = 1-used/asked, above/float64(t.Days)
	return t
}
