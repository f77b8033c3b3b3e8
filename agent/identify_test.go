package agent

import (
	"errors"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"reckon/account"
	"reckon/sensor"
	"reckon/workload"
	resolvers "reckon/workload/all"
	"reckon/workload/process"
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

// A process that no reading saw, and whose record names neither its group nor its control groups, goes where its parent
// belongs; not if the parent is a plain process of another user, which has only started or adopted it.
func TestUnseenProcessOfAnotherUser(t *testing.T) {
	a := open(t, Config{Source: "procfs", Node: "n1"})
	a.user = func(uid uint32) string { return "user" + strconv.Itoa(int(uid)) }
	l := account.New(account.Config{Node: "n1", Identify: a.identify})
	const parent, child = 4_190_000, 4_190_001 // above what processes have
	pass := sensor.Pass{Boot: 1e12, Live: []sensor.Process{{PID: parent, PGID: parent, SID: parent, UID: 5, Start: 1e11, Have: sensor.FieldGroup}}}
	l.Tick(time.Unix(2e9, 0), &pass, nil)
	pass.Boot += 1e9
	for i, uid := range []uint32{5, 6} {
		pass.Exited = append(pass.Exited, sensor.Process{
			PID: child + int32(i), PPID: parent, UID: uid, Start: pass.Boot - 5e8, UserNanos: uint64(i+1) * 1e8,
			Have: sensor.FieldParent,
		})
	}
	l.Tick(time.Unix(2e9+1, 0), &pass, nil)
	got := map[string]float64{}
	for _, w := range l.Live(nil) {
		if w.CPUSeconds > 0 {
			got[string(w.Workload)+" of "+w.Owner] += w.CPUSeconds
		}
	}
	group := "group/n1/4190000-" + strconv.FormatInt(a.btime+100, 10)
	want := map[string]float64{group + " of user5": 0.1, "short/user6/n1 of user6": 0.2}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMayTrace(t *testing.T) {
	const host = "         0          0 4294967295\n"
	for _, c := range []struct {
		status, uidMap string
		want           bool
	}{
		{"Name:\tx\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n", host, true},
		{"Name:\tx\nCapEff:\t0000000000080000\n", host, true},
		{"Name:\tx\nCapEff:\t000001fffff7ffff\n", host, false},
		{"Name:\tx\nCapEff:\t000001ffffffffff\n", "0 1000 1\n", false},
		{"", "", false},
	} {
		if got := mayTrace(c.status, c.uidMap); got != c.want {
			t.Errorf("%q %q: %v, want %v", c.status, c.uidMap, got, c.want)
		}
	}
}

// A process group whose leader has gone keeps its name over a restart of the agent: the leader, whose start is
// part of the name, cannot be looked up any more, and those who are left began later.
func TestGroupWithoutLeaderKeepsItsName(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	leader := exec.Command("sh", "-c", "sleep 1.1; sleep 300 & read _")
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := leader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	pgid := leader.Process.Pid
	t.Cleanup(func() { _ = syscall.Kill(-pgid, syscall.SIGKILL) })
	names := func(a *Agent) (list []string) {
		t.Helper()
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
		for id := range a.ledger.Running() {
			if n, _, ok := process.Leader(id); ok && n == int32(pgid) {
				list = append(list, string(id))
			}
		}
		return list
	}
	a := open(t, Config{Source: "procfs", State: state})
	was := names(a)
	if len(was) != 1 {
		t.Skipf("process groups are not workloads here: %v", was) // in a control group of a service or a container
	}
	if err := errors.Join(in.Close(), leader.Wait()); err != nil && leader.ProcessState == nil {
		t.Fatal(err)
	}
	if now := names(a); !slices.Equal(now, was) {
		t.Fatalf("%v without its leader, %v with it", now, was)
	}
	a.save()
	b := open(t, Config{Source: "procfs", State: state})
	if now := names(b); !slices.Equal(now, was) {
		t.Errorf("%v after a restart, %v before", now, was)
	}
}
