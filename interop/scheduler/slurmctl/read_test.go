package slurmctl

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/interop/scheduler"
	"reckon/interop/slurmtext"
	"reckon/workload"
)

func recorded(t testing.TB, name string) io.Reader {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return bytes.NewReader(raw)
}

const testMark = mark("\x1fMARK\x1f")

// line is a short description of a job.
func line(j *scheduler.Job) string {
	exit := "-"
	if j.Exit != nil {
		exit = fmt.Sprint(*j.Exit)
	}
	unix := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.Unix() - 1795240000
	}
	return fmt.Sprintf("%s %d %s %s %s/%s %q %d-%d-%d c%g m%g g%g n%g %gs %s x%s t%d s%d", j.ID, j.Number, j.User, j.Partition, j.State,
		j.Reason, j.Name,
		unix(j.Submit), unix(j.Start), unix(j.End), j.Cores, j.MemoryBytes/(1<<20), j.GPUs, j.Nodes, j.Seconds, j.NodeList, exit, j.Tasks,
		len(j.Steps))
}

func lines(jobs []scheduler.Job) string {
	var b strings.Builder
	for i := range jobs {
		b.WriteString(line(&jobs[i]) + "\n")
	}
	return b.String()
}

// The names of jobs 1 and 2 are such that a careless parser mistakes a part of them for
// something else.
const queued2205 = `1 1 hpcuser normal completed/ "a|b c=d UserId=root(0)" 2872-2873-2906 c1 m100 g0 n1 86400s vm x0 t0 s0
2 2 hpcuser normal completed/ "new\nline" 2872-2873-2906 c1 m100 g0 n1 86400s vm x0 t0 s0
3+0 3 hpcuser normal pending/Resources "het" 2872-0-0 c1 m50 g0 n1 86400s  x- t0 s0
3+1 4 hpcuser normal pending/Resources "het" 2872-0-0 c1 m60 g0 n1 86400s  x- t0 s0
5 5 hpcuser normal pending/Priority "fails" 2872-0-0 c2 m50 g0 n1 86400s  x- t0 s0
7 7 hpcuser normal pending/Priority "arr" 2914-0-0 c1 m50 g0 n1 86400s  x- t1000 s0
8 8 hpcuser normal pending/BeginTime "later" 2914-0-0 c1 m50 g0 n1 86400s  x- t0 s0
`

func TestQueue(t *testing.T) {
	jobs, got, err := readJobs(recorded(t, "squeue-22.05.json.gz"))
	if err != nil || got.Bad != 0 || lines(jobs) != queued2205 {
		t.Errorf("%v, %+v\n%s", err, got, lines(jobs))
	}
	jobs, got, err = readQueueText(recorded(t, "squeue-22.05.txt"), testMark)
	if err != nil || got.Bad != 0 || len(jobs) != got.Records {
		t.Fatalf("%v, %+v", err, got)
	}
	byID := map[string]*scheduler.Job{}
	for i := range jobs {
		byID[jobs[i].ID] = &jobs[i]
	}
	for id, want := range map[string]string{
		"228":   `228 228 hpcuser normal running/ "rq" 3885-4047-0 c1 m0 g0 n1 86400s vm x- t0 s0`,
		"229":   `229 229 hpcuser normal timeout/TimeLimit "tl" 3880-3880-3959 c1 m0 g0 n1 60s vm x- t0 s0`,
		"8":     `8 8 hpcuser normal pending/BeginTime "later" 2914-0-0 c1 m0 g0 n1 86400s  x- t0 s0`,
		"7_199": `7_199 209 hpcuser normal completed/ "arr" 2914-3840-3842 c1 m0 g0 n1 86400s vm x- t0 s0`,
	} {
		if byID[id] == nil || line(byID[id]) != want {
			t.Errorf("%s:\n got %v\nwant %s", id, byID[id], want)
		}
	}
}

const accounts2205 = `1 1 hpcuser normal completed/ "a|b c=d UserId=root(0)" 2872-2873-2906 c1 m100 g0 n1 86400s vm x0 t0 s2
2 2 hpcuser normal completed/ "new\nline" 2872-2873-2906 c1 m100 g0 n1 86400s vm x0 t0 s2
3+0 3 hpcuser normal cancelled/ "het" 2872-0-3418 c1 m50 g0 n1 0s  x- t0 s0
3+1 4 hpcuser normal cancelled/ "het" 2872-0-3418 c1 m60 g0 n1 0s  x- t0 s0
5 5 hpcuser normal failed/ "fails" 2872-3422-3423 c2 m50 g0 n1 86400s vm x3 t0 s4
7_0 10 hpcuser normal completed/ "arr" 2914-3423-3425 c1 m50 g0 n1 86400s vm x0 t0 s2
7_1 11 hpcuser normal completed/ "arr" 2914-3425-3427 c1 m50 g0 n1 86400s vm x0 t0 s2
7_199 209 hpcuser normal completed/ "arr" 2914-3840-3842 c1 m50 g0 n1 86400s vm x0 t0 s2
7 7 hpcuser normal cancelled/ "arr" 2914-3879-3879 c1 m50 g0 n1 86400s  x- t282 s0
9 9 hpcuser normal cancelled/ "rq" 3283-0-3288 c1 m50 g0 n1 0s  x- t0 s0
228 228 hpcuser normal requeued/ "rq" 3880-3880-3884 c1 m50 g0 n1 86400s vm x- t0 s2
229 229 hpcuser normal timeout/ "tl" 3880-3880-3959 c1 m50 g0 n1 60s vm x- t0 s2
`

func TestAccounts(t *testing.T) {
	jobs, got, err := readAccountText(recorded(t, "sacct-22.05.txt"), testMark)
	if err != nil || got.Bad != 0 || lines(jobs) != accounts2205 {
		t.Errorf("%v, %+v\n%s", err, got, lines(jobs))
	}
	text := map[string]scheduler.Job{}
	for _, j := range jobs {
		text[j.ID] = j
	}
	jobs, got, err = readAccounts(recorded(t, "sacct-22.05.json.gz"))
	if err != nil || got.Bad != 0 || len(jobs) != 11 {
		t.Fatalf("%v, %+v, %d jobs", err, got, len(jobs))
	}
	// Both contain the same, except the limit of pending jobs and the reason, which text lacks.
	for _, j := range jobs {
		w, s := j, text[j.ID]
		w.Seconds, s.Seconds, w.Reason, s.Reason = 0, 0, "", ""
		if w.State == "failed" {
			w.Exit = s.Exit // see TestOldJSONHasNoExitCodes
		}
		if line(&w) != line(&s) {
			t.Errorf("\nJSON %s\ntext %s", line(&w), line(&s))
		}
	}
}

// TestOldJSONHasNoExitCodes: Slurm 22.05 writes return_code 0 for a job that ended with 3, so it must be ignored.
func TestOldJSONHasNoExitCodes(t *testing.T) {
	jobs, _, err := readAccounts(recorded(t, "sacct-22.05.json.gz"))
	for _, j := range jobs {
		if j.State == "failed" && j.Exit != nil {
			t.Errorf("%s: exit code %d", j.ID, *j.Exit)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestAccountsWithSteps(t *testing.T) {
	jobs, got, err := readAccounts(recorded(t, "sacct-multistep-22.05.json.gz"))
	if err != nil || got.Bad != 0 || len(jobs) == 0 {
		t.Fatalf("%v, %+v", err, got)
	}
	last := jobs[len(jobs)-1]
	var ids []string
	for _, s := range last.Steps {
		ids = append(ids, s.ID+":"+s.State)
	}
	if got := strings.Join(ids, " "); last.ID != "14" || got != "batch:completed extern:completed 0:completed 1:completed" {
		t.Errorf("job %s has the steps %s", last.ID, got)
	}
}

// TestTRESOfARealCluster: real output of a cluster with GPUs; its fields differ, so only their
// contents are tested.
func TestTRESOfARealCluster(t *testing.T) {
	raw, err := io.ReadAll(recorded(t, "sacct-fox.txt"))
	if err != nil {
		t.Fatal(err)
	}
	gpus, cores := 0.0, 0.0
	for l := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSpace(l), "|")
		if !strings.Contains(f[0], ".") {
			var j scheduler.Job
			setRequest(&j, slurmtext.ReadTRES(f[29]))
			gpus, cores = gpus+j.GPUs, cores+j.Cores
		}
	}
	if gpus == 0 || cores == 0 {
		t.Errorf("%g GPUs, %g cores", gpus, cores)
	}
}

func TestNodes(t *testing.T) {
	nodes, got, err := readNodes(recorded(t, "sinfo-22.05.json"))
	if err != nil || got.Bad != 0 || len(nodes) != 1 {
		t.Fatalf("%v, %+v, %v", err, got, nodes)
	}
	n := nodes[0]
	if n.Name != "vm" || n.State != "idle" || !n.Open() || n.Cores != 2 || n.MemoryBytes != 20000<<20 ||
		strings.Join(n.Partitions, " ") != "normal devel" || n.AllocatedGPUs == nil {
		t.Errorf("%+v", n)
	}
	nodes, parts, got, err := readNodesText(recorded(t, "sinfo-22.05.txt"), testMark)
	if err != nil || got.Bad != 0 || len(nodes) != 1 || len(parts) != 2 {
		t.Fatalf("%v, %+v, %v, %v", err, got, nodes, parts)
	}
	if n := nodes[0]; n.Cores != 2 || n.MemoryBytes != 20000<<20 || strings.Join(n.Partitions, " ") != "normal devel" ||
		n.AllocatedGPUs != nil {
		t.Errorf("%+v", n)
	}
	if p := parts; !p[0].Default || p[1].Default || p[0].Seconds != 86400 || p[1].Seconds != 1800 || p[0].State != "up" {
		t.Errorf("%+v", p)
	}
}

// TestPartitions: output of slurmrestd 22.05.8, with the relevant fields and one whose
// type differs in later releases.
func TestPartitions(t *testing.T) {
	parts, got, err := readPartitions(strings.NewReader(`{"errors":[],"partitions":[{"flags":["default"],"max_time_limit":1440,"name":"normal","nodes":"vm","partition":7,"state":"UP"},
{"flags":[],"max_time_limit":null,"name":"devel","nodes":"vm-two","state":"DOWN"},{"name":""}]}`))
	want := "[{normal up true 86400} {devel down false 0}]"
	if err != nil || got.Bad != 1 || fmt.Sprint(parts) != want {
		t.Errorf("%v, %+v, %v", err, got, parts)
	}
}

// The formats of the same fields in later releases, constructed from the
// OpenAPI descriptions of data_parser/v0.0.40 to v0.0.43.
const later = `{"jobs":[
{"job_id":11,"array_job_id":{"set":true,"infinite":false,"number":10},"array_task_id":{"set":true,"infinite":false,"number":0},"array_task_string":"",
 "het_job_id":{"set":true,"infinite":false,"number":0},"het_job_offset":{"set":true,"infinite":false,"number":0},"user_name":"alice","account":"a","partition":"p","name":"x",
 "job_state":["RUNNING"],"state_reason":"None","submit_time":{"set":true,"infinite":false,"number":1795242872},"start_time":{"set":true,"infinite":false,"number":1795242873},
 "end_time":{"set":true,"infinite":false,"number":1795329273},"time_limit":{"set":true,"infinite":true,"number":0},"exit_code":{"status":["SUCCESS"],"return_code":{"set":true,"infinite":false,"number":0},"signal":{"id":{"set":false,"infinite":false,"number":0},"name":""}},
 "nodes":"n[1-2]","node_count":{"set":true,"infinite":false,"number":2},"cpus":{"set":true,"infinite":false,"number":8},"memory_per_node":{"set":false,"infinite":false,"number":0},
 "memory_per_cpu":{"set":true,"infinite":false,"number":2048},"tres_req_str":"cpu=8,mem=16G,node=2,billing=8,gres\/gpu=2,gres\/gpu:a100=2","tres_alloc_str":"cpu=8,mem=16G,node=2,billing=8,gres\/gpu:a100=2"},
{"job_id":12,"array_job_id":{"set":true,"infinite":false,"number":0},"array_task_id":{"set":false,"infinite":false,"number":0},"user_name":"bob","partition":"p","name":"y",
 "job_state":["FAILED","COMPLETING"],"submit_time":{"set":true,"infinite":false,"number":1795242872},"start_time":{"set":true,"infinite":false,"number":1795242873},"end_time":{"set":true,"infinite":false,"number":1795242900},
 "exit_code":{"status":["SIGNALED"],"return_code":{"set":false,"infinite":false,"number":0},"signal":{"id":{"set":true,"infinite":false,"number":9},"name":"SIGKILL"}},"time_limit":{"set":true,"infinite":false,"number":90}},
{"job_id":0},{"nothing":1},"text",
{"job_id":13,"user_name":"eve","name":"z","job_state":["PENDING","REQUEUE_HOLD"],"submit_time":1795242872,"start_time":1795249999}
],"warnings":[],"errors":[]}`

func TestLaterReleases(t *testing.T) {
	jobs, got, err := readJobs(strings.NewReader(later))
	want := `10_0 11 alice p running/ "x" 2872-2873-0 c8 m16384 g2 n2 0s n[1-2] x- t0 s0
12 12 bob p failed/ "y" 2872-2873-2900 c0 m0 g0 n0 5400s  x137 t0 s0
13 13 eve  requeue_hold/ "z" 2872-0-0 c0 m0 g0 n0 0s  x- t0 s0
`
	if err != nil || got.Records != 6 || got.Bad != 3 || lines(jobs) != want {
		t.Errorf("%v, %+v\n%s", err, got, lines(jobs))
	}
}

// TestBrokenOff: a truncated document is an error, and the elements before that count.
func TestBrokenOff(t *testing.T) {
	jobs, _, err := readJobs(strings.NewReader(later[:len(later)-200]))
	if err == nil || len(jobs) != 1 {
		t.Errorf("%v, %d jobs", err, len(jobs))
	}
	if _, _, err := readJobs(strings.NewReader(`{"errors":[{"error":"Slurm is down"}],"jobs":[]}`)); err == nil ||
		!strings.Contains(err.Error(), "Slurm is down") {
		t.Errorf("%v", err)
	}
	if _, _, err := readAccounts(
		strings.NewReader(`{"errors":[{"description":"Nothing found with query","error_number":9003}]}`)); err != nil {
		t.Errorf("an empty answer: %v", err)
	}
	jobs, got, err := readQueueText(strings.NewReader("garbage\n1\x1fMARK\x1f2\n\n"), testMark)
	if err != nil || got.Bad != 2 || len(jobs) != 0 {
		t.Errorf("%v, %+v, %v", err, got, jobs)
	}
}

func TestStates(t *testing.T) {
	for s, want := range map[string]string{"CANCELLED by 1001": "cancelled", "OUT_OF_ME+": "out_of_memory", "RUNNING": "running"} {
		if got := parseState(stringList{s}); got != want {
			t.Errorf("state %q: %q", s, got)
		}
	}
	if got := parseState(stringList{"COMPLETED", "COMPLETING"}); got != "completing" {
		t.Errorf("a job that is completing is %q", got)
	}
}

func FuzzJSON(f *testing.F) {
	for _, name := range []string{"squeue-22.05.json.gz", "sacct-22.05.json.gz", "sinfo-22.05.json"} {
		raw, _ := io.ReadAll(recorded(f, name))
		f.Add(raw)
	}
	f.Add([]byte(later))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, read := range []func(io.Reader) ([]scheduler.Job, scheduler.Read, error){readJobs, readAccounts} {
			jobs, got, _ := read(bytes.NewReader(raw))
			check(t, jobs, got)
		}
		nodes, _, _ := readNodes(bytes.NewReader(raw))
		for _, n := range nodes {
			if n.Name == "" || n.State == "" && len(n.Flags) > 0 {
				t.Errorf("%+v", n)
			}
		}
		_, _, _ = readPartitions(bytes.NewReader(raw))
	})
}

func FuzzText(f *testing.F) {
	for _, name := range []string{"squeue-22.05.txt", "sacct-22.05.txt", "sinfo-22.05.txt"} {
		raw, _ := io.ReadAll(recorded(f, name))
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, read := range []func(io.Reader, mark) ([]scheduler.Job, scheduler.Read, error){readQueueText, readAccountText} {
			jobs, got, err := read(bytes.NewReader(raw), testMark)
			if err != nil {
				t.Error(err)
			}
			check(t, jobs, got)
		}
		_, _, _, _ = readNodesText(bytes.NewReader(raw), testMark)
	})
}

// check tests the invariants of every parsed job.
func check(t *testing.T, jobs []scheduler.Job, got scheduler.Read) {
	t.Helper()
	if len(jobs)+got.Bad > got.Records {
		t.Errorf("%d jobs and %d bad of %d", len(jobs), got.Bad, got.Records)
	}
	for i := range jobs {
		j := &jobs[i]
		switch {
		case j.ID == "" || j.Number == 0 || j.State == "":
		case slurmtext.IsPending(j.State) && !j.Ended && !j.Start.IsZero(), !j.Ended && !j.End.IsZero(), !j.End.IsZero() &&
			j.End.Before(j.Start):
		case j.Cores < 0 || j.MemoryBytes < 0 || j.GPUs < 0 || len(j.Steps) > slurmtext.MaxSteps:
		default:
			continue
		}
		t.Errorf("%+v", *j)
	}
}

func BenchmarkReadJobs(b *testing.B) {
	raw, _ := io.ReadAll(recorded(b, "squeue-22.05.json.gz"))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := readJobs(bytes.NewReader(raw)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRunFacts: facts of runs and steps in the accounting of a real cluster.
func TestRunFacts(t *testing.T) {
	jobs, got, err := readAccountText(recorded(t, "sacct-runs-22.05.txt"), testMark)
	if err != nil || got.Bad != 0 {
		t.Fatalf("%v, %+v", err, got)
	}
	byName := map[string][]scheduler.Job{}
	for _, j := range jobs {
		byName[j.Name] = append(byName[j.Name], j)
	}
	for name, want := range map[string]struct {
		state, by, user string
		cores, gpus     float64
		suspended       float64
	}{
		"steps": {"completed", "", "", 1, 0, 0}, "gpu": {"completed", "", "", 1, 1, 0}, "limit": {"timeout", "time_limit", "", 1, 0, 0},
		"fail":      {"failed", "", "", 1, 0, 0},
		"cancelled": {"cancelled", "user", "hpcuser", 1, 0, 0}, "bobcancels": {"cancelled", "user", "root", 1, 0, 0},
		"never": {"cancelled", "user", "root", 0, 0, 0},
		"susp":  {"completed", "", "", 1, 0, 6}, "requeue": {"requeued", "", "", 1, 0, 0},
	} {
		j := byName[name][0]
		if j.State != want.state || j.EndedBy != want.by || j.EndedByUser != want.user || j.Allocated.Cores != want.cores ||
			j.Allocated.GPUs != want.gpus || j.Suspended != want.suspended || j.QOS != "normal" {
			t.Errorf("%s: %+v", name, j)
		}
	}
	var steps []string
	for _, s := range byName["steps"][0].Steps {
		steps = append(steps, fmt.Sprint(s.ID, " ", s.Name, " ", s.State, " ", *s.CPUSeconds, " ", s.Cores))
	}
	if all := strings.Join(
		steps, ", "); all != "batch batch completed 0.036 1, extern extern completed 0.001 1, 0 first completed 0.002 1, 1 eater "+
		"out_of_memory 0.219 1, 2 third failed 0.001 1" {
		t.Error(all)
	}
	// The resized job is one run, whichever record is known first, with the time
	// of the change.
	first, second := byName["resize"][0], byName["resize"][1]
	for _, known := range []bool{true, false} {
		tracker := scheduler.NewJobTracker(workload.Slurm)
		if known {
			running := first
			running.State = "running"
			running.End, running.Steps = time.Time{}, nil
			tracker.UpdateQueue(first.Start.Add(time.Second), []scheduler.Job{running}, true)
			tracker.Collect(first.Start.Add(time.Second))
		}
		tracker.UpdateAccounting([]scheduler.Job{first, second})
		facts := map[string]float64{}
		var sizes, steps []string
		ends := map[float64]int{}
		for _, b := range tracker.Collect(second.End.Add(time.Minute)) {
			changed := false
			for _, s := range b.Samples {
				facts[s.Series.Desc.Name] = s.Value
				switch s.Series.Desc.Name {
				case "reckon_workload_allocation_time_seconds":
					changed = true
				case "reckon_slurm_step_info":
					steps = append(steps, s.Series.Values[2]+" "+s.Series.Values[5])
				case "reckon_slurm_step_end_time_seconds":
					ends[s.Value]++
				case "reckon_workload_submit_time_seconds":
					facts["runs"]++
				}
			}
			for _, s := range b.Samples {
				if s.Series.Desc.Name == "reckon_workload_allocated_cores" {
					sizes = append(sizes, fmt.Sprint(s.Value, " ", changed))
				}
			}
		}
		if got := strings.Join(steps, ", "); got != "batch completed, extern completed" || facts["reckon_slurm_steps"] != 2 ||
			facts["runs"] != 1 || ends[float64(second.End.Unix())] != 2 {
			t.Errorf("known %v: %g runs, %g steps, %s, ends %v", known, facts["runs"], facts["reckon_slurm_steps"], got, ends)
		}
		// The first size is included: the change may have come before the queue was read.
		if got := strings.Join(sizes, ", "); got != "2 false, 1 true" {
			t.Errorf("known %v: sizes %s", known, got)
		}
		if facts["reckon_workload_allocated_cores"] != 1 || facts["reckon_workload_allocation_time_seconds"] != 1795322176 ||
			facts["reckon_workload_start_time_seconds"] != 1795322164 || facts["reckon_workload_submit_time_seconds"] != 1795322163 {
			t.Errorf("known %v: %v", known, facts)
		}
	}
}

// TestUserByNumber: a job that has only the number of its user is that user's, by another job of the answer but not by the users of this
// machine.
func TestUserByNumber(t *testing.T) {
	const job = `{"job_id":%d,"job_state":["PENDING"],"user_name":%q,"user_id":%d}`
	jobs, _, err := readJobs(
		strings.NewReader(`{"jobs":[` + strings.Join([]string{fmt.Sprintf(job, 1, "", 5001), fmt.Sprintf(job, 2, "alice", 5001),
			fmt.Sprintf(job, 3, "", 0), fmt.Sprintf(job, 4, "", 4000123)}, ",") + `]}`))
	if err != nil || len(jobs) != 4 {
		t.Fatalf("%v, %v", jobs, err)
	}
	for i, want := range []string{"alice", "alice", "0", "4000123"} {
		if jobs[i].User != want {
			t.Errorf("job %s is of %s, want %s", jobs[i].ID, jobs[i].User, want)
		}
	}
}
