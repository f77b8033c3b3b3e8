package answer_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/answer"
	"reckon/catalogue/database"
	"reckon/figure/wire"
)

var runStart = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

// podSeries are samples of an agent by the UID of the pod.
type podSeries map[string][]wire.ProbeSample

func (p podSeries) PodSamples(_ context.Context, _, uid string, _, _ time.Time) ([]wire.ProbeSample, error) {
	return p[uid], nil
}

func openRuns(t *testing.T, agent answer.PodSeries) *answer.MetricRuns {
	t.Helper()
	db, err := database.Open(filepath.Join(t.TempDir(), "catalogue.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &answer.MetricRuns{Store: db, Agent: agent, Clock: func() time.Time { return runStart.Add(time.Hour) }}
}

// samplesAt returns n samples of one second each, numbered from first, of a noisy load of so many cores.
func samplesAt(rnd *rand.Rand, first, n int64, cores, noise float64) (out []wire.ProbeSample) {
	for i := first; i < first+n; i++ {
		from := runStart.Add(time.Duration(i-1) * time.Second)
		cpu, resident := cores+noise*rnd.NormFloat64(), 1e6
		out = append(out, wire.ProbeSample{Seq: i, From: from, To: from.Add(time.Second), Total: wire.ProbeUse{CPUSeconds: &cpu, ResidentBytes: &resident},
			Commands: []wire.ProbeRow{{Command: "work", Count: 1, ProbeUse: wire.ProbeUse{CPUSeconds: &cpu}}}})
	}
	return out
}

func header(attach string) wire.MetricRun {
	return wire.MetricRun{Set: "demo", Outcome: "Running", Started: runStart, Metrics: []wire.MetricRunMetric{{Name: "perf-sysstat", Job: "perf-sysstat-0", Attach: attach, Options: map[string]string{"rate": "1"}}}}
}

func pod(uid string) wire.MetricRunPod {
	return wire.MetricRunPod{Name: "demo-" + uid, UID: uid, Job: "perf-sysstat-0", Node: "n1"}
}

// TestKeepTwice: an operator that was killed resends updates without an acknowledgement; nothing is lost or duplicated.
func TestKeepTwice(t *testing.T) {
	m, ctx, rnd := openRuns(t, nil), t.Context(), rand.New(rand.NewPCG(1, 1))
	all := samplesAt(rnd, 1, 10, 0.3, 0.01)
	send := func(h wire.MetricRun, p wire.MetricRunPod, samples []wire.ProbeSample) wire.MetricRunKept {
		t.Helper()
		h.Pods = []wire.MetricRunPod{p}
		k, err := m.Keep(ctx, "bench", "demo-1", wire.MetricRunUpdate{Run: h, Pod: p.UID, Samples: samples})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if k := send(header("sidecar"), pod("a"), nil); k.Samples != 0 {
		t.Errorf("%+v", k)
	}
	probe := runStart
	p := pod("a")
	p.Probe, p.Kernel = &probe, "6.18.0"
	send(wire.MetricRun{}, p, all[:6])
	if k := send(wire.MetricRun{}, pod("a"), all[3:8]); k.Samples != 8 || !k.Start.Equal(probe) || !k.Last.Equal(all[7].To) {
		t.Errorf("after an overlap: %+v", k)
	}
	end := runStart.Add(10 * time.Second)
	before := runStart.Add(-5 * time.Second) // the operator came later than the pod began
	p.Ended, p.Started = "completions", &before
	send(wire.MetricRun{Outcome: "Finished", Finished: &end}, p, all[7:])
	send(header("sidecar"), pod("a"), all) // late, and from before the end
	r, err := m.Run(ctx, "bench", "demo-1")
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for _, s := range all {
		want += *s.Total.CPUSeconds
	}
	if got := r.Pods[0]; r.Outcome != "Finished" || !r.Started.Equal(before) || r.Samples != 10 || got.Samples != 10 || math.Abs(*got.Total.CPUSeconds-want) > 1e-9 || got.Kernel != "6.18.0" || got.Ended != "completions" ||
		len(got.Commands) != 1 || math.Abs(*got.Commands[0].CPUSeconds-want) > 1e-9 || !got.First.Equal(runStart) || !got.Last.Equal(end) {
		t.Errorf("run %+v", r)
	}
	s, err := m.Samples(ctx, "bench", "demo-1")
	if err != nil || len(s.Pods) != 1 || len(s.Pods[0].Samples) != 10 || !s.Pods[0].Samples[4].From.Equal(all[4].From) || *s.Pods[0].Samples[4].Total.CPUSeconds != *all[4].Total.CPUSeconds {
		t.Errorf("samples %+v, %v", s, err)
	}
}

// TestKeepLog: figures are parsed from the log that the operator sends at the end of a run, but not
// from the log of an imported run, which brings its own figures.
func TestKeepLog(t *testing.T) {
	m, ctx := openRuns(t, nil), t.Context()
	m.Parse = func(log string) ([]wire.MetricRunReport, string, string) {
		return []wire.MetricRunReport{{Name: "bw", Unit: "bytes_per_second", Values: []float64{float64(len(log))}}}, "", "its end is missing"
	}
	keep := func(name string, r wire.MetricRun) {
		t.Helper()
		if _, err := m.Keep(ctx, "shop", name, wire.MetricRunUpdate{Run: r}); err != nil {
			t.Fatal(err)
		}
	}
	for name, origin := range map[string]string{"a": "operator", "b": "metricset-log"} {
		h := header("")
		h.Origin = origin
		keep(name, h)
		end := wire.MetricRun{Pods: []wire.MetricRunPod{pod("a")}}
		if end.Pods[0].Text = "four"; origin != "operator" {
			end.Set, end.Origin, end.Outcome, end.Started = h.Set, origin, "Finished", h.Started
		}
		keep(name, end)
		keep(name, wire.MetricRun{Outcome: "Finished", Pods: []wire.MetricRunPod{pod("a")}}) // without the log
		r, err := m.Run(ctx, "shop", name)
		if err != nil {
			t.Fatal(err)
		}
		p := r.Pods[0]
		if parsed := len(p.Reported) == 1 && p.Reported[0].Values[0] == 4 && p.Text == "" && p.Incomplete != ""; parsed != (origin == "operator") || !parsed && p.Text != "four" {
			t.Errorf("%s: %+v", origin, p)
		}
	}
}

func TestKeepRefuses(t *testing.T) {
	m, ctx, rnd := openRuns(t, nil), t.Context(), rand.New(rand.NewPCG(1, 1))
	good := samplesAt(rnd, 1, 2, 1, 0)
	for name, c := range map[string]struct {
		namespace string
		u         wire.MetricRunUpdate
		want      error
	}{
		"no run":             {"bench", wire.MetricRunUpdate{Run: wire.MetricRun{Outcome: "Finished"}}, answer.ErrNotFound},
		"no namespace":       {"", wire.MetricRunUpdate{Run: header("")}, answer.ErrInvalid},
		"slash":              {"a/b", wire.MetricRunUpdate{Run: header("")}, answer.ErrInvalid},
		"samples of nobody":  {"bench", wire.MetricRunUpdate{Run: header(""), Samples: good}, answer.ErrInvalid},
		"backwards":          {"bench", wire.MetricRunUpdate{Run: wire.MetricRun{Set: "x", Pods: []wire.MetricRunPod{pod("a")}}, Pod: "a", Samples: []wire.ProbeSample{good[1], good[0]}}, answer.ErrInvalid},
		"ends as it begins":  {"bench", wire.MetricRunUpdate{Run: wire.MetricRun{Set: "x", Pods: []wire.MetricRunPod{pod("a")}}, Pod: "a", Samples: []wire.ProbeSample{{Seq: 1, From: runStart, To: runStart}}}, answer.ErrInvalid},
		"the same pod twice": {"bench", wire.MetricRunUpdate{Run: wire.MetricRun{Set: "x", Pods: []wire.MetricRunPod{pod("a"), pod("a")}}}, answer.ErrInvalid},
	} {
		if _, err := m.Keep(ctx, c.namespace, "demo-1", c.u); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := m.Run(ctx, "bench", "demo-1"); !errors.Is(err, answer.ErrNotFound) {
		t.Errorf("what was refused is there: %v", err)
	}
}

// TestCompareRuns: two equal runs differ by noise, a run with a tenth more work differs, and differing conditions are named.
func TestCompareRuns(t *testing.T) {
	m, ctx, rnd := openRuns(t, nil), t.Context(), rand.New(rand.NewPCG(7, 7))
	for name, cores := range map[string]float64{"same-1": 1, "same-2": 1, "more": 1.1} {
		h, p := header("sidecar"), pod("a")
		if name == "more" {
			p.Images = map[string]string{"app": "sha256:other"}
		}
		p.Result = &wire.ProbeResult{Metric: "network-probe", Pairs: []wire.ProbePair{{MedianSeconds: 1e-4}, {MedianSeconds: 2e-4}, {MedianSeconds: 3e-4}}}
		h.Pods = []wire.MetricRunPod{p}
		if _, err := m.Keep(ctx, "bench", name, wire.MetricRunUpdate{Run: h, Pod: "a", Samples: samplesAt(rnd, 1, 60, cores, 0.05)}); err != nil {
			t.Fatal(err)
		}
	}
	figure := func(c wire.MetricRunComparison, name string) wire.MetricRunDifference {
		for _, f := range c.Figures {
			if f.Figure == name {
				return f
			}
		}
		t.Errorf("no %s in %+v", name, c.Figures)
		return wire.MetricRunDifference{}
	}
	c, err := m.Compare(ctx, []string{"bench/same-1"}, []string{"bench/same-2"})
	if err != nil {
		t.Fatal(err)
	}
	if f := figure(c, "cores"); f.Verdict != "noise" || *f.Low > 0 || *f.High < 0 || f.NA != 60 || len(c.Differs) != 0 {
		t.Errorf("equal runs: %+v", f)
	}
	if f := figure(c, "CPU time"); f.Verdict != "untested" || f.Why == "" || f.P != nil {
		t.Errorf("one value: %+v", f)
	}
	if f := figure(c, "resident memory"); f.Verdict != "noise" || !strings.Contains(f.Test, "no value varies") {
		t.Errorf("what never varies: %+v", f)
	}
	if c, err = m.Compare(ctx, []string{"bench/same-1"}, []string{"bench/more"}); err != nil {
		t.Fatal(err)
	}
	if f := figure(c, "cores"); f.Verdict != "differs" || *f.Low < 0.05 || *f.High > 0.15 || *f.Ratio < 0.05 {
		t.Errorf("a tenth more: %+v", f)
	}
	if len(c.Differs) != 1 || c.Differs[0].What != "image of app" || c.Differs[0].B != "sha256:other" {
		t.Errorf("conditions %+v", c.Differs)
	}
	if c, err = m.Compare(ctx, []string{"bench/same-1", "bench/same-2"}, []string{"bench/more"}); err != nil {
		t.Fatal(err)
	}
	if f := figure(c, "cores"); f.Verdict != "untested" || f.NA != 2 || f.NB != 1 {
		t.Errorf("two runs against one: %+v", f)
	}
	if _, err := m.Compare(ctx, []string{"bench/same-1"}, []string{"bench/gone"}); !errors.Is(err, answer.ErrNotFound) {
		t.Errorf("a run that is not there: %v", err)
	}
}

// TestAgentRun: measurements of the node's agent are in the answer at once, and are stored when the run is over.
func TestAgentRun(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	agent := podSeries{"a": samplesAt(rnd, 1, 5, 0.3, 0)}
	m, ctx := openRuns(t, agent), t.Context()
	h, p, end := header("agent"), pod("a"), runStart.Add(5*time.Second)
	p.Started, p.Finished = &runStart, &end
	h.Pods, h.Outcome, h.Finished = []wire.MetricRunPod{p}, "Finished", &end
	if _, err := m.Keep(ctx, "bench", "demo-1", wire.MetricRunUpdate{Run: h}); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		r, err := m.Run(ctx, "bench", "demo-1")
		if err != nil || r.Samples != 5 || r.Pods[0].Samples != 5 || math.Abs(*r.Pods[0].Total.CPUSeconds-1.5) > 1e-9 {
			t.Errorf("%s: %+v, %v", when, r, err)
		}
	}
	check("from the series")
	m.Clock = func() time.Time { return end.Add(3*time.Minute - time.Second) }
	if n, err := m.Settle(ctx, runStart.Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("settled too early: %d, %v", n, err)
	}
	m.Clock = func() time.Time { return end.Add(3 * time.Minute) }
	if n, err := m.Settle(ctx, runStart.Add(-time.Hour)); n != 1 || err != nil {
		t.Errorf("not settled: %d, %v", n, err)
	}
	delete(agent, "a")
	check("after the series are gone")
}

// TestAgentCompletions: of the agent's samples, as many as requested belong to the run, or all if there are fewer.
func TestAgentCompletions(t *testing.T) {
	for asked, want := range map[string]int64{"": 5, "0": 5, "4": 4, "5": 5, "6": 5} {
		agent := podSeries{"a": samplesAt(rand.New(rand.NewPCG(3, 3)), 1, 5, 0.3, 0)}
		m, ctx := openRuns(t, agent), t.Context()
		h, p, end := header("agent"), pod("a"), runStart.Add(5*time.Second)
		h.Metrics[0].Options = map[string]string{"completions": asked}
		p.Started, p.Finished = &runStart, &end
		h.Pods, h.Outcome, h.Finished = []wire.MetricRunPod{p}, "Finished", &end
		if _, err := m.Keep(ctx, "bench", "demo-1", wire.MetricRunUpdate{Run: h}); err != nil {
			t.Fatal(err)
		}
		r, err := m.Run(ctx, "bench", "demo-1")
		if err != nil || r.Pods[0].Samples != want || math.Abs(*r.Pods[0].Total.CPUSeconds-0.3*float64(want)) > 1e-9 {
			t.Errorf("completions %q: %+v, %v", asked, r, err)
		}
	}
}
