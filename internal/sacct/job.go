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
	"math"
	"strconv"
	"strings"
	"time"
)

// Job is a job, or a step of one when Step is not empty.
type Job struct {
	ID   string // as people know it: 4711, 4711_3 for a task of an array
	Raw  string // the number that Slurm counts it by
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

// Over reports whether a job in this state has ended.
func Over(state string) bool {
	switch state {
	case "", "pending", "running", "suspended", "resizing", "configuring", "completing", "stage_out", "signaling", "requeue_hold", "requeue_fed", "special_exit", "stopped", "resv_del_hold", "revoked":
		return false
	}
	return true
}

// State reads a state: its first word, and what stands behind it.
func State(s string) (state, reason string) {
	state, reason, _ = strings.Cut(strings.TrimSpace(s), " ")
	return strings.ToLower(strings.TrimSuffix(state, "+")), reason
}

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
	id, j.Step, _ = strings.Cut(id, ".")
	raw, _, _ = strings.Cut(raw, ".")
	if !number(raw) && !number(id) && !arrayID(id) {
		return j, fmt.Errorf("job %q has no number", clip(get("JobID")))
	}
	// The components of a heterogeneous job are known to nodes by their own numbers.
	if strings.Contains(id, "+") && number(raw) {
		id = raw
	}
	id, _, _ = strings.Cut(id, "_[") // tasks of an array that wait together
	if id == "" {
		return j, fmt.Errorf("job %q has no number", clip(get("JobID")))
	}
	j.ID, j.Raw = id, raw
	j.Cluster, j.User, j.Account, j.Partition, j.Name = get("Cluster"), get("User"), get("Account"), get("Partition"), get("JobName")
	j.State, j.Reason = State(get("State"))
	if r := get("Reason"); r != "" && r != "None" {
		j.Reason = r
	}
	if n := get("NodeList"); n != "None assigned" {
		j.Nodes = n
	}
	var errs []error
	for name, into := range map[string]*time.Time{"Submit": &j.Submit, "Start": &j.Start, "End": &j.End} {
		var err error
		if *into, err = when(get(name), zone); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	scaled := func(name string, read func(string) (float64, error)) *float64 {
		text := strings.TrimSpace(get(name))
		switch text {
		case "", "Unknown", "UNLIMITED", "Partition_Limit", "INVALID", "None":
			return nil
		}
		v, err := read(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			return nil
		}
		return &v
	}
	j.CPUUser, j.CPUSystem = scaled("UserCPU", duration), scaled("SystemCPU", duration)
	if j.CPUUser == nil && j.CPUSystem == nil {
		j.CPUUser = scaled("TotalCPU", duration)
	}
	j.ReqCores, j.ReqNodes = firstOf(scaled("ReqCPUS", plain), scaled("NCPUS", plain), scaled("AllocCPUS", plain)), firstOf(scaled("ReqNodes", plain), scaled("NNodes", plain))
	if v := scaled("TimelimitRaw", plain); v != nil {
		j.TimeLimit = pointer(*v * 60)
	} else {
		j.TimeLimit = scaled("Timelimit", duration)
	}
	j.ReqMemory = memory(strings.TrimSpace(get("ReqMem")), j.ReqCores, j.ReqNodes, &errs)
	j.PeakMemory = scaled("MaxRSS", size)
	if tasks := scaled("NTasks", plain); tasks != nil {
		each := func(name string) *float64 {
			v := scaled(name, size)
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
	if err := j.exit(get("ExitCode")); err != nil {
		errs = append(errs, err)
	}
	if e := scaled("ElapsedRaw", plain); e != nil && !j.Start.IsZero() && j.Seen.IsZero() {
		j.Seen = j.Start.Add(time.Duration(min(*e, 1e9)) * time.Second)
	}
	if !j.End.IsZero() && !j.Start.IsZero() && j.End.Before(j.Start) {
		errs = append(errs, fmt.Errorf("it ended at %s before it began at %s", j.End.Format(time.RFC3339), j.Start.Format(time.RFC3339)))
	}
	if err := errors.Join(errs...); err != nil {
		return j, fmt.Errorf("job %s: %w", clip(id), err)
	}
	return j, nil
}

// exit reads CODE:SIGNAL. What a signal ended counts 128 and its number, as in shells.
func (j *Job) exit(s string) error {
	if s == "" || !Over(j.State) || j.State == Requeued { // no code of its own
		return nil
	}
	code, signal, _ := strings.Cut(s, ":")
	c, err := strconv.Atoi(code)
	if err != nil {
		return fmt.Errorf("exit code %q is not CODE:SIGNAL", clip(s))
	}
	if n, err := strconv.Atoi(signal); err == nil && n > 0 && c == 0 {
		c = 128 + n
	}
	j.ExitCode = &c
	return nil
}

// TRES takes cores, memory and GPUs from a list such as cpu=6,mem=10000M,gres/gpu=1.
func (j *Job) TRES(list string) {
	typed := 0.0
	for item := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(item, "=")
		if !ok {
			continue
		}
		v, err := size(value)
		if err != nil {
			continue
		}
		switch {
		case name == "gres/gpu":
			j.ReqGPUs = &v
		case strings.HasPrefix(name, "gres/gpu:"):
			typed += v
		case name == "cpu" && j.ReqCores == nil:
			j.ReqCores = &v
		case name == "node" && j.ReqNodes == nil:
			j.ReqNodes = &v
		case name == "mem" && j.ReqMemory == nil:
			j.ReqMemory = &v
		}
	}
	if j.ReqGPUs == nil && typed > 0 {
		j.ReqGPUs = &typed
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
	v, err := size(s)
	if err != nil {
		*errs = append(*errs, fmt.Errorf("ReqMem: %w", err))
		return nil
	}
	return pointer(v * by)
}

func when(s string, zone *time.Location) (time.Time, error) {
	switch s {
	case "", "Unknown", "None", "N/A", "NONE":
		return time.Time{}, nil
	}
	for _, form := range []string{"2006-01-02T15:04:05", time.RFC3339} {
		if t, err := time.ParseInLocation(form, s, zone); err == nil {
			if y := t.Year(); y < 1990 || y > 2200 {
				return time.Time{}, fmt.Errorf("%q lies outside of the years 1990 to 2200", clip(s))
			}
			return t, nil
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 631152000 && n < 7258118400 { // SLURM_TIME_FORMAT=%s
		return time.Unix(n, 0), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 2026-11-21T10:00:00", clip(s))
}

// duration reads [DAYS-][HOURS:]MINUTES:SECONDS[.FRACTION].
func duration(s string) (float64, error) {
	bad := fmt.Errorf("%q is not a time such as 1-02:03:04", clip(s))
	rest, total := s, 0.0
	if days, after, ok := strings.Cut(s, "-"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil {
			return 0, bad
		}
		total, rest = float64(n)*86400, after
	}
	parts := strings.Split(rest, ":")
	if len(parts) > 3 || (len(parts) < 2 && !strings.Contains(s, "-")) {
		return 0, bad
	}
	scale := []float64{3600, 60, 1}[3-len(parts):]
	if strings.Contains(s, "-") && len(parts) < 3 { // DAYS-HOURS, DAYS-HOURS:MINUTES
		scale = []float64{3600, 60}[:len(parts)]
	}
	for i, p := range parts {
		v, err := strconv.ParseFloat(p, 64)
		if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return 0, bad
		}
		total += v * scale[i]
	}
	return total, nil
}

// size reads a number with a binary unit, such as 10808.05M.
func size(s string) (float64, error) {
	by := 1.0
	if s != "" {
		if at := strings.IndexByte("KMGTPE", s[len(s)-1]); at >= 0 {
			by, s = math.Exp2(float64(10*(at+1))), s[:len(s)-1]
		}
	}
	v, err := plain(s)
	return v * by, err
}

func plain(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) || v > 1e18 {
		return 0, fmt.Errorf("%q is not a number from 0 on", clip(s))
	}
	return v, nil
}

func number(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

func arrayID(s string) bool {
	job, _, ok := strings.Cut(s, "_")
	if !ok {
		job, _, ok = strings.Cut(s, "+")
	}
	return ok && number(job)
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

func clip(s string) string {
	if len(s) > 60 {
		return s[:57] + "..."
	}
	return s
}
