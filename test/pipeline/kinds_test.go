package pipeline_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/lab/simulate"
	"reckon/test/pipeline"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// TestKinds: what must be reported about kinds of jobs, and what must not, after all that stands between
// a machine and a sentence.
func TestKinds(t *testing.T) {
	s := pipeline.Run(t, simulate.Config{OnlyPlanned: true, Nodes: 12, GPUNodes: 2, Cores: 16, Plan: plan()}, 3*time.Hour, pipeline.Fine)
	for name, c := range map[string]struct{ want, deny string }{
		"good":         {"good cores: it used 7.8 of the 8 cores", "warning"},
		"wide":         {"it used 1.2 of the 16 cores it was allocated", "critical"},
		"asleep":       {"warning idle: it was idle", "parallel"},
		"cache":        {"of it 198 MiB page cache, which the kernel can reclaim; it needed 2 MiB", "would be killed"},
		"full":         {"a little more and it would be killed", "page cache"},
		"gpu-never":    {"it never used its 4 GPUs", "busy"},
		"gpu-held":     {"it never used its GPU", "would be killed"},
		"gpu-used":     {"good gpu: its 2 GPUs were busy 90 %", "warning"},
		"cancelled":    {"info cancelled: it was cancelled by carol after 20 min", "critical"},
		"timeout":      {"it reached its time limit of 30 min", "exit code"},
		"oom":          {"the kernel killed 1 process of it for lack of memory", "exit code"},
		"step-oom":     {"critical oom: step 1 (solve) was killed for lack of memory after 3 s, though the state of the job is completed", "a little more"},
		"step-fail":    {"critical step: step 1 (solve) failed with exit code 3", "its script"},
		"step-hide":    {"warning step: its state is completed, but step 0 (solve) failed: signal 11 (segmentation fault) ended it", "critical"},
		"by-root":      {"info cancelled: it was cancelled by root after 20 min", "critical"},
		"nobody":       {"info cancelled: it was cancelled after 20 min", "exit"},
		"node-fail":    {"critical node_fail: a node failed under it after 20 min: this was not its fault", "exit"},
		"preempted":    {"info preempted: it had to make room for a job of higher priority after 20 min", "exit"},
		"deadline":     {"critical timeout: it could not end before its deadline and was ended after 20 min", "exit"},
		"withdrawn":    {"info cancelled: the scheduler withdrew it after 20 min", "exit"},
		"storage":      {"it waited for storage for 18 min (30 % of the time)", "parallel"},
		"stuck":        {"it asks for more time than its partition allows; ask for less, or it will never start", "advice"},
		"thrash":       {"it was held up for lack of memory 40 % of the time", "would be killed"},
		"empty":        {"no process of it has run for 1 h 58 min: it holds 4 cores", "it was idle"},
		"never":        {"no process of it was seen in 2 h 58 min", "it was idle"},
		"one-task":     {"warning task_balance: of the 4 tasks of step 0 (solve) on node cpu0004 the busiest used 1 h of CPU time, the others 3.6 s on average", "nodes shared"},
		"two-tasks":    {"of the two tasks of step 0 (solve) on node", "of the 2 tasks"},
		"tasks-uneven": {"of the 4 tasks of step 0 (solve) on node", "evenly; the least"},
		"tasks-even":   {"cores", "task_balance"},
		"tasks-brief":  {"of the 4 tasks of step 0 (solve) on node", "evenly; the least"},
		"uneven":       {"the work is not spread evenly", "evenly; the least"},
	} {
		if got := s.Said(name); !strings.Contains(got, c.want) || strings.Contains(got, c.deny) {
			t.Errorf("%s:\n%s\nwant %q and not %q", name, got, c.want, c.deny)
		}
	}
	if got := s.Said("thrash"); !strings.Contains(got, "advice: memory 1.2 GiB: with 1 GiB it was held up") {
		t.Errorf("who is held up for lack of memory is told to ask for more:\n%s", got)
	}
	want := []string{
		"cannot-start queue dora stuck", "gpu-unused gpu bob gpu-never", "idle-allocation allocation dora empty",
		"idle-allocation allocation dora never", "idle-allocation gpu bob gpu-held", "imbalance nodes erik uneven",
		"imbalance tasks erik one-task", "imbalance tasks erik tasks-uneven", "imbalance tasks erik two-tasks", "memory-thrashing faults erik thrash",
	}
	if got := s.Short(s.Findings(single)); !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func plan() []simulate.Planned {
	hour := time.Hour
	return []simulate.Planned{
		{User: "alice", Name: "good", Cores: 8, MemoryBytes: 8 * gib, Length: hour, Does: simulate.Does{Cores: 7.8, Needed: 6 * gib}},
		{User: "alice", Name: "wide", Cores: 16, MemoryBytes: 8 * gib, Length: hour, Does: simulate.Does{Cores: 1.2, Needed: 6 * gib}},
		{User: "alice", Name: "asleep", Cores: 2, MemoryBytes: 8 * gib, Length: hour, Does: simulate.Does{Cores: 0.001, Needed: 1 * mib}},
		{User: "alice", Name: "cache", Cores: 1, MemoryBytes: 200 * mib, Length: hour, Does: simulate.Does{Cores: 0.9, Needed: 2 * mib, Cache: 198 * mib}},
		{User: "alice", Name: "full", Cores: 1, MemoryBytes: 1 * gib, Length: hour, Does: simulate.Does{Cores: 0.9, Needed: 1000 * mib}},
		{User: "bob", Name: "gpu-never", GPUs: 4, Cores: 8, MemoryBytes: 8 * gib, Length: 2 * hour, Does: simulate.Does{Cores: 7, Needed: 6 * gib}},
		{User: "bob", Name: "gpu-held", GPUs: 1, Cores: 2, MemoryBytes: 8 * gib, Length: 4 * hour, Does: simulate.Does{Cores: 1.9, Needed: 6 * gib, GPUBytes: 10 * gib}},
		{User: "bob", Name: "gpu-used", GPUs: 2, Cores: 4, MemoryBytes: 8 * gib, Length: hour, Does: simulate.Does{Cores: 3.9, Needed: 6 * gib, GPU: 0.9, GPUBytes: 10 * gib}},
		{User: "carol", Name: "cancelled", Cores: 2, Length: 20 * time.Minute, Outcome: "cancelled", CancelledBy: "carol", Does: simulate.Does{Cores: 1.9}},
		{User: "carol", Name: "timeout", Cores: 2, Length: 50 * time.Minute, Limit: 30 * time.Minute, Outcome: "timeout", Does: simulate.Does{Cores: 1.9}},
		{User: "carol", Name: "oom", Cores: 2, MemoryBytes: 300 * mib, Length: 10 * time.Minute, Outcome: "out_of_memory", Does: simulate.Does{Cores: 1.9, Needed: 100 * mib}},
		{User: "carol", Name: "step-oom", Cores: 2, MemoryBytes: 300 * mib, Length: 10 * time.Minute, Does: simulate.Does{Cores: 1.9, Needed: 100 * mib},
			Steps: []simulate.PlannedStep{{Name: "prepare", Length: 2 * time.Minute}, {Name: "solve", Length: 3 * time.Second, Outcome: "out_of_memory", Exit: 125}, {Name: "report"}}},
		{User: "frank", Name: "step-fail", Cores: 2, Length: 10 * time.Minute, Outcome: "failed", Exit: 3, Does: simulate.Does{Cores: 1.9},
			Steps: []simulate.PlannedStep{{Name: "prepare", Length: 2 * time.Minute}, {Name: "solve", Outcome: "failed", Exit: 3}}},
		{User: "frank", Name: "step-hide", Cores: 2, Length: 10 * time.Minute, Does: simulate.Does{Cores: 1.9},
			Steps: []simulate.PlannedStep{{Name: "solve", Length: 2 * time.Minute, Outcome: "failed", Exit: 139}, {Name: "report"}}},
		ended("by-root", "cancelled", "root"), ended("nobody", "cancelled", ""), ended("node-fail", "node_fail", ""), ended("preempted", "preempted", ""),
		ended("deadline", "deadline", ""), ended("withdrawn", "revoked", ""),
		{User: "dora", Name: "storage", Cores: 1, Length: hour, Does: simulate.Does{Cores: 0.6, Storage: 0.3, Read: 180e6, Threads: 1}},
		{User: "dora", Name: "stuck", Cores: 1, Stuck: "PartitionTimeLimit"},
		{User: "dora", Name: "empty", Cores: 4, Length: 3 * hour, Does: simulate.Does{Cores: 3.9, Ends: hour}},
		{User: "dora", Name: "never", Cores: 4, Length: 4 * hour, Does: simulate.Does{Ends: -1}},
		{User: "erik", Name: "thrash", Cores: 2, MemoryBytes: 1 * gib, Length: hour, Does: simulate.Does{Cores: 0.5, Needed: 500 * mib, Cache: 524 * mib, Faults: 300, Memory: 0.4, Storage: 0.2}},
		{User: "erik", Name: "one-task", Cores: 4, Length: hour, Steps: []simulate.PlannedStep{{Name: "solve"}}, Does: simulate.Does{Cores: 1, OtherTasks: 3}},
		{User: "erik", Name: "two-tasks", Cores: 2, Length: hour, Steps: []simulate.PlannedStep{{Name: "solve"}}, Does: simulate.Does{Cores: 1, OtherTasks: 1}},
		{User: "erik", Name: "tasks-uneven", Cores: 4, Length: hour, Steps: []simulate.PlannedStep{{Name: "solve"}}, Does: simulate.Does{Cores: 1, OtherTasks: 3, OtherCores: 0.48}},
		{User: "erik", Name: "tasks-even", Cores: 4, Length: hour, Steps: []simulate.PlannedStep{{Name: "solve"}}, Does: simulate.Does{Cores: 1, OtherTasks: 3, OtherCores: 0.52}},
		{User: "erik", Name: "tasks-brief", Cores: 4, Length: 9 * time.Minute, Steps: []simulate.PlannedStep{{Name: "solve"}}, Does: simulate.Does{Cores: 1, OtherTasks: 3}},
		{User: "erik", Name: "uneven", Nodes: 3, Cores: 8, Length: hour, Does: simulate.Does{Cores: 7.9, FirstNodeOnly: true}},
	}
}

// ended is a job that works well until it is ended after 20 minutes.
func ended(name, outcome, by string) simulate.Planned {
	return simulate.Planned{User: "frank", Name: name, Cores: 1, Length: 20 * time.Minute, Outcome: outcome, CancelledBy: by, Does: simulate.Does{Cores: 0.9}}
}
