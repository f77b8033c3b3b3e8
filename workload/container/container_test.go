package container

import (
	"testing"

	"reckon/workload"
	"reckon/workload/workloadtest"
)

const (
	cid  = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d"
	cid2 = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
	user = "/user.slice/user-1000.slice/user@1000.service/user.slice"
)

func TestConformance(t *testing.T) {
	workloadtest.Test(t, func() workload.Resolver { return New() })
}

func FuzzResolve(f *testing.F) {
	workloadtest.Fuzz(f, func() workload.Resolver { return New() }, "/docker/"+cid, "/machine.slice/libpod-"+cid+".scope/container", "/ecs/a/b")
}

func TestLayouts(t *testing.T) {
	for _, tt := range []struct{ path, name, owner, cgroup string }{
		{"/docker/" + cid, "9ec39b91f3d7", "root", "/docker/" + cid},
		{"/" + cid2, "4f797c539e6c", "root", "/" + cid2}, // Docker's cgroup parent "/", neuvector's test data
		{"/system.slice/docker-" + cid + ".scope", "9ec39b91f3d7", "root", "/system.slice/docker-" + cid + ".scope"},
		{"/docker/" + cid + "/docker/" + cid2, "9ec39b91f3d7", "root", "/docker/" + cid},
		{"/system.slice/docker-" + cid + ".scope/system.slice/nginx.service", "9ec39b91f3d7", "root", "/system.slice/docker-" + cid + ".scope"},
		{user + "/docker-" + cid + ".scope", "9ec39b91f3d7", "alice", user + "/docker-" + cid + ".scope"},
		{"/machine.slice/libpod-" + cid + ".scope/container", "9ec39b91f3d7", "root", "/machine.slice/libpod-" + cid + ".scope"},
		{"/machine.slice/machine-libpod_pod_" + cid2 + ".slice/libpod-" + cid + ".scope/container", "9ec39b91f3d7", "root", "/machine.slice/machine-libpod_pod_" + cid2 + ".slice/libpod-" + cid + ".scope"},
		{"/machine.slice/libpod-conmon-" + cid + ".scope", "9ec39b91f3d7", "root", ""},
		{user + "/libpod-" + cid + ".scope/container", "9ec39b91f3d7", "alice", user + "/libpod-" + cid + ".scope"},
		{"/libpod_parent/libpod-" + cid, "9ec39b91f3d7", "root", "/libpod_parent/libpod-" + cid},
		{"/libpod_parent/" + cid2 + "/libpod-" + cid, "9ec39b91f3d7", "root", "/libpod_parent/" + cid2 + "/libpod-" + cid},
		{"/default/" + cid, "9ec39b91f3d7", "root", "/default/" + cid},
		{"/system.slice/nerdctl-" + cid + ".scope", "9ec39b91f3d7", "root", "/system.slice/nerdctl-" + cid + ".scope"},
		{"/machine.slice/crio-" + cid + ".scope", "9ec39b91f3d7", "root", "/machine.slice/crio-" + cid + ".scope"},
		{"/system.slice/new-engine-" + cid + ".scope", "9ec39b91f3d7", "root", "/system.slice/new-engine-" + cid + ".scope"},
		{"/ecs/0410eff2-7e59-4111-823e-1e0d98ef7f30/" + cid, "9ec39b91f3d7", "root", "/ecs/0410eff2-7e59-4111-823e-1e0d98ef7f30/" + cid},
		{"/ecs/55091c13b8cf4801b527f97601742204/55091c13b8cf4801b527f97601742204-399405237", "55091c13b8cf4801b527f97601742204-399405237", "root", "/ecs/55091c13b8cf4801b527f97601742204/55091c13b8cf4801b527f97601742204-399405237"},
		{"/system.slice/garden.service/garden/ab12-cd", "ab12-cd", "root", "/system.slice/garden.service/garden/ab12-cd"},
		{"/lxc/web/system.slice/nginx.service", "web", "root", "/lxc/web"},
		{"/lxc.payload.web/init.scope", "web", "root", "/lxc.payload.web"},
		{"/lxc.payload/web", "web", "root", "/lxc.payload/web"},
		{"/lxc.monitor.web", "web", "root", ""},
		{"/lxc.monitor/web", "web", "root", ""},
		{`/machine.slice/machine-web\x2d1.scope/payload`, "web-1", "root", `/machine.slice/machine-web\x2d1.scope`},
		{"/machine.slice/systemd-nspawn@web.service/payload", "web", "root", "/machine.slice/systemd-nspawn@web.service"},
		{`/machine.slice/machine-lxc\x2d3\x2ddb\x2d1.scope/libvirt`, "db-1", "root", `/machine.slice/machine-lxc\x2d3\x2ddb\x2d1.scope`},
		{"/lxc.payload.a\nb", "a?b", "root", "/lxc.payload.a\nb"},
		// None of ours:
		{"/", "", "", ""},
		{"/docker/buildx", "", "", ""},
		{"/process_api/29f99067b46f922b5c6a1a05e7b474f7", "", "", ""},
		{"/system.slice/docker.service", "", "", ""},
		{"/system.slice/var-lib-docker-overlay-9f086b233ab7c786bf8b40b164680b658a8f00e94323868e288d6ce20bc92193-merged.mount", "", "", ""}, // cAdvisor's test data
		{"/system.slice/web.service/libpod-payload-" + cid, "", "", ""},
		{"/machine.slice/machine-libpod_pod_" + cid2 + ".slice", "", "", ""},
		{"/lxc", "", "", ""},
		{`/machine.slice/machine-qemu\x2d3\x2ddb\x2d1.scope/libvirt/vcpu0`, "", "", ""}, // a virtual machine
	} {
		h := &workload.Hint{UID: 999, User: "999", LookupUser: func(uid uint32) string { return map[uint32]string{1000: "alice"}[uid] }}
		h.Cgroups = []workload.Path{{Controllers: "pids", Path: "/"}, {Controllers: "memory", Path: tt.path}}
		got, ok := New().Resolve(h)
		want := workload.Identity{}
		if tt.name != "" {
			want = workload.Identity{Workload: workload.ID("container/" + tt.name), Owner: tt.owner, Cgroup: tt.cgroup}
		}
		if got != want || ok != (tt.name != "") {
			t.Errorf("%q:\n got %+v, %v\nwant %+v", tt.path, got, ok, want)
		}
	}
}
