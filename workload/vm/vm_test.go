package vm

import (
	"strings"
	"testing"

	"reckon/workload"
	"reckon/workload/workloadtest"
)

const session = "/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-boxes.scope"

func TestConformance(t *testing.T) {
	workloadtest.Test(t, func() workload.Resolver { return New("testdata") })
}

func FuzzResolve(f *testing.F) {
	workloadtest.Fuzz(f, func() workload.Resolver { return New("testdata") },
		`/machine.slice/machine-qemu\x2d3\x2ddb.scope/libvirt/emulator`, "/machine/qemu-3-db.libvirt-qemu/vcpu0", "/qemu.slice/100.scope")
}

// args splits a command line at spaces.
func args(line string) func() []string {
	return func() []string { return strings.Fields(line) }
}

func TestResolve(t *testing.T) {
	const (
		qemu  = "qemu-system-x86"
		scope = `/machine.slice/machine-qemu\x2d3\x2d`
	)
	for _, tt := range []struct {
		path, comm, line string
		uid              uint32
		name, owner      string
		cgroup           string
		facts            workload.Facts
	}{
		// libvirt 9 under systemd: emulator and virtual processors in groups of their own.
		{scope + `db\x2d1.scope/libvirt/emulator`, qemu, "/usr/bin/qemu-system-x86_64 -name guest=db-1,debug-threads=on -m size=4194304k -smp 2,maxcpus=4,sockets=2", 64055,
			"db-1", "shop", scope + `db\x2d1.scope`, workload.Facts{Name: "db-1", Command: qemu, RequestCores: 2, RequestMemoryBytes: 4 << 30}},
		{scope + "plain.scope/libvirt/emulator", "swtpm", "", 64055, "plain", "libvirt", scope + "plain.scope", workload.Facts{}},
		{scope + "broken.scope", qemu, "", 64055, "broken", "shop", scope + "broken.scope", workload.Facts{Command: qemu}},
		{scope + "none.scope", qemu, "", 64055, "none", "libvirt", scope + "none.scope", workload.Facts{Command: qemu}},
		{"/machine.slice/machine-qemu\\x2d12\\x2dinstance\\x2d0000002a.scope/emulator", qemu, "", 64055, "instance-0000002a", "genomics", "/machine.slice/machine-qemu\\x2d12\\x2dinstance\\x2d0000002a.scope", workload.Facts{Command: qemu}},
		{"/machine/qemu-3-db-1.libvirt-qemu/vcpu0", qemu, "", 64055, "db-1", "shop", "/machine/qemu-3-db-1.libvirt-qemu", workload.Facts{Command: qemu}},
		{"/libvirt/qemu/db-1/emulator", qemu, "", 64055, "db-1", "shop", "/libvirt/qemu/db-1", workload.Facts{Command: qemu}},
		{`/machine.slice/machine-ch\x2d1\x2dedge.scope`, "cloud-hyperviso", "cloud-hypervisor --api-socket fd=3", 0, "edge", "libvirt", `/machine.slice/machine-ch\x2d1\x2dedge.scope`, workload.Facts{Command: "cloud-hyperviso"}},
		// Proxmox.
		{"/qemu.slice/101.scope", "kvm", "/usr/bin/kvm -id 101 -name web,debug-threads=on -smp 4,sockets=1,cores=4,maxcpus=4 -m 2048", 0,
			"101", "shop", "/qemu.slice/101.scope", workload.Facts{Name: "web", Command: "kvm", RequestCores: 4, RequestMemoryBytes: 2 << 30}},
		{"/qemu.slice/102.scope", "kvm", "", 0, "102", "proxmox", "/qemu.slice/102.scope", workload.Facts{Command: "kvm"}},
		// Of a user's own, and by hand.
		{session, qemu, "/usr/bin/qemu-system-x86_64 -name guest=win,,11,debug-threads=on -m 8G", 1000, "win,11", "alice", "", workload.Facts{Name: "win,11", Command: qemu, RequestMemoryBytes: 8 << 30}},
		{"/system.slice/vmm.service", "cloud-hyperviso", "cloud-hypervisor --api-socket=/run/edge-7.sock --cpus boot=2,max=8 --memory size=512M", 0,
			"edge-7", "root", "", workload.Facts{Name: "edge-7", Command: "cloud-hyperviso", RequestCores: 2, RequestMemoryBytes: 512 << 20}},
		{"/system.slice/libvirtd.service", qemu, "qemu-system-x86_64 -name db-1", 64055, "db-1", "shop", "", workload.Facts{Name: "db-1", Command: qemu}},
		// No machine that can be named, and no machine.
		{session, qemu, "qemu-system-x86_64 -nographic", 1000, "", "", "", workload.Facts{}},
		{session, qemu, "", 1000, "", "", "", workload.Facts{}},
		{session, "bash", "bash -name x", 1000, "", "", "", workload.Facts{}},
		{"/qemu.slice", "kvm", "", 0, "", "", "", workload.Facts{}},
		{"/qemu.slice/web.scope", "pve-helper", "", 0, "", "", "", workload.Facts{}},
		{"/machine", "bash", "", 0, "", "", "", workload.Facts{}},
		{`/machine.slice/machine-lxc\x2d3\x2dweb.scope`, "init", "", 0, "", "", "", workload.Facts{}},
		{"/machine.slice/machine-web.scope", "init", "", 0, "", "", "", workload.Facts{}},
	} {
		users := map[uint32]string{0: "root", 1000: "alice", 64055: "libvirt-qemu"}
		h := &workload.Hint{UID: tt.uid, User: users[tt.uid], Comm: tt.comm, LookupUser: func(uid uint32) string { return users[uid] }}
		h.Cgroups = []workload.Path{{Controllers: "pids", Path: "/"}, {Controllers: "memory", Path: tt.path}}
		if tt.line != "" {
			h.Args = args(tt.line)
		}
		got, ok := New("testdata").Resolve(h)
		want := workload.Identity{}
		if tt.name != "" {
			want = workload.Identity{Workload: workload.ID("vm/" + tt.name), Owner: tt.owner, Cgroup: tt.cgroup, Whole: tt.cgroup, Facts: tt.facts}
		}
		if got != want || ok != (tt.name != "") {
			t.Errorf("%s %q:\n got %+v, %v\nwant %+v", tt.path, tt.line, got, ok, want)
		}
	}
}

// TestFactsOfTheEmulator has a helper of the machine seen before its emulator.
func TestFactsOfTheEmulator(t *testing.T) {
	r := New("testdata")
	h := &workload.Hint{UID: 64055, User: "libvirt-qemu", Comm: "swtpm", Cgroups: []workload.Path{{Path: `/machine.slice/machine-qemu\x2d3\x2dweb.scope/libvirt`}}}
	if id, ok := r.Resolve(h); !ok || id.Facts != (workload.Facts{}) {
		t.Errorf("helper: %+v, %v", id, ok)
	}
	h.Comm, h.Args = "qemu-system-aar", args("qemu-system-aarch64 -name guest=web -smp cpus=8")
	if id, _ := r.Resolve(h); id.Facts.RequestCores != 8 {
		t.Errorf("emulator: %+v", id)
	}
	h.Comm, h.Args = "swtpm", nil
	if id, _ := r.Resolve(h); id.Facts.RequestCores != 8 {
		t.Errorf("helper afterwards: %+v", id)
	}
}
