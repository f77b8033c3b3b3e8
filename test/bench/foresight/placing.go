package foresight

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"

	"reckon/analysis/rank"
	"reckon/test/bench/measure"
)

// Placing: 1,000 pods arrive in sequence, every ten minutes, and stay. Pod i uses the fraction of its requested cores that Bitbrains VM i
// mod 48 used of its capacity. Node j has the power curve of SPECpower machine j*7 mod their number, scaled to its cores. Nodes stay on.
// Every policy sees the past use as input of its formula, and none sees the future.

const (
	arrival   = 10.0 / 60 // hours between two pods
	placeDays = 21
)

type pod struct {
	rank.Work
	share []float64 // of the requested cores, by hour
}

// placedNodes holds the nodes and the pods placed on each.
type placedNodes struct {
	nodes []rank.Node
	pods  []pod
	on    [][]int
}

// policy picks a node for a pod among those that its requests fit on.
type policy struct {
	name string
	pick func(p *placedNodes, w *pod, hour int, fits []int) int
}

func benchPlacing(e *measure.Env, dir string) error {
	nodes, pods, err := readPlacing(dir)
	if err != nil {
		return err
	}
	rules := append(rivalPolicies(), reckonPolicy(false), reckonPolicy(true))
	all := len(pods) // that every policy finds a place for
	for _, rule := range rules {
		p := &placedNodes{nodes: slices.Clone(nodes), pods: pods, on: make([][]int, len(nodes))}
		if _, first := p.placeAll(rule); first < all {
			all = first
		}
	}
	// Policies that place other pods cannot be compared by joules: the first ones, which all place, can.
	for _, n := range []int{all, len(pods)} {
		e.Printf("Placing the first %d pods on %d nodes, %d days:\n", n, len(nodes), placeDays)
		e.Printf("| policy | placed | MJ | above idle, MJ | overloaded node hours | kJ a core hour used |\n|---|---|---|---|---|---|\n")
		for _, rule := range rules {
			p := &placedNodes{nodes: slices.Clone(nodes), pods: pods[:n], on: make([][]int, len(nodes))}
			placed, _ := p.placeAll(rule)
			joules, idle, over, coreHours := p.totalUse()
			e.Printf("| %s | %d | %.0f | %.1f | %d | %.2f |\n", rule.name, placed, joules/1e6, (joules-idle)/1e6, over,
				joules/1e3/coreHours)
		}
	}
	return nil
}

func readPlacing(dir string) ([]rank.Node, []pod, error) {
	curves, err := readCurves(filepath.Join(dir, "..", "power", "specpower_ssj2008_curves.csv"))
	if err != nil {
		return nil, nil, err
	}
	rows, err := open(dir, "placement", "nodes.csv.gz")
	if err != nil {
		return nil, nil, err
	}
	var nodes []rank.Node
	for j, r := range rows[1:] {
		c := curves[j*7%len(curves)]
		n := rank.Node{Name: r[0], Cores: number(r[1]) / 1000, Memory: number(r[2]), GPUs: number(r[3]), ExpectedCores: math.NaN(),
			UpperCores: math.NaN(), UpperMemory: math.NaN(), Pressure: math.NaN()}
		for i := range n.Curve {
			n.Curve[i] = c.watts[i] * n.Cores / c.threads
		}
		nodes = append(nodes, n)
	}
	shares, err := vmShares(dir)
	if err != nil {
		return nil, nil, err
	}
	if rows, err = open(dir, "placement", "pods.csv.gz"); err != nil {
		return nil, nil, err
	}
	var pods []pod
	for i, r := range rows[1:] {
		pods = append(pods, pod{rank.Work{Cores: number(r[1]) / 1000, Memory: number(r[2]), GPUs: number(r[3]) * number(r[4]) / 1000},
			shares[i%len(shares)]})
	}
	return nodes, pods, nil
}

// vmShares returns the shares that each VM used of its capacity; a hole takes the hour before.
func vmShares(dir string) ([][]float64, error) {
	rows, err := open(dir, "bitbrains-hourly", "cpu_mhz.csv.gz")
	if err != nil {
		return nil, err
	}
	names, use := columns(rows)
	limits, err := readCapacities(dir)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		last := 0.0
		for h, v := range use[i] {
			if !math.IsNaN(v) {
				last = min(v/limits["cpu_mhz"][name]*1.06, 1)
			}
			use[i][h] = last
		}
	}
	return use, nil
}

// coresUsed returns the cores in use on a node in an hour.
func (p *placedNodes) coresUsed(node, hour int) float64 {
	sum := 0.0
	for _, i := range p.on[node] {
		sum += p.pods[i].Cores * p.pods[i].share[hour]
	}
	return sum
}

func arrivalHour(i int) int { return int(float64(i) * arrival) }

// placeAll places all pods that fit on a node. It returns their number, and the index of the first pod that did not fit.
func (p *placedNodes) placeAll(rule policy) (placed, first int) {
	first = len(p.pods)
	var fits []int
	for i := range p.pods {
		w := &p.pods[i]
		fits = fits[:0]
		for j := range p.nodes {
			n := &p.nodes[j]
			if n.HeldCores+w.Cores <= n.Cores+1e-9 && n.HeldMemory+w.Memory <= n.Memory+1e-9 && n.HeldGPUs+w.GPUs <= n.GPUs+1e-9 {
				fits = append(fits, j)
			}
		}
		if len(fits) == 0 {
			first = min(first, i)
			continue
		}
		j := rule.pick(p, w, arrivalHour(i), fits)
		n := &p.nodes[j]
		n.HeldCores, n.HeldMemory, n.HeldGPUs = n.HeldCores+w.Cores, n.HeldMemory+w.Memory, n.HeldGPUs+w.GPUs
		p.on[j] = append(p.on[j], i)
		placed++
	}
	return placed, first
}

// totalUse returns the energy of all nodes, including empty ones, the hours in which a node was overcommitted, and the core hours used.
func (p *placedNodes) totalUse() (joules, idle float64, over int, coreHours float64) {
	for hour := range placeDays * 24 {
		for j := range p.nodes {
			n, used := &p.nodes[j], 0.0
			for _, i := range p.on[j] {
				if arrivalHour(i) <= hour {
					used += p.pods[i].Cores * p.pods[i].share[hour]
				}
			}
			if used > n.Cores {
				over++
			}
			used = min(used, n.Cores)
			joules += 3600 * n.Curve.At(used/n.Cores)
			idle += 3600 * n.Curve[0]
			coreHours += used
		}
	}
	return joules, idle, over, coreHours
}

// reckonPolicy returns the policy that ranks nodes with analysis/rank. It predicts the use of a pod as its request times the mean used
// share of earlier pods. If seer is set, it knows the actual mean use of each pod and node, as no real policy can.
func reckonPolicy(seer bool) policy {
	name := "reckon rank"
	if seer {
		name = "reckon rank, knowing the future"
	}
	return policy{name, func(p *placedNodes, w *pod, hour int, fits []int) int {
		list := make([]rank.Node, len(fits))
		used, asked := 0.0, 0.0
		for k, j := range fits {
			list[k] = p.nodes[j]
			list[k].UsedCores, list[k].UsedMemory = p.meanUse(j, hour, 24, seer), list[k].HeldMemory
			list[k].ExpectedCores = p.meanUse(j, hour, 7*24, seer)
		}
		for j := range p.nodes {
			used += p.meanUse(j, hour, 7*24, false)
			asked += p.nodes[j].HeldCores
		}
		work := w.Work
		work.UseCores = math.NaN()
		if asked > 0 {
			work.UseCores = w.Cores * used / asked
		}
		if seer {
			work.UseCores = w.Cores * meanAhead(w.share, hour)
		}
		c := rank.Default()
		c.Full = 1
		return fits[rank.Rank(c, work, list, nil)[0].Node]
	}}
}

func meanAhead(share []float64, hour int) float64 {
	sum, n := 0.0, 0.0
	for _, v := range share[min(hour, placeDays*24-1) : placeDays*24] {
		sum, n = sum+v, n+1
	}
	return sum / n
}

// meanUse returns the mean use of a node in the last hours or, if seer is set, in the hours to come.
func (p *placedNodes) meanUse(j, hour, hours int, seer bool) float64 {
	if seer {
		sum := 0.0
		for _, i := range p.on[j] {
			sum += p.pods[i].Cores * meanAhead(p.pods[i].share, hour)
		}
		return sum
	}
	sum, n := 0.0, 0.0
	for h := max(0, hour-hours); h <= hour; h++ {
		sum, n = sum+p.coresUsed(j, h), n+1
	}
	return sum / n
}

func bestFit(fits []int, score func(j int) float64) int {
	return slices.MaxFunc(fits, func(a, b int) int {
		if d := cmp.Compare(score(a), score(b)); d != 0 {
			return d
		}
		return cmp.Compare(b, a)
	})
}
