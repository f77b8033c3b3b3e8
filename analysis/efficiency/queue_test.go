package efficiency

import (
	"testing"

	"reckon/figure"
)

// TestQueued checks why a job waits, and the warning if it would wait for ever.
func TestQueued(t *testing.T) {
	for reason, want := range map[string]string{
		"Priority":                             "info it has waited for 10 min: jobs of a higher priority are before it",
		"resources":                            "info it has waited for 10 min: it is next, once its requested nodes are free",
		"ReqNodeNotAvail, UnavailableNodes:n1": "info it has waited for 10 min: nodes that it can only run on are down, drained or reserved",
		"PartitionTimeLimit":                   "warning it has waited for 10 min: it asks for more time than its partition allows; ask for less, or it will never start",
		"JobHeldUser":                          "warning it has waited for 10 min: its owner holds it; `scontrol release` lets it go",
		"QOSMaxWallDurationPerJobLimit":        "warning it has waited for 10 min: it asks for more than its quality of service allows for one job (QOSMaxWallDurationPerJobLimit); ask for less, or it will never start",
		"AssocMaxCpuPerJobLimit":               "warning it has waited for 10 min: it asks for more than its account allows for one job (AssocMaxCpuPerJobLimit); ask for less, or it will never start",
		"QOSMaxCpuPerUserLimit":                "info it has waited for 10 min: its quality of service is at a limit (QOSMaxCpuPerUserLimit)",
		"AssocGrpCPULimit":                     "info it has waited for 10 min: its account is at a limit (AssocGrpCPULimit)",
		"Unschedulable: 0/3 nodes are available: 1 node(s) had a taint, 2 Insufficient cpu": "warning it has waited for 10 min: no node can take its pod " +
			"(0/3 nodes are available: 1 node(s) had a taint, 2 Insufficient cpu); ask for less, or add a node; the scheduler tries again by itself",
		"SchedulingGated": "info it has waited for 10 min: its pod is held back by a scheduling gate",
		"SomethingNew":    "info it has waited for 10 min: the batch system gives the reason SomethingNew",
		"":                "info it has waited for 10 min; the batch system gives no reason",
	} {
		got := Judge(Usage{Run: figure.Run{State: "pending", Reason: reason}, Waited: 600})
		if len(got) != 1 || string(got[0].Severity)+" "+got[0].Text != want || got[0].Value != 600 {
			t.Errorf("%q: %+v, want %s", reason, got, want)
		}
	}
	again := Judge(Usage{Run: figure.Run{State: "pending", Reason: "BeginTime"}, Waited: 60, Before: &Earlier{State: "preempted", WallSeconds: 9}})
	if len(again) != 2 || again[0].Text != "it has waited for 1 min: Slurm starts a job that was queued again after two minutes at the earliest" {
		t.Errorf("queued again: %+v", again)
	}
	if got := Judge(Usage{Run: figure.Run{State: "started"}}); len(got) != 1 || got[0].Kind != "queue" {
		t.Errorf("what stood for an array: %+v", got)
	}
	if got := Judge(Usage{Run: figure.Run{State: "deadline"}, Waited: 600}); len(got) != 1 || got[0].Text != "it waited for 10 min until it could no longer end before its deadline, and never started" {
		t.Errorf("%v", got)
	}
	if got := Judge(Usage{Run: figure.Run{State: "cancelled"}, Waited: 600}); len(got) != 1 || got[0].Text != "it was cancelled after it had waited for 10 min, and never started" {
		t.Errorf("what never began: %+v", got)
	}
	// It has started since the last report of the batch system: its run is judged.
	cpu := 5.0
	if got := Judge(Usage{Run: figure.Run{State: "pending", Reason: "Priority", Row: figure.Row{CPUSeconds: &cpu}}, Running: true, WallSeconds: 8}); len(got) != 1 || got[0].Kind != "short" {
		t.Errorf("%+v", got)
	}
}

// TestStuck: a job is stuck only if waiting never helps; a held job is meant to wait.
func TestStuck(t *testing.T) {
	for reason, want := range map[string]bool{
		"PartitionTimeLimit": true, "partitionnodelimit": true, "DependencyNeverSatisfied": true, "BadConstraints": true, "InvalidQOS": true, "AssocMaxWallDurationPerJobLimit": true,
		"Priority": false, "Resources": false, "Dependency": false, "JobHeldUser": false, "JobHeldAdmin": false, "QOSMaxCpuPerUserLimit": false, "ReqNodeNotAvail, UnavailableNodes:n1": false, "": false, "SomethingNew": false,
	} {
		if why, stuck := Stuck(reason); stuck != want || stuck && why == "" {
			t.Errorf("%q: %v %q", reason, stuck, why)
		}
	}
}
