package main

import (
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
)

// TestPagesOfWhatWaits: pages of pending workloads, of ones that never started, and of the waiting part of an array, report it and show no use.
func TestPagesOfWhatWaits(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ago := func(m int) *time.Time { v := now.Add(-time.Duration(m) * time.Minute); return &v }
	cores, memory, cpu := 8.0, 2.0*(1<<30), 5.0
	one := func(state string, change func(w *client.Workload)) client.WorkloadDetail {
		w := client.Workload{ID: "slurm/7_3", Kind: "slurm", Owner: "alice", Site: "alpha", State: state, Reason: "Priority", Submit: ago(30), Start: *ago(30), Seen: now, Row: figure.Row{RequestCores: &cores, RequestMemoryBytes: &memory}}
		if change != nil {
			change(&w)
		}
		return client.WorkloadDetail{Workload: w}
	}
	for name, tt := range map[string]struct {
		d          client.WorkloadDetail
		word       string
		page, deny []string
		seff       string
	}{
		"waits": {one("pending", nil), "pending: Priority", []string{"waits since", "(30m 0s by ", "because Priority", "Requested", "Memory      2 GiB"}, []string{"started", "wall", "p95"},
			"Efficiency not available for jobs in the PENDING state.\n"},
		"began since": {one("pending", func(w *client.Workload) { w.Running, w.CPUSeconds, w.Start, w.WallSeconds = true, &cpu, *ago(1), 60 }), "running",
			[]string{"started", "after 29m 0s in the queue", "wall 1m 0s"}, []string{"waits"}, "State: RUNNING\n"},
		"suspended": {one("completed", func(w *client.Workload) {
			w.CPUSeconds, w.Start, w.End, w.WallSeconds, w.SuspendedSeconds = &cpu, *ago(10), ago(4), 360, new(90.0)
		}), "completed", []string{"wall 6m 0s", "of it 1m 30s suspended"}, []string{"waits"}, "State: COMPLETED"},
		"never began": {one("cancelled", func(w *client.Workload) { w.Start, w.End = *ago(10), ago(10) }), "cancelled",
			[]string{"before its start", "waited 20m 0s", "Requested"}, []string{"started", "wall"}, "State: CANCELLED\n"},
		"an array": {one("started", func(w *client.Workload) { w.Start, w.End = *ago(5), ago(5) }), "started",
			[]string{"the last task started", "waited 25m 0s"}, []string{"wall"}, "Array Job ID: 7_3\n"},
	} {
		if got := formatState(tt.d.Workload); got != tt.word {
			t.Errorf("%s: state %q, want %q", name, got, tt.word)
		}
		var b, seff strings.Builder
		if err := printMail(&b, tt.d, now); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.page {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, b.String())
			}
		}
		for _, deny := range tt.deny {
			if strings.Contains(b.String(), deny) {
				t.Errorf("%s: %q in\n%s", name, deny, b.String())
			}
		}
		if err := printSeff(&seff, tt.d); err != nil || !strings.Contains(seff.String(), tt.seff) {
			t.Errorf("%s: no %q in\n%s", name, tt.seff, seff.String())
		}
	}
	var b strings.Builder
	if err := waitingTable([]client.Workload{one("pending", nil).Workload}, now).Print(term.Screen{Writer: &b, Width: 200, ASCII: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "BECAUSE") || !strings.Contains(b.String(), "30m 0s      8   2 GiB") || !strings.HasSuffix(strings.TrimSpace(b.String()), "Priority") {
		t.Errorf("%s", b.String())
	}
}
