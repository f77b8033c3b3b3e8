package agent

import (
	"io/fs"
	"testing"

	"reckon/sensor"
	"reckon/workload"
	resolvers "reckon/workload/all"
)

// environ is a process whose environment is read.
type environ struct {
	vars  map[string]string
	reads int
}

func (*environ) Cgroups(int32) ([]sensor.CgroupPath, error) { return nil, fs.ErrNotExist }

func (e *environ) Env(_ int32, keys ...string) (map[string]string, error) {
	e.reads++
	out := map[string]string{}
	for _, k := range keys {
		if v, ok := e.vars[k]; ok {
			out[k] = v
		}
	}
	return out, nil
}

func (*environ) LoginSession(int32) (uint32, bool, error) { return 0, false, nil }

// The environment of a process that is in no batch job is read once, whatever the number of
// batch systems that it could be of.
func TestEnvironmentIsReadOnce(t *testing.T) {
	for _, tt := range []struct {
		vars  map[string]string
		want  workload.ID
		reads int
	}{
		{nil, "group/n1/9-1700000000", 1},
		{map[string]string{"PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBID": "12.server"}, "pbs/12", 7},
		{map[string]string{"SLURM_JOB_ID": "4", "SLURM_PROCID": "0"}, "slurm/4", 99},
	} {
		e := &environ{vars: tt.vars}
		a := &Agent{look: e, probes: workload.Probes()}
		h := &workload.Hint{Node: "n1", PID: 9, PGID: 9, UID: 1000, User: "alice", Start: 1700000000, GroupStart: 1700000000}
		h.Env = a.environment(9)
		if id := resolvers.Chain().Resolve(h); id.Workload != tt.want || e.reads > tt.reads {
			t.Errorf("%v: %s after %d reads, want %s after at most %d", tt.vars, id.Workload, e.reads, tt.want, tt.reads)
		}
	}
}
