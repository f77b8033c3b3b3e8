package agent

import (
	"bytes"
	"maps"
	"testing"
	"time"

	"reckon/account"
	"reckon/metric"
	"reckon/sensor"
)

// Where a batch system makes no control groups, a variable lets a process into a job of its own user, as root its wrapper, or where
// its parent is in it; also over a restart of the agent. When a job has ended its number is free.
func TestJobsByEnvironmentAreTheirUsers(t *testing.T) {
	for _, tt := range []struct {
		job string
		env map[string]string
	}{
		{"lsf/91", map[string]string{"LSB_JOBID": "91"}},
		{"pbs/95", map[string]string{"PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBID": "95.srv"}},
		{"sge/7.2", map[string]string{"SGE_ROOT": "/sge", "NSLOTS": "1", "JOB_ID": "7", "SGE_TASK_ID": "2"}},
		{"slurm/12", map[string]string{"SLURM_JOB_ID": "12", "SLURM_PROCID": "0"}},
	} {
		t.Run(tt.job, func(t *testing.T) {
			a := open(t, Config{Source: "procfs", Node: "n1"})
			a.look = &shell{environ{vars: tt.env}, []sensor.CgroupPath{{Path: "/"}}}
			a.user = func(uid uint32) string { return map[uint32]string{0: "root", 1: "news", 2: "games"}[uid] }
			config := account.Config{Node: "n1", Identify: a.identify}
			a.ledger = account.New(config)
			const first = 4_190_000 // above what processes have
			second := uint64(1e12)
			var cpu uint64
			tick := func(live ...sensor.Process) {
				second += 1e9
				cpu += 5e8
				for i := range live {
					live[i].UserNanos = cpu
				}
				a.pass = sensor.Pass{Boot: second, Joined: true, Live: live}
				a.ledger.Tick(time.Unix(int64(second/1e9), 0), &a.pass, nil)
			}
			of := func(n, parent int32, uid uint32) sensor.Process {
				return sensor.Process{PID: first + n, PPID: parent, PGID: first + n, SID: first + n, UID: uid, Start: 1e12 + uint64(n),
					Have: sensor.FieldGroup | sensor.FieldParent}
			}
			used := func() map[string]int {
				out := map[string]int{}
				for _, w := range a.ledger.Live(nil) {
					if string(w.Workload) == tt.job {
						out[w.Owner] += w.Processes
					}
				}
				return out
			}
			root, mine, within, theirs := of(1, 1, 0), of(2, first+1, 1), of(3, first+2, 2), of(4, 1, 2)
			tick(root)       // a prologue
			tick(root, mine) // the job
			tick(root, mine, within, theirs)
			if got := used(); !maps.Equal(got, map[string]int{"root": 1, "news": 2}) {
				t.Errorf("processes in the job, by owner: %v", got)
			}
			if a.self.strangers == 0 {
				t.Error("that another user named the job is not counted")
			}
			var saved bytes.Buffer
			if err := a.ledger.Save(&saved, "boot"); err != nil {
				t.Fatal(err)
			}
			a.ledger = account.New(config)
			if err := a.ledger.Restore(saved.Bytes(), "boot"); err != nil {
				t.Fatal(err)
			}
			tick(theirs, mine)
			if got := used(); got["games"] != 0 || got["news"] != 1 {
				t.Errorf("after a restart, the other user first: %v", got)
			}
			for range 3 {
				tick()
				a.ledger.Export(&metric.Batch{Time: time.Unix(int64(second/1e9), 0)})
			}
			tick(of(9, 1, 2))
			if got := used(); got["games"] != 1 {
				t.Errorf("when the job has ended its number is free: %v", got)
			}
		})
	}
}
