package findings

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"reckon/analysis/hog"
	"reckon/store"
)

// resolution is the time between the steps of a trace: fine for a few nodes, coarser for
// many, so that a look stays cheap.
func resolution(span time.Duration, nodes int) time.Duration {
	step := time.Minute
	for span/step*time.Duration(max(nodes, 1)) > 400_000 && step < 15*time.Minute {
		step *= 5
	}
	return min(step, 15*time.Minute)
}

// grid is a range query as rows of values, one for each series.
func (e *Evaluator) grid(ctx context.Context, expr string, r *reading, take func(get func(string) string, values []float64)) error {
	steps := r.steps()
	// In pieces, so that no query holds all series over all time.
	const piece = 360
	rows := map[string][]float64{}
	gets := map[string]func(string) string{}
	for at := 0; at < steps; at += piece {
		n := min(piece, steps-at)
		begin := r.from.Add(time.Duration(at+1) * r.step)
		q, err := e.Engine.NewRangeQuery(ctx, e.Series, nil, expr, begin, begin.Add(time.Duration(n-1)*r.step), r.step)
		if err != nil {
			return fmt.Errorf("%s: %w", expr, err)
		}
		m, err := q.Exec(ctx).Matrix()
		if err != nil {
			q.Close()
			return fmt.Errorf("%s: %w", expr, err)
		}
		for _, s := range m {
			key := s.Metric.String()
			row := rows[key]
			if row == nil {
				row = make([]float64, steps)
				for i := range row {
					row[i] = math.NaN()
				}
				rows[key], gets[key] = row, s.Metric.Copy().Get
			}
			for _, p := range s.Floats {
				if i := int(time.UnixMilli(p.T).Sub(r.from)/r.step) - 1; i >= 0 && i < steps {
					row[i] = p.F
				}
			}
		}
		q.Close()
	}
	for key, row := range rows {
		take(gets[key], row)
	}
	return nil
}

func (r *reading) steps() int { return int(r.to.Sub(r.from) / r.step) }

// nodes reads the traces of all nodes on which more than one owner worked or waited.
func (e *Evaluator) nodes(ctx context.Context, r *reading, cores, gpus map[place]float64, rows []store.Workload) error {
	r.step = resolution(r.to.Sub(r.from), len(cores))
	window := fmt.Sprintf("%ds", int(max(2*r.step, 2*time.Minute).Seconds()))
	byNode := func(expr string) (map[place][]float64, error) {
		out := map[place][]float64{}
		err := e.grid(ctx, strings.ReplaceAll(expr, "WINDOW", window), r, func(get func(string) string, v []float64) { out[place{get("site"), get("node")}] = v })
		return out, err
	}
	waits := waiting(r, rows)
	for _, k := range []struct {
		part, what, use, pressure, runnable, available, machine string
		capacity                                                map[place]float64
	}{
		{part: "cpu", what: "CPUs", capacity: cores,
			use:      `sum by (site,node,owner) (rate(reckon_workload_cpu_seconds_total{owner!="",kind!="other"}[WINDOW]))`,
			pressure: `sum by (site,node) (rate(node_pressure_cpu_waiting_seconds_total[WINDOW]))`, runnable: `sum by (site,node) (node_procs_running)`,
			machine: `sum by (site,node) (rate(node_cpu_seconds_total{mode!~"idle|iowait"}[WINDOW]))`},
		{part: "gpu", what: "GPUs", capacity: gpus,
			use: `sum by (site,node,owner) (rate(reckon_workload_gpu_seconds_total{owner!=""}[WINDOW]))`},
		{part: "memory", what: "memory",
			use:      `sum by (site,node,owner) (reckon_workload_memory_bytes{owner!="",kind!="other"})`,
			pressure: `sum by (site,node) (rate(node_pressure_memory_waiting_seconds_total[WINDOW]))`, available: `sum by (site,node) (node_memory_MemAvailable_bytes) / sum by (site,node) (node_memory_MemTotal_bytes)`,
			machine: `sum by (site,node) (node_memory_MemTotal_bytes) - sum by (site,node) (node_memory_MemAvailable_bytes)`},
	} {
		if k.part == "gpu" && len(gpus) == 0 {
			continue
		}
		owners := map[place][]hog.Owner{}
		err := e.grid(ctx, strings.ReplaceAll(k.use, "WINDOW", window), r, func(get func(string) string, v []float64) {
			p := place{get("site"), get("node")}
			owners[p] = append(owners[p], hog.Owner{Name: get("owner"), Use: v, Waits: waits[p][get("owner")]})
		})
		if err != nil {
			return err
		}
		if k.part == "memory" {
			if k.capacity, err = e.byNode(ctx, `sum by (site,node) (last_over_time(node_memory_MemTotal_bytes[RANGE]))`, r.from, r.to); err != nil {
				return err
			}
		}
		figures := make([]map[place][]float64, 4)
		for i, expr := range []string{k.pressure, k.runnable, k.available, k.machine} {
			if expr == "" {
				continue
			}
			if figures[i], err = byNode(expr); err != nil {
				return err
			}
		}
		for p, list := range owners {
			for owner, w := range waits[p] { // who waits and uses nothing there
				if !slices.ContainsFunc(list, func(o hog.Owner) bool { return o.Name == owner }) {
					list = append(list, hog.Owner{Name: owner, Waits: w})
				}
			}
			if len(list) < 2 {
				continue
			}
			slices.SortFunc(list, func(a, b hog.Owner) int { return strings.Compare(a.Name, b.Name) })
			r.traces = append(r.traces, nodeTrace{place: p, part: k.part, what: k.what, trace: hog.Trace{
				Step: r.step.Seconds(), Capacity: k.capacity[p], Owners: list,
				Pressure: figures[0][p], Runnable: figures[1][p], Available: figures[2][p], Machine: figures[3][p],
			}})
		}
	}
	slices.SortFunc(r.traces, func(a, b nodeTrace) int {
		return strings.Compare(a.site+"\x00"+a.node+"\x00"+a.part, b.site+"\x00"+b.node+"\x00"+b.part)
	})
	return nil
}

// waiting says for which nodes requests of which owners waited, and when: a job that was
// handed in for a partition waits for the nodes on which others of that partition ran.
func waiting(r *reading, rows []store.Workload) map[place]map[string][]bool {
	type part struct{ site, partition string }
	nodes := map[part]map[string]bool{}
	for i := range rows {
		w := &rows[i]
		if w.Partition == "" {
			continue
		}
		k := part{w.Site, w.Partition}
		for _, n := range w.Nodes {
			if nodes[k] == nil {
				nodes[k] = map[string]bool{}
			}
			nodes[k][n] = true
		}
	}
	out := map[place]map[string][]bool{}
	steps := r.steps()
	for i := range rows {
		w := &rows[i]
		until := w.Start
		if w.State == "pending" {
			until = r.to
		}
		if w.Partition == "" || w.Submit.IsZero() || w.Owner == "" || until.Sub(w.Submit) < time.Minute {
			continue
		}
		first := max(0, int(w.Submit.Sub(r.from)/r.step))
		last := min(steps-1, int(until.Sub(r.from)/r.step)-1)
		if first > last {
			continue
		}
		for n := range nodes[part{w.Site, w.Partition}] {
			p := place{w.Site, n}
			if out[p] == nil {
				out[p] = map[string][]bool{}
			}
			flags := out[p][w.Owner]
			if flags == nil {
				flags = make([]bool, steps)
				out[p][w.Owner] = flags
			}
			for s := first; s <= last; s++ {
				flags[s] = true
			}
		}
	}
	return out
}
