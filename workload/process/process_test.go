package process

import (
	"testing"

	"reckon/workload"
	"reckon/workload/workloadtest"
)

func TestConformance(t *testing.T) {
	workloadtest.Test(t, func() workload.Resolver { return New() })
}

func FuzzResolve(f *testing.F) {
	workloadtest.Fuzz(f, func() workload.Resolver { return New() })
}

func TestGroups(t *testing.T) {
	for _, tt := range []struct {
		h        workload.Hint
		id, name string
	}{
		{workload.Hint{Node: "n1", PID: 12, PGID: 10, Start: 1700000009, GroupStart: 1700000000, Comm: "sort", GroupComm: "make"}, "group/n1/10-1700000000", "make"},
		{workload.Hint{Node: "n1", PID: 12, PGID: 10, Start: 1700000009, Comm: "sort"}, "group/n1/10-1700000009", "sort"},
		{workload.Hint{Node: "n1", PID: 12, Start: 1700000009, Comm: "sort", GroupStart: 1, GroupComm: "x"}, "group/n1/12-1700000009", "sort"},
		{workload.Hint{Node: "n1", PID: 12, PGID: 10, Start: 1700000009, GroupStart: 1700000000, Comm: "runc", GroupComm: "containerd-shim"}, "group/n1/containerd-shim", "containerd-shim"},
		{workload.Hint{Node: "n1", PID: 2, Kernel: true, Comm: "kthreadd"}, "", ""},
	} {
		id, ok := New().Resolve(&tt.h)
		want := workload.Identity{Workload: workload.ID(tt.id), Facts: workload.Facts{Name: tt.name, Command: tt.name}}
		if id != want || ok != (tt.id != "") {
			t.Errorf("%+v: %+v, %v", tt.h, id, ok)
		}
	}
}

func TestLeader(t *testing.T) {
	for id, want := range map[workload.ID][2]int64{
		"group/n1/12-1700000009":           {12, 1700000009},
		"group/node-01.site/12-1700000009": {12, 1700000009},
		"group/n1/containerd-shim":         {},
		"unit/n1/12-1700000009":            {},
		"group/n1/12":                      {},
		"group/n1/99999999999-1":           {},
	} {
		pgid, start, ok := Leader(id)
		if ok != (want[0] != 0) || ok && (int64(pgid) != want[0] || start != want[1]) {
			t.Errorf("%s: %d, %d, %v; want %v", id, pgid, start, ok, want)
		}
	}
}
