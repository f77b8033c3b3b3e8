package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

const (
	owners      = 300
	coresOfNode = 64
	memOfNode   = 256 << 30
	gpuEvery    = 10 // one node of so many has GPUs
	gpusOfNode  = 4
)

type config struct {
	jobs, nodes, cores int
	export             time.Duration
	profile            string
}

// job is one made-up job; its use is even over its life.
type job struct {
	id, owner  string
	nodes      []int
	start, end time.Time // whole exports
	submit     time.Time
	cores, p95 float64 // asked for, used
	memory     float64 // asked for
	peak       float64
	gpus, gpu  float64 // asked for, and busy share
	wait       float64 // cores wanted and not had
	state      string
	rows       []*series
}

// series are those of a job on one node.
type series struct {
	user, system, wait, anon, file *metric.Series
	gpuSeconds, gpuMemory          []*metric.Series
	user0, system0, wait0          float64
	gpu0                           []float64
}

type site struct {
	config
	from, to, now time.Time
	jobs          []*job
	busy          [][]float64 // by node: seconds in use and idle, by processor
	machine       [][]*metric.Series
}

func desc(name string, kind metric.Kind, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Kind: kind, Help: "Made up.", Labels: labels}
}

var (
	cpuDesc    = desc("reckon_workload_cpu_seconds_total", metric.Counter, "workload", "kind", "part", "owner", "mode")
	waitDesc   = desc("reckon_workload_cpu_wait_seconds_total", metric.Counter, "workload", "kind", "part", "owner")
	memoryDesc = desc("reckon_workload_memory_bytes", metric.Gauge, "workload", "kind", "part", "owner", "type")
	gpuDesc    = desc("reckon_workload_gpu_seconds_total", metric.Counter, "workload", "kind", "part", "owner", "vendor", "device", "method")
	gpuMemDesc = desc("reckon_workload_gpu_memory_bytes", metric.Gauge, "workload", "kind", "part", "owner", "vendor", "device")
	nodeCPU    = desc("node_cpu_seconds_total", metric.Counter, "cpu", "mode")
	total      = desc("node_memory_MemTotal_bytes", metric.Gauge)
	available  = desc("node_memory_MemAvailable_bytes", metric.Gauge)
	running    = desc("node_procs_running", metric.Gauge)
	waiting    = desc("node_pressure_cpu_waiting_seconds_total", metric.Counter)
	memWaiting = desc("node_pressure_memory_waiting_seconds_total", metric.Counter)
	gpuInfo    = desc("reckon_gpu_info", metric.Gauge, "vendor", "device", "index", "model", "driver", "parent")
)

// newSite draws the jobs: lengths from seconds to hours with half of them below five
// minutes, one to sixteen cores, a few on several nodes.
func newSite(c config) *site {
	rng := rand.New(rand.NewPCG(7, 11))
	s := &site{config: c, to: time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)}
	s.from = s.to.Add(-24 * time.Hour)
	s.now = s.from
	for i := range c.jobs {
		length := time.Duration(math.Exp(math.Log(300)+1.3*rng.NormFloat64())*float64(time.Second)) + 10*time.Second
		length = min(length, 12*time.Hour)
		j := &job{id: fmt.Sprintf("slurm/%d", 100_000+i), owner: fmt.Sprintf("user%03d", int(float64(owners)*math.Pow(rng.Float64(), 2))), state: "completed"}
		j.start = s.from.Add(time.Duration(rng.Float64() * float64(24*time.Hour))).Truncate(time.Second)
		j.end = j.start.Add(length).Truncate(time.Second)
		j.submit = j.start.Add(-time.Duration(rng.ExpFloat64() * float64(10*time.Minute)))
		if j.end.After(s.to) {
			j.end, j.state = time.Time{}, "running"
		}
		j.cores = []float64{1, 1, 2, 4, 8, 16}[rng.IntN(6)]
		n := 1
		if rng.IntN(200) == 0 {
			n = 2 + rng.IntN(3)
		}
		for range n {
			j.nodes = append(j.nodes, rng.IntN(c.nodes))
		}
		slices.Sort(j.nodes)
		j.nodes = slices.Compact(j.nodes)
		j.p95 = j.cores * (0.6 + 0.4*rng.Float64())
		if rng.IntN(20) == 0 {
			j.p95 = j.cores * 0.05
		}
		j.wait = j.cores * 0.02
		j.memory = j.cores * 4 * (1 << 30)
		j.peak = j.memory * (0.3 + 0.6*rng.Float64())
		if gpuNode(j.nodes[0]) && len(j.nodes) == 1 && rng.IntN(3) > 0 {
			j.gpus, j.gpu = float64(1+rng.IntN(2)), 0.7*rng.Float64()
			if rng.IntN(15) == 0 {
				j.gpu = 0.001
			}
		}
		s.jobs = append(s.jobs, j)
	}
	slices.SortFunc(s.jobs, func(a, b *job) int { return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.id, b.id)) })
	return s
}

func gpuNode(n int) bool       { return n%gpuEvery == gpuEvery-1 }
func name(n int) string        { return fmt.Sprintf("n%04d", n) }
func device(n, gpu int) string { return fmt.Sprintf("GPU-%04d-%d", n, gpu) }
func f(v float64) *float64     { return &v }
func (j *job) last() time.Time { return cmp.Or(j.end, farAway) }
func (j *job) share() float64  { return 1 / float64(len(j.nodes)) }

var farAway = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// fill writes the day, export by export, and the rows of the catalogue.
func (s *site) fill(ctx context.Context, series store.Writer, facts store.Catalogue) (samples int, err error) {
	batches := make([]metric.Batch, s.nodes)
	labels := make([]map[string]string, s.nodes)
	for n := range s.nodes {
		labels[n] = map[string]string{"site": "bench", "node": name(n)}
		s.machine = append(s.machine, machineSeries(n))
		s.busy = append(s.busy, make([]float64, 2*coresOfNode+2))
	}
	var live []*job
	next := 0
	for at := s.from.Add(s.export); !at.After(s.to); at = at.Add(s.export) {
		s.now = at
		for next < len(s.jobs) && s.jobs[next].start.Before(at) {
			live = append(live, s.jobs[next])
			next++
		}
		use := make([][2]float64, s.nodes) // cores and bytes
		for n := range batches {
			batches[n].Reset(at)
		}
		for _, j := range live {
			j.export(at, s.export, batches, use)
		}
		for n := range batches {
			s.exportMachine(n, use[n], &batches[n])
			samples += len(batches[n].Samples)
			if err := series.Append(ctx, labels[n], &batches[n]); err != nil {
				return samples, err
			}
		}
		live = slices.DeleteFunc(live, func(j *job) bool { return !j.last().After(at) })
	}
	rows := make([]store.Workload, 0, 5000)
	for i, j := range s.jobs {
		rows = append(rows, j.row(s.to))
		if len(rows) == cap(rows) || i == len(s.jobs)-1 {
			if err := facts.Upsert(ctx, rows); err != nil {
				return samples, err
			}
			rows = rows[:0]
		}
	}
	return samples, nil
}

// export adds what the job used up to a time; its last sample says so.
func (j *job) export(at time.Time, every time.Duration, batches []metric.Batch, use [][2]float64) {
	begin, end, over := at.Add(-every), at, false
	if j.start.After(begin) {
		begin = j.start
	}
	if !j.last().After(at) {
		end, over = j.end, true
	}
	seconds := max(end.Sub(begin).Seconds(), 0)
	if j.rows == nil {
		for _, n := range j.nodes {
			j.rows = append(j.rows, j.series(n))
		}
	}
	for i, n := range j.nodes {
		r, b := j.rows[i], &batches[n]
		used := j.p95 * j.share() * seconds
		r.user0, r.system0, r.wait0 = r.user0+0.95*used, r.system0+0.05*used, r.wait0+j.wait*seconds
		add := func(s *metric.Series, v float64) {
			b.Samples = append(b.Samples, metric.Sample{Series: s, Value: v, Last: over})
		}
		add(r.user, r.user0)
		add(r.system, r.system0)
		add(r.wait, r.wait0)
		memory := j.peak * j.share()
		if over {
			memory = 0
		}
		add(r.anon, memory*0.9)
		add(r.file, memory*0.1)
		for g := range r.gpuSeconds {
			r.gpu0[g] += j.gpu * seconds
			add(r.gpuSeconds[g], r.gpu0[g])
			add(r.gpuMemory[g], 8<<30)
		}
		use[n][0] += used / every.Seconds()
		use[n][1] += memory
	}
}

func (j *job) series(n int) *series {
	id := []string{j.id, "slurm", "0", j.owner}
	make := func(d *metric.Desc, more ...string) *metric.Series {
		return metric.NewSeries(d, append(slices.Clone(id), more...)...)
	}
	r := &series{user: make(cpuDesc, "user"), system: make(cpuDesc, "system"), wait: make(waitDesc), anon: make(memoryDesc, "anon"), file: make(memoryDesc, "file")}
	for g := range int(j.gpus) {
		r.gpuSeconds = append(r.gpuSeconds, make(gpuDesc, "nvidia", device(n, g), "measured"))
		r.gpuMemory = append(r.gpuMemory, make(gpuMemDesc, "nvidia", device(n, g)))
		r.gpu0 = append(r.gpu0, 0)
	}
	return r
}

// row is what the catalogue knows of the job.
func (j *job) row(now time.Time) store.Workload {
	seen := now
	if !j.end.IsZero() {
		seen = j.end
	}
	wall := seen.Sub(j.start).Seconds()
	w := store.Workload{
		Site: "bench", ID: j.id, Kind: "slurm", Name: "train", Owner: j.owner, Account: "a" + j.owner[4:5], Partition: "batch", Command: "python3",
		State: j.state, Submit: j.submit, Start: j.start, Seen: seen, End: j.end,
		Row: figure.Row{CPUSeconds: f(j.p95 * wall), CPUWaitSeconds: f(j.wait * wall), CoresMean: f(j.p95), CoresP50: f(j.p95), CoresP95: f(j.p95), CoresMax: f(j.p95), MemoryPeakBytes: f(j.peak), MajorFaults: f(3), SwapBytes: f(0), ThrottledSeconds: f(0), Processes: f(2), RequestCores: f(j.cores), RequestMemoryBytes: f(j.memory), RequestSeconds: f(43200)},
	}
	for _, n := range j.nodes {
		w.Nodes = append(w.Nodes, name(n))
	}
	if j.gpus > 0 {
		w.Partition, w.RequestGPUs, w.GPUSeconds, w.GPUMemoryPeak = "gpu", f(j.gpus), f(j.gpus*j.gpu*wall), f(8<<30)
	}
	return w
}

func machineSeries(n int) []*metric.Series {
	var out []*metric.Series
	for c := range coresOfNode {
		out = append(out, metric.NewSeries(nodeCPU, fmt.Sprint(c), "user"), metric.NewSeries(nodeCPU, fmt.Sprint(c), "idle"))
	}
	for _, d := range []*metric.Desc{total, available, running, waiting, memWaiting} {
		out = append(out, metric.NewSeries(d))
	}
	if gpuNode(n) {
		for g := range gpusOfNode {
			out = append(out, metric.NewSeries(gpuInfo, "nvidia", device(n, g), fmt.Sprint(g), "made up", "1", ""))
		}
	}
	return out
}

// exportMachine adds what the node used as a whole.
func (s *site) exportMachine(n int, use [2]float64, b *metric.Batch) {
	every, m, busy := s.export.Seconds(), s.machine[n], s.busy[n]
	cores := min(use[0], coresOfNode)
	for c := range coresOfNode {
		part := cores / coresOfNode
		busy[2*c] += part * every
		busy[2*c+1] += (1 - part) * every
		b.Add(m[2*c], busy[2*c])
		b.Add(m[2*c+1], busy[2*c+1])
	}
	at := 2 * coresOfNode
	if use[0] > 0.9*coresOfNode {
		busy[at] += 0.3 * every
	}
	for i, v := range []float64{memOfNode, max(memOfNode-use[1], 0), math.Round(use[0]) + 1, busy[at], busy[at+1]} {
		b.Add(m[at+i], v)
	}
	for _, g := range m[at+5:] {
		b.Add(g, 1)
	}
}
