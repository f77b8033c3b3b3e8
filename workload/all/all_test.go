package all

import (
	"strings"
	"testing"

	"reckon/workload"
	"reckon/workload/workloadtest"
)

// asOne lets the suite ask a whole chain.
type asOne struct{ workload.Chain }

func (asOne) Name() string { return "all" }

func (c asOne) Resolve(h *workload.Hint) (workload.Identity, bool) {
	return c.Chain.Resolve(h), !h.Kernel
}

func TestConformance(t *testing.T) {
	workloadtest.Test(t, func() workload.Resolver { return asOne{Chain()} })
}

func FuzzChain(f *testing.F) {
	workloadtest.Fuzz(f, func() workload.Resolver { return asOne{Chain()} })
}

func TestOrder(t *testing.T) {
	id := strings.Repeat("ab", 32)
	const pod = "/kubepods.slice/kubepods-pod01042b28_179d_446a_954a_7266557e12cd.slice/"
	for _, tt := range []struct{ path, want string }{
		{pod + "cri-containerd-" + id + ".scope/system.slice/n_slurmstepd.scope/job_4/step_0/user/task_0", "slurm/4"},
		{pod + "cri-containerd-" + id + ".scope", "pod/01042b28-179d-446a-954a-7266557e12cd"},
		{"/docker/" + id + "/kubelet/kubepods/pod01042b28-179d-446a-954a-7266557e12cd/" + id, "pod/01042b28-179d-446a-954a-7266557e12cd"},
		{"/system.slice/docker-" + id + ".scope", "container/abababababab"},
		{"/system.slice/slurmstepd.scope/system", "unit/slurmstepd.scope"},
		{"/pbs_jobs.service/jobid/123.server", "pbs/123"},
		{"/torque/1182724.batch", "pbs/1182724"},
		{"/UGE/77.3", "sge/77.3"},
		{"/pbs_jobs.service", "unit/pbs_jobs.service"},
		{"/system.slice/docker.service", "unit/docker.service"},
		{"/user.slice/user-1000.slice/session-3.scope", "session/1000/3"},
		{"/", "session/alice/7"},
	} {
		h := workload.Hint{Node: "n1", PID: 9, PGID: 9, UID: 1000, User: "alice", Start: 1700000000, Cgroups: []workload.Path{{Path: tt.path}}}
		h.LoginSession = func() (uint32, bool) { return 7, true }
		if got := Chain().Resolve(&h); string(got.Workload) != tt.want {
			t.Errorf("%s: %s, want %s", tt.path, got.Workload, tt.want)
		}
	}
	h := workload.Hint{Node: "n1", PID: 9, PGID: 9, User: "alice", Start: 1700000000}
	if got := Chain().Resolve(&h); got.Workload != "group/n1/9-1700000000" || got.Owner != "alice" {
		t.Errorf("%+v", got)
	}
	kernel := workload.Hint{Node: "n1", PID: 2, Kernel: true}
	if got := Chain().Resolve(&kernel); got.Workload != "other/n1" {
		t.Errorf("a kernel thread: %+v", got)
	}
}

func BenchmarkResolve(b *testing.B) {
	c := Chain()
	h := workload.Hint{Node: "n1", PID: 9, PGID: 9, User: "alice", Start: 1700000000, Cgroups: []workload.Path{{Controllers: "memory", Path: "/"}, {Path: "/"}}}
	b.ReportAllocs()
	for b.Loop() {
		c.Resolve(&h)
	}
}
