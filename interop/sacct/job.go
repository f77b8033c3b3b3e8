// Package sacct parses the accounting of Slurm as written by the command sacct: lines of fields separated by "|" (--parsable,
// --parsable2) or another separator (--delimiter), with the names of the fields in the first line or without (--noheader).
//
// See sacct(1) for the fields; the site chooses which are present, and a missing field leaves its figure unknown, never zero. Figures are
// SI base units: seconds, bytes. sacct writes local times without a zone: the caller must provide it.
//
// Input is read as a stream. Readers share no state.
package sacct

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"reckon/interop/slurmtext"
	"reckon/workload"
)

// Job is a job, or a step of one when Step is not empty.
type Job struct {
	ID   string // displayed id: 4711, 4711_3 for a task of an array
	Raw  string // Slurm's job number
	Also string // its other number, if it has one
	Step string // batch, extern, 0 and so on

	Cluster, User, UID, Account, Partition, QOS, Name string

	State, Reason string // lower case: completed, out_of_memory; who cancelled it
	// EndedBy is one of slurmtext's constants, EndedByUser the number of the cancelling user.
	EndedBy, EndedByUser string
	Nodes                string // node list in Slurm's format

	Submit, Start, End time.Time // zero when unknown
	// Seen is the time of this state; zero if unknown. For running jobs it is computed from the start and the elapsed time.
	Seen time.Time

	ExitCode                                          *int
	ExitReduced                                       bool // accounting may have taken 128 off ExitCode
	ReqCores, ReqMemory, ReqGPUs, ReqNodes, TimeLimit *float64
	// Allocation over all its nodes, from Start on; see Sizes.
	AllocCores, AllocMemory, AllocGPUs, AllocNodes *float64
	Suspended                                      *float64 // seconds of the time since Start
	CPUUser, CPUSystem, PeakMemory, Read, Written  *float64
	zeroCPU, zeroMemory                            bool // the export has 0 for unknown

	Kind workload.Kind // of a batch system; empty is Slurm
	// Line is the input line at which the record begins, 0 if unknown. Unread are the errors of
	// fields that were skipped.
	Line   int
	Unread []error

	// Sizes are the allocations of a resized job, in order; otherwise empty.
	Sizes []Size
	// Steps are the steps of the job, at most [slurmtext.MaxSteps]; StepCount is their total number.
	Steps     []Step
	StepCount int
}

// Workload returns the id of the job among all workloads.
func (j *Job) Workload() workload.ID { return workload.MakeID(cmp.Or(j.Kind, workload.Slurm), j.ID) }

// Size is the allocation of a job during a part of its time, over all its nodes.
type Size struct {
	Start, End                 time.Time
	Cores, Memory, GPUs, Nodes *float64
}

// Step is a step of a job.
type Step struct {
	ID, Name, State, Nodes string
	Start, End             time.Time
	ExitCode               *int
	Cores, CPU, PeakMemory *float64
}

// Requeued is the state of a run that ended because the job was requeued under the same number.
const Requeued = "requeued"

// IsFinal reports whether a run in this state has ended.
func IsFinal(state string) bool { return slurmtext.IsFinal(state) || state == Requeued }

// FromFields builds a job from its sacct fields. get returns the field with a name. zone applies to times without a time zone, and nil is
// the zone of this machine. A missing id, start or end is an error. Other invalid fields are skipped and listed in Unread.
func FromFields(get func(name string) string, zone *time.Location) (Job, error) {
	if zone == nil {
		zone = time.Local
	}
	var j Job
	if err := j.parseID(get); err != nil {
		return j, err
	}
	j.Cluster, j.User, j.Account, j.Partition, j.Name = get("Cluster"), get("User"), get("Account"), get("Partition"), get("JobName")
	j.UID, j.QOS = slurmtext.Word(get("UID")), slurmtext.Word(get("QOS"))
	j.State, j.Reason = slurmtext.State(get("State"))
	j.EndedBy, j.EndedByUser = slurmtext.EndedBy(j.State, j.Reason)
	if r := slurmtext.Word(get("Reason")); r != "" {
		j.Reason = r
	}
	j.Nodes = slurmtext.Word(get("NodeList"))
	var errs []error
	id := slurmtext.Clip(strings.TrimSuffix(j.ID+"."+j.Step, "."))
	unread := func(err error) { j.Unread = append(j.Unread, fmt.Errorf("job %s: %w", id, err)) }
	for name, into := range map[string]*time.Time{"Submit": &j.Submit, "Start": &j.Start, "End": &j.End} {
		var err error
		if *into, err = slurmtext.Time(get(name), zone); err != nil && name != "Submit" {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		} else if err != nil {
			unread(fmt.Errorf("%s: %w", name, err))
		}
	}
	scaled := func(name string, read func(string) (float64, error)) *float64 {
		text := strings.TrimSpace(get(name))
		if slurmtext.IsUnset(text) {
			return nil
		}
		v, err := read(text)
		if err != nil {
			unread(fmt.Errorf("%s: %w", name, err))
			return nil
		}
		return &v
	}
	j.CPUUser, j.CPUSystem = scaled("UserCPU", slurmtext.Duration), scaled("SystemCPU", slurmtext.Duration)
	if j.CPUUser == nil && j.CPUSystem == nil {
		j.CPUUser = scaled("TotalCPU", slurmtext.Duration)
	}
	j.readSizes(scaled, get)
	if v := scaled("TimelimitRaw", slurmtext.Number); v != nil {
		j.TimeLimit = pointer(*v * 60)
	} else {
		j.TimeLimit = scaled("Timelimit", slurmtext.Duration)
	}
	if j.ReqMemory == nil {
		j.ReqMemory = firstKnown(parseMemory(strings.TrimSpace(get("ReqMem")), j.ReqCores, j.ReqNodes, unread), j.AllocMemory)
	}
	j.Suspended = scaled("SuspendedRaw", slurmtext.Number)
	if j.Suspended == nil {
		j.Suspended = scaled("Suspended", slurmtext.Duration)
	}
	j.readSampled(scaled)
	if err := j.parseExit(get("ExitCode")); err != nil {
		unread(err)
	}
	elapsed := scaled("ElapsedRaw", slurmtext.Number)
	if elapsed == nil {
		elapsed = scaled("Elapsed", slurmtext.Duration)
	}
	j.resolveRepeatedHour(elapsed)
	if elapsed != nil && !j.Start.IsZero() && j.Seen.IsZero() {
		j.Seen = j.Start.Add(time.Duration(min(*elapsed, 1e9)) * time.Second)
	}
	j.limitSuspension(elapsed)
	j.dropImpossible(unread)
	if j.neverStarted(get) {
		j.Start, j.AllocCores, j.AllocMemory, j.AllocGPUs, j.AllocNodes = time.Time{}, nil, nil, nil, nil
	}
	if !j.End.IsZero() && !j.Start.IsZero() && j.End.Before(j.Start) {
		errs = append(errs, fmt.Errorf("its end %s is before its start %s", j.End.Format(time.RFC3339), j.Start.Format(time.RFC3339)))
	}
	if err := errors.Join(errs...); err != nil {
		return j, fmt.Errorf("job %s: %w", slurmtext.Clip(j.ID), err)
	}
	return j, nil
}

// resolveRepeatedHour resolves times of the job that occur twice because the clock was set back, as at the end of summer time.
// It chooses the pair of start and end that matches elapsed, the run time in seconds.
func (j *Job) resolveRepeatedHour(elapsed *float64) {
	if elapsed != nil && !j.Start.IsZero() && !j.End.IsZero() {
		least, suspended := math.Inf(1), 0.0
		if j.Suspended != nil {
			suspended = *j.Suspended
		}
		starts, ends := slurmtext.Twins(j.Start), slurmtext.Twins(j.End)
		for _, start := range starts {
			for _, end := range ends {
				over := end.Sub(start).Seconds() - *elapsed
				if off := min(math.Abs(over), math.Abs(over-suspended)); off < least {
					least, j.Start, j.End = off, start, end
				}
			}
		}
	}
	for _, t := range slurmtext.Twins(j.Submit) {
		if j.Submit.After(j.Start) && !t.After(j.Start) {
			j.Submit = t
		}
	}
}

// limitSuspension limits the suspension to the time of the job.
func (j *Job) limitSuspension(elapsed *float64) {
	if j.Suspended == nil || j.Start.IsZero() || j.End.Before(j.Start) {
		return
	}
	*j.Suspended = slurmtext.Suspended(*j.Suspended, j.End.Sub(j.Start).Seconds(), elapsed)
}

// parseID parses the id of the job or step.
func (j *Job) parseID(get func(name string) string) error {
	id, raw := get("JobID"), get("JobIDRaw")
	id = cmp.Or(id, raw)
	raw = cmp.Or(raw, id)
	raw, _, _ = strings.Cut(raw, ".")
	shown, err := slurmtext.ReadID(id)
	if err != nil {
		if shown, err = slurmtext.ReadID(raw); err != nil {
			return fmt.Errorf("job %q has no number", slurmtext.Clip(get("JobID")))
		}
		_, shown.Step, _ = strings.Cut(id, ".")
	}
	j.ID, j.Raw, j.Step = shown.Job, raw, shown.Step
	if shown.Tasks == 0 && isNumber(raw) && raw != j.ID {
		j.Also = raw
	}
	return nil
}

// readSampled reads the figures that accounting obtains by sampling. They apply to the largest task or to each task.
func (j *Job) readSampled(scaled func(name string, read func(string) (float64, error)) *float64) {
	if j.PeakMemory = scaled("MaxRSS", parseBytes); j.PeakMemory != nil && *j.PeakMemory == 0 {
		j.PeakMemory, j.zeroMemory = nil, true // it ended before the first sample
	}
	tasks := scaled("NTasks", parseCount)
	if tasks == nil || *tasks == 0 {
		return
	}
	each := func(name string) *float64 {
		v := scaled(name, parseBytes)
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

// parseExit parses CODE:SIGNAL of an ended job. A requeued run has no exit code of its own.
func (j *Job) parseExit(s string) (err error) {
	if s == "" || !slurmtext.IsFinal(j.State) {
		return nil
	}
	j.ExitCode, err = slurmtext.Exit(s)
	j.ExitReduced = slurmtext.ExitReduced(s)
	return err
}

// readSizes sets the requested and the allocated resources of the job. It prefers TRES lists, because they always describe
// the whole job, while other fields are per node or per core.
func (j *Job) readSizes(scaled func(string, func(string) (float64, error)) *float64, get func(string) string) {
	req, alloc := slurmtext.ReadTRES(get("ReqTRES")), slurmtext.ReadTRES(get("AllocTRES"))
	if req.Memory >= perCore32<<20 {
		req.Memory = 0 // the flag of a size per core: see memory
	}
	ncpus, nnodes := scaled("NCPUS", parseCount), scaled("NNodes", parseCount)
	j.ReqCores = firstKnown(scaled("ReqCPUS", parseCount), &req.Cores, ncpus, scaled("AllocCPUS", parseCount), &alloc.Cores)
	j.ReqNodes = firstKnown(scaled("ReqNodes", parseCount), &req.Nodes, nnodes, &alloc.Nodes)
	j.ReqMemory, j.ReqGPUs = firstKnown(&req.Memory), firstKnown(&req.GPUs, &alloc.GPUs, parseGresGPUs(get("ReqGRES"), j.ReqNodes))
	if j.Start.IsZero() {
		return // it had no allocation
	}
	j.AllocCores = firstKnown(&alloc.Cores, scaled("AllocCPUS", parseCount), ncpus)
	j.AllocNodes = firstKnown(&alloc.Nodes, scaled("AllocNodes", parseCount), nnodes)
	j.AllocMemory, j.AllocGPUs = firstKnown(&alloc.Memory), firstKnown(&alloc.GPUs)
}

// parseGresGPUs reads the GPUs in a list of generic resources per node, which releases up to 20.11 use for requests; nil if there are none.
func parseGresGPUs(list string, nodes *float64) *float64 {
	gpus := slurmtext.GPUs(list)
	if nodes != nil {
		gpus *= *nodes
	}
	return firstKnown(&gpus)
}

// TRES sets the allocation of the job from a list such as cpu=6,mem=10000M,gres/gpu=1, and the request if it is unknown.
func (j *Job) TRES(list string) {
	t := slurmtext.ReadTRES(list)
	for _, f := range []struct {
		v          float64
		alloc, req **float64
	}{{t.Cores, &j.AllocCores, &j.ReqCores}, {t.Memory, &j.AllocMemory, &j.ReqMemory}, {t.GPUs, &j.AllocGPUs, &j.ReqGPUs},
		{t.Nodes, &j.AllocNodes, &j.ReqNodes}} {
		if f.v <= 0 {
			continue
		}
		if !j.Start.IsZero() {
			*f.alloc = pointer(f.v)
		}
		if *f.req == nil {
			*f.req = pointer(f.v)
		}
	}
}

// maxNodeCores is the assumed maximum number of cores of a node, for plausibility.
const maxNodeCores = 1 << 13

// dropImpossible drops impossible figures: more CPU time than the nodes of the job have in its time, or more memory.
func (j *Job) dropImpossible(unread func(error)) {
	nodes := 1.0
	if n := firstKnown(j.AllocNodes, j.ReqNodes); n != nil {
		nodes = max(*n, 1)
	}
	wall := 400 * 86400.0
	if !j.Start.IsZero() && !j.End.Before(j.Start) {
		wall = j.End.Sub(j.Start).Seconds()
	}
	cpu := 0.0
	for _, v := range []*float64{j.CPUUser, j.CPUSystem} {
		if v != nil {
			cpu += *v
		}
	}
	if most := maxNodeCores * nodes * (wall + 60); cpu > most {
		unread(fmt.Errorf("%.4g s of CPU time, and %g nodes can have given %.4g s in its time", cpu, nodes, most))
		j.CPUUser, j.CPUSystem = nil, nil
	}
	for name, v := range map[string]**float64{"MaxRSS": &j.PeakMemory, "ReqMem": &j.ReqMemory, "AllocTRES mem": &j.AllocMemory} {
		if *v != nil && **v > nodes*(1<<50) {
			unread(fmt.Errorf("%s of %.4g bytes: no machine has that", name, **v))
			*v = nil
		}
	}
}

// Slurm marks a memory size per core with a high bit in the number of MiB (MEM_PER_CPU in slurm.h):
// bit 31 up to release 17.02, bit 63 since. Some releases of sacct print it unchanged.
const (
	perCore32 = 1 << 31
	perCore64 = 1 << 63
)

// cutPerCore clears that bit in a number with the unit MiB.
func cutPerCore(s string) (rest string, perCore bool) {
	n, err := strconv.ParseUint(strings.TrimSuffix(s, "M"), 10, 64)
	switch {
	case err != nil || !strings.HasSuffix(s, "M"):
		return s, false
	case n&perCore64 != 0:
		n &^= perCore64
	case n&perCore32 != 0 && n>>32 == 0:
		n &^= perCore32
	default:
		return s, false
	}
	return strconv.FormatUint(n, 10) + "M", true
}

// parseMemory parses ReqMem: up to release 20.11 it ends with c (per core) or n (per node).
func parseMemory(s string, cores, nodes *float64, unread func(error)) *float64 {
	by, each := "", 1.0
	if s != "" && (s[len(s)-1] == 'c' || s[len(s)-1] == 'n') {
		by, s = s[len(s)-1:], s[:len(s)-1]
	}
	if s == "" || s == "0" || strings.HasSuffix(s, "?") { // the unit is unknown even to Slurm
		return nil
	}
	s, perCore := cutPerCore(s)
	switch {
	case perCore || by == "c":
		if cores == nil {
			return nil
		}
		each = *cores
	case by == "n" && nodes != nil:
		each = *nodes
	}
	v, err := parseBytes(s)
	if err != nil {
		unread(fmt.Errorf("ReqMem: %w", err))
		return nil
	}
	if v == 0 {
		return nil
	}
	return pointer(v * each)
}

// parseCount parses a number. With --units, sacct writes some numbers of nodes as 0.00G, which is read as 0.
func parseCount(s string) (float64, error) {
	v, err := slurmtext.Size(s, 1)
	if s != "" && strings.IndexByte("KMGTPE", s[len(s)-1]) >= 0 {
		v = 0
	}
	return v, err
}

// parseBytes parses a size of memory or data.
func parseBytes(s string) (float64, error) { return slurmtext.Size(s, 1) }

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

// firstKnown returns the first known figure above 0.
func firstKnown(list ...*float64) *float64 {
	for _, v := range list {
		if v != nil && *v > 0 {
			return pointer(*v)
		}
	}
	return nil
}

// Known returns a figure with 0 and below as unknown.
func Known(v float64) *float64 { return firstKnown(&v) }

func pointer(v float64) *float64 { return &v }
