package findings

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/analysis/efficiency"
	"reckon/analysis/misuse"
	"reckon/figure"
	"reckon/query"
	"reckon/store"
	"reckon/workload"
)

// workloadProcesses is a series of single workloads.
const workloadProcesses = "reckon_workload_processes"

const (
	// suspects is the maximum number of workloads that are examined one by one; the rest are judged by their totals.
	suspects = 2000
	// suspectRead is the amount read from which on refaults are read, bytes.
	suspectRead = 1 << 30
	// fine is the resolution of that examination.
	fine = time.Minute
)

// addDetails adds figures over time to suspect workloads. For running ones, it adds the time since their last process
// ended.
func (e *Evaluator) addDetails(ctx context.Context, r *rangeReading) error {
	q, err := e.Series.Querier(r.from.Add(-before).UnixMilli(), r.to.UnixMilli())
	if err != nil {
		return fmt.Errorf("query single workloads: %w", err)
	}
	defer q.Close()
	type suspect struct {
		at    int
		score float64
	}
	var list []suspect
	lines := misuse.Lines()
	for i := range r.list {
		w := &r.list[i]
		if len(w.Nodes) == 0 && !workload.Kind(w.Kind).Folded() {
			continue
		}
		score := 0.0
		for _, l := range lines {
			if v := w.Figure(l.Key); v != nil && *v >= l.Least {
				score += *v / l.Least
			}
		}
		if score > 0 {
			list = append(list, suspect{i, score})
		}
	}
	slices.SortFunc(list, func(a, b suspect) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.at, b.at)) })
	for _, s := range list[:min(len(list), suspects)] {
		if err := readFollowed(ctx, q, r, &r.list[s.at], lines); err != nil {
			return err
		}
	}
	if err := e.addMemoryPressure(ctx, r); err != nil {
		return err
	}
	if err := e.addTasks(ctx, r); err != nil {
		return err
	}
	return e.findEmpty(ctx, r)
}

// addMemoryPressure reads the memory pressure of workloads that filled their memory, because such a workload may lack memory
// although it seems to have too much. It also adds refaults to workloads that read much.
func (e *Evaluator) addMemoryPressure(ctx context.Context, r *rangeReading) error {
	views := query.New(e.Series, query.Options{})
	asked := 0
	for i := range r.list {
		w := &r.list[i]
		filled := w.MemoryNeededPeakBytes != nil && efficiency.MemoryFull(w.Memory, w.MemoryPeakBytes) &&
			!efficiency.MemoryFull(w.Memory, w.MemoryNeededPeakBytes)
		if asked == suspects || len(w.Nodes) == 0 || !filled && (w.ReadBytes == nil || *w.ReadBytes < suspectRead) {
			continue
		}
		asked++
		whole, err := views.Select(ctx, w.Site, w.ID, w.Start, w.Last)
		if err != nil {
			return err
		}
		strain, err := views.Strain(ctx, whole)
		if err != nil {
			return err
		}
		w.Refaulted = strain.Refaults
		w.Squeezed = filled &&
			efficiency.ShortOfMemory(efficiency.Usage{Run: figure.Run{Row: figure.Row{MemoryPeakBytes: w.MemoryPeakBytes}},
				WallSeconds: w.Wall(), Memory: w.Memory, MemoryStalledSeconds: strain.MemoryStalled, RefaultBytes: strain.Refaults})
	}
	return nil
}

// readFollowed reads figures over time for a workload that may break a rule about them.
func readFollowed(ctx context.Context, q storage.Querier, r *rangeReading, w *misuse.Workload, lines []misuse.Followed) error {
	from, to := w.Start, w.Last
	if from.Before(r.from) {
		from = r.from
	}
	if to.After(r.to) {
		to = r.to
	}
	from = from.Truncate(fine)
	steps := int((to.Sub(from) + fine - 1) / fine)
	if steps < 1 {
		return nil
	}
	p := nodePass{rangeReading: r, grid: from.UnixMilli(), width: fine.Milliseconds(), steps: steps}
	hints := &storage.SelectHints{Start: from.Add(-before).UnixMilli(), End: to.UnixMilli()}
	folded := workload.Kind(w.Kind).Folded()
	metrics := []string{figure.Memory}
	for _, l := range lines {
		metrics = append(metrics, figureSource(l.Key).Metric)
	}
	set := q.Select(ctx, false, hints, labels.MustNewMatcher(labels.MatchEqual, "workload", w.ID),
		labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(metrics, "|")))
	read := make([]line, len(metrics)) // the memory, and then the lines
	var it chunkenc.Iterator
	for set.Next() {
		s := set.At()
		l := s.Labels()
		if l.Get("site") != w.Site || w.Nodes != nil && !slices.Contains(w.Nodes, l.Get("node")) {
			continue
		}
		for i, name := range metrics {
			if name != l.Get(model.MetricNameLabel) {
				continue
			}
			to := &read[i]
			it = s.Iterator(it)
			if i > 0 {
				if source := figureSource(lines[i-1].Key); source.Label != "" && l.Get(source.Label) != source.Value {
					continue
				}
			}
			if i == 0 || isGauge(lines[i-1].Key) {
				p.spreadGauge(it, func(i int, v, seconds float64) { to.add(steps, i, v*seconds) }, nil)
			} else {
				p.spreadCounter(it, func(i int, v, _ float64) { to.add(steps, i, v) }, nil)
			}
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("read %s: %w", l, err)
		}
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("query workload %s: %w", w.ID, err)
	}
	for i, l := range lines {
		values := read[i+1]
		if isGauge(l.Key) {
			values = values.divideBy(read[0].addLine(values))
		} else {
			values = values.scaled(1 / fine.Seconds())
		}
		if values != nil && (l.Folded || !folded) {
			w.Lines[l.Key] = &misuse.Line{Start: from, Step: fine, Values: values}
		}
	}
	return nil
}

// figureSource returns the series of a figure of runs.
func figureSource(key string) figure.Source {
	return figure.InScope(figure.Runs)[figure.Index(figure.Runs, key)].From[0]
}

// isGauge reports whether a figure is computed from a gauge.
func isGauge(key string) bool {
	return figure.InScope(figure.Runs)[figure.Index(figure.Runs, key)].How.Value != figure.Total
}

// emptyLookback is the time over which the last process of an allocation is searched.
const emptyLookback = 6 * time.Hour

// findEmpty finds allocations that are reported as running but had no process recently.
func (e *Evaluator) findEmpty(ctx context.Context, r *rangeReading) error {
	running := map[workloadKey]int{}
	for i := range r.list {
		if w := &r.list[i]; w.Running && w.State == "running" && w.Reports && w.CPUSeconds != nil {
			running[workloadKey{w.Site, w.ID}] = i
		}
	}
	if len(running) == 0 {
		return nil
	}
	from := r.to.Add(-min(emptyLookback, r.to.Sub(r.from)))
	q, err := e.Series.Querier(from.UnixMilli(), r.to.UnixMilli())
	if err != nil {
		return fmt.Errorf("query the processes of workloads: %w", err)
	}
	defer q.Close()
	set := q.Select(ctx, false, &storage.SelectHints{Start: from.UnixMilli(), End: r.to.UnixMilli()},
		labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, workloadProcesses))
	last := map[workloadKey]int64{} // last time with a process, by workload
	counted := map[nodeKey]bool{}   // nodes on which processes are counted
	var it chunkenc.Iterator
	for set.Next() {
		s := set.At()
		l := s.Labels()
		counted[nodeKey{l.Get("site"), l.Get("node")}] = true
		k := workloadKey{l.Get("site"), l.Get("workload")}
		if _, ok := running[k]; !ok {
			continue
		}
		it = s.Iterator(it)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			if t, v := it.At(); vt == chunkenc.ValFloat && v > 0 && !math.IsNaN(v) {
				last[k] = max(last[k], t)
			}
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("read %s: %w", l, err)
		}
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("query the processes of workloads: %w", err)
	}
	for k, i := range running {
		w := &r.list[i]
		if slices.ContainsFunc(w.Nodes, func(n string) bool { return !counted[nodeKey{w.Site, n}] }) {
			continue // not observed there
		}
		since := max(last[k], from.UnixMilli(), w.Start.UnixMilli())
		if silence := r.to.Sub(time.UnixMilli(since)); silence >= silent {
			seconds := silence.Seconds()
			w.Empty = &seconds
		}
	}
	return nil
}

// nodeRequest is the part of a request that one node has to meet.
type nodeRequest struct{ cores, memory, gpus float64 }

// toNodeRequest returns the request of a workload per node. An unspecified amount is 0.
func toNodeRequest(w *store.Workload) nodeRequest {
	n := 1.0
	if w.RequestNodes != nil && *w.RequestNodes > 1 {
		n = *w.RequestNodes
	}
	part := func(v *float64) float64 {
		if v == nil || !(*v > 0) {
			return 0
		}
		return *v / n
	}
	return nodeRequest{part(w.RequestCores), part(w.RequestMemoryBytes), part(w.RequestGPUs)}
}

// couldRun reports whether a machine could ever meet the need. An unknown machine size excludes nothing.
func (s nodeRequest) couldRun(cores, memory, gpus float64) bool {
	return (cores == 0 || s.cores <= cores) && (memory == 0 || s.memory <= memory*1.02) && s.gpus <= gpus
}
