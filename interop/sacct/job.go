// Package sacct reads the accounting of Slurm as the command sacct writes it: lines of
// fields with "|" (--parsable, --parsable2) or another separator (--delimiter) between
// them, with the names of the fields in the first line or without (--noheader).
//
// See sacct(1) for the fields; which of them are there is the site's choice, and a field
// that is not there leaves its figure unknown, never zero. Figures are SI base units:
// seconds, bytes. sacct writes local times without a zone: the reader is told which.
//
// Reading is a stream. Nothing here is shared between readers.
package sacct

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"reckon/interop/slurmtext"
)

// Job is a job, or a step of one when Step is not empty.
type Job struct {
	ID   string // as people know it: 4711, 4711_3 for a task of an array
	Raw  string // the number that Slurm counts it by
	Also string // another number that it is known by, if it has one
	Step string // batch, extern, 0 and so on

	Cluster, User, Account, Partition, Name string

	State, Reason string // lower case: completed, out_of_memory; by whom it was cancelled
	Nodes         string // node list as Slurm writes it

	Submit, Start, End time.Time // zero when unknown
	// Seen is when this was so; zero when nobody says. Start and the elapsed time tell it
	// of jobs that run.
	Seen time.Time

	ExitCode                                          *int
	ReqCores, ReqMemory, ReqGPUs, ReqNodes, TimeLimit *float64
	CPUUser, CPUSystem, PeakMemory, Read, Written     *float64
}

// Requeued is the state of a life of a job that ended for another one under its number.
const Requeued = "requeued"

// Over reports whether a life of a job in this state has ended.
func Over(state string) bool { return slurmtext.Over(state) || state == Requeued }

// FromFields makes a job of fields by their sacct names. zone is that of times without
// one; nil is the machine's.
func FromFields(get func(name string) string, zone *time.Location) (Job, error) {
	if zone == nil {
		zone = time.Local
	}
	var j Job
	id, raw := get("JobID"), get("JobIDRaw")
	if id == "" {
		id = raw
	}
	if raw == "" {
		raw = id
	}
	raw, _, _ = strings.Cut(raw, ".")
	shown, err := slurmtext.ReadID(id)
	if err != nil {
		if shown, err = slurmtext.ReadID(raw); err != nil {
			return j, fmt.Errorf("job %q has no number", slurmtext.Clip(get("JobID")))
		}
		_, shown.Step, _ = strings.Cut(id, ".")
	}
	id, j.Step = shown.Job, shown.Step
	// The components of a heterogeneous job are known to nodes by their own numbers.
	if strings.Contains(id, "+") && number(raw) {
		id = raw
	}
	j.ID, j.Raw = id, raw
	if shown.Tasks == 0 && number(raw) {
		j.Also = other(j.ID, raw, shown.Job)
	}
	j.Cluster, j.User, j.Account, j.Partition, j.Name = get("Cluster"), get("User"), get("Account"), get("Partition"), get("JobName")
	j.State, j.Reason = slurmtext.State(get("State"))
	if r := slurmtext.Word(get("Reason")); r != "" {
		j.Reason = r
	}
	j.Nodes = slurmtext.Word(get("NodeList"))
	var errs []error
	for name, into := range map[string]*time.Time{"Submit": &j.Submit, "Start": &j.Start, "End": &j.End} {
		var err error
		if *into, err = slurmtext.Time(get(name), zone); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	scaled := func(name string, read func(string) (float64, error)) *float64 {
		text := strings.TrimSpace(get(name))
		if slurmtext.Nothing(text) {
			return nil
		}
		v, err := read(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			return nil
		}
		return &v
	}
	j.CPUUser, j.CPUSystem = scaled("UserCPU", slurmtext.Duration), scaled("SystemCPU", slurmtext.Duration)
	if j.CPUUser == nil && j.CPUSystem == nil {
		j.CPUUser = scaled("TotalCPU", slurmtext.Duration)
	}
	j.ReqCores, j.ReqNodes = firstOf(scaled("ReqCPUS", slurmtext.Number), scaled("NCPUS", slurmtext.Number), scaled("AllocCPUS", slurmtext.Number)), firstOf(scaled("ReqNodes", slurmtext.Number), scaled("NNodes", slurmtext.Number))
	if v := scaled("TimelimitRaw", slurmtext.Number); v != nil {
		j.TimeLimit = pointer(*v * 60)
	} else {
		j.TimeLimit = scaled("Timelimit", slurmtext.Duration)
	}
	j.ReqMemory = memory(strings.TrimSpace(get("ReqMem")), j.ReqCores, j.ReqNodes, &errs)
	j.PeakMemory = scaled("MaxRSS", bytes)
	if tasks := scaled("NTasks", slurmtext.Number); tasks != nil {
		each := func(name string) *float64 {
			v := scaled(name, bytes)
			if v != nil {
				*v *= *tasks
			}
			return v
		}
		j.Read, j.Written = each("AveDiskRead"), each("AveDiskWrite")
		if all := each("AveRSS"); all != nil && j.PeakMemory != nil {
			j.PeakMemory = pointer(max(*j.PeakMemory, *all))
		}
	}
	for _, name := range []string{"ReqTRES", "AllocTRES"} {
		j.TRES(get(name))
	}
	if err = j.exit(get("ExitCode")); err != nil {
		errs = append(errs, err)
	}
	if e := scaled("ElapsedRaw", slurmtext.Number); e != nil && !j.Start.IsZero() && j.Seen.IsZero() {
		j.Seen = j.Start.Add(time.Duration(min(*e, 1e9)) * time.Second)
	}
	if !j.End.IsZero() && !j.Start.IsZero() && j.End.Before(j.Start) {
		errs = append(errs, fmt.Errorf("it ended at %s before it began at %s", j.End.Format(time.RFC3339), j.Start.Format(time.RFC3339)))
	}
	if err := errors.Join(errs...); err != nil {
		return j, fmt.Errorf("job %s: %w", slurmtext.Clip(id), err)
	}
	return j, nil
}

// exit reads CODE:SIGNAL of a job that is over: what was requeued has no code of its own.
func (j *Job) exit(s string) (err error) {
	if s == "" || !slurmtext.Over(j.State) {
		return nil
	}
	j.ExitCode, err = slurmtext.Exit(s)
	return err
}

// TRES takes cores, memory and GPUs from a list such as cpu=6,mem=10000M,gres/gpu=1.
func (j *Job) TRES(list string) {
	t := slurmtext.ReadTRES(list)
	for v, into := range map[*float64]**float64{&t.Cores: &j.ReqCores, &t.Nodes: &j.ReqNodes, &t.Memory: &j.ReqMemory} {
		if *v > 0 && *into == nil {
			*into = v
		}
	}
	if t.GPUs > 0 {
		j.ReqGPUs = &t.GPUs
	}
}

// memory reads ReqMem: up to release 20.11 with c (for each core) or n (node) behind it.
func memory(s string, cores, nodes *float64, errs *[]error) *float64 {
	if s == "" || s == "0" || s == "0n" || s == "0c" {
		return nil
	}
	by := 1.0
	switch s[len(s)-1] {
	case 'c':
		if cores == nil {
			return nil
		}
		by, s = *cores, s[:len(s)-1]
	case 'n':
		if nodes != nil {
			by = *nodes
		}
		s = s[:len(s)-1]
	}
	v, err := bytes(s)
	if err != nil {
		*errs = append(*errs, fmt.Errorf("ReqMem: %w", err))
		return nil
	}
	return pointer(v * by)
}

// bytes reads a size of memory or of data.
func bytes(s string) (float64, error) { return slurmtext.Size(s, 1) }

// other is the first of the names that is not the id.
func other(id string, names ...string) string {
	for _, n := range names {
		if n != id {
			return n
		}
	}
	return ""
}

func number(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

func firstOf(list ...*float64) *float64 {
	for _, v := range list {
		if v != nil && *v > 0 {
			return v
		}
	}
	return nil
}

func pointer(v float64) *float64 { return &v }
