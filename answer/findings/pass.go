package findings

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"golang.org/x/sync/errgroup"

	"reckon/workload"
)

// Series that are read node by node.
const (
	workloadCPU    = "reckon_workload_cpu_seconds_total"
	workloadWait   = "reckon_workload_cpu_wait_seconds_total"
	workloadMemory = "reckon_workload_memory_bytes"
	workloadGPU    = "reckon_workload_gpu_seconds_total"
	workloadIO     = "reckon_workload_io_bytes_total"
	workloadIOWait = "reckon_workload_io_wait_seconds_total"
	gpuMemory      = "reckon_workload_gpu_memory_bytes"
	nodeCPU        = "node_cpu_seconds_total"
	nodeMemory     = "node_memory_MemTotal_bytes"
	nodeAvailable  = "node_memory_MemAvailable_bytes"
	nodeRunnable   = "node_procs_running"
	cpuPressure    = "node_pressure_cpu_waiting_seconds_total"
	memoryPressure = "node_pressure_memory_waiting_seconds_total"
	ioPressure     = "node_pressure_io_waiting_seconds_total"
	gpuInfo        = "reckon_gpu_info"
	nodeGPU        = "reckon_node_gpu_seconds_total"
	zombieCount    = "reckon_zombie_processes"
)

var seriesToRead = []string{workloadCPU, workloadWait, workloadMemory, workloadGPU, workloadIO, workloadIOWait, gpuMemory, nodeCPU,
	nodeMemory,
	nodeAvailable, nodeRunnable, cpuPressure, memoryPressure, ioPressure, gpuInfo, nodeGPU, zombieCount, exactnessMetric,
	allocatedCores, allocatedMemory, allocatedGPUs, requestedCores, requestedMemory, requestedGPUs, scheduledNode}

const (
	// before is the time before the start for which samples are read. They include the sample
	// that precedes the first increase.
	before = 5 * time.Minute
	// gap is the maximum distance of samples across which a gauge holds and an increase is spread.
	gap = 10 * time.Minute
	// silent is the time that a node may be silent and still count as up.
	silent = 5 * time.Minute
	// idleGPU is the share of a device below which it counts as idle.
	idleGPU = 0.002
)

// machine holds the data read of one node. Lines are on the grid of the evaluation.
type machine struct {
	nodeKey
	cpus, gpus  map[string]bool
	latest      int64            // last sample of its processors, Unix ms
	measured    map[string]int64 // GPUs with measured use, and the time of the last report
	scheduled   bool             // scheduled by a batch system
	allocations map[allocation]line
	inexact     map[inexactKey]inexactSpans

	used, all                              line // CPU seconds
	cpuWaits, cpuWatched, memWaits, memAll line // seconds with a waiting task, and seconds in which that was measured
	ioWaits, ioWatched                     line
	tasks, tasksWatched                    line // tasks times seconds
	free, total                            line // bytes times seconds
	size                                   float64
	owners                                 map[string]*ownerUse
	zombies                                []zombieRun
	work                                   map[workloadKey]*nodeUse
}

// ownerUse is the use of all work of one owner on a node, by step.
type ownerUse struct {
	cpu, wait, memory, gpu, io, ioWait line
	kinds, ids                         map[string]bool // of its workloads
}

// systemOwner is the owner of root's services, which are not judged. Processes of root's shells belong to root.
const systemOwner = "the services of root"

// workloadKey identifies a workload.
type workloadKey struct{ site, workload string }

// nodeUse holds the stored data of a workload on a node.
type nodeUse struct {
	cpu        float64            // counter values, which cover the whole run
	gpus       map[string]float64 // busy seconds by device
	written    float64            // bytes
	hasWritten bool               // written was measured
	// devices on which it holds memory.
	devices map[string]bool
	// held is the time since which it holds GPU memory, used the time of its last GPU use, seen the
	// time of its last report, all in Unix ms; 0 means never.
	held, used, seen int64
}

// addWritten adds written bytes. It ignores a nil w, which stands for work on one node: there are no nodes to compare.
func (w *nodeUse) addWritten(direction string, bytes float64) {
	if w != nil && direction == "write" {
		w.written, w.hasWritten = w.written+bytes, true
	}
}

// zombieRun is the number of zombies of an owner at each of the last samples.
type zombieRun struct {
	owner  string
	times  []int64
	counts []float64
}

// listNodes lists the names of nodes with series in a time range.
func listNodes(ctx context.Context, s storage.Queryable, from, to time.Time, where ...*labels.Matcher) ([]string, error) {
	q, err := s.Querier(from.UnixMilli(), to.UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("query the nodes: %w", err)
	}
	defer q.Close()
	names, _, err := q.LabelValues(ctx, "node", nil, where...)
	if err != nil {
		return nil, fmt.Errorf("query the nodes: %w", err)
	}
	return names, nil
}

// maxReaders is the number of nodes that read at once.
const maxReaders = 2

// readMachines reads the nodes one by one and calls take for each from two goroutines, so that only two nodes are in memory
// at a time. It keeps the workloads in wide separately, and all others only as the sum of their owner.
func (e *Evaluator) readMachines(ctx context.Context, r *rangeReading, names []string, wide map[workloadKey]bool,
	take func(*machine)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxReaders)
	for _, name := range names {
		g.Go(func() error {
			found, err := e.readMachine(ctx, r, name, wide)
			if err != nil {
				return err
			}
			for _, m := range found {
				take(m)
			}
			return nil
		})
	}
	return g.Wait()
}

// readMachine reads the nodes with one name, which several sites may have.
func (e *Evaluator) readMachine(ctx context.Context, r *rangeReading, name string, wide map[workloadKey]bool) ([]*machine, error) {
	from := r.from.Add(-before).UnixMilli()
	q, err := e.Series.Querier(from, r.to.UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("query the series of node %s: %w", name, err)
	}
	defer q.Close()
	set := q.Select(ctx, false, &storage.SelectHints{Start: from, End: r.to.UnixMilli()},
		labels.MustNewMatcher(labels.MatchEqual, "node", name),
		labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(seriesToRead, "|")))
	found := map[string]*machine{}
	var it chunkenc.Iterator
	p := nodePass{rangeReading: r, grid: r.from.UnixMilli(), width: r.step.Milliseconds(), steps: r.stepCount(), wide: wide}
	for set.Next() {
		s := set.At()
		l := s.Labels()
		site := l.Get("site")
		m := found[site]
		if m == nil {
			m = &machine{nodeKey: nodeKey{site, name}, cpus: map[string]bool{}, gpus: map[string]bool{}, measured: map[string]int64{},
				allocations: map[allocation]line{}, inexact: map[inexactKey]inexactSpans{}, owners: map[string]*ownerUse{},
				work: map[workloadKey]*nodeUse{}}
			found[site] = m
		}
		it = s.Iterator(it)
		p.addSeries(m, l, it)
		if err := it.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", l, err)
		}
	}
	if err := set.Err(); err != nil {
		return nil, fmt.Errorf("query the series of node %s: %w", name, err)
	}
	out := make([]*machine, 0, len(found))
	for _, m := range found {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *machine) int { return strings.Compare(a.site, b.site) })
	return out, nil
}

// nodePass is the reading of one node's series.
type nodePass struct {
	*rangeReading
	grid, width int64
	steps       int
	wide        map[workloadKey]bool
}

// addSeries adds one series to its node.
func (p *nodePass) addSeries(m *machine, l labels.Labels, it chunkenc.Iterator) {
	name := l.Get(model.MetricNameLabel)
	switch name {
	case nodeCPU:
		mode := l.Get("mode")
		if mode == "guest" || mode == "guest_nice" { // included in user and nice
			return
		}
		m.cpus[l.Get("cpu")] = true
		last := p.spreadCounter(it, func(i int, amount, _ float64) {
			m.all.add(p.steps, i, amount)
			if mode != "idle" && mode != "iowait" {
				m.used.add(p.steps, i, amount)
			}
		}, nil)
		m.latest = max(m.latest, last)
	case cpuPressure, memoryPressure, ioPressure:
		amount, watched := &m.cpuWaits, &m.cpuWatched
		switch name {
		case memoryPressure:
			amount, watched = &m.memWaits, &m.memAll
		case ioPressure:
			amount, watched = &m.ioWaits, &m.ioWatched
		}
		p.spreadCounter(it, func(i int, v, seconds float64) {
			amount.add(p.steps, i, v)
			watched.add(p.steps, i, seconds)
		}, nil)
	case nodeRunnable:
		p.spreadGauge(it, func(i int, v, seconds float64) {
			m.tasks.add(p.steps, i, v*seconds)
			m.tasksWatched.add(p.steps, i, seconds)
		}, nil)
	case nodeMemory:
		p.spreadGauge(it, func(i int, v, seconds float64) { m.total.add(p.steps, i, v*seconds) }, func(_ int64, v float64) { m.size = v })
	case nodeAvailable:
		p.spreadGauge(it, func(i int, v, seconds float64) { m.free.add(p.steps, i, v*seconds) }, nil)
	case gpuInfo:
		if l.Get("parent") == "" { // a partition is part of its device
			m.gpus[l.Get("device")] = true
		}
	case nodeGPU:
		device := l.Get("device")
		m.measured[device] = max(m.measured[device], p.spreadGauge(it, func(int, float64, float64) {}, nil))
	case exactnessMetric:
		k := inexactKey{m.nodeKey, l.Get("kind"), l.Get("workload"), l.Get("figure")}
		list := m.inexact[k]
		p.spreadGauge(it, func(int, float64, float64) {}, func(t int64, v float64) {
			if v > 0 {
				list.addTime(t)
			}
		})
		if list != nil {
			m.inexact[k] = list
		}
	case scheduledNode:
		m.scheduled = true
	case zombieCount:
		run := zombieRun{owner: l.Get("owner")}
		p.spreadGauge(it, func(int, float64, float64) {}, func(t int64, v float64) {
			run.times, run.counts = append(run.times, t), append(run.counts, v)
		})
		m.zombies = append(m.zombies, run)
	default:
		p.addWorkload(m, name, l, it)
	}
}

// addWorkload adds a series of a workload to its owner.
func (p *nodePass) addWorkload(m *machine, name string, l labels.Labels, it chunkenc.Iterator) {
	of := l.Get("owner")
	kind := workload.Kind(l.Get("kind"))
	if kind.System() && name != workloadGPU || of == "" {
		return // kernel activity has no owner
	}
	if resource := allocatedResource(name); resource != "" {
		if !kind.Scheduled() {
			return
		}
		k := allocation{l.Get("workload"), of, resource}
		given := m.allocations[k]
		p.spreadGauge(it, func(i int, v, _ float64) { given.raiseTo(p.steps, i, v) }, nil)
		m.allocations[k] = given
		return
	}
	o := m.ownerOf(of, kind)
	o.kinds[string(kind)], o.ids[l.Get("workload")] = true, true
	var w *nodeUse
	k := workloadKey{m.site, l.Get("workload")}
	if name == gpuMemory || name == workloadGPU || p.wide[k] {
		if w = m.work[k]; w == nil {
			w = &nodeUse{gpus: map[string]float64{}, devices: map[string]bool{}}
			m.work[k] = w
		}
	}
	switch name {
	case workloadCPU:
		counted := p.spreadCounterTotal(it, func(i int, v, _ float64) { o.cpu.add(p.steps, i, v) })
		if w != nil {
			w.cpu += counted.last
		}
	case workloadWait:
		p.spreadCounter(it, func(i int, v, _ float64) { o.wait.add(p.steps, i, v) }, nil)
	case workloadIO:
		w.addWritten(l.Get("direction"), p.spreadCounterTotal(it, func(i int, v, _ float64) { o.io.add(p.steps, i, v) }).last)
	case workloadIOWait:
		p.spreadCounter(it, func(i int, v, _ float64) { o.ioWait.add(p.steps, i, v) }, nil)
	case workloadMemory:
		p.spreadGauge(it, func(i int, v, seconds float64) { o.memory.add(p.steps, i, v*seconds) }, nil)
	case workloadGPU:
		counted := p.spreadCounterTotal(it, func(i int, v, _ float64) { o.gpu.add(p.steps, i, v) })
		w.gpus[l.Get("device")] += counted.last
		w.used, w.seen = max(w.used, counted.used), max(w.seen, counted.at)
	case gpuMemory:
		held, device := int64(0), l.Get("device")
		w.devices[device] = true
		p.spreadGauge(it, func(int, float64, float64) {}, func(t int64, v float64) {
			switch {
			case v <= 0:
				held = 0
			case held == 0:
				held = t
			}
		})
		if held != 0 && (w.held == 0 || held < w.held) {
			w.held = held
		}
	}
}

// ownerOf returns the owner whom work of a kind is charged to: root's services are not root's.
func (m *machine) ownerOf(of string, kind workload.Kind) *ownerUse {
	if of == "root" && !kind.Person() {
		of = systemOwner
	}
	o := m.owners[of]
	if o == nil {
		o = &ownerUse{kinds: map[string]bool{}, ids: map[string]bool{}}
		m.owners[of] = o
	}
	return o
}

// counterTotal is the state of a counter: the last value, its time, and the time of the last noticeable increase.
type counterTotal struct {
	last     float64
	at, used int64
}

// spreadCounter spreads each increase of a counter over the steps between its two samples and returns the time of the last
// sample. It handles resets. The time of an increase over a long gap is unknown, so it is not spread.
func (p *nodePass) spreadCounter(it chunkenc.Iterator, take func(i int, amount, seconds float64), grew func(t int64, rate float64)) int64 {
	var t0 int64
	var v0 float64
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		t, v := it.At()
		if math.IsNaN(v) {
			continue
		}
		if t0 != 0 && t > t0 && t-t0 <= gap.Milliseconds() {
			amount := v - v0
			if amount < 0 {
				amount = v
			}
			rate := amount / (float64(t-t0) / 1000)
			if grew != nil {
				grew(t, rate)
			}
			spans(p.grid, p.width, p.steps, t0, t, func(i int, seconds float64) { take(i, rate*seconds, seconds) })
		}
		t0, v0 = t, v
	}
	return t0
}

// spreadCounterTotal is like counter and also returns the total increase.
func (p *nodePass) spreadCounterTotal(it chunkenc.Iterator, take func(i int, amount, seconds float64)) (c counterTotal) {
	w := &totalTracker{Iterator: it}
	c.at = p.spreadCounter(w, take, func(t int64, rate float64) {
		if rate > idleGPU {
			c.used = t
		}
	})
	c.last = w.base + w.last
	return c
}

// totalTracker tracks the total of a counter.
type totalTracker struct {
	chunkenc.Iterator
	base, last float64
}

// At implements chunkenc.Iterator.
func (w *totalTracker) At() (int64, float64) {
	t, v := w.Iterator.At()
	if !math.IsNaN(v) {
		if v < w.last {
			w.base += w.last
		}
		w.last = v
	}
	return t, v
}

// spreadGauge spreads a gauge over the time that each value held, and returns the time of the last sample.
func (p *nodePass) spreadGauge(it chunkenc.Iterator, take func(i int, v, seconds float64), sample func(t int64, v float64)) int64 {
	var t0 int64
	var v0 float64
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		t, v := it.At()
		if t0 != 0 && t > t0 && t-t0 <= gap.Milliseconds() {
			spans(p.grid, p.width, p.steps, t0, t, func(i int, seconds float64) { take(i, v0, seconds) })
		}
		if t0 = t; math.IsNaN(v) {
			t0 = 0
			if value.IsStaleNaN(v) && sample != nil {
				sample(t, 0) // the series ended
			}
			continue
		}
		v0 = v
		if sample != nil {
			sample(t, v)
		}
	}
	return t0
}
