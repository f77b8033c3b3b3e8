package findings

import (
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"reckon/analysis/hog"
	"reckon/analysis/misuse"
	"reckon/store"
)

// Evaluator asks the rules about a stretch of time.
type Evaluator struct {
	Engine promql.QueryEngine
	Series storage.Queryable
	Facts  store.Catalogue
}

// place is a node of a site.
type place struct{ site, node string }

// reading is all that the rules look at.
type reading struct {
	from, to time.Time
	step     time.Duration
	list     []misuse.Workload
	traces   []nodeTrace
}

// nodeTrace is one resource of one node.
type nodeTrace struct {
	place
	part, what string
	trace      hog.Trace
}

// Evaluate applies a policy to what was measured between two times.
func (e *Evaluator) Evaluate(ctx context.Context, p *Policy, from, to time.Time) ([]misuse.Finding, error) {
	r, err := e.read(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return e.judge(ctx, r, p)
}

func (e *Evaluator) judge(ctx context.Context, r *reading, p *Policy) ([]misuse.Finding, error) {
	out := misuse.Judge(r.list, func(w *misuse.Workload) *misuse.Policy { return p.For(w.Partition, w.Nodes) })
	for i := range r.traces {
		out = append(out, hogs(r, &r.traces[i], p)...)
	}
	return out, ctx.Err()
}

// hogs are the owners who took more than a fair share of one resource.
func hogs(r *reading, t *nodeTrace, p *Policy) (out []misuse.Finding) {
	rule := p.For("", []string{t.node}).Hog
	if !rule.On {
		return nil
	}
	for _, s := range hog.Scores(t.trace, hog.Limits{Full: rule.Full, Pressure: rule.Pressure, Available: rule.Available, Wants: rule.Wants}) {
		if s.Seconds < rule.Seconds {
			continue
		}
		severity := misuse.Medium
		if s.Seconds >= rule.High {
			severity = misuse.High
		}
		why, most := "", 0
		for _, w := range slices.Sorted(maps.Keys(s.Why)) {
			if s.Why[w] > most {
				why, most = w, s.Why[w]
			}
		}
		limit := rule.Seconds
		out = append(out, misuse.Finding{
			Rule: misuse.Hog, Severity: severity, Site: t.site, Node: t.node, Owner: s.Owner, Part: t.part,
			Text:  fmt.Sprintf("took %.0f %% of the %s of the node while %.1f others wanted them, for %s in all", 100*s.Share, t.what, s.Others, time.Duration(s.Contended*float64(time.Second)).Round(time.Minute)),
			First: r.from.Add(time.Duration(s.First) * r.step), Last: r.from.Add(time.Duration(s.Last+1) * r.step),
			Evidence: []misuse.Evidence{
				{Text: "hog_seconds: seconds of the whole machine above a fair share", Value: s.Seconds, Unit: "seconds", Limit: &limit},
				{Text: "mean share of the capacity in that time", Value: s.Share, Unit: "ratio"},
				{Text: "owners who wanted it too, on average", Value: s.Others, Unit: "count"},
				{Text: "time in which it was contended and the owner above a fair share; most often: " + reasons[why], Value: s.Contended, Unit: "seconds"},
			},
		})
	}
	return out
}

var reasons = map[string]string{
	"full": "nine tenths or more were in use", "pressure": "tasks waited (PSI)", "runnable": "more tasks could run than there are cores",
	"available": "memory was nearly full", "waiting": "a request of another owner waited for the node",
}

// read gathers what the rules look at.
func (e *Evaluator) read(ctx context.Context, from, to time.Time) (*reading, error) {
	rows, _, err := e.Facts.Workloads(ctx, store.Filter{Since: from, Until: to})
	if err != nil {
		return nil, fmt.Errorf("read the workloads: %w", err)
	}
	r := &reading{from: from, to: to}
	cores, err := e.byNode(ctx, `count by (site,node) (count by (site,node,cpu) (last_over_time(node_cpu_seconds_total{mode="idle"}[RANGE])))`, from, to)
	if err != nil {
		return nil, err
	}
	gpus, err := e.byNode(ctx, `count by (site,node) (count by (site,node,device) (last_over_time(reckon_gpu_info[RANGE])))`, from, to)
	if err != nil {
		return nil, err
	}
	now, err := e.byNode(ctx, `count by (site,node) (node_cpu_seconds_total{mode="idle",cpu="0"})`, from, to)
	if err != nil {
		return nil, err
	}
	r.list = make([]misuse.Workload, 0, len(rows))
	for i := range rows {
		r.list = append(r.list, workload(&rows[i], cores, gpus, now))
	}
	if err := e.idleGPUs(ctx, r.list, to); err != nil {
		return nil, err
	}
	if err := e.balance(ctx, r.list, from, to); err != nil {
		return nil, err
	}
	return r, e.nodes(ctx, r, cores, gpus, rows)
}

func workload(w *store.Workload, cores, gpus, now map[place]float64) misuse.Workload {
	m := misuse.Workload{
		Site: w.Site, ID: w.ID, Kind: w.Kind, Owner: w.Owner, Partition: w.Partition, State: w.State, Nodes: w.Nodes,
		Start: w.Start, Last: w.Seen, Running: w.End.IsZero() && w.State != "pending",
		CPUSeconds: w.CPUSeconds, CoresMean: w.CoresMean, CoresP95: w.CoresP95, MemoryPeak: w.MemoryPeakBytes, SwapPeak: w.SwapBytes,
		MajorFaults: w.MajorFaults, Throttled: w.ThrottledSeconds, GPUSeconds: w.GPUSeconds, GPUMemoryPeak: w.GPUMemoryPeak,
		RequestCores: w.RequestCores, RequestMemory: w.RequestMemoryBytes, RequestGPUs: w.RequestGPUs, RequestSeconds: w.RequestSeconds,
	}
	if !w.End.IsZero() {
		m.Last = w.End
	}
	sum, all := 0.0, len(w.Nodes) > 0
	m.Reports = len(w.Nodes) > 0
	for _, n := range w.Nodes {
		p := place{w.Site, n}
		c, ok := cores[p]
		sum, all = sum+c, all && ok
		if gpus[p] > 0 {
			m.GPUNodes++
		}
		m.Reports = m.Reports && now[p] > 0
	}
	if all {
		m.NodeCores = &sum
	}
	// What no person answers for is not anybody's misuse.
	if w.Kind == "other" || w.Kind == "short" {
		m.Owner, m.Nodes, m.GPUNodes = w.Owner, nil, 0
	}
	return m
}

// query evaluates an expression at one time.
func (e *Evaluator) query(ctx context.Context, expr string, at time.Time, take func(get func(string) string, v float64)) error {
	q, err := e.Engine.NewInstantQuery(ctx, e.Series, nil, expr, at)
	if err != nil {
		return fmt.Errorf("%s: %w", expr, err)
	}
	defer q.Close()
	res := q.Exec(ctx)
	v, err := res.Vector()
	if err != nil {
		return fmt.Errorf("%s: %w", expr, err)
	}
	for _, s := range v {
		if !math.IsNaN(s.F) {
			take(s.Metric.Get, s.F)
		}
	}
	return nil
}

func ranged(expr string, d time.Duration) string {
	return strings.ReplaceAll(expr, "RANGE", fmt.Sprintf("%ds", int(d.Seconds())))
}

func (e *Evaluator) byNode(ctx context.Context, expr string, from, to time.Time) (map[place]float64, error) {
	out := map[place]float64{}
	err := e.query(ctx, ranged(expr, to.Sub(from)), to, func(get func(string) string, v float64) { out[place{get("site"), get("node")}] = v })
	return out, err
}

// idleLooks are for how long back GPUs are looked at: the longest one without use counts.
var idleLooks = []time.Duration{10 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour}

// idleGPUs finds out for how long running work has held memory of a GPU without use.
func (e *Evaluator) idleGPUs(ctx context.Context, list []misuse.Workload, to time.Time) error {
	type id struct{ site, workload string }
	idle := map[id]float64{}
	for _, d := range idleLooks {
		held := map[id]bool{}
		err := e.query(ctx, ranged(`sum by (site,workload) (min_over_time(reckon_workload_gpu_memory_bytes[RANGE])) > 0`, d), to, func(get func(string) string, _ float64) {
			held[id{get("site"), get("workload")}] = true
		})
		if err != nil {
			return err
		}
		if len(held) == 0 {
			break // the longer looks find no more
		}
		err = e.query(ctx, ranged(`sum by (site,workload) (increase(reckon_workload_gpu_seconds_total[RANGE])) < 1`, d), to, func(get func(string) string, _ float64) {
			if k := (id{get("site"), get("workload")}); held[k] {
				idle[k] = d.Seconds()
			}
		})
		if err != nil {
			return err
		}
	}
	for i := range list {
		w := &list[i]
		if d, ok := idle[id{w.Site, w.ID}]; ok && w.Running && w.Wall() >= d {
			w.IdleGPU = &d
		}
	}
	return nil
}

// most bounds how many jobs are looked at node by node: the longest.
const most = 2000

// balance reads what jobs of several nodes or GPUs used on each.
func (e *Evaluator) balance(ctx context.Context, list []misuse.Workload, from, to time.Time) error {
	var wide []*misuse.Workload
	for i := range list {
		w := &list[i]
		many := len(w.Nodes) > 1 || (w.RequestGPUs != nil && *w.RequestGPUs > 1)
		if many && w.Kind != "other" && w.Kind != "short" && w.Wall() >= 300 {
			wide = append(wide, w)
		}
	}
	slices.SortFunc(wide, func(a, b *misuse.Workload) int { return int(b.Wall() - a.Wall()) })
	if len(wide) > most {
		wide = wide[:most]
	}
	for len(wide) > 0 {
		some := wide[:min(200, len(wide))]
		wide = wide[len(some):]
		byID := map[string]*misuse.Workload{}
		names := make([]string, len(some))
		for i, w := range some {
			byID[w.Site+"\x00"+w.ID], names[i] = w, regexp.QuoteMeta(w.ID)
			w.PerNode, w.PerGPU = map[string]float64{}, map[string]float64{}
		}
		match := fmt.Sprintf("{workload=~%q}", strings.Join(names, "|"))
		// Counters hold the life of a workload; those that came to nothing count as well.
		for metric, by := range map[string]string{"reckon_workload_cpu_seconds_total": "site,workload,node", "reckon_workload_gpu_seconds_total": "site,workload,node,device"} {
			expr := ranged(fmt.Sprintf("sum by (%s) (max_over_time(%s%s[RANGE]))", by, metric, match), to.Sub(from))
			err := e.query(ctx, expr, to, func(get func(string) string, v float64) {
				w := byID[get("site")+"\x00"+get("workload")]
				if w == nil {
					return
				}
				if d := get("device"); d != "" {
					w.PerGPU[get("node")+" "+d] += v
				} else {
					w.PerNode[get("node")] += v
				}
			})
			if err != nil {
				return err
			}
		}
		for _, w := range some { // a node from which nothing came has not reported, or stood still
			for _, n := range w.Nodes {
				if _, ok := w.PerNode[n]; !ok && w.Reports && len(w.PerNode) > 0 {
					w.PerNode[n] = 0
				}
			}
		}
	}
	return nil
}
