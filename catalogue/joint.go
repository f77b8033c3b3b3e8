package catalogue

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/store"
)

const (
	// jointStep is the shortest step over which the cores of several nodes are summed, the export interval.
	jointStep = 15 * time.Second
	// jointSteps is the maximum number of steps of one run, jointRuns the maximum number of runs read together.
	jointSteps = 4096
	jointRuns  = 200
	// firstStretch is the time before the first sample of a counter over which its initial value is spread.
	firstStretch = time.Minute
)

// setJointQuantiles sets the median and the 95th percentile of cores of ended runs on several nodes. The distribution of each
// node is over one-second ticks but has no times. The joint distribution is therefore computed from the nodes' CPU
// counters, over steps of the export interval or longer.
func setJointQuantiles(ctx context.Context, q storage.Queryable, rows []store.Workload) error {
	var apart []*store.Workload
	for i := range rows {
		if w := &rows[i]; !w.End.IsZero() && w.End.Sub(w.Start) >= 2*jointStep && w.Exactness["cores_max"] == figure.AtMost {
			apart = append(apart, w)
		}
	}
	slices.SortFunc(apart, func(a, b *store.Workload) int { return a.Start.Compare(b.Start) })
	for group := range slices.Chunk(apart, jointRuns) {
		if err := readJointCores(ctx, q, group); err != nil {
			return err
		}
	}
	return nil
}

// runProfile is the use of a run in each step of its time.
type runProfile struct {
	*store.Workload
	step  int64 // milliseconds
	cores []float64
	known []bool
}

func readJointCores(ctx context.Context, q storage.Queryable, runs []*store.Workload) error {
	byID := map[workloadKey][]*runProfile{}
	var ids []string
	from, to := runs[0].Start, runs[0].End
	for _, w := range runs {
		wall := w.End.Sub(w.Start)
		step := max(jointStep, (wall+jointSteps-1)/jointSteps).Milliseconds()
		n := (wall.Milliseconds() + step - 1) / step
		byID[workloadKey{w.Site, w.ID}] = append(byID[workloadKey{w.Site, w.ID}], &runProfile{w, step, make([]float64, n), make([]bool, n)})
		ids = append(ids, w.ID)
		from, to = store.Earlier(from, w.Start), store.Later(to, w.End)
	}
	slices.Sort(ids)
	var n series.Labels
	err := series.ForEach(ctx, q, from, to, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l)
		list := byID[workloadKey{n.Site, n.Workload}]
		var t0 int64
		var v0 float64
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			t, v := it.At()
			if vt != chunkenc.ValFloat || math.IsNaN(v) {
				continue
			}
			for _, r := range list {
				r.spreadIncrease(t0, v0, t, v)
			}
			t0, v0 = t, v
		}
		return nil
	}, series.Equal("__name__", figure.CPU), series.OneOf("workload", slices.Compact(ids)))
	if err != nil {
		return err
	}
	for _, list := range byID {
		for _, r := range list {
			r.setQuantiles()
		}
	}
	return nil
}

// spreadIncrease spreads the increase of a counter between two samples evenly over the time between them.
func (r *runProfile) spreadIncrease(t0 int64, v0 float64, t int64, v float64) {
	begin := r.Start.UnixMilli()
	if t <= begin || t > begin+int64(len(r.cores))*r.step {
		return
	}
	if t0 < begin { // the first of the run
		t0, v0 = max(begin, t-firstStretch.Milliseconds()), 0
	}
	if v < v0 {
		v0 = 0
	}
	if t <= t0 {
		return
	}
	for i := (t0 - begin) / r.step; i < int64(len(r.cores)); i++ {
		low, high := max(t0, begin+i*r.step), min(t, begin+(i+1)*r.step)
		if low >= high {
			return
		}
		r.cores[i] += (v - v0) * float64(high-low) / float64(t-t0) / (float64(r.step) / 1000)
		r.known[i] = true
	}
}

// setQuantiles sets the quantiles of cores from the steps. If the counters are known for less than nine tenths of the
// run, it keeps the previous values.
func (r *runProfile) setQuantiles() {
	var cores []float64
	for i, ok := range r.known {
		if ok {
			cores = append(cores, r.cores[i])
		}
	}
	if len(cores)*10 < len(r.cores)*9 {
		return
	}
	slices.Sort(cores)
	for i := range runFigures {
		f := &runFigures[i]
		if f.How.Value != figure.Quantile || f.Quantile >= 1 || *r.Row.At(i) == nil {
			continue
		}
		*r.Row.At(i) = new(cores[max(int(math.Ceil(f.Quantile*float64(len(cores))))-1, 0)])
		delete(r.Exactness, f.Key)
		r.Exactness.Add(f.Key, r.Exactness[f.As])
	}
}
