package slurmctl

import (
	"strconv"
	"strings"
	"time"

	"reckon/interop/scheduler"
	"reckon/interop/slurmtext"
)

// parseState parses a job state, which is a word with a suffix ("CANCELLED by 1001") or a base state followed by flags. All
// releases write the base state first.
func parseState(list stringList) string {
	if len(list) == 0 {
		return ""
	}
	s, _ := slurmtext.State(list[0])
	if s == "completed" || s == "running" || s == "pending" {
		for _, flag := range list[1:] {
			switch f := strings.ToLower(flag); f {
			case "completing", "configuring", "requeued", "requeue_hold", "special_exit", "suspended", "stopped":
				return f
			}
		}
	}
	return s
}

// nameJob sets the id as used by the agents.
func nameJob(j *scheduler.Job, array, task, hetero, offset number, rest string) {
	j.ID = strconv.FormatUint(uint64(j.Number), 10)
	switch {
	case array.ok && array.v > 0 && rest != "":
		j.ID, j.Tasks = formatNumber(array.v), slurmtext.CountTasks(rest)
	case array.ok && array.v > 0 && task.ok:
		j.ID = formatNumber(array.v) + "_" + formatNumber(task.v)
	case hetero.ok && hetero.v > 0 && offset.ok:
		j.ID = formatNumber(hetero.v) + "+" + formatNumber(offset.v)
	}
}

// closePast is like times, for accounting: a requeued run has ended, and so has the part of a run before its allocation
// changed. The record after a change has the time of the change as submit time; see JobTracker.
func closePast(j *scheduler.Job) {
	state, start, end, a := j.State, j.Start, j.End, j.Allocated
	dropFutureTimes(j)
	switch {
	case state == "requeued":
		j.State, j.Ended, j.Start, j.End, j.Allocated = state, true, start, end, a
	case state == "resizing":
		j.Start, j.End = start, end
	case !j.Start.IsZero() && start.Before(j.Start):
		j.Start = start
	}
}

// dropFutureTimes removes times that have not come yet.
func dropFutureTimes(j *scheduler.Job) {
	j.Ended = slurmtext.IsFinal(j.State)
	if slurmtext.IsPending(j.State) {
		j.Start, j.Exit, j.Allocated = time.Time{}, nil, scheduler.Allocation{}
		if j.State == "requeued" {
			j.State = "pending"
		}
	}
	if !j.Ended {
		j.End, j.Exit = time.Time{}, nil
	}
	if j.Exit != nil && *j.Exit == 0 && (j.State != "completed" || j.Start.IsZero()) {
		j.Exit = nil // Slurm also writes 0 for jobs that did not end by themselves
	}
	if !j.Start.IsZero() && !j.End.IsZero() && j.End.Before(j.Start) {
		j.Start = j.End // cancelled before it could start
	}
	if !j.Submit.IsZero() && !j.Start.IsZero() && j.Start.Before(j.Submit) {
		j.Start = j.Submit // a clock was set between the two
	}
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// readJobID parses an id as shown by the commands: 4711, 4711_3, 4711_[0-9%2], 4711+1.
func readJobID(j *scheduler.Job, shown, raw string) bool {
	n, err := strconv.ParseUint(raw, 10, 32)
	if err != nil || n == 0 {
		return false
	}
	id, err := slurmtext.ReadID(shown)
	j.Number, j.ID, j.Tasks = n, id.Job, id.Tasks
	return err == nil && id.Step == ""
}
