package foresight

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// rivalPolicies returns the policies of other schedulers with their default settings. These are LeastAllocated of
// kube-scheduler, and TargetLoadPacking, LoadVariationRiskBalancing, LowRiskOverCommitment and Peaks of the
// scheduler-plugins (sigs.k8s.io/scheduler-plugins, packages trimaran and peaks).
func rivalPolicies() []policy {
	return []policy{
		{"LeastAllocated", func(p *placedNodes, w *pod, _ int, fits []int) int {
			return bestFit(fits, func(j int) float64 {
				n := &p.nodes[j]
				return (n.Cores-n.HeldCores-w.Cores)/n.Cores/2 + (n.Memory-n.HeldMemory-w.Memory)/n.Memory/2
			})
		}},
		{"TargetLoadPacking", targetLoadPolicy},
		{"LoadVariationRiskBalancing", loadVariationPolicy},
		{"LowRiskOverCommitment", lowRiskPolicy},
		{"Peaks", peaksPolicy},
	}
}

// targetLoadPolicy packs up to 40 % use; a pod counts with one and a half times its request.
func targetLoadPolicy(p *placedNodes, w *pod, hour int, fits []int) int {
	const target = 40.0
	return bestFit(fits, func(j int) float64 {
		u := 100 * (p.coresUsed(j, hour) + 1.5*w.Cores) / p.nodes[j].Cores
		switch {
		case u > 100:
			return 0
		case u > target:
			return target * (100 - u) / (100 - target)
		}
		return (100-target)*u/target + target
	})
}

// meanAndDeviation are mean and standard deviation of a node's use in the last day, as shares.
func (p *placedNodes) meanAndDeviation(j, hour int) (mu, sigma float64) {
	n, sum, squares := 0.0, 0.0, 0.0
	for h := max(0, hour-24); h <= hour; h++ {
		u := p.coresUsed(j, h) / p.nodes[j].Cores
		n, sum, squares = n+1, sum+u, squares+u*u
	}
	mu = sum / n
	return mu, math.Sqrt(max(squares/n-mu*mu, 0))
}

// loadVariationPolicy is (1 - risk) with risk = (mu + sigma) / 2, margin and sensitivity 1, the lower of cores and memory.
func loadVariationPolicy(p *placedNodes, w *pod, hour int, fits []int) int {
	return bestFit(fits, func(j int) float64 {
		n := &p.nodes[j]
		mu, sigma := p.meanAndDeviation(j, hour)
		cores := 1 - (min(mu+w.Cores/n.Cores, 1)+min(sigma, 1))/2
		memory := 1 - min((n.HeldMemory+w.Memory)/n.Memory, 1)/2
		return min(cores, memory)
	})
}

// lowRiskPolicy ranks nodes by the risk that their use exceeds the requested share. It uses a beta distribution with the
// node's mean and deviation. Limits equal requests in this benchmark, so the risk of overcommitted limits is left out.
func lowRiskPolicy(p *placedNodes, w *pod, hour int, fits []int) int {
	return bestFit(fits, func(j int) float64 {
		n := &p.nodes[j]
		mu, sigma := p.meanAndDeviation(j, hour)
		return 1 - 0.5*probabilityAbove(mu, sigma, (n.HeldCores+w.Cores)/n.Cores)
	})
}

// probabilityAbove returns the probability that a beta variable with mean mu and deviation sigma is above x, by numbers.
func probabilityAbove(mu, sigma, x float64) float64 {
	if sigma < 1e-6 || mu <= 0 || mu >= 1 {
		if mu > x {
			return 1
		}
		return 0
	}
	t := mu*(1-mu)/(sigma*sigma) - 1
	if t <= 0 {
		return mu
	}
	a, b := mu*t, (1-mu)*t
	const steps = 400
	above, all := 0.0, 0.0
	for i := range steps {
		u := (float64(i) + 0.5) / steps
		d := math.Exp((a-1)*math.Log(u) + (b-1)*math.Log(1-u) - (a-1)*math.Log(mu) - (b-1)*math.Log(1-mu))
		all += d
		if u > x {
			above += d
		}
	}
	return above / all
}

// peaksPolicy picks the node with the smallest rise of K1·exp(K2·use), fitted to the node's power curve. A pod counts with its
// request.
func peaksPolicy(p *placedNodes, w *pod, hour int, fits []int) int {
	return bestFit(fits, func(j int) float64 {
		n := &p.nodes[j]
		k1, k2 := fitExponential(n.Curve[:])
		now := 100 * p.coresUsed(j, hour) / n.Cores
		then := now + 100*w.Cores/n.Cores
		return -k1 * (math.Exp(k2*then) - math.Exp(k2*now))
	})
}

// fitExponential fits K0 + K1·exp(K2·percent) by least squares over a grid of K2.
func fitExponential(watts []float64) (k1, k2 float64) {
	least := math.Inf(1)
	for k := -0.05; k <= 0.05; k += 0.002 {
		if math.Abs(k) < 1e-4 {
			k = 1e-3
		}
		var n, sx, sy, sxx, sxy float64
		for i, y := range watts {
			x := math.Exp(k * 10 * float64(i))
			n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
		}
		slope := (sxy - sx*sy/n) / (sxx - sx*sx/n)
		off := 0.0
		for i, y := range watts {
			e := y - sy/n - slope*(math.Exp(k*10*float64(i))-sx/n)
			off += e * e
		}
		if off < least {
			least, k1, k2 = off, slope, k
		}
	}
	return k1, k2
}

// serverCurve is a power curve of SPECpower with its hardware threads.
type serverCurve struct {
	threads float64
	watts   [11]float64
}

func readCurves(path string) ([]serverCurve, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	var out []serverCurve
	for _, row := range rows[1:] {
		words := strings.Fields(row[at["hw_threads"]])
		if len(words) == 0 {
			continue
		}
		threads, err := strconv.ParseFloat(words[0], 64)
		if err != nil || threads < 1 {
			continue
		}
		m := serverCurve{threads: threads}
		whole := true
		for i := range m.watts {
			name := fmt.Sprintf("p%d_w", 10*i)
			if i == 0 {
				name = "p_idle_w"
			}
			m.watts[i] = number(row[at[name]])
			whole = whole && m.watts[i] > 0
		}
		if whole {
			out = append(out, m)
		}
	}
	return out, nil
}
