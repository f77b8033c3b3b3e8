package all

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"reckon/workload"
)

// TestRecordedJob resolves all processes of a recorded Slurm job, in the order in which
// an agent meets them.
func TestRecordedJob(t *testing.T) {
	a, err := txtar.ParseFile("testdata/slurm-22.05-processes.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const job = "/slurm_vm/uid_1001/job_14/"
	want := map[int32]struct{ id, part, owner, cgroup string }{
		27339: {"group/n1/27339-1700000000", "", "root", ""}, // slurmd's placeholder of the extern step
		27346: {"slurm/14", "batch", "hpc", job + "step_batch"},
		27347: {"slurm/14", "batch", "hpc", job + "step_batch"},
		27348: {"slurm/14", "batch", "hpc", job + "step_batch"},
		27351: {"slurm/14", "batch", "hpc", job + "step_batch"},
		27361: {"slurm/14", "batch", "hpc", job + "step_batch"},
		27376: {"slurm/14", "1", "hpc", job + "step_1"},
		27380: {"slurm/14", "0", "hpc", job + "step_0"},
		29969: {"slurm/14", "1", "hpc", job + "step_1"},
	}
	users := map[uint32]string{0: "root", 1001: "hpc"}
	chain := Chain()
	for _, f := range a.Files {
		h := workload.Hint{Node: "n1", Start: 1700000000, LookupUser: func(uid uint32) string { return users[uid] }}
		if _, err := fmt.Sscan(f.Name, &h.PID, &h.UID, &h.Comm); err != nil {
			t.Fatal(err)
		}
		h.PGID, h.User = h.PID, users[h.UID]
		for line := range strings.Lines(string(f.Data)) {
			c := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
			h.Cgroups = append(h.Cgroups, workload.Path{Controllers: c[1], Path: c[2]})
		}
		got, w := chain.Resolve(&h), want[h.PID]
		if string(got.Workload) != w.id || got.Part != w.part || got.Owner != w.owner || got.Cgroup != w.cgroup {
			t.Errorf("%s:\n got %+v\nwant %+v", f.Name, got, w)
		}
		delete(want, h.PID)
	}
	if len(want) > 0 {
		t.Errorf("not in the recording: %v", want)
	}
}
