package access_test

import (
	"context"
	"testing"

	"reckon/access"
	"reckon/figure/wire"
)

func TestRoles(t *testing.T) {
	for _, name := range []string{"admin", "support", "user", "public"} {
		r, err := access.ParseRole(name)
		if err != nil || r.String() != name {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	for _, name := range []string{"", "nobody", "Admin", "root"} {
		if r, err := access.ParseRole(name); err == nil || r != access.Nobody {
			t.Errorf("%q became %v", name, r)
		}
	}
	if got := access.Role(200).String(); got != "role 200" {
		t.Error(got)
	}
}

func TestSees(t *testing.T) {
	alice := access.Viewer{Role: access.User, Name: "alice"}
	lead := access.Viewer{Role: access.User, Name: "carol", Owners: []string{"shop", "carol"}}
	public := access.Viewer{Role: access.Public, Name: "alice"} // a name gives the public no rights
	for _, c := range []struct {
		v     access.Viewer
		owner string
		want  bool
	}{
		{alice, "alice", true}, {alice, "bob", false}, {alice, "", false}, {alice, "alic", false}, {alice, "Alice", false},
		{lead, "shop", true}, {lead, "carol", true}, {lead, "alice", false},
		{public, "alice", false}, {public, "", false},
		{access.Viewer{Role: access.User}, "", false},
		{access.Viewer{Role: access.Support}, "bob", true}, {access.Viewer{Role: access.Admin}, "", true},
		{access.Viewer{}, "alice", false}, {access.Viewer{Name: "alice"}, "alice", false},
	} {
		if got := c.v.Sees(c.owner); got != c.want {
			t.Errorf("%+v sees %q: %v", c.v, c.owner, got)
		}
	}
}

func TestLive(t *testing.T) {
	cores := 2.0
	got := access.Viewer{Role: access.User, Name: "alice"}.Live(wire.Live{Workloads: []wire.LiveWorkload{
		{ID: "slurm/1", Name: "train", Owner: "alice", Cores: 1}, {ID: "slurm/2", Name: "cook", Owner: "bob", Cores: cores, Wait: &cores},
		{ID: "slurm/3", Name: "wash", Owner: "carol", Cores: cores, Wait: &cores}}}).Workloads
	if len(got) != 2 || got[0].ID != "slurm/1" || got[1].Cores != 4 || *got[1].Wait != 4 {
		t.Fatalf("%+v", got)
	}
	if got[1].ID != "others" || got[1].Name != "" || got[1].Owner != "" {
		t.Errorf("the others are named %q %q of %q: one word is enough", got[1].ID, got[1].Name, got[1].Owner)
	}
}

func TestSeesSeries(t *testing.T) {
	alice := access.Viewer{Role: access.User, Name: "alice"}
	for _, c := range []struct {
		v      access.Viewer
		labels map[string]string
		want   bool
	}{
		{alice, map[string]string{"__name__": "reckon_workload_cores", "owner": "alice"}, true},
		{alice, map[string]string{"__name__": "reckon_workload_cores", "owner": "bob"}, false},
		{alice, map[string]string{"__name__": "node_load1", "owner": "bob"}, false},
		{alice, map[string]string{"__name__": "reckon_workload_cores", "workload": "slurm/1"}, false},
		{alice, map[string]string{"__name__": "node_load1"}, true},
		{alice, map[string]string{"__name__": "node_load1", "workload": "slurm/1"}, false},
		{alice, map[string]string{"__name__": "container_cpu_usage_seconds_total", "pod": "p"}, false},
		{alice, map[string]string{"__name__": "anything_at_all"}, false},
		{alice, map[string]string{"__name__": "up"}, true},
		{alice, map[string]string{"__name__": "upper"}, false},
		{alice, map[string]string{}, false},
		{access.Viewer{Role: access.Public}, map[string]string{"__name__": "node_load1"}, true},
		{access.Viewer{Role: access.Public}, map[string]string{"__name__": "x", "owner": "alice"}, false},
		{access.Viewer{Role: access.Public}, map[string]string{"__name__": "reckon_slurm_node_state", "state": "drained", "reason": "ask bob"}, false},
		{access.Viewer{Role: access.Public}, map[string]string{"__name__": "reckon_slurm_node_state", "state": "idle"}, true},
		{alice, map[string]string{"__name__": "reckon_slurm_node_state", "state": "drained", "reason": "ask bob"}, true},
		{access.Viewer{}, map[string]string{"__name__": "node_load1"}, false},
		{access.Viewer{Role: access.Support}, map[string]string{"__name__": "anything_at_all", "owner": "bob"}, true},
	} {
		if got := c.v.SeesSeries(func(l string) string { return c.labels[l] }); got != c.want {
			t.Errorf("%s sees %v: %v", c.v.Role, c.labels, got)
		}
	}
}

func TestMayWrite(t *testing.T) {
	agent := func(site string, nodes ...string) access.Viewer {
		return access.Viewer{Name: "agent", Writes: &access.Scope{Site: site, Nodes: nodes}}
	}
	for _, c := range []struct {
		v          access.Viewer
		site, node string
		want       bool
	}{
		{agent(""), "lab", "n1", true}, {agent("lab"), "lab", "n1", true}, {agent("lab"), "", "n1", false}, {agent("lab"), "lab2", "n1", false},
		{agent("lab", "n1"), "lab", "n1", true}, {agent("lab", "n1"), "lab", "n10", false}, {agent("", "gpu*", "n1"), "x", "gpu7", true}, {agent("", "gpu*"), "x", "", false},
		{agent("", "[bad"), "x", "[bad", false},
		{access.Viewer{Role: access.Admin}, "any", "any", true}, {access.Viewer{Role: access.Support}, "any", "any", false}, {access.Viewer{}, "", "", false},
	} {
		if got := c.v.MayWrite(c.site, c.node); got != c.want {
			t.Errorf("%+v may write %s/%s: %v", c.v.Writes, c.site, c.node, got)
		}
	}
	if v := agent("lab"); v.All() || v.Sees("alice") || !v.MaySend() || (access.Viewer{Role: access.Support}).MaySend() {
		t.Error("an agent may send and see nothing")
	}
}

// TestNobody: a context without a viewer sees nothing.
func TestNobody(t *testing.T) {
	if v := access.From(context.Background()); v.Role != access.Nobody || v.Sees("alice") || v.All() || v.Changes() {
		t.Errorf("%+v", v)
	}
	ctx := access.With(context.Background(), access.Viewer{Role: access.Admin, Name: "root"})
	if v := access.From(ctx); v.Name != "root" || !v.All() || !v.Changes() {
		t.Errorf("%+v", v)
	}
}
