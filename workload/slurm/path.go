package slurm

import (
	"strings"

	"reckon/internal/cgpath"
)

// cgroupFields is the information in the path of a control group.
type cgroupFields struct {
	job        string // the raw number, or the SLUID
	number     bool   // job is a number
	step       string // "batch", "0", ...
	path       string // of the job's group
	task       string // of a step: "0", "1", ...
	cgroup     string // the group that holds the tasks of the step and nothing else
	uid        uint32
	hasUID     bool
	slurmstepd bool // the group of Slurm's own process of the step (version 2)
}

// detailLevel returns the level of detail of the fields: 3 for a task, 2 for a step, 1 for a job. If the hierarchies of a
// process differ, the one with the highest depth is used.
func (p *cgroupFields) detailLevel() int {
	switch {
	case p.task != "":
		return 3
	case p.step != "":
		return 2
	case p.job != "":
		return 1
	}
	return 0
}

// findJob parses a path. ok is true if it is in a tree created by Slurm, even if it names no job.
func findJob(path string) (p cgroupFields, ok bool) {
	if !strings.Contains(path, "slurm") {
		return p, false
	}
	pieces := cgpath.Split(path)
	for i, c := range pieces {
		if c.Name == "user.slice" {
			return cgroupFields{}, false // its users may make any name below
		}
		rest := pieces[i+1:]
		switch {
		case c.Name == "slurmstepd.scope" || strings.HasSuffix(c.Name, "_slurmstepd.scope"):
			p.parseJobAndStep(rest)
			return p, true
		case (c.Name == "slurm" || strings.HasPrefix(c.Name, "slurm_")) && len(rest) > 0:
			if p.uid, p.hasUID = cgpath.Number(rest[0].Name, "uid_"); p.hasUID {
				p.parseJobAndStep(rest[1:])
				return p, true
			}
		}
	}
	return cgroupFields{}, false
}

// parseJobAndStep parses the path components after the scope or the user.
func (p *cgroupFields) parseJobAndStep(pieces []cgpath.Piece) {
	if len(pieces) == 0 {
		return
	}
	name := pieces[0].Name
	switch number, isJob := strings.CutPrefix(name, "job_"); {
	case isJob && isDecimal(number) && number != "0":
		p.job, p.number = number, true
	case isUniqueID(name):
		p.job = name
	default:
		return
	}
	p.path = pieces[0].Prefix
	if len(pieces) == 1 {
		return
	}
	s, isStep := strings.CutPrefix(pieces[1].Name, "step_")
	if !isStep || s == "" {
		return
	}
	p.step, p.cgroup = stepName(s), pieces[1].Prefix
	if len(pieces) > 2 {
		p.task = taskNumber(pieces[2].Name)
		switch pieces[2].Name {
		case "user":
			p.cgroup = pieces[2].Prefix
			if len(pieces) > 3 {
				p.task = taskNumber(pieces[3].Name)
			}
		case "slurm":
			p.slurmstepd = true
		}
	}
}

// taskNumber returns the number of a task by the name of its group; empty for other groups.
func taskNumber(group string) string {
	if n, ok := strings.CutPrefix(group, "task_"); ok && isDecimal(n) {
		return n
	}
	return ""
}

// isUniqueID reports whether s is a unique id of a Slurm job. It consists of "s" and 13 digits in Crockford's base 32, as
// slurmctld prints it (src/common/sluid.h).
func isUniqueID(s string) bool {
	if len(s) != 14 || s[0] != 's' {
		return false
	}
	for _, c := range []byte(s[1:]) {
		if !strings.ContainsRune("0123456789ABCDEFGHJKMNPQRSTVWXYZ", rune(c)) {
			return false
		}
	}
	return true
}

// stepName returns the name of a job step as Slurm's commands show it. Old releases, and the environment variables of all
// releases, have numbers for special steps (slurm/slurm.h).
func stepName(s string) string {
	switch s {
	case "4294967294", "4294967291":
		return "batch"
	case "4294967295", "4294967292":
		return "extern"
	case "4294967290":
		return "interactive"
	}
	return cgpath.Clean(s)
}
