package session

import (
	"testing"

	"reckon/workload"
	"reckon/workload/workloadtest"
)

func TestConformance(t *testing.T) {
	workloadtest.Test(t, func() workload.Resolver { return New() })
}

func FuzzResolve(f *testing.F) {
	f.Add(uint32(3), uint32(1000), "bash", "alice")
	f.Add(uint32(1<<32-1), uint32(0), "sshd", "")
	f.Fuzz(func(t *testing.T, n, uid uint32, comm, user string) {
		h := hint(n, uid, comm, "alice")
		r := New()
		workloadtest.Check(t, r, h)
		workloadtest.Check(t, r, hint(n, 0, comm, "root"))
	})
}

func hint(n, uid uint32, comm, user string) *workload.Hint {
	return &workload.Hint{Node: "n1", UID: uid, User: user, Comm: comm, LoginSession: func() (uint32, bool) { return n, true }}
}

func TestSessions(t *testing.T) {
	r := New()
	for _, tt := range []struct {
		h         *workload.Hint
		id, owner string
	}{
		{hint(3, 0, "sshd", "root"), "", ""},
		{hint(3, 1000, "sshd", "alice"), "session/alice/3", "alice"},
		{hint(3, 1000, "bash", "alice"), "session/alice/3", "alice"},
		{hint(3, 0, "sudo", "root"), "session/alice/3", "alice"},
		{hint(3, 0, "make", "root"), "session/alice/3", "alice"},
		{hint(4, 0, "bash", "root"), "session/root/4", "root"},
		{hint(5, 1000, "a", ""), "session/1000/5", "1000"},
		{hint(1<<32-1, 1000, "daemon", "alice"), "", ""},
		{hint(0, 1000, "daemon", "alice"), "", ""},
		{&workload.Hint{UID: 1000, User: "alice"}, "", ""},
		{&workload.Hint{LoginSession: func() (uint32, bool) { return 3, false }}, "", ""},
	} {
		id, ok := r.Resolve(tt.h)
		if want := (workload.Identity{Workload: workload.ID(tt.id), Owner: tt.owner}); id != want || ok != (tt.id != "") {
			t.Errorf("%+v: %+v, %v", tt, id, ok)
		}
	}
}
