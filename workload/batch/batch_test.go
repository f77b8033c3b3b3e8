package batch

import (
	"testing"

	"reckon/workload"
	"reckon/workload/workloadtest"
)

func TestConformance(t *testing.T) {
	workloadtest.Test(t, func() workload.Resolver { return New() })
}

func FuzzResolve(f *testing.F) {
	workloadtest.Fuzz(f, func() workload.Resolver { return New() }, "/torque/1182724.batch",
		"/pbs_jobs.service/jobid/123[4].server", "/UGE/77.3", "/system.slice/pbs_jobs.service/jobs/1.a")
}

func hint(uid uint32, comm, path string, env map[string]string) *workload.Hint {
	users := map[uint32]string{0: "root", 900: "sgeadmin", 1000: "alice", 1001: "bob"}
	h := &workload.Hint{Node: "n1", PID: 10, UID: uid, User: users[uid], Comm: comm}
	if path != "" {
		h.Cgroups = []workload.Path{{Controllers: "name=systemd", Path: "/"}, {Controllers: "cpuacct", Path: path}}
	}
	if env != nil {
		h.Env = func(key string) (string, bool) { v, ok := env[key]; return v, ok }
	}
	return h
}

var (
	pbsEnv = map[string]string{"PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBID": "123.server", "PBS_JOBNAME": "mpi", "PBS_QUEUE": "workq", "PBS_ACCOUNT": "ml", "NCPUS": "8"}
	sgeEnv = map[string]string{"SGE_ROOT": "/opt/sge", "JOB_ID": "77", "SGE_TASK_ID": "3", "JOB_NAME": "blast", "QUEUE": "all.q", "NSLOTS": "4", "NHOSTS": "1"}
	lsfEnv = map[string]string{"LSB_JOBID": "900", "LSB_JOBINDEX": "0", "LSB_JOBNAME": "eda", "LSB_QUEUE": "normal", "LSB_DJOB_NUMPROC": "2", "LSB_MCPU_HOSTS": "h1 2"}
)

func TestJobs(t *testing.T) {
	pbsFacts := workload.Facts{Name: "mpi", Account: "ml", Partition: "workq", RequestCores: 8}
	for _, tt := range []struct {
		name, comm, path string
		uid              uint32
		env              map[string]string
		id, owner, group string
		facts            workload.Facts
	}{
		// treydock/cgroup_exporter at f01693c, fixtures.ttar (Apache-2.0).
		{"TORQUE", "python", "/torque/1182724.batch", 1000, nil, "pbs/1182724", "alice", "/torque/1182724.batch", workload.Facts{}},
		{"TORQUE, a task's group", "python", "/torque/5.batch/R0.t0", 1000, nil, "pbs/5", "alice", "/torque/5.batch", workload.Facts{}},
		{"TORQUE's own group", "pbs_mom", "/torque", 0, nil, "", "", "", workload.Facts{}},
		// test/tests/functional/pbs_cgroups_hook.py of OpenPBS.
		{"PBS", "a.out", "/pbs_jobs.service/jobid/123.server", 1000, pbsEnv, "pbs/123", "alice", "/pbs_jobs.service/jobid/123.server", pbsFacts},
		{"PBS, version 2", "a.out", "/pbs_jobs.service/jobs/123.server", 1000, pbsEnv, "pbs/123", "alice", "/pbs_jobs.service/jobs/123.server", pbsFacts},
		{"PBS, below a slice", "a.out", "/site.slice/pbs_jobs.service/jobid/123.server", 1000, nil, "pbs/123", "alice", "/site.slice/pbs_jobs.service/jobid/123.server", workload.Facts{}},
		{"PBS, array", "a.out", "/pbs_jobs.service/jobid/123[4].server", 1000, nil, "pbs/123[4]", "alice", "/pbs_jobs.service/jobid/123[4].server", workload.Facts{}},
		{"PBS, escaped", "a.out", `/pbs_jobs.service/jobid/123\x5b4\x5d.server`, 1000, nil, "pbs/123[4]", "alice", `/pbs_jobs.service/jobid/123\x5b4\x5d.server`, workload.Facts{}},
		{"another job's environment", "a.out", "/pbs_jobs.service/jobid/9.server", 1000, pbsEnv, "pbs/9", "alice", "/pbs_jobs.service/jobid/9.server", workload.Facts{}},
		{"mom in a job", "pbs_mom", "/pbs_jobs.service/jobid/123.server", 0, nil, "", "", "", workload.Facts{}},
		{"a user's program called like it", "pbs_mom", "/pbs_jobs.service/jobid/123.server", 1001, nil, "pbs/123", "bob", "/pbs_jobs.service/jobid/123.server", workload.Facts{}},
		{"no number", "a.out", "/pbs_jobs.service/jobid/server", 1000, nil, "", "", "", workload.Facts{}},
		{"a login user's group", "a.out", "/user.slice/user-1000.slice/torque/1.x", 1000, nil, "", "", "", workload.Facts{}},
		{"PBS without groups", "a.out", "", 1000, pbsEnv, "pbs/123", "", "", pbsFacts},
		{"a variable alone", "a.out", "", 1000, map[string]string{"PBS_JOBID": "123.server"}, "", "", "", workload.Facts{}},
		// cgroups of Univa Grid Engine 8.
		{"Grid Engine", "blastn", "/UGE/77.1", 1000, nil, "sge/77", "alice", "/UGE/77.1", workload.Facts{}},
		{"Grid Engine, array", "blastn", "/UGE/77.3", 1000, sgeEnv, "sge/77.3", "alice", "/UGE/77.3", workload.Facts{Name: "blast", Partition: "all.q", RequestCores: 4}},
		{"Grid Engine without groups", "blastn", "", 1000, sgeEnv, "sge/77.3", "", "", workload.Facts{Name: "blast", Partition: "all.q", RequestCores: 4}},
		{"shepherd", "sge_shepherd", "/UGE/77.1", 900, nil, "", "", "", workload.Facts{}},
		{"LSF", "sim", "", 1000, lsfEnv, "lsf/900", "", "", workload.Facts{Name: "eda", Partition: "normal", RequestCores: 2}},
		{"Flux", "sim", "", 1000, map[string]string{"FLUX_JOB_ID": "ƒiFkbMhFM"}, "flux/fiFkbMhFM", "", "", workload.Facts{}},
		{"Flux, nested", "sim", "", 1000, map[string]string{"FLUX_JOB_ID": "fABC", "FLUX_ENCLOSING_ID": "ƒiFkbMhFM"}, "flux/fiFkbMhFM", "", "", workload.Facts{}},
		{"LSF, array", "sim", "", 1000, map[string]string{"LSB_JOBID": "900", "LSB_JOBINDEX": "12", "LSB_DJOB_NUMPROC": "4", "LSB_MCPU_HOSTS": "h1 2 h2 2"}, "lsf/900[12]", "", "", workload.Facts{}},
		{"none", "bash", "/user.slice/user-1000.slice/session-2.scope", 1000, nil, "", "", "", workload.Facts{}},
	} {
		id, ok := New().Resolve(hint(tt.uid, tt.comm, tt.path, tt.env))
		want := workload.Identity{Workload: workload.ID(tt.id), Owner: tt.owner, Cgroup: tt.group, Whole: tt.group, Facts: tt.facts}
		if id != want || ok != (tt.id != "") {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, id, ok, want)
		}
	}
}

// Processes of one job share what any of them showed, and root's do not take the job over.
func TestOneJob(t *testing.T) {
	r := New()
	const path = "/pbs_jobs.service/jobid/123.server"
	for _, tt := range []struct {
		h           *workload.Hint
		owner, name string
		naming      workload.Naming
	}{
		{hint(0, "prologue", path, nil), "root", "", workload.HalfNamed}, // until another user runs something
		{hint(1000, "bash", path, nil), "alice", "", workload.Named},
		{hint(1000, "a.out", path, pbsEnv), "alice", "mpi", workload.Named},
		{hint(1001, "helper", path, nil), "alice", "mpi", workload.Named},
		{hint(0, "epilogue", path, nil), "alice", "mpi", workload.Named},
	} {
		if id, _ := r.Resolve(tt.h); id.Owner != tt.owner || id.Naming != tt.naming || id.Facts.Name != tt.name || id.Workload != "pbs/123" {
			t.Errorf("%s: %+v, want owner %s and name %q", tt.h.Comm, id, tt.owner, tt.name)
		}
	}
	// PBS makes groups here, so that a variable outside of them is only somebody's word.
	if id, ok := r.Resolve(hint(1001, "liar", "/user.slice/user-1001.slice/session-1.scope", pbsEnv)); ok {
		t.Errorf("outside of all groups: %+v", id)
	}
}
