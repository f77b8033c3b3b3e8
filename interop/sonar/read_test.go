package sonar

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"reckon/interop/sacct"
)

type got struct {
	samples []Sample
	procs   []Process
	info    []Sysinfo
	jobs    []sacct.Job
	bad     []string
}

func readText(t testing.TB, text string) *got {
	t.Helper()
	g := &got{}
	err := NewReader(Options{MaxLine: 4096, MaxEnvelope: 1 << 20}).Read(strings.NewReader(text), &Handler{
		Sample: func(s *Sample) error {
			g.procs = append(g.procs, s.Procs...)
			one := *s
			one.Procs = slices.Clone(s.Procs)
			g.samples = append(g.samples, one)
			return nil
		},
		Sysinfo: func(s *Sysinfo) error { g.info = append(g.info, *s); return nil },
		Job:     func(j *sacct.Job) error { g.jobs = append(g.jobs, *j); return nil },
		Bad:     func(line int, err error) { g.bad = append(g.bad, fmt.Sprintf("%d: %v", line, err)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func readFile(t testing.TB, name string) *got {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return readText(t, string(raw))
}

// TestFiles: how much of each file is parsed, and which lines are not.
func TestFiles(t *testing.T) {
	for _, c := range []struct {
		file                       string
		procs, samples, info, jobs int
		bad                        string // lines
	}{
		{"oldfmt_samples.csv", 68, 68, 0, 0, ""},
		{"oldfmt_slurmjobs.csv", 0, 0, 0, 13, "10"},
		{"oldfmt_sysinfo.json", 0, 0, 2, 0, ""},
		{"newfmt_sysinfo.json", 0, 0, 2, 0, "86"},
		{"newfmt_slurmjobs.json", 0, 0, 0, 1, "54"},
		{"newfmt_cluster.json", 0, 0, 0, 0, ""},
		{"newfmt_samples.json", 9, 2, 0, 0, ""},
		{"old-old-data.csv", 8, 8, 0, 0, ""},
		{"parse-data.csv", 7, 7, 0, 0, ""},
		{"parse_infty.csv", 2, 2, 0, 0, "2"},
		{"bad-gpuset.csv", 2, 2, 0, 0, "2"},
		{"bad-gpumask-untagged.csv", 2, 2, 0, 0, "2"},
		{"bad-timestamp.csv", 2, 2, 0, 0, "2 4"},
		{"whitebox-intermingled.csv", 4, 4, 0, 0, "1 2 4"},
		{"whitebox-untagged-intermingled.csv", 2, 2, 0, 0, "1 2 5 7 8"},
	} {
		g := readFile(t, c.file)
		var lines []string
		for _, b := range g.bad {
			n, _, _ := strings.Cut(b, ":")
			lines = append(lines, n)
		}
		if len(g.procs) != c.procs || len(g.samples) != c.samples || len(g.info) != c.info || len(g.jobs) != c.jobs || strings.Join(lines, " ") != c.bad {
			t.Errorf("%s: %d processes, %d samples, %d sysinfo, %d jobs, bad %q", c.file, len(g.procs), len(g.samples), len(g.info), len(g.jobs), g.bad)
		}
	}
}

func TestTagged(t *testing.T) {
	g := readText(t, `v=0.13.200,time=2025-02-27T01:00:01+01:00,host=gpu-11,user=a,"cmd=odd, ""name""",job=7,pid=12,ppid=3,cpu%=50,cpukib=10,rssanonkib=20,"gpus=4,0",gpu%=50,gpukib=1024,cputime_sec=90,rolledup=1,epoch=0,new=1`+"\r\n\n")
	want := Process{Job: 7, HasEpoch: true, User: "a", Cmd: `odd, "name"`, PID: 12, PPID: 3, Rolled: 1, CPU: 90, Mean: 0.5,
		Resident: 20480, Virtual: 10240, Read: -1, Written: -1, GPUs: "4,0", GPU: 0.5, GPUMemory: 1 << 20}
	if len(g.procs) != 1 || g.procs[0] != want || g.samples[0].Time != 1740614401 || len(g.bad) != 0 {
		t.Errorf("%+v %v", g.procs, g.bad)
	}
}

// TestUntagged: the first releases wrote the mean over the lifetime and no CPU time: it is unknown, not 0.
func TestUntagged(t *testing.T) {
	g := readText(t, "2023-06-23T05:05:01.224181967+00:00,ml8,192,u,585616,python,744.7,196986336,1010,84,50,19730432\n"+
		"2023-10-10T22:00:02+00:00,c10-10,104,u,9625735,samtools,2.1,3740\n")
	p := g.procs[0]
	if p.CPU >= 0 || p.Resident >= 0 || p.GPUs != "1,3" || p.GPU != 0.84 || p.Job != 585616 || g.procs[1].GPUs != "" {
		t.Errorf("%+v", g.procs)
	}
}

// TestTimeLimit: time limits are written with an offset of two minutes; 0 is unset and 1 is without limit.
func TestTimeLimit(t *testing.T) {
	for written, want := range map[string]string{`"time_limit":102,`: "6000", `"time_limit":1,`: "none", ``: "none", `"time_limit":2,`: "0"} {
		g := readText(t, `{"meta":{},"data":{"type":"job","attributes":{"time":"2025-03-11T09:31:00+01:00","cluster":"fox","slurm_jobs":[{"job_id":3,"array_job_id":2,"array_task_id":1,`+
			written+`"job_state":"OUT_OF_MEMORY","user_name":"a","submit_time":"2025-03-08T13:49:06+01:00","start_time":"2025-03-08T18:11:02+01:00","end_time":"2025-03-08T18:12:02+01:00","nodes":["c1-[1-2]","b"],"requested_memory_per_node":1024,"requested_node_count":3}]}}}`)
		if len(g.jobs) != 1 {
			t.Fatal(g.bad)
		}
		j := g.jobs[0]
		limit := "none"
		if j.TimeLimit != nil {
			limit = fmt.Sprint(*j.TimeLimit)
		}
		if limit != want || j.ID != "2_1" || j.State != "out_of_memory" || j.Nodes != "c1-[1-2],b" || *j.ReqMemory != 3<<20 || *j.ExitCode != 0 {
			t.Errorf("%s: limit %s, %+v", written, limit, j)
		}
	}
}

// TestBrokenJSON: a document that is truncated, too long or invalid does not affect others.
func TestBrokenJSON(t *testing.T) {
	good := `{"data":{"type":"sample","attributes":{"time":"2025-03-11T09:31:00+01:00","cluster":"x","node":"n","system":{}}}}`
	g := readText(t, good+"\nnonsense {\n"+good+"\n{\"data\":{\"type\":\"weather\",\"attributes\":{}}}\n"+
		`{"x":"`+strings.Repeat("a", 2<<20)+`"}`+"\n"+good+"\n"+good[:40])
	if len(g.samples) != 3 || len(g.bad) != 4 || !strings.HasPrefix(g.bad[0], "2: ") || !strings.HasPrefix(g.bad[1], "4: ") ||
		!strings.Contains(g.bad[2], "longer than") || !strings.Contains(g.bad[3], "cut off") {
		t.Errorf("%d samples, bad %q", len(g.samples), g.bad)
	}
	long := readText(t, "v=0.7.0,"+strings.Repeat("x", 10_000)+"\nv=0.7.0,time=2023-06-26T18:05:01+02:00,host=n,user=u,cmd=c,job=1\n")
	if len(long.procs) != 1 || len(long.bad) != 1 {
		t.Errorf("%d, %q", len(long.procs), long.bad)
	}
}

// TestWritten: written documents are read back unchanged.
func TestWritten(t *testing.T) {
	var b bytes.Buffer
	s := OutSample{Time: "2026-11-21T10:00:00+00:00", Cluster: "c", Node: "n", Jobs: []*OutJob{
		{Job: 4711, User: "alice", Processes: []*OutProcess{{Cmd: "a", CPUTime: 77, Resident: 10, Rolled: 3, Read: 5}}},
	}}
	if err := Write(&b, "1", "sample", s); err != nil {
		t.Fatal(err)
	}
	g := readText(t, b.String())
	p := g.procs[0]
	if p.Job != 4711 || p.Epoch != 0 || !p.HasEpoch || p.CPU != 77 || p.Resident != 10240 || p.Rolled != 3 || p.Read != 5120 || g.samples[0].Cluster != "c" {
		t.Errorf("%+v", p)
	}
	for id, want := range map[string]string{"slurm/4711": "4711 0", "slurm/4711_3": "4711 0", "group/n/12-1700000000": "12 122163200", "group/n/12-7": "12 7"} {
		if job, epoch := Number(id); fmt.Sprintf("%d %d", job, epoch) != want {
			t.Errorf("%s: %d %d", id, job, epoch)
		}
	}
	if job, epoch := Number("unit/nginx.service"); job < 1<<32 || epoch == 0 {
		t.Errorf("unit: %d %d", job, epoch)
	}
}

func FuzzRead(f *testing.F) {
	names, err := filepath.Glob("testdata/*.*")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, n := range names {
		raw, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw[:min(len(raw), 4000)])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		g := readText(t, string(raw))
		for _, p := range g.procs {
			if p.CPU != p.CPU || p.GPU != p.GPU {
				t.Errorf("%+v", p)
			}
		}
	})
}

func BenchmarkCSV(b *testing.B) {
	raw, err := os.ReadFile("testdata/oldfmt_samples.csv")
	if err != nil {
		b.Fatal(err)
	}
	r := NewReader(Options{})
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Read(bytes.NewReader(raw), &Handler{Sample: func(*Sample) error { return nil }}); err != nil {
			b.Fatal(err)
		}
	}
}
