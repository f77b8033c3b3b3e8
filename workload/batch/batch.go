// Package batch recognises the jobs of batch systems other than Slurm.
//
//	system                   control group                              environment
//	OpenPBS, PBS Pro         /pbs_jobs.service/jobid/123.server         PBS_JOBID, PBS_ENVIRONMENT
//	                         /pbs_jobs.service/jobs/123.server (v2)
//	TORQUE                   /torque/123.server                         PBS_JOBID, PBS_ENVIRONMENT
//	Grid Engine (UGE, AGE)   /UGE/123.4                                 JOB_ID, SGE_TASK_ID, SGE_ROOT
//	LSF                      -                                          LSB_JOBID, LSB_JOBINDEX
//	Flux                     -                                          FLUX_JOB_ID, FLUX_ENCLOSING_ID
//
// The groups are as made by pbs_cgroups.PY of OpenPBS, trq_cgroups.c of TORQUE, and Univa Grid
// Engine; of LSF and Flux the environment is all that is used. Jobs of PBS are pbs/123 and pbs/123[4],
// without the name of the server; Grid Engine's are sge/123 and sge/123.4; LSF's
// lsf/123 and lsf/123[4], as the commands of each write them; Flux's flux/fiFkbMhFM. A job of an instance of Flux
// that itself is a job belongs to that one, which is the one that the site's instance knows.
//
// A control group decides before any environment, which users set as they like: once a
// system's groups were seen on the node, its variables mean nothing outside of them, and
// within one they give facts only if they name its job. Without groups a process joins a job of its own user, as root its
// wrapper, or from within the job ([workload.Hint.Claim]). The owner is the first user
// but root that runs something in the job, never one that a variable names. The daemons of
// the systems are no jobs.
//
// A Resolver is used from one goroutine.
package batch

import (
	"slices"
	"strconv"
	"strings"

	"reckon/internal/cgpath"
	"reckon/workload"
)

// batchSystem is one batch system.
type batchSystem struct {
	kind    workload.Kind
	group   func(pieces []cgpath.Piece) (i int, ok bool) // the piece that names the job; len(pieces) when none does; nil without groups
	job     func(name string) string                     // of the name of a group; "" when it is none
	env     func(h *workload.Hint) string                // the job's name; "" outside of jobs
	facts   func(h *workload.Hint) workload.Facts
	daemons []string // of root or the system's own user
}

var batchSystems = [...]batchSystem{
	{
		kind: workload.PBS, group: findAfter([]string{"pbs_jobs.service", "jobid"}, []string{"pbs_jobs.service", "jobs"},
			[]string{"torque"}),
		job: parsePBSJob, env: pbsJobFromEnv, facts: pbsFacts, daemons: []string{"pbs_mom", "pbs_tmrsh", "pbs_demux", "pbs_attach"},
	},
	{
		kind: workload.GridEngine, group: findAfter([]string{"UGE"}),
		job: parseSGEJob, env: sgeJobFromEnv, facts: sgeFacts, daemons: []string{"sge_execd", "sge_shepherd"},
	},
	{
		kind: workload.Flux, env: fluxJobFromEnv, facts: func(*workload.Hint) workload.Facts { return workload.Facts{} },
		daemons: []string{"flux-broker", "flux-imp"},
	},
	{
		kind: workload.LSF, env: lsfJobFromEnv, facts: lsfFacts, daemons: []string{"sbatchd", "res", "lim", "pim", "melim", "mbatchd"},
	},
}

// Resolver implements [workload.Resolver].
type Resolver struct {
	jobs   [len(batchSystems)]cgpath.Memo[jobFacts] // of each system, by the path of the job's group
	layout [len(batchSystems)]bool                  // the system makes control groups on this node
	pieces []cgpath.Piece                           // of the path that is looked at
}

var _ workload.Resolver = (*Resolver)(nil)

// jobFacts holds the facts that all processes of a job have in common.
type jobFacts struct {
	owner string
	facts workload.Facts
}

// New returns a resolver.
func New() *Resolver { return &Resolver{} }

// Name implements [workload.Resolver].
func (*Resolver) Name() string { return "batch" }

// Resolve implements [workload.Resolver].
func (r *Resolver) Resolve(h *workload.Hint) (workload.Identity, bool) {
	if h.Kernel {
		return workload.Identity{}, false
	}
	for i := range batchSystems {
		s := &batchSystems[i]
		name, path := r.findGroup(i, h)
		if s.isDaemon(h) {
			continue
		}
		switch {
		case name != "":
			return r.identityInGroup(i, h, name, path), true
		case r.layout[i]:
			continue
		}
		if name = s.env(h); name != "" {
			if id, ok := h.Claim(workload.Identity{Workload: workload.MakeID(s.kind, cgpath.Clean(name)), Facts: s.facts(h)}); ok {
				return id, true
			}
		}
	}
	return workload.Identity{}, false
}

// findGroup returns the control group of batch system number i among the groups of a process, with the name of the job.
func (r *Resolver) findGroup(i int, h *workload.Hint) (name, path string) {
	if batchSystems[i].group == nil {
		return "", ""
	}
	for k, c := range h.Cgroups {
		if k > 0 && c.Path == h.Cgroups[k-1].Path {
			continue // as in most hierarchies of version 1
		}
		r.pieces = cgpath.AppendSplit(r.pieces[:0], c.Path)
		pieces := r.pieces
		at, ok := batchSystems[i].group(pieces)
		if !ok {
			continue
		}
		r.layout[i] = true
		if at < len(pieces) && name == "" {
			if name = batchSystems[i].job(cgpath.Unescape(pieces[at].Name)); name != "" {
				path = pieces[at].Prefix
			}
		}
	}
	return name, path
}

func (r *Resolver) identityInGroup(i int, h *workload.Hint, name, path string) workload.Identity {
	s := &batchSystems[i]
	j, known := r.jobs[i].Get(path)
	was := j
	if j.facts == (workload.Facts{}) && s.env(h) == name {
		j.facts = s.facts(h)
	}
	if j.owner == "" && h.UID != 0 {
		j.owner = h.User
	}
	if !known || j != was {
		r.jobs[i].Put(path, j)
	}
	id := workload.Identity{Workload: workload.MakeID(s.kind, cgpath.Clean(name)), Owner: j.owner, Cgroup: path, Whole: path,
		Facts: j.facts}
	if id.Owner == "" {
		id.Owner, id.Naming = h.User, workload.HalfNamed
	}
	return id
}

// isDaemon reports whether a process is a daemon of the batch system. It must belong to a system user, because other
// users can give a program any name.
func (s *batchSystem) isDaemon(h *workload.Hint) bool {
	return h.UID < 1000 && slices.Contains(s.daemons, h.Comm)
}

// findAfter returns a function that finds the path component after one of several sequences of components. The
// sequence may be anywhere in the path, for example below a container or a slice. It may not be below user.slice,
// because users can choose any name there.
func findAfter(beginnings ...[]string) func([]cgpath.Piece) (int, bool) {
	return func(pieces []cgpath.Piece) (int, bool) {
		for i := range pieces {
			if pieces[i].Name == "user.slice" {
				return 0, false
			}
			for _, b := range beginnings {
				if startsWithNames(pieces[i:], b) {
					return i + len(b), true
				}
			}
		}
		return 0, false
	}
}

func startsWithNames(pieces []cgpath.Piece, names []string) bool {
	if len(pieces) < len(names) {
		return false
	}
	for i, n := range names {
		if pieces[i].Name != n {
			return false
		}
	}
	return true
}

// parsePBSJob returns the job id in a name such as 123.server or 123[4].server.
func parsePBSJob(s string) string {
	s, _, _ = strings.Cut(s, ".")
	return arrayNumber(s)
}

// arrayNumber returns s if it is a number, or a number with an array index: 123[4].
func arrayNumber(s string) string {
	number, index, array := strings.Cut(s, "[")
	if !isDecimal(number) {
		return ""
	}
	if array && !isDecimal(strings.TrimSuffix(index, "]")) {
		return ""
	}
	return s
}

// parseSGEJob parses a job id such as 123.4, where the last number is the array task. In the name of its control group, a
// job that is not an array has task 1.
func parseSGEJob(s string) string {
	number, task, ok := strings.Cut(s, ".")
	switch {
	case !isDecimal(number), ok && !isDecimal(task):
		return ""
	case !ok, task == "1":
		return number
	}
	return s
}

func isDecimal(s string) bool {
	if s == "" || s[0] == '+' || s[0] == '0' {
		return false
	}
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}
