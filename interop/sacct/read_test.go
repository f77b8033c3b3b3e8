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

// Without a line of names, in the order of sonar's fields.
func TestSonarFields(t *testing.T) {
	jobs, bad := parse(t, load(t, "sonar.txt"), Options{})
	if len(jobs) != 29 || len(bad) != 0 {
		t.Fatalf("%d jobs, bad %q", len(jobs), bad)
	}
	j := jobs[0]
	if j.ID != "973821" || j.User != "ec-aaaaa" || j.Account != "ec85" || j.Partition != "normal" || j.Nodes != "c1-28" || j.State != "completed" ||
		*j.CPUUser != 11*3600+6*60+33 || *j.CPUSystem != 22*60+53.824 || *j.ReqMemory != 10000*1<<20 || *j.TimeLimit != 24000 ||
		*j.PeakMemory != 10121984*1024 || *j.ReqCores != 6 || !j.Start.Equal(time.Date(2024, 11, 13, 11, 8, 0, 0, time.UTC)) || j.ReqGPUs != nil {
		t.Errorf("%+v", j)
	}
}

// Names in the first line, a submit line that goes on in the next lines, another that
// holds the separator.
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
	if j := byID["1"]; *j.PeakMemory != 207588*1024 || *j.CPUUser != 16.395 {
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
	if len(jobs) != 3 || len(bad) != 2 || !strings.HasPrefix(bad[0], "3: 5 fields, want 12") || !strings.HasPrefix(bad[1], "4: job 7: it ended at") {
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
