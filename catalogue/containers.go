package catalogue

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/store"
	"reckon/workload"
)

// The kubelet reports the ends of containers, their waits to be started, and their number of starts. Its reports continue while it lists
// the pod, long after the run. They are therefore facts of the run, and no samples that extend it.

// containerState is the kubelet's last report of a container. Fields are exported to be encoded.
type containerState struct {
	Restarts, Exit stepValue
	Reason         string // of the exit
	Waiting        string // reason; empty while it does not wait
	WaitingAt      int64
}

// isContainer reports whether the series of a slot are reports on a container.
func (s slot) isContainer() bool { return s >= restartsSlot && s <= containerExitSlot }

// addContainer records the reports on a container of a workload.
func (f *fold) addContainer(k workloadKey, s slot, it chunkenc.Iterator) {
	if len(f.accounts[k]) == 0 {
		return // none of its processes was seen
	}
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if t, v := it.At(); vt == chunkenc.ValFloat {
			f.runAt(k, t, false, &f.names).addContainer(s, t, v, &f.names)
		}
	}
}

// addContainer records a report on a container.
func (a *account) addContainer(s slot, t int64, v float64, n *series.Labels) {
	x := a.partReport(n.Part)
	was := *x
	reason := n.Rest["reason"]
	switch {
	case s == waitingSlot && t >= x.WaitingAt:
		switch {
		case !math.IsNaN(v):
			x.Waiting, x.WaitingAt = reason, t
		case value.IsStaleNaN(v) && x.Waiting == reason:
			x.Waiting, x.WaitingAt = "", t
		}
	case math.IsNaN(v):
	case s == restartsSlot && t >= x.Restarts.T:
		x.Restarts = stepValue{t, v}
	case s == containerExitSlot && t >= x.Exit.T:
		x.Exit, x.Reason = stepValue{t, v}, reason
	}
	// The times alone do not change the row.
	a.touched = a.touched || was.Waiting != x.Waiting || was.Reason != x.Reason || was.Restarts.V != x.Restarts.V ||
		was.Exit.V != x.Exit.V || was.Exit.T == 0 && x.Exit.T != 0 || was.Restarts.T == 0 && x.Restarts.T != 0
}

// partReport returns the reports of a part: a container or a pod.
func (a *account) partReport(part string) *containerState {
	x := a.Pods[part]
	if x == nil {
		if a.Pods == nil {
			a.Pods = map[string]*containerState{}
		}
		x = &containerState{}
		a.Pods[part] = x
	}
	return x
}

// oomKilled is the kubelet's reason for a container killed for lack of memory.
const oomKilled = "OOMKilled"

// setContainerEnds sets the ends and the waiting reasons of a run's containers in w. A pod that completes gets the state of a
// job. A service gets no end state, because a signal stops it.
func (a *account) setContainerEnds(w *store.Workload, gone time.Duration) {
	kind := workload.Kind(w.Kind)
	if len(a.Pods) == 0 || !kind.Pod() {
		return
	}
	restarts, known := 0.0, false
	var worst *containerState
	for _, part := range slices.Sorted(maps.Keys(a.Pods)) {
		x := a.Pods[part]
		if x.Restarts.T != 0 {
			restarts, known = restarts+x.Restarts.V, true
		}
		if x.Waiting != "" && w.End.IsZero() && w.Reason == "" && w.Seen.Sub(time.UnixMilli(x.WaitingAt)) <= gone {
			w.Reason = x.Waiting
		}
		if x.Exit.T != 0 && (worst == nil || x.isWorse(worst)) {
			worst = x
		}
	}
	if known {
		w.Restarts = new(restarts)
	}
	if worst == nil {
		return
	}
	w.ExitCode = worst.Exit.codeOrNil()
	if w.End.IsZero() || kind.Service() && !kind.BarePod() {
		return
	}
	switch {
	case *w.ExitCode == 0:
		w.State = "completed"
	case worst.Reason == oomKilled:
		w.State = "out_of_memory"
	case slices.Contains([]int{128 + 1, 128 + 2, 128 + 15}, *w.ExitCode):
		return // it was stopped deliberately
	default:
		w.State = "failed"
	}
	if w.State != "completed" {
		w.Reason = worst.Reason
	}
}

// isWorse reports whether an end is worse than another one: for lack of memory, then with an exit code, then the later one.
func (x *containerState) isWorse(o *containerState) bool {
	rank := func(c *containerState) int {
		switch {
		case c.Reason == oomKilled:
			return 2
		case c.Exit.V != 0:
			return 1
		}
		return 0
	}
	if a, b := rank(x), rank(o); a != b {
		return a > b
	}
	return x.Exit.T > o.Exit.T
}

// killedAtLimit returns the memory limit of a run that was killed at this limit, as a lower bound of its memory. For a batch
// job, the script must have been killed, because a step may have a lower limit.
func (a *account) killedAtLimit(w *store.Workload) *float64 {
	kind := workload.Kind(w.Kind)
	switch {
	case kind.Scheduled():
		for i := range w.Steps {
			if s := &w.Steps[i]; s.State == "out_of_memory" && s.ID == "batch" {
				return w.AllocatedMemoryBytes
			}
		}
		if w.State == "out_of_memory" && len(w.Steps) == 0 {
			return w.AllocatedMemoryBytes
		}
	case kind.Pod() && w.OOMKills != nil && *w.OOMKills > 0 && len(a.Pods) <= 1:
		return w.LimitMemoryBytes
	}
	return nil
}

// raiseToLimit raises the needed memory of a run that was killed at its limit to that limit. It also counts a kill
// that only accounting reported.
func (a *account) raiseToLimit(w *store.Workload) {
	killed := func(s store.Step) bool { return s.State == "out_of_memory" }
	if k := w.OOMKills; (k == nil || *k < 1) && slices.ContainsFunc(w.Steps, killed) {
		w.OOMKills = new(1.0)
		w.Exactness.Add("oom_kills", figure.AtLeast)
	}
	limit := a.killedAtLimit(w)
	if limit == nil || w.MemoryNeededPeakBytes != nil && *w.MemoryNeededPeakBytes >= *limit {
		return
	}
	w.MemoryNeededPeakBytes = new(*limit)
	w.Exactness.Add(neededKey, figure.AtLeast)
	if w.MemoryPeakBytes != nil && *w.MemoryPeakBytes < *limit {
		w.MemoryPeakBytes = new(*limit)
		w.Exactness.Add(peakKey, figure.AtLeast)
	}
}

const neededKey = "memory_needed_peak_bytes"
