package pipeline_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/interop/scheduler"
	"reckon/interop/scheduler/slurmctl"
	"reckon/interop/slurmtext"
	"reckon/metric"
	"reckon/test/pipeline"
	"reckon/web/client"
)

// answers are the lines that the commands of a real Slurm 22.05 wrote at a time, with | between fields: jobs of test/e2e's kinds.
type answers struct {
	at            time.Time
	squeue, sacct string
}

// recordedSlurm reads testdata/slurm-22.05.txt: sections that begin with "@ SECOND COMMAND".
func recordedSlurm(t *testing.T) (out []answers) {
	t.Helper()
	f, err := os.Open("testdata/slurm-22.05.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var into *string
	for in := bufio.NewScanner(f); in.Scan(); {
		head := strings.Fields(in.Text())
		if len(head) != 3 || head[0] != "@" {
			*into += in.Text() + "\n"
			continue
		}
		second, err := strconv.ParseInt(head[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		next := answers{at: time.Unix(second, 0).UTC()}
		if len(out) > 0 {
			next.squeue, next.sacct = out[len(out)-1].squeue, out[len(out)-1].sacct
		}
		out = append(out, next)
		if into = &out[len(out)-1].squeue; head[2] == "sacct" {
			into = &out[len(out)-1].sacct
		}
		*into = ""
	}
	return out
}

// replayed is a Slurm that gives recorded answers.
type replayed struct {
	*slurmctl.Commands
	dir                            string
	controllerDown, accountingDown bool
}

var errDown = errors.New("it is down")

func (r *replayed) Jobs(ctx context.Context) ([]scheduler.Job, scheduler.Read, error) {
	if r.controllerDown {
		return nil, scheduler.Read{}, errDown
	}
	return r.Commands.Jobs(ctx)
}

func (r *replayed) Ended(ctx context.Context, since, until time.Time) ([]scheduler.Job, scheduler.Read, error) {
	if r.accountingDown {
		return nil, scheduler.Read{}, errDown
	}
	return r.Commands.Ended(ctx, since, until)
}

func (r *replayed) Nodes(context.Context) ([]scheduler.Node, []scheduler.Partition, scheduler.Read, error) {
	return nil, nil, scheduler.Read{}, errDown
}

// write makes the commands answer so.
func (r *replayed) write(t *testing.T, x answers) {
	t.Helper()
	for name, text := range map[string]string{"squeue": x.squeue, "sacct": x.sacct} {
		if err := os.WriteFile(filepath.Join(r.dir, name+".txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func replay(t *testing.T) *replayed {
	t.Helper()
	r := &replayed{Commands: &slurmctl.Commands{Text: true}, dir: t.TempDir()}
	for _, name := range []string{"squeue", "sacct"} {
		script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *-V*) echo slurm-wlm 22.05.8; exit;; esac\nmark=$(printf '%%s' \"$*\" | sed -n 's/.*\\(\\x1f[A-Z0-9]*\\x1f\\).*/\\1/p;' | head -1)\nsed \"s/|/$mark/g\" %s/%s.txt\n", r.dir, name)
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", r.dir+":"+os.Getenv("PATH"))
	return r
}

// slurmRun is a record of sacct: a run of a job, or one size of it.
type slurmRun struct {
	id, raw, owner     string
	state              string
	submit, start, end time.Time
	from               time.Time // of this size
	cores, suspended   float64
}

func (r *slurmRun) coreSeconds() float64 {
	return r.cores * max(r.end.Sub(r.from).Seconds()-r.suspended, 0)
}

func runsOf(t *testing.T, sacct string) (out []slurmRun) {
	t.Helper()
	for line := range strings.Lines(sacct) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) < 22 || strings.Contains(f[0], ".") {
			continue
		}
		at := func(s string) time.Time { v, _ := strconv.ParseInt(s, 10, 64); return time.Unix(v, 0).UTC() }
		suspended, err := slurmtext.Duration(f[18])
		if err != nil {
			t.Fatal(err)
		}
		r := slurmRun{id: f[0], raw: f[1], owner: f[2], state: f[5], submit: at(f[6]), start: at(f[8]), end: at(f[9]), cores: slurmtext.ReadTRES(f[12]).Cores, suspended: suspended}
		if r.from = r.start; r.submit.After(r.start) {
			r.from = r.submit
		}
		if r.start.Unix() > 0 && r.cores > 0 {
			out = append(out, r)
		}
	}
	return out
}

// TestSlurmHours: what owners were allocated, and when each run began and ended, are what accounting reports, to the second:
// for jobs that were requeued, preempted, suspended, resized and on two nodes, with nodes that saw them end later than Slurm did, and whether
// the controller, accounting or both answer late.
func TestSlurmHours(t *testing.T) {
	recorded := recordedSlurm(t)
	last := recorded[len(recorded)-1]
	runs := runsOf(t, last.sacct)
	first := slices.MinFunc(runs, func(a, b slurmRun) int { return a.start.Compare(b.start) }).start
	for name, late := range map[string]struct{ controller, accounting bool }{
		"in time": {}, "controller late": {controller: true}, "accounting late": {accounting: true}, "both late": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := pipeline.Empty(t, first.Add(-time.Minute).Truncate(export))
			slurm := replay(t)
			slurm.write(t, recorded[0])
			poller := scheduler.NewPoller(slurm, scheduler.Options{Clock: func() time.Time { return s.Now }, Write: func(_ context.Context, b *metric.Batch) error { return s.Append("", b) }})
			next := 0
			for end := last.at.Add(20 * time.Minute); s.Now.Before(end); s.Now = s.Now.Add(export) { // what fails is asked again within ten minutes
				for next < len(recorded) && !recorded[next].at.After(s.Now) {
					slurm.write(t, recorded[next])
					next++
				}
				before, now := s.Now.Before(recorded[0].at), s.Now.Before(last.at.Add(4*time.Minute))
				slurm.controllerDown, slurm.accountingDown = before || late.controller && now, before || late.accounting && now
				measure(t, s, runs)
				poller.Step(t.Context())
				s.Advance()
			}
			checkHours(t, s, runs)
			checkParts(t, s)
		})
	}
}

var (
	nodeCPU   = &metric.Desc{Name: figure.CPU, Kind: metric.Counter, Unit: metric.Seconds, Labels: []string{"workload", "kind", "part", "owner", "mode"}}
	nodeStart = &metric.Desc{Name: figure.StartTime, Kind: metric.Gauge, Unit: metric.Seconds, Labels: []string{"workload", "kind", "part", "owner"}}
	nodeEnd   = &metric.Desc{Name: figure.EndTime, Kind: metric.Gauge, Unit: metric.Seconds, Labels: []string{"workload", "kind", "part", "owner"}}
)

// export is the interval at which nodes export.
const export = 15 * time.Second

// measure exports what a node measures of the runs: each begins a moment after Slurm reports, and is seen to end
// some seconds after it.
func measure(t *testing.T, s *pipeline.Site, runs []slurmRun) {
	t.Helper()
	measureAs(t, s, runs, "", "slurm")
}

// measureAs is measure for an id of another kind; empty: Slurm's kind.
func measureAs(t *testing.T, s *pipeline.Site, runs []slurmRun, id, kind string) {
	t.Helper()
	b := metric.Batch{Time: s.Now}
	unix := func(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
	for i := range runs {
		r := &runs[i]
		begin, end := r.start.Add(400*time.Millisecond), r.end.Add(6400*time.Millisecond)
		if r.state == "RESIZING" || s.Now.Before(begin) || !s.Now.Before(end.Add(export)) {
			continue
		}
		l := []string{cmp.Or(id, "slurm/"+r.raw), kind, "batch", r.owner} // of a task of an array its number alone
		from := len(b.Samples)
		b.Add(metric.NewSeries(nodeCPU, append(slices.Clone(l), "user")...), min(1, s.Now.Sub(begin).Seconds()))
		b.Add(metric.NewSeries(nodeStart, l...), unix(begin))
		if !s.Now.Before(end) {
			b.Add(metric.NewSeries(nodeEnd, l...), unix(end))
			for k := range b.Samples[from:] {
				b.Samples[from+k].Last = true
			}
		}
	}
	if len(b.Samples) > 0 {
		if err := s.Append("n1", &b); err != nil {
			t.Fatal(err)
		}
	}
}

// checkParts: the page of a task of an array shows what nodes measured under its number.
func checkParts(t *testing.T, s *pipeline.Site) {
	t.Helper()
	tasks := 0
	for _, w := range s.Workloads(client.Filter{Kinds: []string{"slurm"}}) {
		if !strings.Contains(w.ID, "_") || w.CPUSeconds == nil {
			continue
		}
		tasks++
		d := s.Detail(w)
		if len(d.Parts) != 1 || d.Parts[0].Node != "n1" || d.Parts[0].Part != "batch" || d.Parts[0].CPUSeconds == nil || *d.Parts[0].CPUSeconds != *w.CPUSeconds {
			t.Errorf("%s used %g s of CPU time, its parts %+v", w.ID, *w.CPUSeconds, d.Parts)
		}
		if len(d.Steps) == 0 || d.Steps[0].CPUSeconds == nil {
			t.Errorf("%s: steps %+v", w.ID, d.Steps)
		}
	}
	if tasks == 0 {
		t.Error("no task of an array was measured")
	}
}

func checkHours(t *testing.T, s *pipeline.Site, runs []slurmRun) {
	t.Helper()
	type ending struct {
		state string
		at    int64
	}
	want, owners := map[string]ending{}, map[string]float64{}
	for i := range runs {
		r := &runs[i]
		if owners[r.owner] += r.coreSeconds(); r.state != "RESIZING" { // the record behind it is of the whole run
			state, _, _ := strings.Cut(strings.ToLower(r.state), " ") // by whom
			want[fmt.Sprintf("slurm/%s %d", r.id, r.start.Unix())] = ending{state, r.end.Unix()}
		}
	}
	for _, w := range s.Rows() {
		if w.Kind != "slurm" || w.Waits() || w.State == "started" || w.AllocatedCores == nil && !w.Submit.IsZero() {
			continue // it never ran
		}
		k := fmt.Sprintf("%s %d", w.ID, w.Start.Unix())
		if got := (ending{w.State, w.End.Unix()}); got != want[k] {
			t.Errorf("%s: %+v, sacct says %+v", k, got, want[k])
		}
		delete(want, k)
	}
	for k, v := range want {
		t.Errorf("no row of %s, %+v", k, v)
	}
	list := s.Usage(client.UsageQuery{Span: "whole", By: []string{"owner"}, Since: s.Now.Add(-24 * time.Hour), Until: s.Now})
	for _, u := range list.Rows {
		got := math.NaN()
		if u.HeldCoreSeconds != nil {
			got = *u.HeldCoreSeconds
		}
		if held := owners[u.Owner]; !(math.Abs(got-held) <= 0.5) {
			t.Errorf("%s was allocated %g core seconds, sacct says %g", u.Owner, got, held)
		}
		delete(owners, u.Owner)
	}
	if len(owners) > 0 {
		t.Errorf("without usage: %v", owners)
	}
}
