package systemd

import (
	"testing"

	"reckon/workload"
	"reckon/workload/workloadtest"
)

func TestConformance(t *testing.T) {
	workloadtest.Test(t, func() workload.Resolver { return New() })
}

func FuzzResolve(f *testing.F) {
	workloadtest.Fuzz(f, func() workload.Resolver { return New() }, "/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope",
		"/user.slice/user-1000.slice/session-c1.scope", "/system.slice/a.service/b/c")
}

func hint(cgroups ...workload.Path) *workload.Hint {
	return &workload.Hint{UID: 33, User: "www-data", Cgroups: cgroups, LookupUser: func(uid uint32) string { return map[uint32]string{1000: "alice"}[uid] }}
}

const manager = "/user.slice/user-1000.slice/user@1000.service"

func TestLayouts(t *testing.T) {
	for _, tt := range []struct {
		path, id, owner, cgroup string
	}{
		{"/system.slice/nginx.service", "unit/nginx.service", "www-data", "/system.slice/nginx.service"},
		{"/system.slice/system-getty.slice/getty@tty1.service", "unit/getty@tty1.service", "www-data", "/system.slice/system-getty.slice/getty@tty1.service"},
		{"/system.slice/system-postgresql.slice/postgresql@15-main.service", "unit/postgresql@15-main.service", "www-data", "/system.slice/system-postgresql.slice/postgresql@15-main.service"},
		{"/system.slice/docker.service/sub/a.scope", "unit/docker.service", "www-data", "/system.slice/docker.service"},
		{"/init.scope", "unit/init.scope", "www-data", "/init.scope"},
		{"/my.slice/my-deep.slice/x.service", "unit/x.service", "www-data", "/my.slice/my-deep.slice/x.service"},
		{"/system.slice/slurmstepd.scope/system", "unit/slurmstepd.scope", "www-data", "/system.slice/slurmstepd.scope"},
		{`/system.slice/systemd-fsck@dev-disk-by\x2duuid.service`, "unit/systemd-fsck@dev-disk-by-uuid.service", "www-data", `/system.slice/systemd-fsck@dev-disk-by\x2duuid.service`},
		{"/../../system.slice/nginx.service", "unit/nginx.service", "www-data", "/../../system.slice/nginx.service"},
		// treydock/cgroup_exporter fixtures (Apache-2.0), with another user.
		{"/user.slice/user-1000.slice/session-157.scope", "session/alice/157", "alice", "/user.slice/user-1000.slice/session-157.scope"},
		{"/user.slice/user-20821.slice/session-c2.scope", "session/20821/c2", "20821", "/user.slice/user-20821.slice/session-c2.scope"},
		{manager + "/init.scope", "unit/user@1000.service", "alice", ""},
		{manager, "unit/user@1000.service", "alice", ""},
		{manager + "/app.slice/dbus.socket", "unit/alice/dbus.socket", "alice", manager + "/app.slice/dbus.socket"},
		{manager + "/app.slice/app-gnome-firefox-4711.scope", "unit/alice/app-gnome-firefox-4711.scope", "alice", manager + "/app.slice/app-gnome-firefox-4711.scope"},
		{manager + `/app.slice/app-org.gnome.Terminal.slice/vte\x2dspawn-1.scope/x`, "unit/alice/vte-spawn-1.scope", "alice", manager + `/app.slice/app-org.gnome.Terminal.slice/vte\x2dspawn-1.scope`},
		{manager + "/session.slice/org.gnome.Shell@wayland.service", "unit/alice/org.gnome.Shell@wayland.service", "alice", manager + "/session.slice/org.gnome.Shell@wayland.service"},
		{"/user.slice/user-1000.slice/user-runtime-dir@1000.service", "unit/alice/user-runtime-dir@1000.service", "alice", "/user.slice/user-1000.slice/user-runtime-dir@1000.service"},
		// None of systemd's:
		{"/", "", "", ""},
		{"/system.slice", "", "", ""},
		{"/user.slice/user-1000.slice", "", "", ""},
		{"/foo/nginx.service", "", "", ""},
		{"/init.d/x.service", "", "", ""},
		{"/.service", "", "", ""},
	} {
		for _, cgroups := range [][]workload.Path{
			{{Path: tt.path}}, // unified
			{{Controllers: "cpu", Path: "/"}, {Controllers: "name=systemd", Path: tt.path}, {Path: "/"}},        // version 1
			{{Controllers: "name=systemd", Path: tt.path}, {Path: tt.path}, {Controllers: "memory", Path: "/"}}, // hybrid
		} {
			got, ok := New().Resolve(hint(cgroups...))
			want := workload.Identity{Workload: workload.ID(tt.id), Owner: tt.owner, Cgroup: tt.cgroup}
			if got != want || ok != (tt.id != "") {
				t.Errorf("%s:\n got %+v, %v\nwant %+v", tt.path, got, ok, want)
			}
		}
	}
}

// Workers that run as another user belong to the owner of the unit.
func TestOneOwnerPerUnit(t *testing.T) {
	r := New()
	for _, user := range []string{"root", "www-data", "root"} {
		h := hint(workload.Path{Path: "/system.slice/nginx.service"})
		h.User = user
		if id, _ := r.Resolve(h); id.Owner != "root" {
			t.Errorf("a process of %s: owner %s", user, id.Owner)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	r := New()
	h := hint(workload.Path{Path: manager + "/app.slice/app-gnome-firefox-4711.scope"})
	b.ReportAllocs()
	for b.Loop() {
		r.Resolve(h)
	}
}
