package slurm

import (
	"strings"
	"testing"

	"reckon/workload"
	"reckon/workload/workloadtest"
)

func TestConformance(t *testing.T) {
	workloadtest.Test(t, func() workload.Resolver { return New() })
}

func FuzzResolve(f *testing.F) {
	workloadtest.Fuzz(f, func() workload.Resolver { return New() }, "/slurm/uid_1000/job_4711/step_0/task_0",
		"/system.slice/slurmstepd.scope/job_4/step_0/user/task_0", "/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_extern/slurm")
}

func hint(uid uint32, comm string, cgroups []workload.Path, env map[string]string) *workload.Hint {
	users := map[uint32]string{0: "root", 1000: "alice", 1001: "bob"}
	h := &workload.Hint{Node: "n1", PID: 10, UID: uid, User: users[uid], Comm: comm, Cgroups: cgroups}
	h.LookupUser = func(uid uint32) string { return users[uid] }
	if env != nil {
		h.Env = func(key string) (string, bool) { v, ok := env[key]; return v, ok }
	}
	return h
}

func v2(path string) []workload.Path { return []workload.Path{{Path: path}} }

func TestLayouts(t *testing.T) {
	const scope = "/system.slice/slurmstepd.scope"
	for _, tt := range []struct {
		name              string
		uid               uint32
		comm              string
		cgroups           []workload.Path
		env               map[string]string
		id                workload.ID
		part, owner, path string
	}{
		// Recorded under Slurm 22.05.8: the hierarchies differ in depth.
		{"v1, several slurmd", 1001, "slurm_script", []workload.Path{
			{Controllers: "name=systemd", Path: "/"}, {Controllers: "pids", Path: "/"}, {Controllers: "freezer", Path: "/slurm_vm/uid_1001/job_14/step_batch"},
			{Controllers: "memory", Path: "/slurm_vm/uid_1001/job_14/step_batch/task_0"}, {Controllers: "cpuset", Path: "/slurm_vm/uid_1001/job_14/step_batch"},
			{Controllers: "cpuacct", Path: "/slurm_vm/uid_1001/job_14/step_batch/task_0"}, {Path: "/"},
		}, nil, "slurm/14", "batch", "bob", "/slurm_vm/uid_1001/job_14/step_batch"},
		// treydock/cgroup_exporter fixtures (Apache-2.0).
		{"v1", 0, "sudo", []workload.Path{{Controllers: "cpuacct,cpu", Path: "/slurm/uid_20821/job_11/step_0/task_1"}}, nil, "slurm/11", "0", "20821", "/slurm/uid_20821/job_11/step_0"},
		{"v2", 1000, "app", v2(scope + "/job_4/step_0/user/task_0"), nil, "slurm/4", "0", "alice", scope + "/job_4/step_0/user"},
		{"v2 daemon", 0, "slurmstepd", v2(scope + "/system"), nil, "", "", "", ""},
		{"v2 slurmstepd", 0, "slurmstepd", v2(scope + "/job_4/step_0/slurm"), nil, "", "", "", ""},
		// doc/html/cgroup_v2.shtml of Slurm 26.11.
		{"v2 slurmd", 0, "slurmd", v2("/system.slice/slurmd.service"), nil, "", "", "", ""},
		{"v2 slurmd by hand", 0, "slurmd", v2("/system.slice/gamba1_slurmstepd.scope/slurmd"), nil, "", "", "", ""},
		{"v2 several slurmd", 1000, "app", v2("/system.slice/gamba1_slurmstepd.scope/job_4/step_0/user/task_special"), nil, "slurm/4", "0", "alice", "/system.slice/gamba1_slurmstepd.scope/job_4/step_0/user"},
		{"v2 CgroupSlice", 1000, "app", v2("/hpc.slice/slurmstepd.scope/job_4/step_interactive/user/task_0"), nil, "slurm/4", "interactive", "alice", "/hpc.slice/slurmstepd.scope/job_4/step_interactive/user"},
		{"v2 slurmd in a pod", 1000, "app", v2("/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope/system.slice/n_slurmstepd.scope/job_4/step_0/user/task_0"), nil,
			"slurm/4", "0", "alice", "/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope/system.slice/n_slurmstepd.scope/job_4/step_0/user"},
		{"placeholder", 0, "sleep", v2(scope + "/job_4/step_extern/user/task_0"), nil, "", "", "", ""},
		{"adopted ssh session", 1000, "bash", v2(scope + "/job_4/step_extern/user/task_special"), nil, "slurm/4", "extern", "alice", scope + "/job_4/step_extern/user"},
		{"a user's sleep hides nothing", 1000, "sleep", v2(scope + "/job_4/step_extern/user/task_0"), nil, "slurm/4", "extern", "alice", scope + "/job_4/step_extern/user"},
		{"26.05, no environment", 1000, "app", v2(scope + "/s5K1KKYAYG5D00/step_0/user/task_0"), nil, "slurm/s5K1KKYAYG5D00", "0", "alice", scope + "/s5K1KKYAYG5D00/step_0/user"},
		{"26.05", 1000, "app", v2(scope + "/s5K1KKYAYG5D00/step_0/user/task_0"), map[string]string{"SLURM_JOB_ID": "3385", "SLURM_JOB_SLUID": "s5K1KKYAYG5D00"}, "slurm/3385", "0", "alice", scope + "/s5K1KKYAYG5D00/step_0/user"},
		{"26.05, another job's environment", 1000, "app", v2(scope + "/s5K1KKYAYG5D00/step_0/user/task_0"), map[string]string{"SLURM_JOB_ID": "1", "SLURM_JOB_SLUID": "s5K1KKYAYG5D01"}, "slurm/s5K1KKYAYG5D00", "0", "alice", scope + "/s5K1KKYAYG5D00/step_0/user"},
		{"26.05 version 1", 1000, "app", []workload.Path{{Controllers: "memory", Path: "/slurm/uid_1000/sEKNKTV3WPV500/step_0/task_0"}}, nil, "slurm/sEKNKTV3WPV500", "0", "alice", "/slurm/uid_1000/sEKNKTV3WPV500/step_0"},
		{"before 17.11", 1000, "app", []workload.Path{{Controllers: "memory", Path: "/slurm/uid_1000/job_4/step_4294967294"}}, nil, "slurm/4", "batch", "alice", "/slurm/uid_1000/job_4/step_4294967294"},
		{"heterogeneous step", 1000, "app", v2(scope + "/job_4/step_0+1/user/task_0"), nil, "slurm/4", "0+1", "alice", scope + "/job_4/step_0+1/user"},
		{"job without a step", 1000, "app", []workload.Path{{Controllers: "freezer", Path: "/slurm/uid_1000/job_4"}}, nil, "slurm/4", "", "alice", ""},
		{"array task", 1000, "app", v2(scope + "/job_4720/step_batch/user/task_0"), map[string]string{"SLURM_JOB_ID": "4720", "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "3"}, "slurm/4711_3", "batch", "alice", scope + "/job_4720/step_batch/user"},
		{"array task of another job", 1000, "app", v2(scope + "/job_4720/step_batch/user/task_0"), map[string]string{"SLURM_JOB_ID": "4719", "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "2"}, "slurm/4720", "batch", "alice", scope + "/job_4720/step_batch/user"},
		{"heterogeneous job", 1000, "app", v2(scope + "/job_4712/step_0/user/task_0"), map[string]string{"SLURM_JOB_ID": "4712", "SLURM_HET_JOB_ID": "4711", "SLURM_HET_JOB_OFFSET": "1"}, "slurm/4711+1", "0", "alice", scope + "/job_4712/step_0/user"},
		// Recorded under Slurm 22.05.8: both components of a step carry the number of the first.
		{"heterogeneous job, as 22.05 tells", 1000, "app", v2(scope + "/job_18/step_batch/user/task_0"), het2205, "slurm/18+0", "batch", "alice", scope + "/job_18/step_batch/user"},
		{"its second component", 1000, "app", v2(scope + "/job_19/step_0/user/task_0"), het2205, "slurm/18+1", "0", "alice", scope + "/job_19/step_0/user"},
		{"not a component of it", 1000, "app", v2(scope + "/job_20/step_0/user/task_0"), het2205, "slurm/20", "0", "alice", scope + "/job_20/step_0/user"},
		{"a user's own tree", 1000, "app", v2("/user.slice/user-1000.slice/user@1000.service/x.slice/slurmstepd.scope/job_1/step_0/user/task_0"), nil, "", "", "", ""},
		{"no groups", 1000, "app", v2("/"), map[string]string{"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "2", "SLURM_PROCID": "0"}, "slurm/4711", "2", "", ""},
		{"no groups, batch script", 1000, "app", nil, map[string]string{"SLURM_JOB_ID": "4711", "SLURMD_NODENAME": "n1", "SLURM_NODELIST": "n1"}, "slurm/4711", "batch", "", ""},
		{"no groups, the least", 1000, "app", nil, map[string]string{"SLURM_JOBID": "4711"}, "slurm/4711", "", "", ""},
		{"salloc's shell", 1000, "bash", nil, map[string]string{"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "n2"}, "", "", "", ""},
		{"slurmd started in a job", 0, "slurmd", nil, map[string]string{"SLURM_JOB_ID": "4711", "SLURM_PROCID": "0"}, "", "", "", ""},
		{"no job", 1000, "app", v2("/user.slice"), map[string]string{"PATH": "/bin"}, "", "", "", ""},
		{"nonsense", 1000, "app", nil, map[string]string{"SLURM_JOB_ID": "4711; rm"}, "", "", "", ""},
	} {
		got, ok := New().Resolve(hint(tt.uid, tt.comm, tt.cgroups, tt.env))
		if ok != (tt.id != "") || got.Workload != tt.id || got.Part != tt.part || got.Owner != tt.owner || got.Cgroup != tt.path || tt.path != "" && !strings.HasPrefix(tt.path, got.Whole+"/") {
			t.Errorf("%s:\n got %+v, %v\nwant %s part %s owner %s cgroup %s", tt.name, got, ok, tt.id, tt.part, tt.owner, tt.path)
		}
	}
}

// TestTask: tasks of a step are distinguished where each has a group of its own, in whatever hierarchy, or by the environment.
func TestTask(t *testing.T) {
	for want, h := range map[string]*workload.Hint{
		"1": hint(1000, "app", []workload.Path{{Controllers: "freezer", Path: "/slurm/uid_1000/job_11/step_0"}, {Controllers: "cpuacct", Path: "/slurm/uid_1000/job_11/step_0/task_1"}}, nil),
		"2": hint(1000, "app", v2("/system.slice/slurmstepd.scope/job_4/step_0/user/task_2/of/its/own"), nil),
		"3": hint(1000, "app", nil, map[string]string{"SLURM_JOB_ID": "4711", "SLURMD_NODENAME": "n1", "SLURM_STEP_ID": "0", "SLURM_LOCALID": "3"}),
		"":  hint(1000, "app", v2("/system.slice/slurmstepd.scope/job_4/step_extern/user/task_special"), nil),
	} {
		if got, ok := New().Resolve(h); !ok || got.Task != want {
			t.Errorf("task %q, %v, want %q", got.Task, ok, want)
		}
	}
}

var het2205 = map[string]string{
	"SLURM_JOB_ID": "18", "SLURM_HET_SIZE": "2", "SLURM_JOB_ID_HET_GROUP_0": "18", "SLURM_JOB_ID_HET_GROUP_1": "19", "SLURM_JOB_PARTITION": "normal",
	"SLURM_JOB_PARTITION_HET_GROUP_1": "devel", "SLURM_MEM_PER_NODE": "100", "SLURM_MEM_PER_NODE_HET_GROUP_1": "120", "SLURM_CPUS_ON_NODE": "1",
}

func TestFactsOfAComponent(t *testing.T) {
	id, _ := New().Resolve(hint(1000, "app", v2("/system.slice/slurmstepd.scope/job_19/step_0/user/task_0"), het2205))
	if id.Facts.Partition != "devel" || id.Facts.RequestMemoryBytes != 120<<20 {
		t.Errorf("%+v", id.Facts)
	}
}

// All processes of a job have one name, whatever their own environment reports later.
func TestOneNamePerJob(t *testing.T) {
	const dir = "/system.slice/slurmstepd.scope/job_4720/"
	r := New()
	first := map[string]string{"SLURM_JOB_ID": "4720", "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_NAME": "train"}
	for i, h := range []*workload.Hint{
		hint(1000, "slurm_script", v2(dir+"step_batch/user/task_0"), first),
		hint(1000, "cleared", v2(dir+"step_batch/user/task_0"), map[string]string{}),
		hint(1000, "denied", v2(dir+"step_0/user/task_0"), nil),
		hint(0, "su", v2(dir+"step_extern/user/task_0"), nil),
		hint(1000, "liar", v2(dir+"step_0/user/task_0"), map[string]string{"SLURM_JOB_ID": "4720", "SLURM_ARRAY_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": "1"}),
	} {
		id, ok := r.Resolve(h)
		if !ok || id.Workload != "slurm/4711_3" || id.Owner != "alice" || id.Facts.Name != "train" {
			t.Errorf("process %d: %+v, %v", i, id, ok)
		}
	}
}

// Names that a later process may improve are marked: the number while no environment was read, and root as the owner.
func TestProvisionalNames(t *testing.T) {
	const dir = "/system.slice/slurmstepd.scope/job_4720/step_0/user/task_0"
	r := New()
	for i, tt := range []struct {
		h         *workload.Hint
		id, owner string
		naming    workload.Naming
	}{
		{hint(0, "prolog", v2(dir), nil), "slurm/4720", "root", workload.Unnamed},
		{hint(0, "prolog", v2(dir), map[string]string{"SLURM_JOB_ID": "4720", "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "3"}), "slurm/4711_3", "root", workload.HalfNamed},
		{hint(1000, "app", v2(dir), nil), "slurm/4711_3", "alice", workload.Named},
		{hint(0, "epilog", v2(dir), nil), "slurm/4711_3", "alice", workload.Named},
	} {
		if id, _ := r.Resolve(tt.h); string(id.Workload) != tt.id || id.Owner != tt.owner || id.Naming != tt.naming {
			t.Errorf("process %d: %s of %s, naming %d", i, id.Workload, id.Owner, id.Naming)
		}
	}
}

// A number that comes again on a node, by a requeue or for another user's job, has the facts of its new run.
func TestNumberComesAgain(t *testing.T) {
	const dir = "/system.slice/slurmstepd.scope/job_4711/step_batch/user/task_0"
	run := func(start, name string) map[string]string {
		return map[string]string{"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": name, "SLURM_JOB_START_TIME": start}
	}
	r := New()
	member := hint(1001, "member", v2(dir), run("1700009999", "forged"))
	member.PID, member.PGID = 8, 7
	for i, tt := range []struct {
		h                *workload.Hint
		run, name, owner string
	}{
		{hint(1000, "script", v2(dir), run("1700000000", "train")), "1700000000", "train", "alice"},
		{hint(1000, "task", v2(dir), run("1700000000", "other")), "1700000000", "train", "alice"},
		{hint(1000, "old", v2(dir), run("1699999999", "old")), "1700000000", "train", "alice"},
		{member, "1700000000", "train", "alice"},
		{hint(1001, "script", v2(dir), run("1700000001", "fold")), "1700000001", "fold", "bob"},
		{hint(1001, "task", v2(dir), map[string]string{}), "1700000001", "fold", "bob"},
	} {
		if tt.h != member {
			tt.h.PGID = tt.h.PID
		}
		id, ok := r.Resolve(tt.h)
		if !ok || id.Facts.Run != tt.run || id.Facts.Name != tt.name || id.Owner != tt.owner {
			t.Errorf("process %d: %+v, %v", i, id, ok)
		}
	}
}

// A variable set by hand means nothing on a node where Slurm makes control groups.
func TestEnvironmentAloneIsNotBelieved(t *testing.T) {
	r := New()
	fake := hint(1001, "miner", v2("/user.slice/user-1001.slice/session-4.scope"), map[string]string{"SLURM_JOB_ID": "4711", "SLURM_PROCID": "0"})
	if _, ok := r.Resolve(fake); !ok {
		t.Error("not taken where there are no groups")
	}
	r.Resolve(hint(0, "slurmstepd", v2("/system.slice/slurmstepd.scope/system"), nil))
	if id, ok := r.Resolve(fake); ok {
		t.Errorf("taken for %+v", id)
	}
	// What was in the job's group, or began there, stays the job's when it is moved out.
	fake.Was = "slurm/4711"
	if id, ok := r.Resolve(fake); !ok || id.Workload != "slurm/4711" {
		t.Errorf("moved out of its group it is %+v, %v", id, ok)
	}
	fake.Was = "slurm/4712"
	if id, ok := r.Resolve(fake); ok {
		t.Errorf("of job 4712 and taken for %+v", id)
	}
}

func TestFacts(t *testing.T) {
	env := map[string]string{
		"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "tr\nain", "SLURM_JOB_ACCOUNT": "ec12", "SLURM_JOB_PARTITION": "accel", "SLURM_CPUS_ON_NODE": "4",
		"SLURM_JOB_CPUS_PER_NODE": "16(x2)", "SLURM_MEM_PER_CPU": "2048", "SLURM_JOB_GPUS": "0,2-3", "SLURM_JOB_START_TIME": "1700000000", "SLURM_JOB_END_TIME": "1700003600",
	}
	id, _ := New().Resolve(hint(1000, "app", nil, env))
	want := workload.Facts{Name: "tr?ain", Account: "ec12", Partition: "accel", Run: "1700000000", RequestCores: 16, RequestMemoryBytes: 32 << 30, RequestGPUs: 3, RequestSeconds: 3600}
	if id.Facts != want {
		t.Errorf("\n got %+v\nwant %+v", id.Facts, want)
	}
	for _, tt := range []struct{ got, want float64 }{
		{coresPerNode("8(x2),4", "4"), 4}, {coresPerNode("", "3"), 3}, {coresPerNode("8", "2"), 8}, {coresPerNode("8(y2)", ""), 0},
		{parseMemory("100"), 100 << 20}, {parseMemory("4G"), 4 << 30}, {parseMemory("0"), 0}, {parseMemory("x"), 0}, {parseMemory(""), 0},
		{countListed("0"), 1}, {countListed(""), 0}, {countListed("gpu"), 0}, {countListed("3-1"), 0}, {countListed("0-99999999"), 0},
	} {
		if tt.got != tt.want {
			t.Errorf("%v, want %v", tt.got, tt.want)
		}
	}
	env["SLURM_JOB_END_TIME"], env["SLURM_MEM_PER_NODE"] = "4000000000", "1000"
	id, _ = New().Resolve(hint(1000, "app", nil, env))
	if id.Facts.RequestSeconds != 0 || id.Facts.RequestMemoryBytes != 1000<<20 {
		t.Errorf("%+v", id.Facts)
	}
}

func BenchmarkResolve(b *testing.B) {
	r := New()
	h := hint(1000, "app", v2("/system.slice/slurmstepd.scope/job_4/step_0/user/task_0"), map[string]string{"SLURM_JOB_ID": "4"})
	b.ReportAllocs()
	for b.Loop() {
		r.Resolve(h)
	}
}

// TestRunOfTask: a task without a start time, or with one that is none, is of no known run.
func TestRunOfTask(t *testing.T) {
	for start, want := range map[string]string{"1700000000": "1700000000", "1": "1", "0": "", "": "", "soon": "", "-5": ""} {
		id, _ := New().Resolve(hint(1000, "app", nil, map[string]string{"SLURM_JOB_ID": "4711", "SLURM_JOB_START_TIME": start}))
		if id.Facts.Run != want {
			t.Errorf("a task that began at %q is of run %q, want %q", start, id.Facts.Run, want)
		}
	}
}
