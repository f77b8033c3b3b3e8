package flux

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/interop/scheduler"
)

// command puts a program flux into PATH that writes a recorded answer by the arguments that it is called with.
func command(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "flux"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TESTDATA", here)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

const recorded = `case "$*" in
"jobs -A --json --count=1000000 --filter=pending,running") cat $TESTDATA/running.json ;;
"jobs -A --json --count=1000000 --filter=inactive --since=1791485000") cat $TESTDATA/ended.json ;;
"jobs -A --json --count=1000000 7 8") cat $TESTDATA/ended.json ;;
resource*) cat $TESTDATA/resources.txt ;;
*) echo "flux: ERROR: $*" >&2; exit 1 ;;
esac`

func line(j *scheduler.Job) string {
	exit := "-"
	if j.Exit != nil {
		exit = fmt.Sprint(*j.Exit)
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return fmt.Sprintf("%.3f", float64(t.UnixMilli())/1000)
	}
	return fmt.Sprint(j.ID, " ", j.Number, " ", j.User, " ", j.UID, " ", j.Name, " ", j.State, " ", j.Reason, " by ", j.EndedBy, " ", at(j.Submit), " ", at(j.Start), " ", at(j.End),
		" ", j.Cores, " of ", j.Allocated.Cores, " on ", j.Nodes, " ", j.NodeList, " limit ", j.Seconds, " exit ", exit)
}

func TestJobs(t *testing.T) {
	command(t, recorded)
	s, err := Open(scheduler.Access{})
	if err != nil {
		t.Fatal(err)
	}
	queue, got, err := s.Jobs(t.Context())
	if err != nil || got.Records != 3 || got.Bad != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	ended, _, err := s.Ended(t.Context(), time.Unix(1791485000, 0), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	byNumber, _, err := s.ByNumber(t.Context(), []uint64{7, 8}, time.Time{})
	if err != nil || len(byNumber) != len(ended) {
		t.Fatalf("%d jobs, %v", len(byNumber), err)
	}
	for i, want := range []string{
		"fiFkbMhFM 91088924704768 fluxuser 1002 sleep running  by  1791485339.348 1791485339.380 - 10 of 10 on 1 3db47f546663 limit 0 exit -",
		"fiFsPiQD5 91093387444224 fluxuser 1002 sleep pending JobHeldUser by  1791485339.615 - - 1 of 0 on 1  limit 0 exit -",
		"fiHP9Htes 91150983626752 fluxuser 1002 sleep pending Resources by  1791485343.047 - - 1 of 0 on 1  limit 5 exit -",
		"fiFkbMhFM 91088924704768 fluxuser 1002 sleep cancelled  by user 1791485339.348 1791485339.380 1791485358.243 10 of 10 on 1 3db47f546663 limit 0 exit 143",
		"f7C8QGZtB 13671518437376 0 0 hostname completed  by  1706336418.268 1706336418.291 1706336418.301 1 of 1 on 1 flux-sample-0 limit 0 exit 0",
	} {
		if got := line(&append(queue, ended...)[i]); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestResults(t *testing.T) {
	job := func(more string) string {
		return `{"id": 7, "t_submit": 1, "t_run": 2, "t_cleanup": 3, "state": "INACTIVE", ` + more + `}`
	}
	for text, want := range map[string]string{
		job(`"result": "FAILED", "returncode": 3`):                                          "failed  3",
		job(`"result": "TIMEOUT", "returncode": 142`):                                       "timeout time_limit 142",
		job(`"result": "FAILED", "exception": {"type": "node-failure", "note": "n1"}`):      "node_fail node_failure n1 -",
		job(`"result": "CANCELED", "exception": {"type": "cancel", "note": "by operator"}`): "cancelled user by operator -",
		job(`"result": "NEW WORD"`):                                                         "failed  -",
	} {
		jobs, got, err := readJobs([]byte(text))
		if err != nil || got.Bad != 0 || len(jobs) != 1 {
			t.Fatalf("%s: %+v, %v", text, got, err)
		}
		exit := "-"
		if j := jobs[0]; j.Exit != nil {
			exit = fmt.Sprint(*j.Exit)
		}
		if is := strings.Join(strings.Fields(fmt.Sprint(jobs[0].State, " ", jobs[0].EndedBy, " ", jobs[0].Reason, " ", exit)), " "); is != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%s: %s, want %s", text, is, want)
		}
	}
}

func TestNodes(t *testing.T) {
	command(t, recorded)
	nodes, parts, got, err := new(Source).Nodes(t.Context())
	if err != nil || got.Records != 5 || got.Bad != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	var is []string
	for _, n := range nodes {
		is = append(is, fmt.Sprint(n.Name, " ", n.State, " ", n.AllocatedCores, " of ", n.Cores, " ", *n.AllocatedGPUs, " of ", n.GPUs, " ", n.Partitions, " ", n.Open()))
	}
	want := "n1 mixed 2 of 8 1 of 1 [batch debug] true; n2 mixed 2 of 8 1 of 1 [batch debug] true; n3 allocated 8 of 8 0 of 0 [batch] true; n4 down 0 of 8 0 of 0 [debug] false"
	if got := strings.Join(is, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(parts) != 2 || parts[0].Name != "batch" || parts[1].Name != "debug" {
		t.Errorf("%+v", parts)
	}
}

func TestWithout(t *testing.T) {
	command(t, `echo "flux-jobs: ERROR: Unable to connect to Flux: broker socket not found" >&2; exit 1`)
	s := new(Source)
	if _, _, err := s.Jobs(t.Context()); err == nil || err.Error() != "flux jobs: flux-jobs: ERROR: Unable to connect to Flux: broker socket not found" {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, _, err := s.Nodes(over); err == nil {
		t.Error("no error after the end of the context")
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(scheduler.Access{}); err == nil || !strings.Contains(err.Error(), "install flux-core") {
		t.Error(err)
	}
	if _, err := Open(scheduler.Access{URL: "http://x"}); err == nil {
		t.Error("an address is taken")
	}
}

func FuzzJobs(f *testing.F) {
	for _, name := range []string{"running.json", "ended.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		jobs, got, _ := readJobs(text)
		if len(jobs)+got.Bad != got.Records {
			t.Errorf("%d jobs and %d bad of %d", len(jobs), got.Bad, got.Records)
		}
		for _, j := range jobs {
			if j.ID == "" || j.State == "" || j.Ended && j.State == "running" {
				t.Errorf("%+v", j)
			}
		}
		readNodes(string(text))
	})
}
