package importer

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/internal/hostlist"
	"reckon/interop/slurmtext"
	"reckon/interop/sonar"
	"reckon/store/tsdb"
	"reckon/workload"
)

// Metrics that are written.
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
	mNumber   = "reckon_slurm_number_info"
	mNodes    = "reckon_workload_nodes_info"
	mCores    = "reckon_workload_request_cores"
	mReqMem   = "reckon_workload_request_memory_bytes"
	mReqGPUs  = "reckon_workload_request_gpus"
	mReqTime  = "reckon_workload_request_seconds"
	mReqNodes = "reckon_workload_request_nodes"

	mAllocCores  = "reckon_workload_allocated_cores"
	mAllocMemory = "reckon_workload_allocated_memory_bytes"
	mAllocGPUs   = "reckon_workload_allocated_gpus"
	mAllocNodes  = "reckon_workload_allocated_nodes"
	mAllocTime   = "reckon_workload_allocation_time_seconds"
	mSuspended   = "reckon_workload_suspended_seconds_total"
	mQOS         = "reckon_workload_qos_info"
	mEndedBy     = "reckon_workload_ended_by_info"

	mSteps      = "reckon_slurm_steps"
	mStep       = "reckon_slurm_step_info"
	mStepStart  = "reckon_slurm_step_start_time_seconds"
	mStepEnd    = "reckon_slurm_step_end_time_seconds"
	mStepExit   = "reckon_slurm_step_exit_code"
	mStepCPU    = "reckon_slurm_step_cpu_seconds"
	mStepMemory = "reckon_slurm_step_memory_peak_bytes"
	mStepCores  = "reckon_slurm_step_allocated_cores"
	mBoot       = "node_boot_time_seconds"
)

// jobSeries are the series of a job on a node in the current write.
type jobSeries struct {
	of   *sink
	base []string
	by   map[string]*tsdb.HistorySeries
}

// seriesFor returns a series of the job; pairs are further labels.
func (im *Importer) seriesFor(o *jobSeries, name string, pairs ...string) *tsdb.HistorySeries {
	key := name
	if len(pairs) > 0 {
		key += "\x00" + strings.Join(pairs, "\x00")
	}
	s := o.by[key]
	if s == nil {
		s = im.out.h.Series(makeLabels(&im.builder, name, o.base, pairs))
		o.by[key] = s
	}
	return s
}

// makeLabels returns a label set without empty labels, which are equivalent to absent ones.
func makeLabels(b *labels.ScratchBuilder, name string, lists ...[]string) labels.Labels {
	b.Reset()
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

// startOffset is an offset in milliseconds. If a job is older than its first reading, its counters begin this long after its
// start. No other sample has that time, because readings are at whole seconds.
const startOffset = 1

// writeFigures writes the figures of a job from one reading.
func (im *Importer) writeFigures(p nodeKey, j *jobState, t int64, procs []*sonar.Process) {
	if j.out == nil || j.out.of != im.out {
		j.out = im.out.seriesOfJob(p, j)
		im.noteSeen(p.site, j.ID)
	}
	ms := t * 1000
	put := func(v float64, name string, pairs ...string) {
		im.out.addSample(im.seriesFor(j.out, name, pairs...), ms, v)
	}
	put(float64(j.Start), mStart)
	put(1, mInfo, "name", j.Command, "command", j.Command)
	// A job older than its first reading used the amounts of that reading since its start.
	older := j.First == t && j.Start < t
	if older {
		im.noteSpan(j.Start, t)
		if workload.Kind(j.Kind).Scheduled() {
			im.out.recordTime(p.site, j.ID, j.Start)
		}
	}
	if j.HasCPU {
		if older {
			im.out.addSample(im.seriesFor(j.out, mCPU), j.Start*1000+startOffset, 0)
		}
		put(j.CPU, mCPU)
		for _, c := range sortedKeys(j.Commands) {
			if older {
				im.out.addSample(im.seriesFor(j.out, mCommand, "command", c), j.Start*1000+startOffset, 0)
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

// nodeSeries are the series of a node in the current write.
type nodeSeries struct {
	jobSeries
	user, idle []*tsdb.HistorySeries // by processor
}

// processorSeries returns the series of a processor in one of the lists.
func (im *Importer) processorSeries(o *nodeSeries, list *[]*tsdb.HistorySeries, at int, mode string) *tsdb.HistorySeries {
	for len(*list) <= at {
		*list = append(*list, im.seriesFor(&o.jobSeries, "node_cpu_seconds_total", "cpu", strconv.Itoa(len(*list)), "mode", mode))
	}
	return (*list)[at]
}

// writeNode writes the figures of a node from one reading at time t. It writes the idle time of the cores only if the
// boot time is known, because these counters begin at boot.
func (im *Importer) writeNode(p nodeKey, node *nodeState, t int64, s *sonar.System) {
	if s == nil {
		return
	}
	o := im.out.seriesOfNode(p)
	put := func(v float64, name string, pairs ...string) {
		im.out.addSample(im.seriesFor(&o.jobSeries, name, pairs...), t*1000, v)
	}
	booted := s.Boot > 0 && s.Boot <= t
	if booted {
		put(float64(s.Boot), mBoot)
	}
	for i, busy := range s.CPU {
		im.out.addSample(im.processorSeries(o, &o.user, i, "user"), t*1000, busy)
		if booted {
			im.out.addSample(im.processorSeries(o, &o.idle, i, "idle"), t*1000, max(float64(t-s.Boot)-busy, 0))
		}
	}
	if s.Load1 != nil {
		put(*s.Load1, "node_load1")
	}
	for i := range s.Cards {
		writeCard(&s.Cards[i], put)
	}
	if node.Memory > 0 {
		put(node.Memory, "node_memory_MemTotal_bytes")
		if s.UsedMemory > 0 {
			put(max(node.Memory-s.UsedMemory, 0), "node_memory_MemAvailable_bytes")
		}
	}
}

// writeCard writes the figures of a GPU with the metric names of the agent. The busy share has a separate metric,
// because a momentary share cannot be converted to the agent's counter of busy seconds.
func writeCard(c *sonar.Card, put func(v float64, name string, pairs ...string)) {
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
	}{ // 0 is omitted as unknown: no card has 0 in any of these
		{c.Temperature, "reckon_gpu_temperature_celsius", []string{"place", "gpu"}},
		{c.Power, "reckon_gpu_power_watts", nil}, {c.PowerLimit, "reckon_gpu_power_limit_watts", nil},
		{c.Clock, "reckon_gpu_clock_hertz", []string{"clock", "sm"}},
		{c.MemoryClock, "reckon_gpu_clock_hertz", []string{"clock", "memory"}},
	} {
		if x.v > 0 {
			one(x.v, x.name, x.pairs...)
		}
	}
	if c.Performance != nil {
		one(float64(*c.Performance), "reckon_gpu_performance_state")
	}
}

// writeCluster writes a report about a cluster's nodes and partitions, with the metric names that
// reckon uses when it polls Slurm itself.
func (im *Importer) writeCluster(site string, t int64, report string) {
	var c sonar.Cluster
	if report == "" || json.Unmarshal([]byte(report), &c) != nil {
		return
	}
	im.extendRange(t)
	o := im.out.seriesOfCluster(site)
	put := func(v float64, name string, pairs ...string) {
		im.out.addSample(im.seriesFor(o, name, pairs...), t*1000, v)
	}
	for _, n := range c.Nodes {
		state, flags := slurmtext.NodeState(n.States)
		if state == "" {
			continue
		}
		open := 0.0
		if slurmtext.NodeOpen(state, flags) {
			open = 1
		}
		for _, name := range expandHosts(n.Names) {
			put(open, "reckon_slurm_node_state", "node", name, "state", state, "flags", strings.Join(flags, ","))
		}
	}
	for _, q := range c.Partitions {
		put(1, "reckon_slurm_partition_info", "partition", q.Name)
		for _, name := range expandHosts(q.Nodes) {
			put(1, "reckon_slurm_partition_node", "partition", q.Name, "node", name)
		}
	}
}

// expandHosts expands lists of nodes; an invalid list yields none.
func expandHosts(lists []string) []string {
	var out []string
	for _, l := range lists {
		if names, err := hostlist.Expand(l); err == nil {
			out = append(out, names...)
		}
	}
	return out
}
