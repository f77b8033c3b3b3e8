package scheduler

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"reckon/figure"
	"reckon/internal/cgpath"
	"reckon/metric"
	"reckon/workload"
)

// runSeries are the series of a run. A series is replaced only if a label changed, because the store identifies series by
// address.
type runSeries struct {
	byDesc map[*metric.Desc]*metric.Series
}

// staleMarker is the staleness marker, which ends a series in the Prometheus data model
// (https://prometheus.io/docs/prometheus/latest/querying/basics/#staleness).
var staleMarker = math.Float64frombits(0x7ff0000000000002)

// sampleFingerprint returns all facts that become samples, to detect changes.
func (j *Job) sampleFingerprint() string {
	exit := -1
	if j.Exit != nil {
		exit = *j.Exit
	}
	return fmt.Sprint(j.User, j.Account, j.Partition, j.Name, j.State, j.Reason, j.Start.UnixMilli(), j.End.UnixMilli(),
		j.Cores, j.MemoryBytes, j.GPUs, j.Nodes, j.Seconds, j.NodeList, exit, j.ExitReduced, j.Tasks, j.StepCount,
		j.QOS, j.EndedBy, j.EndedByUser, j.Allocated, j.Earlier, j.Suspended, j.SuspendedSince.UnixMilli())
}

// appendTo adds the samples of a run to a batch.
func (l *run) appendTo(b *metric.Batch) {
	j := &l.job
	from := len(b.Samples)
	number := func(d *metric.Desc, v float64) { l.addSample(b, d, v) }
	amount := func(d *metric.Desc, v float64) {
		if v > 0 {
			number(d, v)
		}
	}
	moment := func(d *metric.Desc, t time.Time) {
		if !t.IsZero() {
			number(d, unixSeconds(t))
		}
	}
	moment(submitTime, j.Submit)
	moment(startTime, j.Start)
	moment(endTime, j.End)
	l.addSample(b, workloadState, 1, j.State, validLabel(j.Reason))
	l.addSample(b, info, 1, cgpath.Clean(j.Name), cgpath.Clean(j.Account), cgpath.Clean(j.Partition), "")
	if j.NodeList != "" {
		l.addSample(b, nodesInfo, 1, nodesLabel(j.NodeList))
	}
	if number := strconv.FormatUint(j.Number, 10); j.Tasks == 0 && number != j.ID {
		l.addSample(b, numberInfo, 1, number)
	}
	many := float64(max(j.Tasks, 1)) // the waiting part of an array has the requests of all its tasks
	amount(requestCores, j.Cores*many)
	amount(requestMemory, j.MemoryBytes*many)
	amount(requestGPUs, j.GPUs*many)
	amount(requestNodes, j.Nodes*many)
	amount(requestTasks, j.TaskCount*many)
	amount(requestSeconds, j.Seconds)
	if !j.Start.IsZero() {
		l.addAllocation(b, &j.Allocated)
		l.addSuspension(b)
	}
	if j.QOS != "" {
		l.addSample(b, qosInfo, 1, cgpath.Clean(j.QOS))
	}
	if j.EndedBy != "" {
		l.addSample(b, endedByInfo, 1, j.EndedBy, cgpath.Clean(j.EndedByUser))
	}
	amount(jobTasks, float64(j.Tasks))
	amount(jobSteps, float64(j.StepCount))
	if j.Exit != nil {
		by := ""
		if j.ExitReduced {
			by = figure.Accounting
		}
		l.addSample(b, exitCodes, float64(*j.Exit), by)
	}
	if !j.Ended {
		return
	}
	l.addSteps(b)
	for i := range b.Samples[from:] {
		b.Samples[from+i].Last = true
	}
	l.rows.byDesc = nil // sent once; a later correction needs new series
}

// addAllocation adds the allocation of the job.
func (l *run) addAllocation(b *metric.Batch, a *Allocation) {
	for _, f := range []struct {
		d *metric.Desc
		v float64
	}{{allocatedCores, a.Cores}, {allocatedMemory, a.MemoryBytes}, {allocatedGPUs, a.GPUs}, {allocatedNodes, a.Nodes}} {
		if f.v > 0 {
			l.addSample(b, f.d, f.v)
		}
	}
	if a.Since.After(l.job.Start) {
		l.addSample(b, allocationTime, unixSeconds(a.Since))
	}
}

// addSuspension adds the time for which the job was suspended.
func (l *run) addSuspension(b *metric.Batch) {
	j := &l.job
	suspended := j.Suspended
	if !j.SuspendedSince.IsZero() && b.Time.After(j.SuspendedSince) {
		suspended += b.Time.Sub(j.SuspendedSince).Seconds()
	}
	if suspended > 0 || !l.suspendedSince.IsZero() { // zero corrects a value reported during the suspension
		l.addSample(b, suspendedTime, suspended)
	}
}

// maxNodeList is the maximum length of a node list in a label. Longer lists are cut at a comma.
const maxNodeList = 1800

func nodesLabel(s string) string {
	if len(s) <= maxNodeList {
		return s
	}
	cut := strings.LastIndexByte(s[:maxNodeList], ',')
	s = s[:max(cut, 0)]
	if strings.Count(s, "[") > strings.Count(s, "]") {
		s += "]"
	}
	return s
}

// addSteps adds the samples of the steps of an ended job.
func (l *run) addSteps(b *metric.Batch) {
	for i := range l.job.Steps {
		s := &l.job.Steps[i]
		part := cgpath.Clean(s.ID)
		one := func(d *metric.Desc, v float64, values ...string) {
			b.Add(metric.NewSeries(d, append(l.runLabels(part), values...)...), v)
		}
		one(stepInfo, 1, cgpath.Clean(s.Name), s.State, nodesLabel(s.NodeList))
		if !s.Start.IsZero() {
			one(stepStart, unixSeconds(s.Start))
		}
		if !s.End.IsZero() {
			one(stepEnd, unixSeconds(s.End))
		}
		if s.Exit != nil {
			one(stepExit, float64(*s.Exit))
		}
		if s.CPUSeconds != nil {
			one(stepCPU, *s.CPUSeconds)
		}
		if s.MemoryPeak != nil {
			one(stepMemory, *s.MemoryPeak)
		}
		if s.Cores > 0 {
			one(stepCores, s.Cores)
		}
	}
}

func (l *run) runLabels(part string) []string {
	return []string{string(workload.MakeID(l.kind, l.job.ID)), string(l.kind), part, cgpath.Clean(l.job.User)}
}

// addSample appends a sample, and ends the previous series if its labels differ.
func (l *run) addSample(b *metric.Batch, d *metric.Desc, v float64, values ...string) {
	if l.rows.byDesc == nil {
		l.rows.byDesc = map[*metric.Desc]*metric.Series{}
	}
	all := append(l.runLabels(""), values...)
	s := l.rows.byDesc[d]
	if s == nil || !sameLabels(s.Values, all) {
		if s != nil {
			b.Samples = append(b.Samples, metric.Sample{Series: s, Value: staleMarker, Last: true})
		}
		s = metric.NewSeries(d, all...)
		l.rows.byDesc[d] = s
	}
	b.Add(s, v)
}

func sameLabels(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// validLabel makes text from Slurm valid for a label.
func validLabel(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "")
	}
	return s
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
