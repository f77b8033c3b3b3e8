package batch

import (
	"testing"

	"reckon/workload"
)

// Every process that begins is looked at, on most nodes in a dozen hierarchies that have no job.
func TestLookingDoesNotAllocate(t *testing.T) {
	h := &workload.Hint{UID: 1000, Comm: "sh"}
	for _, c := range []string{"cpu", "cpuacct", "memory", "pids", "blkio", "name=systemd"} {
		h.Cgroups = append(h.Cgroups, workload.Path{Controllers: c, Path: "/user.slice/user-1000.slice/session-2.scope"})
	}
	h.Cgroups = append(h.Cgroups, workload.Path{Path: "/system.slice/cron.service"})
	r := New()
	if n := testing.AllocsPerRun(50, func() {
		for i := range batchSystems {
			if name, _ := r.findGroup(i, h); name != "" {
				t.Fatal(name)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
