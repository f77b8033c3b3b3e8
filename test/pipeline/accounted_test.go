package pipeline_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/test/pipeline"
	"reckon/web/client"
)

// odd is accounting of jobs with odd lives, in the form that sacct -D writes (made for this test by the manual of sacct).
const odd = `JobID|JobIDRaw|User|UID|State|ExitCode|Submit|Start|End|AllocCPUS|AllocTRES|Timelimit|Suspended|UserCPU|SystemCPU|MaxRSS|NodeList|JobName
11|11|ann|7|NODE_FAIL|0:0|2025-03-01T08:00:00|2025-03-01T08:05:00|2025-03-01T08:45:00|4|cpu=4,mem=8G,node=1|10:00:00|00:00:00|02:00:00|00:00:00||n4|again
11.batch|11.batch|||CANCELLED|0:15||2025-03-01T08:05:00|2025-03-01T08:45:00|4|cpu=4,mem=8G,node=1||00:00:00|02:00:00|00:00:00|900000K|n4|batch
11|11|ann|7|COMPLETED|0:0|2025-03-01T08:45:00|2025-03-01T09:00:00|2025-03-01T10:00:00|4|cpu=4,mem=8G,node=1|10:00:00|00:00:00|03:36:00|00:00:00||n5|again
11.batch|11.batch|||COMPLETED|0:0||2025-03-01T09:00:00|2025-03-01T10:00:00|4|cpu=4,mem=8G,node=1||00:00:00|03:36:00|00:00:00|900000K|n5|batch
12|12|ann|7|CANCELLED by 0|0:0|2025-03-01T08:00:00|2025-03-01T08:30:00|2025-03-01T08:30:00|0||10:00:00|00:00:00|00:00:00|00:00:00||None assigned|old-waiting
13|13|ann|7|RESIZING|0:0|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T08:30:00|8|cpu=8,mem=16G,node=2|10:00:00|00:00:00|00:00:00|00:00:00||n[1-2]|resized
13|13|ann|7|COMPLETED|0:0|2025-03-01T08:30:00|2025-03-01T08:00:00|2025-03-01T09:30:00|4|cpu=4,mem=8G,node=1|10:00:00|00:00:00|07:12:00|00:00:00||n1|resized
13.batch|13.batch|||COMPLETED|0:0||2025-03-01T08:00:00|2025-03-01T09:30:00|4|cpu=4,mem=8G,node=1||00:00:00|07:12:00|00:00:00|900000K|n1|batch
14|14|ann|7|COMPLETED|0:0|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T10:00:00|4|cpu=4,mem=8G,node=1|01:40:00|00:30:00|05:42:00|00:00:00||n1|suspended
15|15|ann|7|COMPLETED|0:0|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T09:00:00|4|cpu=4,mem=20G,node=1|10:00:00|00:00:00|03:40:00|00:00:00||n1|parallel
15.batch|15.batch|||COMPLETED|0:0||2025-03-01T08:00:00|2025-03-01T09:00:00|4|cpu=4,mem=20G,node=1||00:00:00|00:00:00|00:00:01|102400K|n1|batch
15.0|15.0|||COMPLETED|0:0||2025-03-01T08:01:00|2025-03-01T08:50:00|1|cpu=1,mem=5G,node=1||00:00:00|00:55:00|00:00:00|4194304K|n1|a
15.1|15.1|||COMPLETED|0:0||2025-03-01T08:02:00|2025-03-01T08:50:00|1|cpu=1,mem=5G,node=1||00:00:00|00:55:00|00:00:00|4194304K|n1|b
15.2|15.2|||COMPLETED|0:0||2025-03-01T08:50:00|2025-03-01T08:59:00|1|cpu=1,mem=5G,node=1||00:00:00|00:55:00|00:00:00|4194304K|n1|after
16|16|ann|7|COMPLETED|0:0|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T09:00:00|1|cpu=1,mem=2G,node=1|10:00:00|00:00:00|04:00:00|00:00:00|4194304K|n1|above
17|17|ann|7|COMPLETED|0:0|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T10:00:00|4|cpu=4,mem=8G,node=1|10:00:00|00:00:00|00:00:00|00:00:00||n1|not-gathered
17.batch|17.batch|||COMPLETED|0:0||2025-03-01T08:00:00|2025-03-01T10:00:00|4|cpu=4,mem=8G,node=1||00:00:00|00:00:00|00:00:00||n1|batch
18|18|ann|7|COMPLETED|0:0|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T10:00:00|4|cpu=4,mem=8G,node=1|10:00:00|00:00:00|00:00:00|00:00:00||n1|asleep
18.batch|18.batch|||COMPLETED|0:0||2025-03-01T08:00:00|2025-03-01T10:00:00|4|cpu=4,mem=8G,node=1||00:00:00|00:00:00|00:00:00|3000K|n1|batch
19|19|ann|7|FAILED|0:53|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T08:00:01|1|cpu=1,mem=1G,node=1|10:00:00|00:00:00|00:00:00|00:00:00||n1|no-output
20|20|ann|7|FAILED|127:0|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T08:00:01|1|cpu=1,mem=1G,node=1|10:00:00|00:00:00|00:00:00|00:00:00|900K|n1|not-found
21|21|ann|7|DEADLINE|0:0|2025-03-01T08:00:00|2025-03-01T08:10:00|2025-03-01T08:50:00|1|cpu=1,mem=1G,node=1|10:00:00|00:00:00|00:38:00|00:00:00|900000K|n1|deadline
22|22|ann|7|LAUNCH_FAILED|0:0|2025-03-01T08:00:00|2025-03-01T08:10:00|2025-03-01T08:50:00|1|cpu=1,mem=1G,node=1|10:00:00|00:00:00|00:00:00|00:00:00||n1|launch
23+0|23|ann|7|COMPLETED|0:0|2025-03-01T08:00:00|2025-03-01T08:10:00|2025-03-01T08:50:00|1|cpu=1,mem=1G,node=1|01:00:00|00:00:00|00:38:00|00:00:00|900000K|n1|het
23+1|24|ann|7|COMPLETED|0:0|2025-03-01T08:00:00|2025-03-01T08:10:00|2025-03-01T08:50:00|2|cpu=2,mem=1G,node=1|01:00:00|00:00:00|01:16:00|00:00:00|900000K|n2|het
26|26|ann|7|COMPLETED|0:0|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T10:00:00|8|cpu=8,mem=8G,node=2|05:00:00|00:00:00|07:30:00|00:00:00|3145728K|n[1-2]|two-nodes
25|25|ann|7|CANCELLED by 9|0:15|2025-03-01T08:00:00|2025-03-01T08:10:00|2025-03-01T08:50:00|1|cpu=1,mem=64G,node=1|10:00:00|00:00:00|00:38:00|00:00:00|900000K|n1|by-other
27|27|bob|8|COMPLETED|0:0|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T09:00:00|4|cpu=4,mem=8G,node=1|10:00:00|00:00:00|03:00:00|00:00:00|900000K|n1|measured
28|28|cyd|9|COMPLETED|0:0|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T10:00:00|4|cpu=4,mem=8G,node=1|10:00:00|00:00:00|00:00:00|00:00:00||n1|not-gathered-either
28.batch|28.batch|||COMPLETED|0:0||2025-03-01T08:00:00|2025-03-01T10:00:00|4|cpu=4,mem=8G,node=1||00:00:00|00:00:00|00:00:00||n1|batch
`

// TestOddAccounting: sentences about jobs with odd lives are true, and nothing is advised that their runs do not show.
func TestOddAccounting(t *testing.T) {
	s := pipeline.Import(t, odd, time.Date(2025, 3, 20, 12, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct{ want, deny string }{
		"old-waiting":  {"info queue: it was cancelled by root after it had waited for 30 min, and never started", "too short"},
		"resized":      {"it used 4.8 cores on average; how many it was allocated changed while it ran", "120 %"},
		"suspended":    {"it used 3.8 of the 4 cores it was allocated on average (95 %)", "!"},
		"parallel":     {"memory peaked at about 8.1 GiB of the 20 GiB it was allocated (40 %)", "page cache"}, // two steps at a time and the script
		"above":        {"warning cores: it used 4 cores on average, more than the 1 core it was allocated (400 %)", "good"},
		"not-gathered": {"info unmeasured: its use was not measured", "idle"},
		"asleep":       {"warning idle: it was idle", "good"},
		"no-output":    {"it failed with exit code 181 (0:53), which Slurm returns when it cannot set up a job", "advice"},
		"not-found":    {"it failed with exit code 127 or 255, which Slurm's accounting reports as 127", "advice"},
		"deadline":     {"it could not end before its deadline and was ended after 40 min", "advice"},
		"launch":       {"its nodes could not be set up for it", "idle"},
		"two-nodes":    {"info memory: memory peaked at about 3 GiB of the 8 GiB", "it needed"}, // it is of the largest task
		"by-other":     {"it was cancelled by user ID 9 after 40 min", "advice"},
	} {
		if got := s.Said(name); !strings.Contains(got, c.want) || strings.Contains(got, c.deny) {
			t.Errorf("%s:\n%s\nwant %q and not %q", name, got, c.want, c.deny)
		}
	}
	if got := s.Said("above"); !strings.Contains(got, "memory peaked at about 4 GiB, more than the 2 GiB it was allocated (200 %)") {
		t.Error(got)
	}
	runs := s.Workloads(client.Filter{IDs: []string{"slurm/11"}, Sort: "start"})
	if len(runs) != 2 || runs[0].State != "node_fail" || cpu(runs[0]) != 7200 || runs[0].Nodes[0] != "n4" || runs[1].State != "completed" || cpu(runs[1]) != 12960 || runs[1].Nodes[0] != "n5" {
		t.Errorf("runs of a job that its node lost: %+v", runs)
	}
	for id, want := range map[string]float64{"slurm/14": 3.8, "slurm/17": math.NaN()} {
		w := s.Workloads(client.Filter{IDs: []string{id}})[0]
		if got := mean(w); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s used %g cores on average, want %g", id, got, want)
		}
	}
	if got := len(s.Workloads(client.Filter{IDs: []string{"slurm/23+0", "slurm/23+1"}})); got != 2 {
		t.Errorf("%d of 2 components have the names that people know", got)
	}
}

// TestUnmeasuredIsNotUnused: where the use of some jobs was not measured, the sum of CPU time is a lower bound and what was not used an
// upper one; where nothing was measured neither is known.
func TestUnmeasuredIsNotUnused(t *testing.T) {
	s := pipeline.Import(t, odd, time.Date(2025, 3, 20, 12, 0, 0, 0, time.UTC))
	day := time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)
	seen := 0
	for _, u := range s.Usage(client.UsageQuery{Since: day, Until: day.Add(24 * time.Hour), Span: "whole", By: []string{"owner"}}).Rows {
		unused := client.UnusedCoreSeconds(&u)
		switch seen++; u.Owner {
		case "ann":
			if u.Exactness["cpu_seconds"] != figure.AtLeast || unused == nil {
				t.Errorf("jobs of which one was not measured: %v, unused %v", u.Exactness, unused)
			}
		case "bob":
			if u.Exactness["cpu_seconds"] != figure.Exact || unused == nil || *unused != 3600 {
				t.Errorf("a measured job: %v, unused %v", u.Exactness, unused)
			}
		case "cyd":
			if u.CPUSeconds != nil || unused != nil || u.HeldCoreSeconds == nil || *u.HeldCoreSeconds != 8*3600 {
				t.Errorf("a job that was not measured: %+v", u)
			}
		default:
			t.Errorf("%+v", u)
		}
	}
	if seen != 3 {
		t.Errorf("%d owners", seen)
	}
}

func cpu(w client.Workload) float64 {
	if w.CPUSeconds == nil {
		return math.NaN()
	}
	return *w.CPUSeconds
}

func mean(w client.Workload) float64 {
	if w.CoresMean == nil {
		return math.NaN()
	}
	return *w.CoresMean
}
