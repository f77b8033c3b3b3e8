package all

import (
	"strings"
	"testing"

	"reckon/workload"
)

// TestVirtualMachines resolves emulators: what the node runs is the outermost of job, pod,
// container and machine.
func TestVirtualMachines(t *testing.T) {
	const (
		cid = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d"
		uid = "11111111_2222_3333_4444_555555555555"
	)
	for path, want := range map[string]workload.ID{
		`/machine.slice/machine-qemu\x2d3\x2ddb.scope/libvirt/emulator`: "vm/db",
		"/qemu.slice/100.scope":                                "vm/100",
		"/user.slice/user-1000.slice/session-3.scope":          "vm/db",
		"/system.slice/my-machine.service":                     "vm/db",
		"/docker/" + cid:                                       "container/" + workload.ID(cid[:12]),
		"/slurm/uid_1000/job_14/step_0":                        "slurm/14",
		"/kubepods.slice/kubepods-pod" + uid + ".slice/" + cid: "pod/" + workload.ID(strings.ReplaceAll(uid, "_", "-")),
	} {
		h := &workload.Hint{Node: "n1", PID: 9, PGID: 9, UID: 1000, User: "alice", Comm: "qemu-system-x86", Start: 1700000000, GroupStart: 1700000000,
			Cgroups: []workload.Path{{Path: path}}, Args: func() []string { return []string{"qemu-system-x86_64", "-name", "db"} }}
		if got := Resolvers(Options{Root: "testdata"}).Resolve(h); got.Workload != want {
			t.Errorf("%s: %s, want %s", path, got.Workload, want)
		}
	}
}
