package pipeline_test

import (
	"strings"
	"testing"
	"time"

	"reckon/test/pipeline"
)

// accounting is in the form that sacct writes (made for this test: one job for each way to end).
const accounting = `JobID|JobIDRaw|User|UID|State|ExitCode|Submit|Start|End|QOS|ReqCPUS|ReqMem|AllocTRES|Timelimit|Suspended|UserCPU|SystemCPU|MaxRSS|NodeList|JobName
11|11|alice|1001|COMPLETED|0:0|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T10:00:00|long|2|4096M|cpu=4,mem=8G,node=1|02:00:00|00:00:00|01:50:00|00:00:00||n1|well
12|12|alice|1001|CANCELLED by 1001|0:0|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T09:20:00|long|1|1G|cpu=1,mem=1G,node=1|02:00:00|00:00:00|00:18:00|00:00:00||n1|cancelled
13|13|alice|1001|CANCELLED by 0|0:15|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T09:20:00|long|1|1G|cpu=1,mem=1G,node=1|02:00:00|00:00:00|00:18:00|00:00:00||n1|by-root
14|14|alice|1001|FAILED|3:0|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T09:20:00|long|1|1G|cpu=1,mem=1G,node=1|02:00:00|00:00:00|00:18:00|00:00:00||n1|step-fail
14.batch|14.batch|||FAILED|3:0||2025-03-01T09:00:00|2025-03-01T09:20:00||1||cpu=1,mem=1G,node=1||00:00:00|00:00:01|00:00:00|2048K|n1|batch
14.0|14.0|||COMPLETED|0:0||2025-03-01T09:00:05|2025-03-01T09:10:00||1||cpu=1,mem=1G,node=1||00:00:00|00:09:00|00:00:00|102400K|n1|prepare
14.1|14.1|||FAILED|3:0||2025-03-01T09:10:00|2025-03-01T09:20:00||1||cpu=1,mem=1G,node=1||00:00:00|00:08:59|00:00:00|204800K|n1|solve
15|15|alice|1001|COMPLETED|0:0|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T09:20:00|long|1|300M|cpu=1,mem=300M,node=1|02:00:00|00:00:00|00:18:00|00:00:00||n1|step-oom
15.0|15.0|||COMPLETED|0:0||2025-03-01T09:00:00|2025-03-01T09:10:00||1||cpu=1,mem=300M,node=1||00:00:00|00:09:00|00:00:00|102400K|n1|prepare
15.1|15.1|||OUT_OF_MEMORY|0:125||2025-03-01T09:10:00|2025-03-01T09:10:02||1||cpu=1,mem=300M,node=1||00:00:00|00:00:01|00:00:00|220K|n1|eat
16|16|alice|1001|TIMEOUT|0:0|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T09:30:00|long|1|1G|cpu=1,mem=1G,node=1|00:30:00|00:00:00|00:28:00|00:00:00||n1|timeout
17|17|alice|1001|NODE_FAIL|0:0|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T09:20:00|long|1|1G|cpu=1,mem=1G,node=1|02:00:00|00:00:00|00:18:00|00:00:00||n1|node-fail
18|18|alice|1001|PREEMPTED|0:0|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T09:20:00|long|1|1G|cpu=1,mem=1G,node=1|02:00:00|00:00:00|00:18:00|00:00:00||n1|preempted
19|19|alice|1001|COMPLETED|0:0|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T10:00:00|long|4|4G||02:00:00|00:00:00|00:30:00|00:00:00||n1|asked
20|20|alice|1001|COMPLETED|0:0|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T10:00:00|long|1|1G|cpu=1,mem=1G,node=1|02:00:00|00:10:00|00:45:00|00:00:00||n1|suspended
21|21|alice|1001|CANCELLED by 1001|0:0|2025-03-01T09:00:00|None|2025-03-01T09:10:00|long|1|1G||02:00:00|00:00:00|00:00:00|00:00:00||None assigned|never
`

// TestImported: what must be reported about jobs that accounting alone knows.
func TestImported(t *testing.T) {
	s := pipeline.Import(t, accounting, time.Date(2025, 3, 20, 12, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct{ want, deny string }{
		"well":      {"it used 1.8 of the 4 cores it was allocated", "asked for"},
		"cancelled": {"info cancelled: it was cancelled by alice after 20 min", "critical"},
		"by-root":   {"info cancelled: it was cancelled by root after 20 min", "signal"},
		"step-fail": {"critical step: step 1 (solve) failed with exit code 3", "its script"},
		"step-oom":  {"critical oom: step 1 (eat) was killed for lack of memory after 2 s, though the state of the job is completed", "would be killed"},
		"timeout":   {"critical timeout: it reached its time limit of 30 min and was ended", "exit"},
		"node-fail": {"critical node_fail: a node failed under it after 20 min", "exit"},
		"preempted": {"info preempted: it had to make room for a job of higher priority after 20 min", "exit"},
		"asked":     {"it used 0.5 of the 4 cores it asked for", "allocated"},
		"suspended": {"it used 0.9 of the 1 core it was allocated on average (90 %)", "75 %"}, // of the time in which it could run
		"never":     {"info queue: it was cancelled by alice after it had waited for 10 min, and never started", "critical"},
	} {
		if got := s.Said(name); !strings.Contains(got, c.want) || strings.Contains(got, c.deny) {
			t.Errorf("%s:\n%s\nwant %q and not %q", name, got, c.want, c.deny)
		}
	}

	d := s.Job("step-fail")
	if d.EndedBy != "" || d.QOS != "long" || len(d.Steps) != 3 || d.StepCount == nil || *d.StepCount != 3 {
		t.Fatalf("ended by %q, QOS %q, %d steps of %v", d.EndedBy, d.QOS, len(d.Steps), d.StepCount)
	}
	failing := d.Steps[2]
	if failing.ID != "1" || failing.Name != "solve" || !failing.Failed() || *failing.ExitCode != 3 || *failing.WallSeconds != 600 ||
		*failing.CPUSeconds != 539 || *failing.MemoryPeakBytes != 200*mib || *failing.Cores != 1 || !failing.Accounted || d.Steps[1].Failed() {
		t.Errorf("steps %+v", d.Steps)
	}
	if d := s.Job("cancelled"); d.EndedBy != "user" || d.EndedByUser != "alice" {
		t.Errorf("cancelled by %q %q", d.EndedBy, d.EndedByUser)
	}
	if d := s.Job("timeout"); d.EndedBy != "time_limit" || d.EndedByUser != "" {
		t.Errorf("ended by %q %q", d.EndedBy, d.EndedByUser)
	}
	if d := s.Job("suspended"); d.SuspendedSeconds == nil || *d.SuspendedSeconds != 600 {
		t.Errorf("suspended for %v", d.SuspendedSeconds)
	}
}

// A job that ran by the last statement of accounting is not reported as ended, nor advised.
func TestImportedWhileItRan(t *testing.T) {
	s := pipeline.Import(t, `JobID|JobIDRaw|User|State|ExitCode|Submit|Start|End|Elapsed|ReqCPUS|AllocTRES|Timelimit|NodeList|JobName
31|31|alice|RUNNING|0:0|2025-03-01T09:00:00|2025-03-01T09:00:00|Unknown|00:01:03|1|cpu=1,node=1|12:00:00|n1|running
`, time.Date(2025, 3, 20, 12, 0, 0, 0, time.UTC))
	d := s.Job("running")
	if d.End != nil || d.Running || !d.Lost || d.WallSeconds != 63 {
		t.Errorf("end %v, running %v, lost %v, wall %g", d.End, d.Running, d.Lost, d.WallSeconds)
	}
	if got, want := s.Said("running"), "info last-heard: it was last reported as running, at 2025-03-01T09:01:03Z: whether and when it ended is unknown, and it is not judged"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
