package importer

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/sonar"
	"reckon/store/tsdb"
)

// sink collects what is written at one time.
type sink struct {
	h   *tsdb.History
	err error
	n   int
}

func newSink() *sink { return &sink{h: &tsdb.History{}} }

func (s *sink) add(to *tsdb.HistorySeries, t int64, v float64) {
	if err := to.Add(t, v); err != nil && s.err == nil {
		s.err = err
	}
	s.n++
}

// write stores what was collected.
func (im *Importer) write(ctx context.Context) error {
	out := im.out
	im.out = newSink()
	if out.err != nil {
		return out.err
	}
	im.res.Samples += out.n
	return im.o.Store.ImportBlocks(ctx, out.h)
}

// The metrics that are written.
const (
	mCPU      = "reckon_workload_cpu_seconds_total"
	mCommand  = "reckon_command_cpu_seconds_total"
	mMemory   = "reckon_workload_memory_bytes"
	mPeak     = "reckon_workload_memory_peak_bytes"
	mByteSecs = "reckon_workload_memory_byte_seconds_total"
	mIO       = "reckon_workload_io_bytes_total"
	mGPU      = "reckon_workload_gpu_seconds_total"
	mGPUMem   = "reckon_workload_gpu_memory_bytes"
	mProcs    = "reckon_workload_processes"
	mThreads  = "reckon_workload_threads"
	mInfo     = "reckon_workload_info"
	mStart    = "reckon_workload_start_time_seconds"
	mEnd      = "reckon_workload_end_time_seconds"
	mState    = "reckon_workload_state"
	mSubmit   = "reckon_workload_submit_time_seconds"
	mExit     = "reckon_workload_exit_code"
	mNodes    = "reckon_workload_nodes_info"
	mCores    = "reckon_workload_request_cores"
	mReqMem   = "reckon_workload_request_memory_bytes"
	mReqGPUs  = "reckon_workload_request_gpus"
	mReqTime  = "reckon_workload_request_seconds"
	mReqNodes = "reckon_workload_request_nodes"
	mBoot     = "node_boot_time_seconds"
)

// jobSeries are the series of a job in the write under way.
type jobSeries struct {
	base []string
	by   map[string]*tsdb.HistorySeries
}

// series returns a series of the job; pairs are further labels.
func (im *Importer) series(o *jobSeries, name string, pairs ...string) *tsdb.HistorySeries {
	key := name
	if len(pairs) > 0 {
		key += "\x00" + strings.Join(pairs, "\x00")
	}
	s := o.by[key]
	if s == nil {
		s = im.out.h.Series(makeLabels(name, o.base, pairs))
		o.by[key] = s
	}
	return s
}

// makeLabels makes a label set without empty labels, which are the same as absent ones.
func makeLabels(name string, lists ...[]string) labels.Labels {
	b := labels.NewScratchBuilder(12)
	b.Add("__name__", name)
	for _, list := range lists {
		for i := 0; i+1 < len(list); i += 2 {
			if list[i+1] != "" {
				b.Add(list[i], list[i+1])
			}
		}
	}
	b.Sort()
	return b.Labels()
}

// tell writes what is known of a job at a reading.
func (im *Importer) tell(p place, j *jobState, t int64, procs []*sonar.Process) {
	if j.out == nil {
		j.out = &jobSeries{by: map[string]*tsdb.HistorySeries{}, base: []string{
			"kind", j.Kind, "node", p.node, "owner", j.Owner, "site", p.site, "source", "sonar", "workload", j.ID,
		}}
	}
	ms := t * 1000
	put := func(v float64, name string, pairs ...string) { im.out.add(im.series(j.out, name, pairs...), ms, v) }
	put(float64(j.Start), mStart)
	put(1, mInfo, "name", j.Command, "command", j.Command)
	// A job that was older than its first reading used what it had by then since its start.
	older := j.First == t && j.Start < t
	if older {
		for at := j.Start; at < t; at += touchedRange {
			im.note(at)
		}
	}
	if j.HasCPU {
		if older {
			im.out.add(im.series(j.out, mCPU), j.Start*1000, 0)
		}
		put(j.CPU, mCPU)
		for _, c := range sortedKeys(j.Commands) {
			if older {
				im.out.add(im.series(j.out, mCommand, "command", c), j.Start*1000, 0)
			}
			put(j.Commands[c], mCommand, "command", c)
		}
	}
	if j.HasMemory {
		put(j.Resident, mMemory, "type", "anon")
		put(j.Peak, mPeak)
		put(j.ByteSecs, mByteSecs)
	}
	if j.HasIO {
		put(j.Read, mIO, "direction", "read")
		put(j.Written, mIO, "direction", "write")
	}
	count, threads, held := 0.0, 0.0, map[string]float64{}
	for _, q := range procs {
		count += 1 + float64(q.Rolled)
		threads += float64(q.Threads)
		if q.GPUs != "" && q.GPUMemory >= 0 {
			cards := strings.Split(q.GPUs, ",")
			for _, c := range cards {
				held[c] += q.GPUMemory / float64(len(cards))
			}
		}
	}
	put(count, mProcs)
	if threads > 0 {
		put(threads, mThreads)
	}
	for _, c := range sortedKeys(j.GPU) {
		put(j.GPU[c], mGPU, "device", c)
		put(held[c], mGPUMem, "device", c)
	}
}

// nodeSeries are the series of a node in the write under way.
type nodeSeries struct{ jobSeries }

// tellNode writes what a reading says of the node. What its cores had not been busy is
// known only where the reading says since when they count.
func (im *Importer) tellNode(p place, node *nodeState, t int64, s *sonar.System, o *nodeSeries) {
	if s == nil {
		return
	}
	if o.by == nil {
		o.by = map[string]*tsdb.HistorySeries{}
		o.base = []string{"node", p.node, "site", p.site, "source", "sonar"}
	}
	put := func(v float64, name string, pairs ...string) {
		im.out.add(im.series(&o.jobSeries, name, pairs...), t*1000, v)
	}
	if s.Boot > 0 && s.Boot <= t {
		put(float64(s.Boot), mBoot)
		busy := 0.0
		for _, v := range s.CPU {
			busy += v
		}
		if n := float64(len(s.CPU)); n > 0 {
			put(busy, "node_cpu_seconds_total", "cpu", "all", "mode", "user")
			put(max(n*float64(t-s.Boot)-busy, 0), "node_cpu_seconds_total", "cpu", "all", "mode", "idle")
		}
	}
	if s.Load1 != nil {
		put(*s.Load1, "node_load1")
	}
	for i := range s.Cards {
		tellCard(&s.Cards[i], put)
	}
	if node.Memory > 0 {
		put(node.Memory, "node_memory_MemTotal_bytes")
		if s.UsedMemory > 0 {
			put(max(node.Memory-s.UsedMemory, 0), "node_memory_MemAvailable_bytes")
		}
	}
}

// tellCard writes what a reading says of a GPU, under the names of the agent. The busy
// share of a moment is no time: it has a name of its own.
func tellCard(c *sonar.Card, put func(v float64, name string, pairs ...string)) {
	device := c.UUID
	if device == "" {
		device = strconv.FormatUint(c.Index, 10)
	}
	one := func(v float64, name string, pairs ...string) {
		put(v, name, append([]string{"device", device, "index", strconv.FormatUint(c.Index, 10)}, pairs...)...)
	}
	one(1, "reckon_gpu_info")
	if c.Failing {
		return
	}
	one(c.Memory, "reckon_gpu_memory_bytes")
	one(c.Busy, "reckon_gpu_busy_ratio")
	one(c.Fan, "reckon_gpu_fan_ratio")
	for _, x := range []struct {
		v     float64
		name  string
		pairs []string
	}{ // 0 is left out as unknown: no card has none of these
		{c.Temperature, "reckon_gpu_temperature_celsius", []string{"place", "gpu"}},
		{c.Power, "reckon_gpu_power_watts", nil}, {c.PowerLimit, "reckon_gpu_power_limit_watts", nil},
		{c.Clock, "reckon_gpu_clock_hertz", []string{"clock", "sm"}}, {c.MemoryClock, "reckon_gpu_clock_hertz", []string{"clock", "memory"}},
	} {
		if x.v > 0 {
			one(x.v, x.name, x.pairs...)
		}
	}
	if c.Performance != nil {
		one(float64(*c.Performance), "reckon_gpu_performance_state")
	}
}

// measuredTimes says when reckon's own agent measured nodes.
type measuredTimes map[place][]int64

// near is how far from a reading the agent's own samples may lie, in seconds.
const near = 600

func (m measuredTimes) at(p place, t int64) bool {
	list := m[p]
	i, _ := slices.BinarySearch(list, t)
	return i < len(list) && list[i]-t <= near || i > 0 && t-list[i-1] <= near
}

// measuredNodes finds when agents measured: each of them tells when its node was started.
func (im *Importer) measuredNodes(ctx context.Context, from, to int64) (measuredTimes, error) {
	q, err := im.o.Store.Querier((from-near)*1000, (to+near)*1000)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	out := measuredTimes{}
	set := q.Select(ctx, false, nil,
		labels.MustNewMatcher(labels.MatchEqual, "__name__", mBoot), labels.MustNewMatcher(labels.MatchEqual, "source", ""))
	for set.Next() {
		l := set.At().Labels()
		p := place{l.Get("site"), l.Get("node")}
		var last int64
		it := set.At().Iterator(nil)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			t, v := it.At()
			if !value.IsStaleNaN(v) && t/1000-last >= near/2 {
				last = t / 1000
				out[p] = append(out[p], last)
			}
		}
		slices.Sort(out[p])
	}
	return out, set.Err()
}
