package pipeline_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/agent"
	"reckon/interop/scheduler"
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/replay/recording"
	"reckon/test/pipeline"
)

// finished is a queue with accounting.
type finished struct {
	queue
	ended []scheduler.Job
}

func (q *finished) Ended(context.Context, time.Time, time.Time) ([]scheduler.Job, scheduler.Read, error) {
	return q.ended, scheduler.Read{}, nil
}

// TestProcessesLeft: a script ends while its worker computes, reads and holds memory under nohup, and a helper sleeps. Slurm
// kills both some tenths of a second later. They are counted and told, and what they did after their last reading is the job's.
func TestProcessesLeft(t *testing.T) {
	const passes, mib = 30, 1 << 20
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
	type life struct {
		pid        int32
		from, to   float64 // seconds after the beginning
		busy       float64 // cores
		anon, read uint64  // bytes; read in each second
	}
	lives := []life{
		{100, 2.2, 20.5, 0, 2 * mib, 0},                                 // the script
		{101, 3, 10, 1, 10 * mib, 0}, {102, 11, 20.4999, 0, 3 * mib, 0}, // which it waited for
		{103, 4, 20.75, 0.5, 300 * mib, 4 * mib}, {104, 5, 20.6, 0, 5 * mib, 0}, // which it left
	}
	cpu, waited, read := 0.0, 0.0, 0.0
	for k := range passes {
		now := float64(k)
		p := recording.PassData{Time: begin.Add(time.Duration(k) * time.Second), Users: map[uint32]string{1000: "alice"},
			Tasks: &sensor.Pass{Boot: boot + uint64(now*1e9), Joined: true}, About: map[int32]recording.About{}, Paths: map[uint64][]sensor.CgroupPath{7: batch}}
		for _, l := range lives {
			until := min(now, l.to)
			q := sensor.Process{PID: l.pid, PPID: 100, PGID: 100, SID: 100, UID: 1000, Start: boot + uint64(l.from*1e9), Cgroup: 7, State: 'S', Threads: 1,
				UserNanos: uint64(l.busy * (until - l.from) * 1e9), WaitNanos: uint64(0.1 * l.busy * (until - l.from) * 1e9), ReadBytes: uint64(float64(l.read) * (until - l.from)),
				Anon: l.anon, PeakBytes: l.anon, Comm: sensor.CommOf(fmt.Append(nil, "p", l.pid)),
				Have: sensor.FieldGroup | sensor.FieldParent | sensor.FieldCgroup | sensor.FieldCPUSplit | sensor.FieldWait | sensor.FieldIO | sensor.FieldMemory | sensor.FieldPeak}
			switch {
			case l.from > now || l.to < now-1:
			case l.to < now:
				q.Life, q.Anon = uint64((l.to-l.from)*1e9), 0
				p.Tasks.Exited = append(p.Tasks.Exited, q)
				cpu, waited, read = cpu+float64(q.UserNanos)/1e9, waited+float64(q.WaitNanos)/1e9, read+float64(q.ReadBytes)
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
	b := a.Take()
	begin = b.Time.Truncate(time.Second)
	s := pipeline.Empty(t, begin)
	job := scheduler.Job{ID: "7", Number: 7, User: "alice", Name: "train", Partition: "all", State: "running", Submit: begin, Start: begin.Add(2 * time.Second), Cores: 2, Nodes: 1,
		NodeList: "n1", Allocated: scheduler.Allocation{Cores: 2, Nodes: 1, MemoryBytes: 1 << 30}}
	q := &finished{queue: queue{jobs: []scheduler.Job{job}}}
	poller := scheduler.NewPoller(q, scheduler.Options{Clock: func() time.Time { return s.Now }, Write: func(_ context.Context, b *metric.Batch) error { return s.Append("", b) }})
	for k := 1; k < passes; k++ {
		if err := a.Step(); err != nil {
			t.Fatal(err)
		}
		if k%5 != 4 {
			continue
		}
		b = a.Take()
		if s.Now = b.Time; k > 20 {
			job.State, job.Ended, job.End, job.Exit = "completed", true, begin.Add(21*time.Second), new(int)
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
	d := s.Job("train")
	about := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil {
			t.Errorf("%s is unknown, want %g", what, want)
		} else if math.Abs(*got-want) > 1e-6*want {
			t.Errorf("%s: %g, want %g", what, *got, want)
		}
	}
	about("processes left", d.ProcessesLeft, 2)
	about("CPU time", d.CPUSeconds, cpu)
	about("waited", d.CPUWaitSeconds, waited)
	about("read", d.ReadBytes, read)
	if d.MemoryPeakBytes == nil || *d.MemoryPeakBytes < 300*mib {
		t.Errorf("its peak is below what the worker held: %+v", d.Row)
	}
	text := ""
	for _, v := range d.Verdicts {
		text += v.Text + "\n"
	}
	if want := "2 processes were still running when the script ended"; !strings.Contains(text, want) {
		t.Errorf("%q is not stated in state %q:\n%s", want, d.State, text)
	}
}
