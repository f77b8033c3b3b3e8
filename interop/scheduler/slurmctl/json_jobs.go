package slurmctl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"

	"reckon/interop/scheduler"
	"reckon/interop/slurmtext"
)

// queuedJob is a job of the controller, as in squeue --json and GET /slurm/*/jobs.
type queuedJob struct {
	JobID       number `json:"job_id"`
	ArrayJob    number `json:"array_job_id"`
	ArrayTask   number `json:"array_task_id"`
	ArrayTasks  text   `json:"array_task_string"`
	HetJob      number `json:"het_job_id"`
	HetOffset   number `json:"het_job_offset"`
	User        text   `json:"user_name"`
	UserID      number `json:"user_id"`
	Account     text
	Partition   text
	Name        text
	State       stringList `json:"job_state"`
	Reason      text       `json:"state_reason"`
	QOS         text
	Resized     number     `json:"resize_time"`
	Suspend     number     `json:"suspend_time"` // of the last suspension or resumption
	PreSuspend  number     `json:"pre_sus_time"` // seconds that it had run by then
	Submit      number     `json:"submit_time"`
	Eligible    number     `json:"eligible_time"`
	Start       number     `json:"start_time"`
	End         number     `json:"end_time"`
	Limit       number     `json:"time_limit"` // minutes
	Exit        exitStatus `json:"exit_code"`
	Nodes       text
	NodeCount   number `json:"node_count"`
	CPUs        number `json:"cpus"`
	TaskCount   number `json:"tasks"`
	TresAsked   text   `json:"tres_req_str"`
	TresGiven   text   `json:"tres_alloc_str"`
	PerNode     number `json:"memory_per_node"` // MiB
	PerCPU      number `json:"memory_per_cpu"`
	MaxPerNodes number `json:"max_nodes"`
}

// readJobs parses the jobs of the controller.
func readJobs(r io.Reader) (jobs []scheduler.Job, got scheduler.Read, err error) {
	var unnamed []int
	names := make(map[float64]string) // of users, by their number
	err = eachElement(r, "jobs", func(raw json.RawMessage) {
		got.Records++
		var q queuedJob
		if _, ok := decodeRecord(raw, &q); !ok || q.JobID.valueOr(0) <= 0 || q.JobID.v > 1<<32-1 || len(q.State) == 0 {
			got.Reject("a job without id or state: %.80s", raw)
			return
		}
		if q.User != "" && q.UserID.ok {
			names[q.UserID.v] = string(q.User)
		}
		jobs = append(jobs, q.toJob())
		if q.User == "" && q.UserID.ok {
			unnamed = append(unnamed, len(jobs)-1)
		}
	})
	for _, i := range unnamed { // Prefer the name that another job of the answer has: the number may be another user here.
		id, _ := strconv.ParseFloat(jobs[i].User, 64)
		jobs[i].User = cmp.Or(names[id], jobs[i].User)
	}
	return jobs, got, err
}

func (q *queuedJob) toJob() scheduler.Job {
	j := scheduler.Job{
		Number: uint64(q.JobID.v), User: string(q.User), Account: string(q.Account), Partition: string(q.Partition), Name: string(q.Name),
		State: parseState(q.State), Reason: slurmtext.Word(string(q.Reason)),
		Submit: q.Submit.toTime(), Eligible: q.Eligible.toTime(), Start: q.Start.toTime(), End: q.End.toTime(),
		QOS: string(q.QOS), Cores: q.CPUs.valueOr(0), Nodes: q.NodeCount.valueOr(0), TaskCount: q.TaskCount.valueOr(0),
		Seconds:  60 * q.Limit.valueOr(0),
		NodeList: string(q.Nodes), Exit: q.Exit.code,
	}
	j.EndedBy, _ = slurmtext.EndedBy(j.State, "")
	if j.User == "" && q.UserID.ok {
		j.User = formatNumber(q.UserID.v)
	}
	if q.Limit.v >= 4294967294 { // no limit, as a number
		j.Seconds = 0
	}
	switch {
	case q.PerNode.valueOr(0) > 0:
		j.MemoryBytes = q.PerNode.v * max(j.Nodes, 1) * (1 << 20)
	case q.PerCPU.valueOr(0) > 0:
		j.MemoryBytes = q.PerCPU.v * max(j.Cores, 1) * (1 << 20)
	}
	j.Allocated = scheduler.Allocation{Since: q.Resized.toTime(), Cores: j.Cores, MemoryBytes: j.MemoryBytes, Nodes: j.Nodes}
	setRequest(&j, slurmtext.ReadTRES(string(q.TresAsked)))
	setAllocation(&j, slurmtext.ReadTRES(string(q.TresGiven)))
	q.addSuspension(&j)
	nameJob(&j, q.ArrayJob, q.ArrayTask, q.HetJob, q.HetOffset, string(q.ArrayTasks))
	dropFutureTimes(&j)
	return j
}

// addSuspension returns the time for which a job was suspended: the time between its start and the last change, minus its run time.
func (q *queuedJob) addSuspension(j *scheduler.Job) {
	at := q.Suspend.toTime()
	if at.IsZero() || j.Start.IsZero() {
		return
	}
	j.Suspended = max(at.Sub(j.Start).Seconds()-q.PreSuspend.valueOr(0), 0)
	if j.State == "suspended" {
		j.SuspendedSince = at
	}
}

// accountedJob is a job of the accounting, as in sacct --json and GET /slurmdb/*/jobs.
type accountedJob struct {
	JobID     number `json:"job_id"`
	Cluster   text
	User      text
	Assoc     struct{ User text } `json:"association"`
	Account   text
	Partition text
	Name      text
	Nodes     text
	Count     number `json:"allocation_nodes"`
	Array     struct {
		JobID  number `json:"job_id"`
		TaskID number `json:"task_id"`
		Task   text
	}
	Het struct {
		JobID  number `json:"job_id"`
		Offset number `json:"job_offset"`
	}
	QOS       text
	Cancelled text `json:"kill_request_user"`
	Time      struct {
		Eligible, End, Start, Submission, Limit, Suspended, Elapsed number
	}
	State struct {
		Current stringList
		Reason  text
	}
	Exit  exitStatus `json:"exit_code"`
	Tres  struct{ Allocated, Requested []tresItem }
	Steps []accountedStep
}

type accountedStep struct {
	Step struct {
		ID   json.RawMessage
		Name text
	}
	Time struct {
		Start, End number
		Total      struct{ Seconds, Microseconds number }
	}
	State stringList
	Exit  exitStatus `json:"exit_code"`
	Nodes struct{ Range text }
	Tres  struct {
		Allocated []tresItem
		Requested struct{ Max []tresItem } // used: memory in bytes
	}
}

// setUse fills in the accounted use of a step.
func (a *accountedStep) setUse(s *scheduler.Step) {
	if t := a.Time.Total; t.Seconds.ok {
		v := t.Seconds.v + t.Microseconds.valueOr(0)/1e6
		s.CPUSeconds = &v
	}
	for _, x := range a.Tres.Requested.Max {
		if v := x.Count; x.Type == "mem" && v.ok && v.v > 0 {
			s.MemoryPeak = &v.v
		}
	}
	s.Cores = tresOf(a.Tres.Allocated).Cores
}

// Accounted is a job of the accounting.
type Accounted struct {
	scheduler.Job
	Cluster    string
	CPUSeconds *float64 // of all its steps; nil if unknown
	Unread     []error  // fields that it was taken without
}

// ReadAccounts parses the jobs of slurmdbd as sacct --json writes them, and calls f for each.
func ReadAccounts(r io.Reader, f func(*Accounted)) (got scheduler.Read, err error) {
	err = eachElement(r, "jobs", func(raw json.RawMessage) {
		got.Records++
		var a accountedJob
		odd, ok := decodeRecord(raw, &a)
		if !ok || a.JobID.valueOr(0) <= 0 || a.JobID.v > 1<<32-1 || len(a.State.Current) == 0 {
			got.Reject("a job without id or state: %.80s", raw)
			return
		}
		one := Accounted{Job: a.toJob(), Cluster: string(a.Cluster)}
		unread := func(field string) {
			one.Unread = append(one.Unread, fmt.Errorf("job %s: %s has an unknown format", one.ID, field))
		}
		if odd != "" {
			unread(odd)
		}
		oddFields(reflect.ValueOf(a), "", unread)
		for i := range a.Steps { // the job itself has 0
			if t := a.Steps[i].Time.Total; t.Seconds.ok {
				if one.CPUSeconds == nil {
					one.CPUSeconds = new(float64)
				}
				*one.CPUSeconds += t.Seconds.v + t.Microseconds.valueOr(0)/1e6
			}
		}
		f(&one)
	})
	return got, err
}

// readAccounts lists the jobs of slurmdbd.
func readAccounts(r io.Reader) (jobs []scheduler.Job, got scheduler.Read, err error) {
	got, err = ReadAccounts(r, func(a *Accounted) { jobs = append(jobs, a.Job) })
	return jobs, got, err
}

func (a *accountedJob) toJob() scheduler.Job {
	j := scheduler.Job{
		Number: uint64(a.JobID.v), User: string(a.User), Account: string(a.Account), Partition: string(a.Partition), Name: string(a.Name),
		State: parseState(a.State.Current), Reason: slurmtext.Word(string(a.State.Reason)),
		Submit: a.Time.Submission.toTime(), Eligible: a.Time.Eligible.toTime(), Start: a.Time.Start.toTime(), End: a.Time.End.toTime(),
		Nodes: a.Count.valueOr(0), NodeList: slurmtext.Word(string(a.Nodes)), Exit: a.Exit.code,
	}
	if j.User == "" {
		j.User = string(a.Assoc.User)
	}
	if l := a.Time.Limit; l.ok && l.v < 4294967294 {
		j.Seconds = 60 * l.v
	}
	j.QOS = string(a.QOS)
	if j.Suspended = a.Time.Suspended.valueOr(0); j.Suspended > 0 && a.Time.Elapsed.ok && j.End.After(j.Start) {
		j.Suspended = slurmtext.Suspended(j.Suspended, j.End.Sub(j.Start).Seconds(), &a.Time.Elapsed.v)
	}
	if j.EndedBy, _ = slurmtext.EndedBy(j.State, ""); j.State == "cancelled" && a.Cancelled != "" {
		j.EndedBy, j.EndedByUser = slurmtext.EndedByUser, string(a.Cancelled)
	}
	setRequest(&j, tresOf(a.Tres.Requested))
	setAllocation(&j, tresOf(a.Tres.Allocated))
	if j.Allocated != (scheduler.Allocation{}) && j.Cores == 0 {
		j.Cores, j.MemoryBytes, j.GPUs = j.Allocated.Cores, j.Allocated.MemoryBytes, j.Allocated.GPUs
	}
	task := string(a.Array.Task)
	if a.Array.TaskID.ok {
		task = "" // one task; its list is the submitted array's
	}
	nameJob(&j, a.Array.JobID, a.Array.TaskID, a.Het.JobID, a.Het.Offset, task)
	closePast(&j)
	for i := range a.Steps {
		j.StepCount++
		s := &a.Steps[i]
		one := scheduler.Step{
			ID: stepID(s.Step.ID), Name: string(s.Step.Name), State: parseState(s.State), NodeList: slurmtext.Word(string(s.Nodes.Range)),
			Start: s.Time.Start.toTime(), End: s.Time.End.toTime(), Exit: s.Exit.code,
		}
		if one.Exit != nil && *one.Exit == 0 && one.State == "failed" {
			one.Exit = nil
		}
		s.setUse(&one)
		j.Steps = scheduler.KeepStep(j.Steps, one)
	}
	return j
}
