package findings

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/analysis/misuse"
	"reckon/internal/series"
)

// Metrics of the tasks of a step; see package account.
const (
	taskCount   = "reckon_workload_tasks"
	busiestTask = "reckon_workload_busiest_task_cpu_seconds_total"
)

// stepOn identifies a step of a workload on a node.
type stepOn struct {
	workloadKey
	node, step string
}

// addTasks adds the balance of the tasks of their steps to workloads. Counters cover the whole time of a step.
func (e *Evaluator) addTasks(ctx context.Context, r *rangeReading) error {
	at := map[workloadKey]int{}
	for i := range r.list {
		k := workloadKey{r.list[i].Site, r.list[i].ID}
		if _, again := at[k]; again { // the steps of its runs have the same names
			at[k] = -1
			continue
		}
		at[k] = i
	}
	found := map[stepOn]*misuse.StepTasks{}
	var ids []string
	read := func(names []string, use func(k stepOn, name string, it chunkenc.Iterator), ms ...*labels.Matcher) error {
		var n series.Labels
		return series.ForEach(ctx, e.Series, r.from.Add(-before), r.to, func(l labels.Labels, it chunkenc.Iterator) error {
			n.Read(l)
			if k := (stepOn{workloadKey{n.Site, n.Workload}, n.Node, n.Part}); n.Node != "" {
				use(k, n.Metric, it)
			}
			return nil
		}, append(ms, series.OneOf(model.MetricNameLabel, names))...)
	}
	err := read([]string{taskCount, busiestTask}, func(k stepOn, name string, it chunkenc.Iterator) {
		if i, ok := at[k.workloadKey]; !ok || i < 0 {
			return
		}
		t := found[k]
		if t == nil {
			t = &misuse.StepTasks{Step: k.step, Node: k.node}
			found[k] = t
			ids = append(ids, k.workload)
		}
		if name == taskCount {
			t.Tasks, _ = series.Max(it)
		} else {
			t.Busiest, _ = series.Total(it)
		}
	})
	if err != nil || len(found) == 0 {
		return err
	}
	err = read([]string{workloadCPU}, func(k stepOn, _ string, it chunkenc.Iterator) {
		if t := found[k]; t != nil {
			seconds, _ := series.Total(it)
			t.CPUSeconds += seconds
		}
	}, series.OneOf("workload", ids))
	if err != nil {
		return err
	}
	for k, t := range found {
		w := &r.list[at[k.workloadKey]]
		w.Tasks = append(w.Tasks, *t)
	}
	for i := range r.list {
		slices.SortFunc(r.list[i].Tasks, func(a, b misuse.StepTasks) int {
			return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Node, b.Node))
		})
	}
	return nil
}
