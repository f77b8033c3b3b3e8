package foresight

import (
	"math"
	"slices"
)

// naive2 returns the reference forecast of the M4 competition for the given horizon. It repeats the last value. If the autocorrelation at
// the season length m is significant at 90 %, the value is seasonally adjusted by classical multiplicative decomposition.
func naive2(y []float64, m, horizon int) []float64 {
	out := make([]float64, horizon)
	index := slices.Repeat([]float64{1}, m)
	if seasonalTest(y, m) {
		index = seasonIndex(y, m)
	}
	n := len(y)
	last := y[n-1] / index[(n-1)%m]
	for k := range out {
		out[k] = last * index[(n+k)%m]
	}
	return out
}

func seasonalTest(y []float64, m int) bool {
	mean := 0.0
	for _, v := range y {
		mean += v / float64(len(y))
	}
	r := func(k int) float64 {
		num, den := 0.0, 0.0
		for i, v := range y {
			den += (v - mean) * (v - mean)
			if i >= k {
				num += (v - mean) * (y[i-k] - mean)
			}
		}
		return num / den
	}
	sum := 0.0
	for k := 1; k < m; k++ {
		sum += r(k) * r(k)
	}
	return math.Abs(r(m)) > 1.645*math.Sqrt((1+2*sum)/float64(len(y)))
}

// seasonIndex returns the mean ratio of each place of the season to the centred moving average, with mean 1.
func seasonIndex(y []float64, m int) []float64 {
	sum, n := make([]float64, m), make([]float64, m)
	for i := m / 2; i+m/2 < len(y); i++ {
		trend := 0.0
		for k := -m / 2; k <= m/2; k++ {
			w := 1.0
			if k == -m/2 || k == m/2 {
				w = 0.5
			}
			trend += w * y[i+k] / float64(m)
		}
		if trend != 0 {
			sum[i%m] += y[i] / trend
			n[i%m]++
		}
	}
	total := 0.0
	for i := range sum {
		sum[i] /= n[i]
		total += sum[i] / float64(m)
	}
	for i := range sum {
		sum[i] /= total
	}
	return sum
}
