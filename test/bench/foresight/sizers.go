package foresight

import (
	"math"
	"slices"

	"reckon/analysis/rightsize"
)

// sizer is a rule of another program.
type sizer struct {
	name string
	rule requestFormula
}

// coreRivals returns the recommenders of cores to compare with reckon. VPA uses the p90 of a histogram over 8 days with
// a half-life of 24 h and buckets that grow by 5 % from 0.01 cores, plus 15 %, without its floor of 25 millicores.
// KRR's simple strategy uses the p95 of 14 days. The third recommender uses the highest use of 7 days.
func coreRivals() []sizer {
	return []sizer{
		{"VPA", func(_ []rightsize.Day, use [][]float64) float64 {
			return 1.15 * bucketEnd(decayedQuantile(lastDays(use, 8), 0.9), 0.01)
		}},
		{"KRR", func(_ []rightsize.Day, use [][]float64) float64 {
			all := slices.Sorted(slices.Values(slices.Concat(lastDays(use, 14)...)))
			return quantileRank(all, 0.95)
		}},
		{"7-day maximum", func(_ []rightsize.Day, use [][]float64) float64 { return highestUse(lastDays(use, 7)) }},
	}
}

// memoryRivals returns the recommenders of memory to compare with reckon. VPA uses the p90 of the peaks of 8 days with
// the histogram of coreRivals and buckets of 10 MB, plus 15 %. KRR uses the highest use of 14 days plus 15 %.
func memoryRivals() []sizer {
	return []sizer{
		{"VPA", func(_ []rightsize.Day, use [][]float64) float64 {
			var peaks [][]float64
			for _, day := range lastDays(use, 8) {
				if len(day) > 0 {
					day = []float64{slices.Max(day)}
				}
				peaks = append(peaks, day)
			}
			return 1.15 * bucketEnd(decayedQuantile(peaks, 0.9), 1e7/(1<<20))
		}},
		{"KRR", func(_ []rightsize.Day, use [][]float64) float64 { return 1.15 * highestUse(lastDays(use, 14)) }},
		{"7-day maximum", func(_ []rightsize.Day, use [][]float64) float64 { return highestUse(lastDays(use, 7)) }},
	}
}

func lastDays(use [][]float64, days int) [][]float64 { return use[max(0, len(use)-days):] }

func highestUse(use [][]float64) float64 {
	most := 0.0
	for _, day := range use {
		for _, v := range day {
			most = max(most, v)
		}
	}
	return most
}

func quantileRank(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-2)
	if i < 0 {
		return sorted[0]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// decayedQuantile returns a quantile of samples; the samples of a day count half as much as the next day's.
func decayedQuantile(use [][]float64, q float64) float64 {
	type weighed struct{ v, weight float64 }
	var all []weighed
	total := 0.0
	for i, day := range use {
		w := math.Exp2(-float64(len(use) - i))
		for _, v := range day {
			all, total = append(all, weighed{v, w}), total+w
		}
	}
	slices.SortFunc(all, func(a, b weighed) int {
		if a.v < b.v {
			return -1
		}
		return 1
	})
	sum := 0.0
	for _, x := range all {
		if sum += x.weight; sum >= q*total {
			return x.v
		}
	}
	return 0
}

// bucketEnd returns the end of the bucket that holds v, of buckets that grow by 5 % each from the first.
func bucketEnd(v, first float64) float64 {
	n := math.Floor(math.Log(v*0.05/first+1)/math.Log(1.05)) + 1
	return first * (math.Pow(1.05, n) - 1) / 0.05
}
