// Package slurm recognises the jobs of the Slurm workload manager.
//
// # Where a job is found
//
// From its control group, in every layout that Slurm has had (src/plugins/cgroup/ of Slurm, up to
// 26.11):
//
//	/slurm/uid_1000/job_4711/step_0/task_0                       version 1
//	/slurm_NODE/uid_1000/job_4711/step_batch                     version 1, several slurmd on a machine
//	/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0   version 2, from 21.08
//	/system.slice/NODE_slurmstepd.scope/job_4711/...             version 2, several slurmd
//	/OTHER.slice/slurmstepd.scope/...                            CgroupSlice=
//	/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/...     from 26.05: the job's SLUID
//
// If the node has no such groups (proctrack/linuxproc, pgid), the environment decides.
//
// # What a job is called
//
// The control group has the raw number of a job. The environment, which slurmstepd gives to each
// task, states that job 4720 is array task 4711_3, or component 4711+1 of a heterogeneous job. The
// first process of a job that has such an environment names the job for all its processes, so that
// those without one (an ssh session adopted into the job, a daemon that cleared its environment)
// get the same name. Without access to environments, the name is the raw number, or the SLUID,
// which Slurm's own commands accept too.
//
// # Who is believed
//
// A user may set any variable, so the control group comes first: an environment counts only when
// its SLURM_JOB_ID (or SLURM_JOB_SLUID) belongs to the group. What a user can still do is give an
// own job the name of another array; the owner is never taken from the environment, so the series
// stay apart. Once a layout of Slurm was seen on the node, an environment without a group is
// ignored, unless the process or its parent was in the group of that job before. Groups in the tree
// of a login user, who may make any name there, are not believed.
//
// slurmd, slurmstepd and the placeholder "sleep" of an extern step, run by root, are not jobs: they
// are left to the next resolver. The Cgroup of a step leaves slurmstepd out on version 2
// (step_0/user); on version 1 cpuacct does so by itself.
//
// A Resolver is used from one goroutine.
package slurm

import (
	"strconv"
	"strings"

	"reckon/internal/cgpath"
	"reckon/workload"
)

// Resolver implements [workload.Resolver].
type Resolver struct {
	jobs   cgpath.Memo[jobFacts] // by the path of the job's group
	layout bool                  // Slurm makes control groups on this node
}

var _ workload.Resolver = (*Resolver)(nil)

// jobFacts holds the facts that all processes of a job have in common.
type jobFacts struct {
	name  string // "" until an environment named it
	owner string
	facts workload.Facts
}

// New returns a resolver.
func New() *Resolver { return &Resolver{} }

// Name implements [workload.Resolver].
func (r *Resolver) Name() string { return "slurm" }

// Resolve implements [workload.Resolver].
func (r *Resolver) Resolve(h *workload.Hint) (workload.Identity, bool) {
	if h.Kernel {
		return workload.Identity{}, false
	}
	var at cgroupFields
	for _, c := range h.Cgroups {
		p, ok := findJob(c.Path)
		r.layout = r.layout || ok
		if p.detailLevel() > at.detailLevel() {
			at = p
		}
	}
	switch {
	case at.job == "" && r.layout && h.Was.Kind() == workload.Slurm: // moved out of its group, as systemd does without Delegate=
		id, ok := identityFromEnv(h)
		return id, ok && id.Workload == h.Was
	case at.job == "" && r.layout, at.job != "" && isSlurmProcess(h, &at):
		return workload.Identity{}, false
	case at.job == "":
		return identityFromEnv(h)
	}
	j, known := r.jobs.Get(at.path)
	was := j
	if h.PID == h.PGID && isLaterRun(h, &at, &j) {
		j = jobFacts{}
	}
	if j.name == "" {
		fillFromEnv(h, &at, &j)
	}
	if j.owner == "" || at.hasUID {
		j.owner = jobOwner(h, &at)
	}
	if !known || j != was {
		r.jobs.Put(at.path, j)
	}
	id := workload.Identity{Part: at.step, Task: at.task, Owner: j.owner, Cgroup: at.cgroup, Whole: at.path, Facts: j.facts}
	if id.Owner == "" {
		id.Owner, id.Naming = h.User, workload.HalfNamed
	}
	if id.Workload = workload.MakeID(workload.Slurm, j.name); j.name == "" {
		id.Workload, id.Naming = workload.MakeID(workload.Slurm, at.job), workload.Unnamed
	}
	return id, true
}

// isSlurmProcess reports whether a process in the control group of a job belongs to Slurm itself. It must belong to root,
// because users could otherwise hide work with these program names.
func isSlurmProcess(h *workload.Hint, at *cgroupFields) bool {
	return at.slurmstepd || h.UID == 0 && (h.Comm == "slurmstepd" || at.step == "extern" && h.Comm == "sleep")
}

// jobOwner returns the user of a job. It is the user in the path of the control group, or else the user of the process
// unless that is root. A process of root may be a prolog or a set-user-id program.
func jobOwner(h *workload.Hint, at *cgroupFields) string {
	switch {
	case at.hasUID:
		return h.UserOf(at.uid)
	case h.UID != 0:
		return h.User
	}
	return ""
}

// isLaterRun reports whether a process belongs to a later run than j, because the job was requeued or its number
// reused. The process must be the first in its control group, as a task is.
func isLaterRun(h *workload.Hint, at *cgroupFields, j *jobFacts) bool {
	if j.facts.Run == "" {
		return false
	}
	id, ok := jobID(h)
	return ok && (!at.number || id == at.job) && parseCount(j.facts.Run) < parseCount(runID(h))
}

// fillFromEnv sets name and facts from the environment of a process, if that names this job.
func fillFromEnv(h *workload.Hint, at *cgroupFields, j *jobFacts) {
	id, ok := jobID(h)
	if ok && at.number && id != at.job {
		// A step over several components of a heterogeneous job has the number of the first. The
		// control group shows which component this is.
		if _, ok = findComponent(h, at.job); ok {
			id = at.job
		}
	}
	if !ok || at.number && id != at.job {
		return
	}
	if !at.number {
		if sluid, ok := h.Getenv("SLURM_JOB_SLUID"); ok && !strings.EqualFold(sluid, at.job) {
			return
		}
	}
	j.name, j.facts = displayName(h, id), factsFromEnv(h, id)
}

// isDaemon reports whether a program is a daemon of Slurm. A daemon may have the environment of a job if an administrator
// started it from within a job.
func isDaemon(comm string) bool {
	switch comm {
	case "slurmd", "slurmstepd", "slurmctld", "slurmdbd", "slurmrestd", "sackd", "munged":
		return true
	}
	return false
}

// identityFromEnv identifies a job by environment variables, for nodes on which Slurm creates no control groups.
func identityFromEnv(h *workload.Hint) (identity workload.Identity, ok bool) {
	if isDaemon(h.Comm) {
		return workload.Identity{}, false
	}
	id, ok := jobID(h)
	if !ok {
		return workload.Identity{}, false
	}
	task := isSet(h, "SLURMD_NODENAME") || isSet(h, "SLURM_TASK_PID") || isSet(h, "SLURM_PROCID")
	if !task && (isSet(h, "SLURM_JOB_NODELIST") || isSet(h, "SLURM_NODELIST")) {
		return workload.Identity{}, false // a shell started by salloc on the submitting node is outside of the job
	}
	out := workload.Identity{Workload: workload.MakeID(workload.Slurm, displayName(h, id)), Facts: factsFromEnv(h, id)}
	if s, ok := h.Getenv("SLURM_STEP_ID"); ok && isDecimal(s) {
		out.Part = stepName(s)
		if n, _ := h.Getenv("SLURM_LOCALID"); isDecimal(n) {
			out.Task = n
		}
	} else if task {
		out.Part = "batch"
	}
	return h.Claim(out)
}

// jobID returns SLURM_JOB_ID, or its old spelling.
func jobID(h *workload.Hint) (id string, ok bool) {
	for _, key := range []string{"SLURM_JOB_ID", "SLURM_JOBID"} {
		if s, ok := h.Getenv(key); ok {
			return s, isDecimal(s) && s != "0"
		}
	}
	return "", false
}

// displayName returns the name that Slurm's commands show for a job.
func displayName(h *workload.Hint, id string) string {
	if array, ok := h.Getenv("SLURM_ARRAY_JOB_ID"); ok && isDecimal(array) {
		if task, ok := h.Getenv("SLURM_ARRAY_TASK_ID"); ok && isDecimal(task) {
			return array + "_" + task
		}
	}
	if first, ok := h.Getenv("SLURM_HET_JOB_ID"); ok && isDecimal(first) {
		if offset, ok := h.Getenv("SLURM_HET_JOB_OFFSET"); ok && isDecimal(offset) {
			return first + "+" + offset
		}
		a, _ := strconv.ParseUint(first, 10, 32) // the components are numbered in a row
		if b, _ := strconv.ParseUint(id, 10, 32); b >= a && b-a < 1000 {
			return first + "+" + strconv.FormatUint(b-a, 10)
		}
	}
	if n, ok := findComponent(h, id); ok {
		if first, ok := h.Getenv("SLURM_JOB_ID" + n.suffix(0)); ok && isDecimal(first) {
			return first + "+" + strconv.Itoa(n.offset)
		}
	}
	return id
}

// hetPart is a component of a heterogeneous job.
type hetPart struct {
	offset int
	word   string // HET, or PACK before 20.02
}

func (n hetPart) suffix(offset int) string { return "_" + n.word + "_GROUP_" + strconv.Itoa(offset) }

// maxComponents is the maximum number of components of a job (MAX_HET_JOB_COMPS in slurm.h).
const maxComponents = 128

// findComponent returns the component of a heterogeneous job with the given job number. It finds the number in the
// variables SLURM_JOB_ID_HET_GROUP_N, which every task of the job has.
func findComponent(h *workload.Hint, id string) (hetPart, bool) {
	for _, word := range []string{"HET", "PACK"} {
		s, ok := h.Getenv("SLURM_" + word + "_SIZE")
		if !ok || !isDecimal(s) {
			continue
		}
		size, _ := strconv.Atoi(s)
		for i := range min(size, maxComponents) {
			n := hetPart{i, word}
			if x, ok := h.Getenv("SLURM_JOB_ID" + n.suffix(i)); ok && x == id {
				return n, true
			}
		}
	}
	return hetPart{}, false
}

func isSet(h *workload.Hint, key string) bool {
	_, ok := h.Getenv(key)
	return ok
}

// isDecimal reports whether s is a plain number of up to 32 bits, as all numbers of Slurm are.
func isDecimal(s string) bool {
	if s == "" || s[0] == '+' || s[0] == '0' && len(s) > 1 {
		return false
	}
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}
