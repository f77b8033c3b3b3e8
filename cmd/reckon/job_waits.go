package main

import (
	"cmp"
	"time"

	"reckon/internal/term"
	"reckon/web/client"
)

// isPending reports whether a workload has not started.
func isPending(w client.Workload) bool {
	return w.State == "pending" && !w.Running && w.CPUSeconds == nil
}

// neverStarted reports whether it ended before it started.
func neverStarted(w client.Workload) bool {
	return w.End != nil && w.Submit != nil && w.CPUSeconds == nil && w.WallSeconds == 0 && len(w.Nodes) == 0
}

// isStartedArray reports whether it is the waiting part of an array with only started tasks.
func isStartedArray(w client.Workload) bool { return w.State == "started" && w.CPUSeconds == nil }

// submitTime returns the submit time, or the start if the submit time is unknown.
func submitTime(w client.Workload) time.Time {
	if w.Submit != nil {
		return *w.Submit
	}
	return w.Start
}

// waitSeconds returns the wait of a pending workload up to its last report, seconds.
func waitSeconds(w *client.Workload) float64 { return max(w.Seen.Sub(submitTime(*w)).Seconds(), 0) }

// formatStart formats the start of a workload. It returns the sign for unknown if the workload has not started.
func formatStart(w client.Workload, now time.Time) string {
	if isPending(w) || isStartedArray(w) || neverStarted(w) {
		return term.Unknown
	}
	return term.Clock(w.Start, now)
}

// silentAfter is the age of the last report of a running workload from which the page shows its time.
const silentAfter = 15 * time.Minute

// printTimes prints when it waited, started and ended.
func (p *page) printTimes(w client.Workload, now time.Time) {
	switch {
	case isPending(w):
		reason, since := "", waitSeconds(&w)
		if w.Reason != "" {
			reason = "because " + term.Safe(w.Reason)
		}
		p.addFact("Time", "waits since "+term.Clock(submitTime(w), now)+" ("+term.Seconds(&since)+" by "+term.Clock(w.Seen, now)+")",
			reason)
		return
	case isStartedArray(w) && w.End != nil:
		waited := w.End.Sub(submitTime(w)).Seconds()
		p.addFact("Time", "submitted "+term.Clock(submitTime(w), now), "the last task started "+term.Clock(*w.End, now),
			"waited "+term.Seconds(&waited))
		return
	case neverStarted(w):
		waited := w.End.Sub(*w.Submit).Seconds()
		p.addFact("Time", "submitted "+term.Clock(*w.Submit, now), "ended "+term.Clock(*w.End, now)+" before its start",
			"waited "+term.Seconds(&waited))
		return
	}
	end, waited := "", ""
	if w.End != nil {
		end = "ended " + term.Clock(*w.End, now)
	} else if !w.Running || now.Sub(w.Seen) > silentAfter {
		end = "last reported " + term.Clock(w.Seen, now)
	}
	if w.Submit != nil {
		if s := w.Start.Sub(*w.Submit).Seconds(); s >= 1 {
			waited = "after " + term.Seconds(&s) + " in the queue"
		}
	}
	suspended := ""
	if s := w.SuspendedSeconds; s != nil && *s > 0 {
		suspended = "of it " + term.Seconds(s) + " suspended"
	}
	p.addFact("Time", "started "+term.Clock(w.Start, now)+" ("+term.Ago(w.Start, now)+")", waited, end,
		"wall "+marked{}.figure(w.Exactness, "wall_seconds", term.Seconds(&w.WallSeconds)), suspended)
}

// printRequest prints the request of a workload that has not used any resources so far.
func (p *page) printRequest(w client.Workload) {
	p.printf("\n%s", p.Paint(term.Bold, "Requested"))
	known := false
	for _, r := range []struct {
		name   string
		format func(*float64) string
		asked  *float64
	}{{"Cores", term.Cores, w.RequestCores}, {"Memory", term.Bytes, w.RequestMemoryBytes}, {"GPUs", term.Cores, w.RequestGPUs},
		{"Nodes", term.Number, w.RequestNodes}, {"Time", term.Seconds, w.RequestSeconds}} {
		if r.asked != nil && *r.asked > 0 {
			p.addFact(r.name, r.format(r.asked))
			known = true
		}
	}
	if !known {
		p.printf("not known")
	}
}

// waitingTable lists pending workloads with the start of the wait, the resources and the reason.
func waitingTable(list []client.Workload, now time.Time) *term.Table {
	t := term.TableOf("NAME:s8|WORKLOAD|OWNER:s8|ACCOUNT:s8o3|PARTITION:s8o2|SUBMITTED:o5|WAITS:r|CORES:r|MEMORY:r|GPUS:ro4" +
		"|NODES:ro6|TASKS:ro3|TIME:r|BECAUSE:s8")
	for _, w := range list {
		since := waitSeconds(&w)
		t.Add(workloadTitle(w), w.ID, w.Owner, w.Account, w.Partition, term.Clock(submitTime(w), now), term.Seconds(&since),
			term.Cores(w.RequestCores),
			term.Bytes(w.RequestMemoryBytes), term.Cores(w.RequestGPUs), term.Number(w.RequestNodes), term.Number(w.WaitingTasks),
			term.Seconds(w.RequestSeconds), cmp.Or(w.Reason, term.Unknown))
	}
	return t
}
