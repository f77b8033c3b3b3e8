package pipeline_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/agent"
	"reckon/interop/scheduler"
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/replay/recording"
	"reckon/test/pipeline"
	"reckon/web/client"
)

// finished is a queue with accounting.
type finished struct {
	queue
	ended []scheduler.Job
}

func (q *finished) Ended(context.Context, time.Time, time.Time) ([]scheduler.Job, scheduler.Read, error) {
	return q.ended, scheduler.Read{}, nil
}

// jobLife is a process of a job.
type jobLife struct {
	pid        int32
	from, to   float64 // seconds after the beginning
	busy, wait float64 // cores that it uses, and waits for
	anon, read uint64  // bytes; read in each second
}

// used is what the processes of a job used until their ends.
type used struct{ cpu, waited, read float64 }

// ranJob is the answer about a job that runs on n1 from second 2 until over, when accounting reports its end.
func ranJob(t *testing.T, passes, over int, lives []jobLife, job scheduler.Job, accounted func(*scheduler.Job)) (client.WorkloadDetail, used) {
	t.Helper()
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	batch := []sensor.CgroupPath{{Controllers: "cpuacct,memory", Path: "/slurm_n1/uid_1000/job_7/step_batch/task_0"}}
	path := filepath.Join(t.TempDir(), "machine.rec")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := recording.NewWriter(f, recording.Meta{Node: "n1", Booted: begin.Add(-time.Hour), Recorded: begin, Interval: 1, Source: "ebpf", Exits: "ebpf"})
	if err != nil {
		t.Fatal(err)
	}
	var sum used
	for k := range passes {
		now := float64(k)
		p := recording.PassData{Time: begin.Add(time.Duration(k) * time.Second), Users: map[uint32]string{1000: "alice"},
			Tasks: &sensor.Pass{Boot: boot + uint64(now*1e9), Joined: true}, About: map[int32]recording.About{}, Paths: map[uint64][]sensor.CgroupPath{7: batch}}
		for _, l := range lives {
			until := min(now, l.to)
			q := sensor.Process{PID: l.pid, PPID: 100, PGID: 100, SID: 100, UID: 1000, Start: boot + uint64(l.from*1e9), Cgroup: 7, State: 'S', Threads: 1,
				UserNanos: uint64(l.busy * (until - l.from) * 1e9), WaitNanos: uint64(l.wait * (until - l.from) * 1e9), ReadBytes: uint64(float64(l.read) * (until - l.from)),
				Anon: l.anon, PeakBytes: l.anon, Comm: sensor.CommOf(fmt.Append(nil, "p", l.pid)),
				Have: sensor.FieldGroup | sensor.FieldParent | sensor.FieldCgroup | sensor.FieldCPUSplit | sensor.FieldWait | sensor.FieldIO | sensor.FieldMemory | sensor.FieldPeak}
			switch {
			case l.from > now || l.to < now-1:
			case l.to < now:
				q.Life, q.Anon = uint64((l.to-l.from)*1e9), 0
				p.Tasks.Exited = append(p.Tasks.Exited, q)
				sum.cpu, sum.waited, sum.read = sum.cpu+float64(q.UserNanos)/1e9, sum.waited+float64(q.WaitNanos)/1e9, sum.read+float64(q.ReadBytes)
			default:
				p.Tasks.Live = append(p.Tasks.Live, q)
				p.About[l.pid] = recording.About{Cgroups: batch, Env: map[string]string{"SLURM_JOB_ID": "7"}}
			}
		}
		if err := w.Pass(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a, _, err := agent.Open(agent.Config{Replay: path})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Step(); err != nil { // a replay ends now
		t.Fatal(err)
	}
	b := a.TakeExport()
	begin = b.Time.Truncate(time.Second)
	s := pipeline.Empty(t, begin)
	job.ID, job.Number, job.User, job.Name, job.Partition, job.State, job.Submit, job.Start = "7", 7, "alice", "train", "all", "running", begin, begin.Add(2*time.Second)
	q := &finished{queue: queue{jobs: []scheduler.Job{job}}}
	poller := scheduler.NewPoller(q, scheduler.Options{Clock: func() time.Time { return s.Now }, Write: func(_ context.Context, b *metric.Batch) error { return s.Append("", b) }})
	for k := 1; k < passes; k++ {
		if err := a.Step(); err != nil {
			t.Fatal(err)
		}
		if k%5 != 4 {
			continue
		}
		b = a.TakeExport()
		if s.Now = b.Time; k > over-1 {
			job.State, job.Ended, job.End, job.Exit = "completed", true, begin.Add(time.Duration(over)*time.Second), new(int)
			accounted(&job)
			q.jobs, q.ended = nil, []scheduler.Job{job}
		}
		poller.Step(t.Context())
		if err := s.Append(a.Node(), b); err != nil {
			t.Fatal(err)
		}
		s.Advance()
	}
	for end := s.Now.Add(5 * time.Minute); s.Now.Before(end); s.Now = s.Now.Add(15 * time.Second) {
		poller.Step(t.Context())
		s.Advance()
	}
	return s.Job("train"), sum
}

// TestProcessesLeft: a script ends while its worker computes, reads and holds memory under nohup, and a helper sleeps. Slurm
// kills both some tenths of a second later. They are counted and told, and what they did after their last reading is the job's.
func TestProcessesLeft(t *testing.T) {
	const mib = 1 << 20
	d, did := ranJob(t, 30, 21, []jobLife{
		{100, 2.2, 20.5, 0, 0, 2 * mib, 0},                                      // the script
		{101, 3, 10, 1, 0.1, 10 * mib, 0}, {102, 11, 20.4999, 0, 0, 3 * mib, 0}, // which it waited for
		{103, 4, 20.75, 0.5, 0.05, 300 * mib, 4 * mib}, {104, 5, 20.6, 0, 0, 5 * mib, 0}, // which it left
	}, scheduler.Job{Cores: 2, Nodes: 1, NodeList: "n1", Allocated: scheduler.Allocation{Cores: 2, Nodes: 1, MemoryBytes: 1 << 30}}, func(*scheduler.Job) {})
	about := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil {
			t.Errorf("%s is unknown, want %g", what, want)
		} else if math.Abs(*got-want) > 1e-6*want {
			t.Errorf("%s: %g, want %g", what, *got, want)
		}
	}
	about("processes left", d.ProcessesLeft, 2)
	about("CPU time", d.CPUSeconds, did.cpu)
	about("waited", d.CPUWaitSeconds, did.waited)
	about("read", d.ReadBytes, did.read)
	if d.MemoryPeakBytes == nil || *d.MemoryPeakBytes < 300*mib {
		t.Errorf("its peak is below what the worker held: %+v", d.Row)
	}
	if want, text := "2 processes were still running when the script ended", verdicts(d); !strings.Contains(text, want) {
		t.Errorf("%q is not stated in state %q:\n%s", want, d.State, text)
	}
}

func verdicts(d client.WorkloadDetail) (text string) {
	for _, v := range d.Verdicts {
		text += v.Text + "\n"
	}
	return text
}

// TestAdvisedLines: the advice is enough for the same job again, and no more than it had.
func TestAdvisedLines(t *testing.T) {
	const mib, end = 1 << 20, 41.5
	held := func(cores, nodes float64, list string, memory float64) scheduler.Job {
		return scheduler.Job{Cores: cores, Nodes: nodes, NodeList: list, TaskCount: cores,
			Allocated: scheduler.Allocation{Cores: cores, Nodes: nodes, MemoryBytes: memory}}
	}
	script := jobLife{100, 2.2, end, 0, 0, 2 * mib, 0}
	waiting := func(pid int32) jobLife { return jobLife{pid, 3, end - 0.1, 0.25, 0.75, 100 * mib, 0} }
	for name, tt := range map[string]struct {
		lives []jobLife
		job   scheduler.Job
		steps []scheduler.Step
		lines []string // all of them
		says  []string
		never []string
	}{
		"two tasks that wait for others": {[]jobLife{script, waiting(101), waiting(102)}, held(2, 1, "n1", 1<<30), nil,
			[]string{"#SBATCH --ntasks=2", "#SBATCH --cpus-per-task=1"}, []string{"others had the cores", "what it waited for others included"}, []string{"used all it had"}},
		"one of four tasks works": {[]jobLife{script, {101, 3, end - 0.1, 1, 0, 100 * mib, 0}}, held(4, 1, "n1", 1<<30), nil,
			[]string{"#SBATCH --ntasks=4", "#SBATCH --cpus-per-task=1"}, []string{"cores 4 for its 4 tasks"}, nil},
		"a step killed for lack of memory, by accounting only": {[]jobLife{script, {101, 3, end - 0.1, 1, 0, 290 * mib, 0}}, held(1, 1, "n1", 300*mib),
			[]scheduler.Step{{ID: "1", Name: "eat", State: "out_of_memory", NodeList: "n1"}}, []string{"#SBATCH --mem=512M"}, []string{"it was killed with 300 MiB"}, nil},
		"a step killed at a limit of its own": {[]jobLife{script, {101, 3, end - 0.1, 1, 0, 100 * mib, 0}}, held(1, 1, "n1", 400*mib),
			[]scheduler.Step{{ID: "1", Name: "eat", State: "out_of_memory", NodeList: "n1"}}, nil, nil, []string{"killed with", "--mem"}},
		"a second node without an agent": {[]jobLife{script, {101, 3, end - 0.1, 1, 0, 600 * mib, 0}}, held(2, 2, "n[1-2]", 2<<30), nil,
			[]string{"#SBATCH --nodes=2", "#SBATCH --mem=768M"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := ranJob(t, 50, 42, tt.lives, tt.job, func(j *scheduler.Job) {
				for _, s := range tt.steps {
					s.Start, s.End = j.Start, j.End
					j.Steps = append(j.Steps, s)
				}
			})
			if d.Advice == nil {
				d.Advice = &client.Advice{}
			}
			text := verdicts(d) + strings.Join(d.Advice.Why, "\n") + d.Advice.Paste
			for _, want := range tt.lines {
				if !slices.Contains(strings.Split(d.Advice.Paste, "\n"), want) {
					t.Errorf("%s is not advised:\n%s\n%s", want, d.Advice.Paste, text)
				}
			}
			for _, want := range tt.says {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not stated:\n%s", want, text)
				}
			}
			for _, not := range tt.never {
				if strings.Contains(text, not) {
					t.Errorf("%q is stated:\n%s", not, text)
				}
			}
		})
	}
}
