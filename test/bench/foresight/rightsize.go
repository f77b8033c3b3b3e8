package foresight

import (
	"fmt"
	"math"
	"slices"

	"reckon/analysis/rightsize"
	"reckon/metric"
	"reckon/test/bench/measure"
)

// Right-size: each day a request is derived from earlier days only and holds for the day. The last
// 15 days of 24 VMs count. Times in which a VM was off are ignored.

const sizedDays = 15

// vmUse is one VM by day, in cores and MiB.
type vmUse struct {
	cores, memory [][]float64
	days          []rightsize.Day
}

// requestFormula computes a request from the use on earlier days. days are the days for package rightsize, and use holds the
// samples of each day.
type requestFormula func(days []rightsize.Day, use [][]float64) float64

// formulaScore is the result of a formula.
type formulaScore struct{ pooled, mean, above, days float64 }

func readSized(dir string) ([]*vmUse, error) {
	rows, err := open(dir, "bitbrains-5min", "rightsize.csv.gz")
	if err != nil {
		return nil, err
	}
	var out []*vmUse
	by := map[string]*vmUse{}
	first := number(rows[1][1])
	for _, r := range rows[1:] {
		v := by[r[0]]
		if v == nil {
			v = &vmUse{}
			by[r[0]] = v
			out = append(out, v)
		}
		d := int((number(r[1]) - first) / 86400)
		for len(v.cores) <= d {
			v.cores, v.memory = append(v.cores, nil), append(v.memory, nil)
		}
		given := number(r[3])
		if !(given > 0) {
			continue // it was off
		}
		if use := number(r[4]) * number(r[2]) / given; !math.IsNaN(use) {
			v.cores[d] = append(v.cores[d], use)
		}
		if use := number(r[6]); !math.IsNaN(use) {
			v.memory[d] = append(v.memory[d], use)
		}
	}
	for _, v := range out {
		for d := range v.cores {
			one := rightsize.Day{Cores: &metric.Histogram{}}
			for _, c := range v.cores[d] {
				one.Cores.Observe(c)
			}
			if len(v.memory[d]) > 0 {
				most := slices.Max(v.memory[d])
				one.MemoryPeak = &most
			}
			v.days = append(v.days, one)
		}
	}
	return out, nil
}

// scoreFormula compares the requests of a formula with the use on the last days of all VMs.
func scoreFormula(vms []*vmUse, memory bool, f requestFormula) formulaScore {
	var used, asked, above, samples, bad, days, mean, n float64
	for _, v := range vms {
		use := v.cores
		if memory {
			use = v.memory
		}
		u, a := 0.0, 0.0
		for d := len(use) - sizedDays; d < len(use); d++ {
			if len(use[d]) == 0 {
				continue
			}
			q := f(v.days[:d], use[:d])
			over := 0.0
			for _, x := range use[d] {
				u, a, samples = u+min(x, q), a+q, samples+1
				if x > q {
					above, over = above+1, 1
				}
			}
			bad, days = bad+over, days+1
		}
		used, asked = used+u, asked+a
		if a > 0 {
			mean, n = mean+1-u/a, n+1
		}
	}
	return formulaScore{1 - used/asked, mean / n, above / samples, bad / days}
}

func benchRightsizing(e *measure.Env, dir string) error {
	vms, err := readSized(dir)
	if err != nil {
		return err
	}
	e.Printf("Right-size of %d VMs, last %d days, a request a day. Slack is pooled over all VMs, in brackets the mean of the VMs.\n",
		len(vms), sizedDays)
	e.Printf("| figure | rule | time above | VM days with any | slack | reckon's slack at this time above |\n|---|---|---|---|---|---|\n")
	for _, of := range []struct {
		name   string
		memory bool
		rivals []sizer
		curve  []float64
		ours   func(safety float64) requestFormula
	}{
		{"CPU", false, coreRivals(), safetyFactors(0.2, 1e6, 1.25), func(price float64) requestFormula {
			c := rightsize.ServiceConfig{Price: price, MostShare: 1}
			return func(days []rightsize.Day, _ [][]float64) float64 { v, _ := rightsize.Cores(days, c); return v }
		}},
		{"memory", true, memoryRivals(), safetyFactors(0.05, 1e3, 1.06), func(k float64) requestFormula {
			c := rightsize.ServiceConfig{Deviations: k}
			return func(days []rightsize.Day, _ [][]float64) float64 { v, _ := rightsize.Memory(days, c); return v }
		}},
	} {
		var curve []formulaScore
		for _, s := range of.curve {
			curve = append(curve, scoreFormula(vms, of.memory, of.ours(s)))
		}
		for _, r := range of.rivals {
			s := scoreFormula(vms, of.memory, r.rule)
			pooled, mean, ok := interpolate(curve, s.above)
			ours := "not reached"
			if ok {
				ours = fmt.Sprintf("%.3f (%.3f): %+.1f %% (%+.1f %%)", pooled, mean, 100*(pooled/s.pooled-1), 100*(mean/s.mean-1))
			}
			e.Printf("| %s | %s | %.3f %% | %.1f %% | %.3f (%.3f) | %s |\n", of.name, r.name, 100*s.above, 100*s.days, s.pooled, s.mean,
				ours)
		}
	}
	c := rightsize.ServiceDefault()
	cores := scoreFormula(vms, false, func(days []rightsize.Day, _ [][]float64) float64 { v, _ := rightsize.Cores(days, c); return v })
	memory := scoreFormula(vms, true, func(days []rightsize.Day, _ [][]float64) float64 { v, _ := rightsize.Memory(days, c); return v })
	for i, s := range []formulaScore{cores, memory} {
		e.Printf("| %s | reckon as it is by default | %.3f %% | %.1f %% | %.3f (%.3f) | |\n", []string{"CPU", "memory"}[i], 100*s.above,
			100*s.days, s.pooled, s.mean)
	}
	return nil
}

// safetyFactors returns the safety factors of the curve.
func safetyFactors(from, to, by float64) []float64 {
	var out []float64
	for v := from; v < to; v *= by {
		out = append(out, v)
	}
	return out
}

// interpolate returns the least slack of the curve at a time above or a shorter one; between two points it lies on their line.
func interpolate(curve []formulaScore, above float64) (pooled, mean float64, ok bool) {
	slices.SortFunc(curve, func(a, b formulaScore) int {
		if a.above < b.above {
			return -1
		}
		return 1
	})
	pooled, mean = math.Inf(1), math.Inf(1)
	for i, p := range curve {
		if p.above <= above {
			pooled, mean, ok = min(pooled, p.pooled), min(mean, p.mean), true
			continue
		}
		if i > 0 && p.above > curve[i-1].above {
			a := curve[i-1]
			t := (above - a.above) / (p.above - a.above)
			pooled, mean = min(pooled, a.pooled+t*(p.pooled-a.pooled)), min(mean, a.mean+t*(p.mean-a.mean))
		}
		break
	}
	return pooled, mean, ok
}
