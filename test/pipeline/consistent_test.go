package pipeline_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reckon/agent"
	"reckon/figure"
	"reckon/lab/simulate"
	"reckon/sensor/replay/recording"
	"reckon/test/pipeline"
	"reckon/web/client"
	"reckon/workload"
)

// TestNothingInconsistent asks sites everything that people ask, and expects that no figure of
// an answer passes what bounds it: not because there are none, and not because they were cut.
func TestNothingInconsistent(t *testing.T) {
	seeds := rapid.Uint64Range(1, 1e6)
	for n, c := range []simulate.Config{
		{Nodes: 6, GPUNodes: 2, Jobs: 120, Cores: 8, For: 8 * time.Hour},
		{Nodes: 12, GPUNodes: 1, Jobs: 200, Cores: 32, For: 8 * time.Hour},
		{Nodes: 3, Jobs: 60, Cores: 4, For: 8 * time.Hour},
	} {
		c.Seed = seeds.Example(n)
		p := pipeline.Pace{Tick: 15 * time.Second, Export: time.Minute, Installed: time.Duration(n) * time.Hour}
		consistent(t, pipeline.Run(t, c, 5*time.Hour, p), 30)
	}
}

// TestRecordedMachine does the same with this machine, recorded and played back, while short
// processes run on it: with the exit records there are, and without any, where what children used
// is known when their parents have waited for them.
func TestRecordedMachine(t *testing.T) {
	for name, c := range map[string]agent.Config{"exit records": {}, "child times": {Source: "procfs", Exits: "none"}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "machine.rec")
			a, _, err := agent.Open(c)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			const passes, tick = 8, time.Second // the agent's: a shorter one is read less evenly
			r, meta := a.Recorder(true, recording.NewScrubber(a.Node()), tick)
			w, err := recording.NewWriter(f, meta)
			if err != nil {
				t.Fatal(err)
			}
			shortProcesses(t)
			if err := r.Record(t.Context(), w, passes, tick); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			consistent(t, pipeline.Replay(t, path, passes, 1), 2) // the CPU time of this test and other, on a machine where nothing else runs
		})
	}
}

// shortProcesses runs shells on all processors that start one short process after the other, until
// the test is over. Of each a subshell waits for twenty before it is waited for itself.
func shortProcesses(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running []*exec.Cmd
	for range runtime.NumCPU() {
		c := exec.CommandContext(ctx, "sh", "-c", "while :; do (for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /bin/true; done); done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, c)
	}
	t.Cleanup(func() {
		stop()
		for _, c := range running {
			_ = c.Wait() // it was killed
		}
	})
}

// consistent asks a site everything and counts the figures that it is shown.
func consistent(t *testing.T, s *pipeline.Site, least int) {
	t.Helper()
	list := s.Workloads(client.Filter{})
	shown, stored := 0, 0
	for i := range list {
		shown += figures(&list[i].Row)
		if sum := workload.Kind(list[i].Kind).Sum(); sum || i%7 == 0 { // details of some
			if d := s.Detail(list[i]); sum && len(d.Verdicts) > 0 {
				t.Errorf("%s, which nobody started, is judged: %v", d.ID, d.Verdicts)
			}
		}
	}
	rows := s.Rows()
	for i := range rows {
		stored += figures(&rows[i].Row)
	}
	s.Nodes()
	for _, by := range []string{"owner", "account", "partition", "node", "command", "kind"} {
		for _, span := range []string{"whole", "hour"} {
			s.Usage(client.UsageQuery{Since: s.Now.Add(-24 * time.Hour), Until: s.Now, Span: span, By: []string{by}})
		}
	}
	s.Findings("")
	for _, b := range s.Inconsistent.Broken() {
		t.Errorf("%s breaks %s %d times: %s has %g of %g (%s)", b.Figure, b.Rule, b.Count, b.Subject, b.Value, b.Bound, b.Of)
	}
	if len(list) < least || shown != stored || shown < 8*len(list) {
		t.Errorf("%d of %d figures of %d workloads are shown", shown, stored, len(list))
	}
}

// figures counts the known ones of a run.
func figures(r *figure.Row) (n int) {
	for i := range r.Len() {
		if *r.At(i) != nil {
			n++
		}
	}
	return n
}
