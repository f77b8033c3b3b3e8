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

// environ is a process with an environment that is read.
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

// A process that no reading saw, with a record that names neither its group nor its control groups, goes where its parent
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
		if got := maySeeAllUsers(c.status, c.uidMap); got != c.want {
			t.Errorf("%q %q: %v, want %v", c.status, c.uidMap, got, c.want)
		}
	}
}

// A process group without its leader keeps its name over a restart of the agent: the start of the leader, a
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

// groups is a task source with the control groups of its sets.
type groups struct {
	taskSource
	paths map[uint64][]sensor.CgroupPath
}

// shell is a process with its environment and control groups read.
type shell struct {
	environ
	paths []sensor.CgroupPath
}

func (s *shell) Cgroups(int32) ([]sensor.CgroupPath, error) { return s.paths, nil }

func (g groups) CgroupPaths(n uint64) ([]sensor.CgroupPath, bool) { p, ok := g.paths[n]; return p, ok }

// A child of an array task that began and ended between two passes, before anything of the task was seen, is charged
// under the name of the task: only a living process has the environment with the name.
func TestNameFromTheLiving(t *testing.T) {
	a := open(t, Config{Source: "procfs", Node: "n1"})
	job := "/slurm_n1/uid_1000/job_12"
	batch := []sensor.CgroupPath{{Controllers: "cpuacct", Path: job + "/step_batch/task_0"}}
	a.tasks = groups{a.tasks, map[uint64][]sensor.CgroupPath{7: batch, 8: {{Controllers: "cpuacct", Path: job + "/step_0/task_0"}}}}
	a.look = &shell{environ{vars: map[string]string{"SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "11", "SLURM_ARRAY_TASK_ID": "1"}}, batch}
	a.user = func(uint32) string { return "alice" }
	l := account.New(account.Config{Node: "n1", Identify: a.identify})
	const first = 4_190_000 // above what processes have
	of := func(pid int32, cgroup, cpu uint64) sensor.Process {
		return sensor.Process{
			PID: pid, PPID: first, PGID: first, SID: first, UID: 1000, Start: 1e12 + uint64(pid-first), Cgroup: cgroup, UserNanos: cpu,
			Have: sensor.FieldGroup | sensor.FieldParent | sensor.FieldCgroup,
		}
	}
	a.pass = sensor.Pass{Boot: 1e12, Joined: true}
	l.Tick(time.Unix(2e9, 0), &a.pass, nil)
	a.pass = sensor.Pass{Boot: 1e12 + 1e9, Joined: true, Live: []sensor.Process{of(first, 7, 0)}, Exited: []sensor.Process{of(first+1, 7, 3e8), of(first+2, 8, 2e8)}}
	l.Tick(time.Unix(2e9+1, 0), &a.pass, nil)
	got := map[string]float64{}
	for _, w := range l.Live(nil) {
		if w.CPUSeconds > 0 {
			got[string(w.Workload)+" "+w.Part] += w.CPUSeconds
		}
	}
	if want := map[string]float64{"slurm/11_1 batch": 0.3, "slurm/11_1 0": 0.2}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The control groups of a living process are those that the source of the pass has for it, not those that /proc shows
// a moment later: there, one that is exiting is in the root groups, and what starts a job has moved on.
func TestGroupsOfThePass(t *testing.T) {
	path := func(p string) []sensor.CgroupPath { return []sensor.CgroupPath{{Controllers: "cpuacct", Path: p}} }
	for name, tt := range map[string]struct {
		pass, later []sensor.CgroupPath
		want        workload.ID
	}{
		"exiting": {path("/slurm/uid_1000/job_12/step_1/task_0"), path("/"), "slurm/12"},
		"moved":   {path("/docker/" + dockerID), path("/slurm/uid_1000/job_12/step_1/task_0"), "container/0123456789ab"},
		"unnamed": {nil, path("/slurm/uid_1000/job_12/step_1/task_0"), "slurm/12"},
	} {
		t.Run(name, func(t *testing.T) {
			a := open(t, Config{Source: "procfs", Node: "n1"})
			a.user = func(uint32) string { return "alice" }
			a.look = &shell{paths: tt.later}
			sets := map[uint64][]sensor.CgroupPath{}
			if tt.pass != nil {
				sets[7] = tt.pass
			}
			a.tasks = groups{a.tasks, sets}
			p := sensor.Process{PID: 4_190_000, PGID: 4_190_000, SID: 4_190_000, UID: 1000, Start: 1e12, Cgroup: 7, Have: sensor.FieldGroup | sensor.FieldCgroup}
			if id := a.identify(&p, nil, false); id.Workload != tt.want {
				t.Errorf("%s, want %s", id.Workload, tt.want)
			}
			// Others of the set are not charged by what was seen of this one.
			a.look = &shell{paths: path("/slurm/uid_1000/job_12/step_1/task_0")}
			if id := a.identify(&p, nil, false); id.Workload != tt.want {
				t.Errorf("the next one: %s, want %s", id.Workload, tt.want)
			}
		})
	}
}

const dockerID = "0123456789ab0123456789ab0123456789ab0123456789ab0123456789abcdef"

// A process group without its leader is named by the eldest of its processes that lives, whichever is met first: sources differ in that.
func TestGroupWithoutLeader(t *testing.T) {
	live := []sensor.Process{
		{PID: 12, PGID: 10, Start: 5e9, Have: sensor.FieldGroup, Comm: sensor.CommOf([]byte("eldest"))},
		{PID: 14, PGID: 10, Start: 7e9, Have: sensor.FieldGroup},
		{PID: 15, PGID: 15, Start: 1e9, Have: sensor.FieldGroup},
	}
	ended := sensor.Process{PID: 13, PGID: 10, Start: 9e9, Have: sensor.FieldGroup}
	for _, first := range []*sensor.Process{&live[0], &live[1], &ended} {
		a := &Agent{leaders: map[int32]*groupLeader{}, btime: 1000}
		a.pass.Live = live
		h := &workload.Hint{Start: 1000 + int64(first.Start/1e9)}
		if a.setGroupLeader(h, first); h.GroupStart != 1005 {
			t.Errorf("met by process %d first: it began at %d, want 1005", first.PID, h.GroupStart)
		}
	}
}
