package answer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/figure/wire"
)

func TestParseMembers(t *testing.T) {
	for text, want := range map[string]string{
		"4": "slurm/4", "slurm/4": "slurm/4", "4_[1-3,7]": "slurm/4 slurm/4_1 slurm/4_2 slurm/4_3 slurm/4_7", "slurm/4_[2]": "slurm/4 slurm/4_2",
		"": "", "4_1": "", "x": "", "unit/4": "", "4_[1-": "", "4_[a]": "", "4_[3-1]": "",
	} {
		id, only, err := ParseMembers(text)
		got := id
		for _, k := range slices.Sorted(func(yield func(string) bool) {
			for k := range only {
				if !yield(k) {
					return
				}
			}
		}) {
			got += " " + k
		}
		if got != want || (want == "") != (err != nil) || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// CPU time and core time are added up, peaks are not; a figure that a member lacks is not in the sum;
// an earlier run of a task, and an earlier array, do not count.
func TestMembers(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	at := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	task := func(id, state string, start, wall int, row figure.Row) wire.Workload {
		begin, end, submit := at.Add(time.Duration(start)*time.Second), at.Add(time.Duration(start+wall)*time.Second), at
		w := wire.Workload{ID: id, Kind: "slurm", Name: "sweep", Owner: "alice", State: state, Submit: &submit, Start: begin, End: &end, Seen: end, WallSeconds: float64(wall), Row: row}
		if state == "running" {
			w.End, w.Running = nil, true
		}
		return w
	}
	old := task("slurm/4_9", "completed", -9e6, 100, figure.Row{CPUSeconds: v(1e6)})
	old.Owner = "bob"
	runs := []wire.Workload{
		task("slurm/4_10", "completed", 300, 100, figure.Row{CPUSeconds: v(100), AllocatedCores: v(2), MemoryPeakBytes: v(5)}),
		task("slurm/4_2", "failed", 200, 200, figure.Row{CPUSeconds: v(60), AllocatedCores: v(2), RequestCores: v(1), MemoryPeakBytes: v(9), SuspendedSeconds: v(100)}),
		task("slurm/4_1", "completed", 100, 50, figure.Row{AllocatedCores: v(2)}),
		task("slurm/4_2", "node_fail", 100, 50, figure.Row{CPUSeconds: v(1e6)}),
		old,
	}
	m, ok := Members("slurm/4", runs, nil)
	var ids, said []string
	for _, w := range m.Members {
		ids = append(ids, strings.TrimPrefix(w.ID, "slurm/"))
	}
	for _, v := range m.Verdicts {
		said = append(said, v.Severity+": "+v.Text)
	}
	got := fmt.Sprint(ok, " ", m.Kind, " ", ids, " ", m.States, " ", m.Start.Sub(at).Seconds(), "-", m.End.Sub(at).Seconds(), " measured ", m.Sums.Measured, " cpu ", *m.Sums.CPUSeconds,
		" of ", *m.Sums.CoreSeconds, " share ", *m.Sums.CPUShare, " peak ", *m.Sums.MemoryPeakBytes, " wall ", m.Sums.WallSeconds, " ", m.Sums.LongestSeconds, " gpu ", m.Sums.GPUSeconds)
	if want := "true array [4_1 4_2 4_10] [{completed 2} {failed 1}] 100-400 measured 2 cpu 160 of 500 share 0.4 peak 9 wall 350 200 gpu <nil>"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := strings.Join(said, "\n"), "critical: 1 of its 3 tasks did not end well: 4_2 (failed)\ninfo: its tasks used 40 % of the core time that they were allocated"; got != want {
		t.Errorf("said %s\nwant %s", got, want)
	}

	_, only, _ := ParseMembers("4_[1,10]")
	runs[0].AllocatedCores, runs[0].RequestCores = nil, v(2)
	waits := task("slurm/4", "pending", 0, 0, figure.Row{RequestCores: v(8)})
	waits.End = nil
	m, _ = Members("slurm/4", append([]wire.Workload{waits, task("slurm/4_11", "running", 500, 9, figure.Row{})}, runs...), only)
	if len(m.Members) != 2 || !m.Waiting || m.End != nil || *m.Sums.CoreSeconds != 300 || m.Verdicts[0].Text != "its tasks used 50 % of the core time that they asked for" {
		t.Errorf("some tasks: %+v", m)
	}
	// Eight tasks wait by the last report; one of them has begun since, as its node knows.
	waits.WaitingTasks, waits.Start = v(8), at
	begun, running := task("slurm/4_12", "", 510, 9, figure.Row{CPUSeconds: v(1), RequestNodes: v(2)}), task("slurm/4_11", "running", 500, 9, figure.Row{RequestNodes: v(2)})
	begun.Submit, begun.End, begun.Running = nil, nil, true
	running.AllocatedNodes = v(2)
	if m, _ = Members("slurm/4", []wire.Workload{waits, running}, nil); fmt.Sprint(m.States) != "[{pending 8} {running 1}]" || len(m.Members) != 1 {
		t.Errorf("of an array that waits: %v", m.States)
	}
	if m, _ = Members("slurm/4", []wire.Workload{waits, begun, running}, nil); fmt.Sprint(m.States) != "[{pending 7} {running 2}]" {
		t.Errorf("of one of which a task has just begun: %v", m.States)
	}
	if m, _ := Members("slurm/7", []wire.Workload{task("slurm/7+1", "running", 0, 9, figure.Row{}), task("slurm/7+0", "completed", 0, 5, figure.Row{})}, nil); m.Kind != "heterogeneous" || m.End != nil || m.Members[0].ID != "slurm/7+0" {
		t.Errorf("heterogeneous: %+v", m)
	}
	if _, ok := Members("slurm/5", []wire.Workload{task("slurm/5", "completed", 0, 9, figure.Row{})}, nil); ok {
		t.Error("one job is no array")
	}
}
