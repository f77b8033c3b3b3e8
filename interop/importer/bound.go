package importer

import (
	"cmp"
	"fmt"
	"slices"

	"reckon/interop/sonar"
)

// The use of a process is bounded by its node: CPU time by cores times uptime, growth by the run time of its job, and
// resident memory by the node's memory. Figures beyond that are corrupt, and the record is refused.

const (
	// coresMost is the assumed maximum number of cores of a node that does not report it.
	coresMost = 1 << 13
	// slackShare and slackSeconds allow for the inaccuracy of written and measured times.
	slackShare   = 1.05
	slackSeconds = 10
)

// nodeCPUSeconds returns the CPU seconds that a node can provide in a number of seconds.
func (r *reading) nodeCPUSeconds(seconds int64) float64 {
	cores := cmp.Or(r.cores, coresMost)
	return float64(cores) * (float64(max(seconds, 0))*slackShare + slackSeconds)
}

// refuseImpossible removes records with more use than the node can have had.
func (im *Importer) refuseImpossible(p nodeKey, node *nodeState, t int64, r *reading) {
	up := int64(ageMost)
	if r.system != nil && r.system.Boot > 0 && r.system.Boot < t {
		up = t - r.system.Boot
	}
	cpu := r.nodeCPUSeconds(up)
	r.procs = slices.DeleteFunc(r.procs, func(q sonar.Process) bool {
		switch {
		case q.CPU > cpu:
			im.countRefused(p, t, r, &q, fmt.Sprintf("%.4g s of CPU time, and the node can have given %.4g s", q.CPU, cpu))
		case node.Memory > 0 && q.Resident > node.Memory*slackShare:
			im.countRefused(p, t, r, &q, fmt.Sprintf("%.4g bytes of resident memory, and the node has %.4g", q.Resident, node.Memory))
		default:
			return false
		}
		return true
	})
}

// acceptedGrowth returns the growth of a job's processes since the previous reading, and the accepted processes. A process is
// rejected and treated as missing if it grew by more CPU time than the node can have given the job since its start.
func (im *Importer) acceptedGrowth(p nodeKey, j *jobState, t int64, procs []*sonar.Process, r *reading) (*growthStep, []*sonar.Process) {
	for {
		a := j.computeGrowth(t, procs)
		most := r.nodeCPUSeconds(t - j.Start)
		kept := slices.DeleteFunc(slices.Clone(procs), func(q *sonar.Process) bool {
			_, had := j.Procs[toProcKey(q)]
			if g := a.grown[toProcKey(q)][usedCPU]; had && g > most {
				im.countRefused(p, t, r, q, fmt.Sprintf("its CPU time grew by %.4g s, and the node can have given its job %.4g s", g, most))
				return true
			}
			return false
		})
		if len(kept) == len(procs) {
			return a, procs
		}
		procs = kept
	}
}

// countRefused counts an impossible record. When series are rebuilt, it is refused again but not counted again.
func (im *Importer) countRefused(p nodeKey, t int64, r *reading, q *sonar.Process, why string) {
	if r.fresh == 0 {
		return
	}
	r.fresh--
	im.res.Refused++
	im.res.Taken = max(im.res.Taken-1, 0)
	im.addError(0, fmt.Errorf("node %s, %s: %s (job %d, process %d) says %s", p.node, unixTime(t).Format("2006-01-02T15:04:05Z"), q.Cmd,
		q.Job,
		q.PID, why))
}
