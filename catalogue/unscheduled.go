package catalogue

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/store"
)

// The operator reports pods without a node. Such a report is a track at a place without a node: the
// workload lives while it waits, and its run begins with the first start that a node observes.

// waitingPod holds the samples of a series about a pod without a node.
type waitingPod struct {
	workloadKey
	id                           uint64
	kind, owner, part, run, text string
	created, last                int64 // milliseconds; created is 0 if only the end of the series was read
	stale                        bool
}

// readWaitingPod reads the report of a pod without a node.
func (f *fold) readWaitingPod(k workloadKey, id uint64, it chunkenc.Iterator) {
	n := &f.names
	x := waitingPod{workloadKey: k, id: id, kind: n.Kind, owner: n.Owner, part: n.Part, run: n.Rest["run"], text: n.Rest["reason"]}
	if message := n.Rest["message"]; message != "" {
		x.text += ": " + message
	}
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if t, v := it.At(); value.IsStaleNaN(v) {
			x.stale = true
		} else {
			x.created, x.last, x.stale = int64(v*1000), t, false
		}
	}
	f.waiting = append(f.waiting, x)
}

// assignWaiting records the pods without a node. It must run last, because it needs to know which runs ended before a pod
// was created. It starts with the latest reports, because a run begins after the last message of its pod.
func (f *fold) assignWaiting() {
	slices.SortFunc(f.waiting, func(a, b waitingPod) int { return cmp.Compare(b.last, a.last) })
	for i := range f.waiting {
		x := &f.waiting[i]
		a := f.findWaitingRun(x)
		if a == nil {
			continue
		}
		a.Kind = cmp.Or(a.Kind, x.kind)
		a.setOwner(x.owner, false, false)
		tr, pod := a.Tracks[x.id], a.partReport(x.part)
		if tr == nil {
			tr = &track{Slot: unscheduledSlot, Part: x.part, Owner: x.owner, First: x.last, FirstV: float64(x.created) / 1000}
			a.Tracks[x.id] = tr
		}
		a.touched = a.touched || x.last > tr.T || x.stale != tr.Stale
		tr.T, tr.Stale = max(tr.T, x.last), x.stale
		if x.last >= pod.WaitingAt {
			pod.Waiting, pod.WaitingAt = x.text, x.last
		}
		if x.stale && pod.Waiting == x.text {
			pod.Waiting = ""
		}
	}
	f.waiting = f.waiting[:0]
}

// findWaitingRun returns the run of a pod without a node. If all earlier runs had ended when the pod was created, it creates a
// run. It returns nil if only the end of the pod's report is known.
func (f *fold) findWaitingRun(x *waitingPod) *account {
	for _, a := range slices.Backward(f.accounts[x.workloadKey]) {
		if x.run != "" && a.Run == x.run {
			return a
		}
		for id, k := range a.Tracks { // the pod with another message, or the end of its report
			if id == x.id || k.Slot == unscheduledSlot && k.Part == x.part && int64(k.FirstV*1000) == x.created {
				return a
			}
		}
	}
	if x.created == 0 {
		return nil
	}
	for _, a := range f.accounts[x.workloadKey] {
		switch {
		case x.run != "" && a.Run != "":
		case a.hasOnlyWaitingPods() && x.created <= a.lastSample()+partPause, a.Start >= x.created && a.Start <= x.last+partPause,
			a.Start < x.created && !a.hasOnlyWaitingPods() && !a.isOver(a.currentPlaces(), x.created, nil):
			return a
		}
	}
	a := f.addAccount(x.workloadKey, x.created)
	a.Run = x.run
	return a
}

// hasOnlyWaitingPods reports whether the only facts about a run are pods without a node.
func (a *account) hasOnlyWaitingPods() bool {
	for _, k := range a.Tracks {
		if k.Slot != unscheduledSlot {
			return false
		}
	}
	return len(a.Tracks) > 0 && len(a.Ends) == 0
}

// waitedSince returns when the first pod was created that waited for a node; 0 for none.
func (a *account) waitedSince() (created int64) {
	for _, k := range a.Tracks {
		if at := int64(k.FirstV * 1000); k.Slot == unscheduledSlot && (created == 0 || at < created) {
			created = at
		}
	}
	return created
}

// setWaiting sets the state and submit time of a workload with a waiting pod, as for a pending job. created is the
// creation time of the pod in milliseconds. A workload that never began has no node and no run time.
func (a *account) setWaiting(w *store.Workload, created int64) {
	if created <= a.Start {
		w.Submit = time.UnixMilli(created).UTC()
	}
	if a.hasOnlyWaitingPods() {
		if w.State = "pending"; !w.End.IsZero() {
			w.State = "cancelled"
		}
	}
}
