package sacct

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func parse(t testing.TB, text string, o Options) (jobs []Job, bad []string) {
	t.Helper()
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	err := Read(strings.NewReader(text), o, func(j *Job) error { jobs = append(jobs, *j); return nil },
		func(line int, err error) { bad = append(bad, fmt.Sprintf("%d: %v", line, err)) })
	if err != nil {
		t.Fatal(err)
	}
	return jobs, bad
}

func load(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestSonarFields: an export without a header, in the order of sonar's fields.
func TestSonarFields(t *testing.T) {
	jobs, bad := parse(t, load(t, "sonar.txt"), Options{})
	if len(jobs) != 29 || len(bad) != 0 {
		t.Fatalf("%d jobs, bad %q", len(jobs), bad)
	}
	j := jobs[0]
	if j.ID != "973821" || j.User != "ec-aaaaa" || j.Account != "ec85" || j.Partition != "normal" || j.Nodes != "c1-28" || j.State != "completed" ||
		*j.CPUUser != 11*3600+6*60+33 || *j.CPUSystem != 22*60+53.824 || *j.ReqMemory != 10000*1<<20 || *j.TimeLimit != 24000 ||
		*j.PeakMemory != (10121984+112488)*1024 || *j.ReqCores != 6 || !j.Start.Equal(time.Date(2024, 11, 13, 11, 8, 0, 0, time.UTC)) || j.ReqGPUs != nil {
		t.Errorf("%+v", j)
	}
}

// TestAllFields: a header line, a submit line that continues on the next lines, and another that
// contains the separator.
func TestAllFields(t *testing.T) {
	jobs, bad := parse(t, load(t, "all.txt"), Options{})
	if len(bad) != 0 {
		t.Errorf("bad %q", bad)
	}
	byID := map[string]Job{}
	for _, j := range jobs {
		byID[j.ID] = j
	}
	if j := byID["8"]; j.Name != "oom|pipe" || j.State != "failed" || *j.ExitCode != 1 {
		t.Errorf("%+v", j)
	}
	if j := byID["2_1"]; j.Raw != "3" || j.User != "hpcbob" || j.Cluster != "tinyhpc" {
		t.Errorf("%+v", j)
	}
	if j := byID["1"]; *j.PeakMemory != (207588+3980+108)*1024 || *j.CPUUser != 16.395 {
		t.Errorf("%+v", j)
	}
}

func TestForms(t *testing.T) {
	const head = "JobID^User^State^Submit^Start^End^ReqMem^ReqCPUS^Timelimit^ExitCode^AllocTRES^JobName\n"
	jobs, bad := parse(t, head+
		"5^bob^CANCELLED by 1000^2026-01-01T00:00:00^None^2026-01-01T00:01:00^2Gc^4^1-00:00:00^0:15^cpu=4,gres/gpu:a100=2^odd^name\n"+
		"6^bob^COMPLETED^2026-01-01T00:00:00^2026-01-01T00:00:00\n"+
		"7^bob^COMPLETED^2026-01-01T00:00:00^2026-01-02T00:00:00^2026-01-01T00:00:00^^^^^^x\n"+
		"8_[3-9]^bob^PENDING^2026-01-01T00:00:00^Unknown^Unknown^4000M^1^UNLIMITED^0:0^^x\n"+
		"9+1^bob^COMPLETED^1767225600^1767225600^1767225660^^^^0:0^^x\n", Options{})
	if len(jobs) != 3 || len(bad) != 2 || !strings.HasPrefix(bad[0], "3: 5 fields, want 12") || !strings.HasPrefix(bad[1], "4: job 7: its end ") {
		t.Fatalf("%d jobs, bad %q", len(jobs), bad)
	}
	if j := jobs[0]; j.State != "cancelled" || j.Reason != "by 1000" || *j.ReqMemory != 8<<30 || *j.TimeLimit != 86400 || *j.ExitCode != 143 || *j.ReqGPUs != 2 || j.Name != "odd^name" || !j.Start.IsZero() {
		t.Errorf("%+v", j)
	}
	if j := jobs[1]; j.ID != "8" || j.State != "pending" || j.TimeLimit != nil || j.ExitCode != nil {
		t.Errorf("%+v", j)
	}
	if j := jobs[2]; j.ID != "9+1" || j.Start.Unix() != 1767225600 {
		t.Errorf("%+v", j)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(load(f, "sonar.txt")[:4000])
	f.Add(load(f, "all.txt")[:8000])
	f.Add("JobID|JobIDRaw\n_[1]|00\n")
	f.Add("JobID|State\n1|COMPLETED|\n2.batch|x\n")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, _ := parse(t, text, Options{})
		for _, j := range jobs {
			if j.ID == "" || j.Raw == "" {
				t.Errorf("%+v", j)
			}
		}
	})
}

// TestRequestedMemory: ReqMem of some releases has Slurm's flag of a size per core in front; the
// lists of TRES take precedence.
func TestRequestedMemory(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		reqMem, reqTRES string
		want            float64
	}{
		{"3000Mn", "", 2 * 3000 * mib},
		{"3000Mc", "", 8 * 3000 * mib},
		{"24000M", "", 24000 * mib},
		{"2147486648Mn", "", 8 * 3000 * mib},
		{"2147486648M", "", 8 * 3000 * mib},
		{"9223372036854778808M", "", 8 * 3000 * mib},
		{"2147486648Mn", "cpu=8,mem=24000M,node=2", 24000 * mib},
		{"3000Mc", "cpu=8,mem=2147486648M,node=2", 8 * 3000 * mib},
		{"0n", "", 0},
		{"16?", "", 0},
		{"", "cpu=8,node=2", 0},
	} {
		jobs, bad := parse(t, "JobID|User|State|Submit|Start|End|ReqMem|ReqCPUS|ReqNodes|ReqTRES|JobName\n"+
			"5|bob|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|"+c.reqMem+"|8|2|"+c.reqTRES+"|x\n", Options{})
		got := 0.0
		if len(jobs) == 1 && jobs[0].ReqMemory != nil {
			got = *jobs[0].ReqMemory
		}
		if got != c.want || len(bad) > 0 {
			t.Errorf("ReqMem %q, ReqTRES %q: %g, want %g; bad %q", c.reqMem, c.reqTRES, got, c.want, bad)
		}
	}
}

// TestGenericResources: releases up to 20.11 report GPUs as generic resources per node.
func TestGenericResources(t *testing.T) {
	for gres, want := range map[string]float64{"gpu:2": 4, "gpu:a100:1,gpu:v100:2": 6, "gpu": 2, "craynetwork:1": 0, "": 0, "gpu:0": 0} {
		jobs, bad := parse(t, "JobID|User|State|Submit|Start|End|ReqGRES|NNodes|JobName\n"+
			"5|bob|COMPLETED|2019-01-01T00:00:00|2019-01-01T00:00:00|2019-01-01T01:00:00|"+gres+"|2|x\n", Options{})
		got := 0.0
		if len(jobs) == 1 && jobs[0].ReqGPUs != nil {
			got = *jobs[0].ReqGPUs
		}
		if got != want || len(bad) > 0 {
			t.Errorf("%q: %g, want %g; bad %q", gres, got, want, bad)
		}
	}
}

// TestOrders: the known orders of fields, and others, which are rejected as a whole.
func TestOrders(t *testing.T) {
	const warehouse = "977669|977669|hpc|p1|q1|acct|grp|104475|alice|503801|2016-12-21T21:43:34|2016-12-21T21:43:34|2016-12-22T07:03:30|2016-12-30T03:43:09|7-20:39:39|0:0|CANCELLED by 423120|1|12|10|48000Mn|cpu=10,mem=48000M,node=1|billing=12,cpu=12,mem=48000M,node=1|125-00:00:00|n1|a|name\n"
	before := strings.Replace(warehouse, "|q1|", "|", 1)
	for name, text := range map[string]string{"warehouse": warehouse, "before 10.0": before} {
		jobs, bad := parse(t, text+strings.Replace(text, "977669", "977670", 2), Options{Zone: nil})
		if len(jobs) != 2 || len(bad) != 0 {
			t.Fatalf("%s: %d jobs, bad %q", name, len(jobs), bad)
		}
		j := jobs[0]
		if j.User != "alice" || j.UID != "503801" || j.EndedBy != "user" || j.EndedByUser != "423120" || *j.ReqCores != 10 || *j.AllocCores != 12 || *j.AllocMemory != 48000<<20 ||
			*j.AllocNodes != 1 || j.Name != "a|name" || *j.TimeLimit != 125*86400 || j.Start.Unix() != 1482390210 || (j.QOS == "q1") != (name == "warehouse") {
			t.Errorf("%s: %+v", name, j)
		}
	}
	jobs, bad := parse(t, "1|2|3\n4|5|6\n", Options{})
	if len(jobs) != 0 || len(bad) != 1 || !strings.Contains(bad[0], "3 fields and no names for them") || !strings.Contains(bad[0], "26 of Open XDMoD") || !strings.Contains(bad[0], "--fields") {
		t.Errorf("%d jobs, bad %q", len(jobs), bad)
	}
}

// TestSizesAndSteps: a resized job is one job with several sizes; its steps are kept, and a step without its
// job is reported.
func TestSizesAndSteps(t *testing.T) {
	jobs, bad := parse(t, "JobID|JobIDRaw|User|State|Submit|Start|End|AllocTRES|TotalCPU|ExitCode|Suspended|MaxRSS|JobName\n"+
		"7|7|bob|RESIZING|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:11:00|cpu=8,mem=8G,node=2|10:00|0:0|00:00:00||x\n"+
		"8|8|bob|COMPLETED|2026-01-01T00:02:00|2026-01-01T00:02:00|2026-01-01T00:03:00|cpu=1|00:01|0:0|00:00:00||y\n"+
		"7|7|bob|COMPLETED|2026-01-01T00:11:00|2026-01-01T00:01:00|2026-01-01T00:31:00|cpu=4,mem=4G,node=1|20:00|0:0|00:02:00||x\n"+
		"7.batch|7.batch||COMPLETED|2026-01-01T00:01:00|2026-01-01T00:01:00|2026-01-01T00:31:00|cpu=4|05:00|0:0||100M|batch\n"+
		"7.0|7.0||OUT_OF_MEMORY|2026-01-01T00:02:00|2026-01-01T00:02:00|2026-01-01T00:03:00|cpu=8|01:00|0:125||300M|eat\n"+
		"9.0|9.0||COMPLETED|2026-01-01T00:02:00|2026-01-01T00:02:00|2026-01-01T00:03:00|cpu=8|01:00|0:0|||lost\n", Options{})
	if len(jobs) != 2 || len(bad) != 1 || !strings.Contains(bad[0], "step 9.0 without its job before it") {
		t.Fatalf("%d jobs, bad %q", len(jobs), bad)
	}
	j := jobs[1]
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	if !j.Submit.Equal(at(0)) || !j.Start.Equal(at(1)) || !j.End.Equal(at(31)) || j.State != "completed" || *j.CPUUser != 1800 || *j.Suspended != 120 || len(j.Sizes) != 2 ||
		*j.Sizes[0].Cores != 8 || !j.Sizes[0].End.Equal(at(11)) || *j.Sizes[1].Cores != 4 || !j.Sizes[1].Start.Equal(at(11)) || *j.PeakMemory != 400<<20 {
		t.Errorf("%+v", j)
	}
	if len(j.Steps) != 2 || j.StepCount != 2 || j.Steps[1].Name != "eat" || j.Steps[1].State != "out_of_memory" || *j.Steps[1].CPU != 60 || *j.Steps[1].PeakMemory != 300<<20 || j.Steps[1].ExitCode != nil {
		t.Errorf("%+v", j.Steps)
	}
}

// TestSuspensionAfterTheEnd: a job that was cancelled while it was suspended ended when the suspension began.
func TestSuspensionAfterTheEnd(t *testing.T) {
	jobs, bad := parse(t, "JobID|User|State|Submit|Start|End|ElapsedRaw|Suspended\n"+
		"1|a|CANCELLED by 0|2026-03-01T12:00:00|2026-03-01T12:00:01|2026-03-01T12:00:13|12|00:00:20\n"+
		"2|a|CANCELLED by 0|2026-03-01T12:00:00|2026-03-01T12:00:01|2026-03-01T12:00:18|12|00:00:25\n"+
		"3|a|COMPLETED|2026-03-01T12:00:00|2026-03-01T12:00:01|2026-03-01T12:01:01|20|00:00:40\n", Options{})
	if len(bad) != 0 || len(jobs) != 3 {
		t.Fatalf("%d jobs, %v", len(jobs), bad)
	}
	for i, want := range []float64{0, 5, 40} {
		if got := *jobs[i].Suspended; got != want {
			t.Errorf("job %s was suspended for %g s of its time, want %g", jobs[i].ID, got, want)
		}
	}
}
