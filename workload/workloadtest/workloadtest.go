// Package workloadtest is the conformance suite of [workload.Resolver].
//
// A resolver reads text that any user of the machine may write: names of control groups,
// environments, names of programs. For any text, it must return the same answer for the same hint,
// must not panic, and its answer must fit into labels. Every resolver runs [Test] and, from a fuzz
// test, [Check].
package workloadtest

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"reckon/workload"
)

// Maximum sizes of the values in an answer, in bytes.
const (
	maxID    = 600
	maxPart  = 300
	maxOwner = 300
	maxFact  = 300
)

// Hostile are paths that no known software creates but any user could.
func Hostile() []string {
	long := strings.Repeat("x", 4096)
	id := strings.Repeat("0123456789abcdef", 4)
	return []string{
		"", "/", "//", "a", "/..", "/../..", "/../../system.slice/a.service", "/./a", "/\n", "/\x00", "/\xff\xfe",
		"/system.slice/a\nb.service", "/system.slice/\x1b[31m.service", "/system.slice/.service", "/system.slice//a.service/",
		"/system.slice/" + long + ".service", strings.Repeat("/system.slice", 2000), "/" + long + "/" + long,
		"/slurm/uid_0/job_" + long, "/slurm/uid_/job_/step_", "/slurm/uid_-1/job_1/step_\n", "/slurm/uid_1/job_18446744073709551616/step_0",
		"/slurm/uid_1/job_1/step_" + long, "/system.slice/slurmstepd.scope/job_1/step_\x7f/user",
		"/system.slice/slurmstepd.scope/sOOOOOOOOOOOOO/step_0",
		"/kubepods/pod/", "/kubepods/pod" + long + "/" + id, "/kubepods/besteffort/podabc/\n", "/kubepods.slice/kubepods-pod_.slice/x",
		"/kubepods.slice/kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice/" + long,
		"/docker/" + id + id, "/docker/" + id + "/../../x", "/lxc.payload." + long, "/lxc/\n", "/machine.slice/machine-\\x.scope",
		"/machine.slice/machine-.scope",
		"/user.slice/user-99999999999999.slice/session-1.scope", "/user.slice/user-1000.slice/session-" + long + ".scope",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/app-\\x2f..\\x2fetc.scope",
		"/a (deleted)", "/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_1/step_0/user/task_0",
	}
}

// Test runs the suite on fresh resolvers.
func Test(t *testing.T, make func() workload.Resolver) {
	t.Helper()
	if name := make().Name(); name == "" || strings.ToLower(name) != name || strings.ContainsAny(name, " /\n") {
		t.Errorf("Name() is %q, want a lower-case word", name)
	}
	env := map[string]string{
		"SLURM_JOB_ID": "4711\n", "SLURM_JOB_NAME": strings.Repeat("n", 9000) + "\n", "SLURM_ARRAY_JOB_ID": "x",
		"SLURM_ARRAY_TASK_ID": "-1", "SLURM_STEP_ID": "\x00",
	}
	for _, path := range Hostile() {
		for _, controllers := range []string{"", "name=systemd", "cpu,cpuacct", "memory"} {
			h := workload.Hint{
				Node: "n1", PID: 4242, PPID: 1, PGID: 4242, SID: 4242, UID: 1000, User: "alice", Comm: "prog", Start: 1700000000,
				GroupStart: 1700000000, GroupComm: "prog",
				Cgroups: []workload.Path{{Controllers: controllers, Path: path}},
			}
			Check(t, make(), &h)
			h.Env = func(key string) (string, bool) { v, ok := env[key]; return v, ok }
			h.LookupUser = func(uint32) string { return "alice" }
			h.LoginSession = func() (uint32, bool) { return 7, true }
			Check(t, make(), &h)
		}
	}
	Check(t, make(), &workload.Hint{}) // nothing is known
	Check(t, make(), &workload.Hint{Kernel: true, Node: "n1", Comm: "kthreadd", User: "root", PID: 2})
}

// Check calls the resolver twice and tests the contract.
func Check(t *testing.T, r workload.Resolver, h *workload.Hint) {
	t.Helper()
	id, ok := r.Resolve(h)
	again, ok2 := r.Resolve(h)
	if id != again || ok != ok2 {
		t.Errorf("%s: first %+v, %v, then %+v, %v", r.Name(), id, ok, again, ok2)
	}
	if !ok {
		return
	}
	if h.Kernel {
		t.Errorf("%s claims a kernel thread: %+v", r.Name(), id)
	}
	if id.Workload.Kind() == "" || id.Workload.Name() == "" {
		t.Errorf("%s: workload %q, want kind/name", r.Name(), id.Workload)
	}
	checkLabel(t, r, "workload", string(id.Workload), maxID)
	checkLabel(t, r, "part", id.Part, maxPart)
	checkLabel(t, r, "owner", id.Owner, maxOwner)
	for _, s := range []string{id.Facts.Name, id.Facts.Account, id.Facts.Partition, id.Facts.Command} {
		checkLabel(t, r, "fact", s, maxFact)
	}
	for _, n := range []float64{id.Facts.RequestCores, id.Facts.RequestMemoryBytes, id.Facts.RequestGPUs, id.Facts.RequestSeconds} {
		if !(n >= 0 && n < 1e18) {
			t.Errorf("%s: a request of %v", r.Name(), n)
		}
	}
	if id.Cgroup != "" && !isWithin(h.Cgroups, id.Cgroup) {
		t.Errorf("%s: cgroup %q is none of %q", r.Name(), id.Cgroup, h.Cgroups)
	}
	if id.Whole != "" && !isWithin(h.Cgroups, id.Whole) {
		t.Errorf("%s: the whole %q is none of %q", r.Name(), id.Whole, h.Cgroups)
	}
	if h.PID > 1 {
		moved := *h
		moved.PID++
		other, _ := r.Resolve(&moved)
		if other.Part != id.Part {
			t.Errorf("%s: the part is %q for process %d and %q for its neighbour", r.Name(), id.Part, h.PID, other.Part)
		}
	}
}

// isWithin reports whether path is one of the groups or an ancestor of one.
func isWithin(groups []workload.Path, path string) bool {
	for _, g := range groups {
		if g.Path == path || strings.HasPrefix(g.Path, path+"/") {
			return true
		}
	}
	return false
}

func checkLabel(t *testing.T, r workload.Resolver, field, s string, limit int) {
	t.Helper()
	if len(s) > limit {
		t.Errorf("%s: %s of %d bytes: %.60q", r.Name(), field, len(s), s)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		t.Errorf("%s: %s %q", r.Name(), field, s)
	}
}

// Fuzz feeds a resolver hints made of fuzzed pieces.
func Fuzz(f *testing.F, make func() workload.Resolver, seeds ...string) {
	for _, s := range append(Hostile(), seeds...) {
		f.Add(s, "", "prog", "4711", uint32(1000), int32(77))
		f.Add("/", s, "sleep", "x", uint32(0), int32(0))
	}
	f.Fuzz(func(t *testing.T, unified, legacy, comm, env string, uid uint32, pgid int32) {
		h := workload.Hint{
			Node: "n1", PID: 4242, PGID: pgid, UID: uid, User: "alice", Comm: "prog", GroupComm: "prog", Start: 1700000000,
			Cgroups: []workload.Path{{Controllers: "name=systemd", Path: legacy}, {Controllers: "memory", Path: legacy}, {Path: unified}},
		}
		if !strings.ContainsFunc(comm, unicode.IsControl) && utf8.ValidString(comm) && len(comm) < 16 { // sensors clean it
			h.Comm, h.GroupComm = comm, comm
		}
		h.Env = func(key string) (string, bool) { return env, env != "" }
		Check(t, make(), &h)
	})
}
