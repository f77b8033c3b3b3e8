package query

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/internal/series"
)

// maxSteps bounds a profile, as Prometheus bounds a range query.
const maxSteps = 11_000

// ErrSteps is wrapped by the error for a profile with too many steps or none.
var ErrSteps = errors.New("steps of a profile: from must be before to, and at most 11000 steps fit between them")

// curveRule defines how the series of a metric become figures over time.
type curveRule struct {
	metric, label string            // the label that selects a name
	name          map[string]string // figure by the label's value; "" for all others
	unit          string
	rate          bool // a counter: its increase per second; otherwise the mean of samples
	total         string
}

var curves = []curveRule{
	{metric: figure.CPU, name: map[string]string{"": "cores"}, unit: "cores", rate: true},
	{metric: figure.CPUWait, name: map[string]string{"": "cpu_wait_cores"}, unit: "cores", rate: true},
	{metric: figure.IOWait, name: map[string]string{"": "io_wait_threads"}, unit: "threads", rate: true},
	{metric: figure.Memory, label: "type",
		name: map[string]string{"anon": "memory_anon_bytes", "file": "memory_file_bytes", "shmem": "memory_shmem_bytes"}, unit: "bytes",
		total: "memory_bytes"},
	{metric: figure.IO, label: "direction",
		name: map[string]string{"read": "io_read_bytes_per_second", "write": "io_write_bytes_per_second"}, unit: "bytes_per_second",
		rate: true},
	{metric: figure.Network, label: "direction",
		name: map[string]string{"receive": "network_receive_bytes_per_second", "transmit": "network_transmit_bytes_per_second"},
		unit: "bytes_per_second", rate: true, total: "network_bytes_per_second"},
	{metric: figure.MemoryTraffic, name: map[string]string{"": "memory_traffic_bytes_per_second"}, unit: "bytes_per_second", rate: true},
	{metric: "reckon_workload_page_faults_total", label: "type",
		name: map[string]string{"major": "major_faults_per_second", "minor": "minor_faults_per_second"}, unit: "per_second", rate: true},
	{metric: figure.GPU, name: map[string]string{"": "gpus"}, unit: "gpus", rate: true},
	{metric: figure.GPUMemory, name: map[string]string{"": "gpu_memory_bytes"}, unit: "bytes"},
	{metric: figure.Energy, label: "domain",
		name: map[string]string{"package": "power_package_watts", "dram": "power_dram_watts", "gpu": "power_gpu_watts",
			"board": "power_board_watts", "psys": "power_psys_watts", "rest": "power_rest_watts"}, unit: "watts", rate: true,
		total: "power_watts"},
	{metric: "reckon_workload_processes", name: map[string]string{"": "processes"}},
	{metric: "reckon_workload_threads", name: map[string]string{"": "threads"}},
}

// profileKey identifies one line of a profile.
type profileKey struct{ metric, unit, node, part string }

// Profile returns the figures of a workload over time by node and part. Point i covers the step that ends at its time.
// The increase of a counter is divided among the steps between two samples, so that the area below the curve equals the
// increase. A step that no pair of samples covers is nil.
func (v *Views) Profile(ctx context.Context, s Selection, step time.Duration) ([]wire.Profile, error) {
	g, err := newGrid(s.From, s.To, step, v.gone)
	if err != nil {
		return nil, err
	}
	lines := map[profileKey]*line{}
	metrics := make([]string, len(curves))
	by := map[string]*curveRule{}
	for i := range curves {
		metrics[i], by[curves[i].metric] = curves[i].metric, &curves[i]
	}
	begin, ends, err := v.lifetimes(ctx, s)
	if err != nil {
		return nil, err
	}
	var n series.Labels
	err = v.eachSeries(ctx, s, s.From.Add(-v.gone), s.To, metrics, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "type", "direction", "domain", "share")
		c := by[n.Metric]
		one := g.newLine()
		if c.rate {
			g.spreadIncrease(one, it, begin, ends[partKey{n.Node, n.Part}])
		} else {
			g.addMean(one, it, ends[partKey{n.Node, n.Part}])
		}
		for _, name := range []string{c.name[n.Rest[c.label]], c.total} {
			if name == "" {
				continue
			}
			k := profileKey{name, c.unit, n.Node, n.Part}
			if lines[k] == nil {
				lines[k] = g.newLine()
			}
			lines[k].addLine(one)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return g.toProfiles(lines), nil
}

// lifetimes returns the start time of the workload, or 0 if no series reports it, and the end times of its parts, Unix ms.
func (v *Views) lifetimes(ctx context.Context, s Selection) (start int64, ends map[partKey][]int64, err error) {
	ends = map[partKey][]int64{}
	var n series.Labels
	err = v.eachSeries(ctx, s, s.From, s.To, []string{figure.StartTime, figure.EndTime}, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l)
		if n.Metric == figure.StartTime {
			if _, x, _, ok := series.Last(it); ok && (start == 0 || int64(x*1000) < start) {
				start = int64(x * 1000)
			}
			return nil
		}
		k := partKey{strings.Clone(n.Node), strings.Clone(n.Part)}
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			if _, x := it.At(); vt == chunkenc.ValFloat && x > 0 && !slices.Contains(ends[k], int64(x*1000)) {
				ends[k] = append(ends[k], int64(x*1000))
			}
		}
		return it.Err()
	})
	return start, ends, err
}

// endBetween returns the end time of a part if it ended between its samples at t0 and t. Otherwise it returns t.
func endBetween(ends []int64, t0, t int64) int64 {
	for _, end := range ends {
		if t0 <= end && end < t {
			return end
		}
	}
	return t
}

// grid is a sequence of steps of equal length.
type grid struct {
	from, step int64 // milliseconds
	n          int
	gap        int64 // samples further apart do not cover the time between them
}

func newGrid(from, to time.Time, step, gap time.Duration) (*grid, error) {
	if step < time.Millisecond || !from.Before(to) || to.Sub(from)/step >= maxSteps {
		return nil, ErrSteps
	}
	n := int((to.Sub(from) + step - 1) / step)
	return &grid{from: from.UnixMilli(), step: step.Milliseconds(), n: n, gap: max(gap.Milliseconds(), 1)}, nil
}

// line is a figure at each step: its sum, and its weight in milliseconds (or samples).
type line struct{ sum, weight []float64 }

func (g *grid) newLine() *line { return &line{make([]float64, g.n), make([]float64, g.n)} }

// addLine adds another line step by step. A step is known if either line has a value.
func (l *line) addLine(o *line) {
	for i, w := range o.weight {
		if w > 0 {
			l.sum[i] += o.sum[i] / w
			l.weight[i] = 1
		}
	}
}

// minSpread is the shortest time over which an increase is spread, in ms. The agent charges processes once a second.
const minSpread = 1000

// spreadIncrease spreads the increase of a counter evenly over the time between its samples, in units per second. A counter
// that appears soon after begin, the start of the workload, is taken to have been zero at begin. The last increase of a
// part is spread up to the end of the part, because the sample follows the end.
func (g *grid) spreadIncrease(l *line, it chunkenc.Iterator, begin int64, ends []int64) {
	var t0 int64
	var v0 float64
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		t, v := it.At()
		if value.IsStaleNaN(v) {
			t0 = 0 // the next sample follows a reset or a pause
			continue
		}
		if math.IsNaN(v) {
			continue
		}
		if t0 == 0 && begin > 0 && begin < t && t-begin <= g.gap {
			t0, v0 = begin, 0
		}
		if t0 != 0 && t-t0 <= g.gap {
			inc := v - v0
			if inc < 0 {
				inc = v
			}
			g.distribute(l, t0, min(t, max(endBetween(ends, t0, t), t0+minSpread)), inc)
		}
		t0, v0, begin = t, v, 0
	}
}

// distribute distributes an amount that accrued between two times.
func (g *grid) distribute(l *line, t0, t1 int64, amount float64) {
	perMilli := amount / float64(t1-t0)
	for i := max(0, (t0-g.from)/g.step); i < int64(g.n); i++ {
		lo, hi := max(t0, g.from+i*g.step), min(t1, g.from+(i+1)*g.step)
		if lo >= t1 {
			return
		}
		if hi > lo {
			l.sum[i] += perMilli * float64(hi-lo) * 1000
			l.weight[i] += float64(hi - lo)
		}
	}
}

// addMean computes the mean of the samples within a step. It skips the sample after the end of a part, which is zero.
func (g *grid) addMean(l *line, it chunkenc.Iterator, ends []int64) {
	var t0 int64
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		t, v := it.At()
		ended := endBetween(ends, t0, t) < t
		t0 = t
		// A step includes its end but not its beginning.
		if i := (t - g.from - 1) / g.step; t > g.from && i < int64(g.n) && !math.IsNaN(v) && !ended {
			l.sum[i] += v
			l.weight[i]++
		}
	}
}

// toProfiles converts the lines to the result, in the order of curves, cores first.
func (g *grid) toProfiles(lines map[profileKey]*line) []wire.Profile {
	out := make([]wire.Profile, 0, len(lines))
	for k, l := range lines {
		p := wire.Profile{Metric: k.metric, Unit: k.unit, Node: k.node, Part: k.part, Points: make([]wire.Point, g.n)}
		some := false
		for i := range p.Points {
			p.Points[i].Time = time.UnixMilli(g.from + int64(i+1)*g.step).UTC()
			if l.weight[i] > 0 {
				p.Points[i].Value, some = new(l.sum[i]/l.weight[i]), true
			}
		}
		if some {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b wire.Profile) int {
		return cmp.Or(cmp.Compare(curveRank(a.Metric), curveRank(b.Metric)), cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Part, b.Part))
	})
	return out
}

func curveRank(metric string) int {
	for i, c := range curves {
		if c.total == metric {
			return 2 * i
		}
		for _, name := range c.name {
			if name == metric {
				return 2*i + 1
			}
		}
	}
	return 2 * len(curves)
}
