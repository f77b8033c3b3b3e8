package findings

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"

	"reckon/analysis/misuse"
	"reckon/answer/invariant"
	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/store"
)

func TestPolicy(t *testing.T) {
	p, err := ReadPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := p.For("", nil)
	if !d.OverShare.On || d.OverShare.Seconds != 600 || d.OverShare.Full != 0.9 || d.GPUUnused.Minimum.Seconds() != 600 || d.OverRequested.CoreHours != 24 || d.IdleAllocation.GPUIdle.Seconds() != 1800 || d.ManySmallJobs.ShortCount != 1000 || !d.Imbalance.On {
		t.Errorf("%+v", d)
	}
	p, err = ReadPolicy([]byte(`
rules:
  over-requested: {core_hours: 5}
  memory-thrashing: {minimum: 1h}
overrides:
  - {partition: debug, rules: {over-requested: {on: false}}}
  - {node: "gpu*", rules: {gpu-unused: {cpu_share: 0.02, minimum: 2m}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time from the cache
		base, debug, gpu := p.For("cpu", []string{"n1"}), p.For("debug", []string{"n1"}), p.For("debug", []string{"n1", "gpu7"})
		if base.OverRequested.CoreHours != 5 || base.OverRequested.Share != 0.25 || base.MemoryThrashing.Minimum.Seconds() != 3600 || !base.OverRequested.On || base.GPUUnused.CPUShare != 0.1 {
			t.Errorf("base %+v", base)
		}
		if debug.OverRequested.On || debug.GPUUnused.CPUShare != 0.1 || gpu.OverRequested.On || gpu.GPUUnused.CPUShare != 0.02 || gpu.GPUUnused.Minimum.Seconds() != 120 || gpu.OverRequested.CoreHours != 5 {
			t.Errorf("debug %+v\ngpu %+v", debug.OverRequested, gpu.GPUUnused)
		}
	}
	for text, want := range map[string]string{
		"rule: {}":                                                                     "line 1: field rule not found",
		"rules: {gready: {on: false}}":                                                 "field gready not found",
		"rules: {over-requested: {share: 3}}":                                          "over-requested.share: 3 is no share",
		"rules: {over-requested: {minimum: soon}}":                                     `line 1: minimum: "soon" is no duration`,
		"rules: {over-requested: {core_hours: -1}}":                                    "over-requested.core_hours: -1",
		"rules: {many-small-jobs: {count: many}}":                                      "cannot unmarshal",
		"overrides: [{rules: {}}]":                                                     "override 1: no partition or node",
		"overrides: [{partition: p, rules: {over-share: {seconds: 9}}}]":               "override 1: over-share is of a node",
		"overrides: [{partition: p, node: n, rules: {idle-allocation: {zombies: 9}}}]": "override 1: idle-allocation.zombies is of a node",
		"rules: {many-small-jobs: {exempt: ['[']}}":                                    "many-small-jobs.exempt",
		"overrides: [{node: '[', rules: {}}]":                                          "no pattern",
		"overrides: [{node: a, rules: {x: {}}}]":                                       "override 1: ",
		"overrides: [{node: a, rules: {over-share: {full: 7}}}]":                       "override 1: over-share.full",
		"rules: {greedy: {share: 3}}":                                                  "greedy",
		"\tx":                                                                          "",
	} {
		if _, err := ReadPolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestID: the ids of findings did not change when their rules were renamed.
func TestID(t *testing.T) {
	at := time.Unix(1790000000, 0)
	for rule, want := range map[string]string{
		misuse.OverShare: "3b7de4f55bd8", misuse.OverRequested: "b4241444aeaa", misuse.GPUUnused: "fc5ca0bdf925", misuse.IdleAllocation: "6ee10121a5ac", misuse.ManySmallJobs: "9ade144d3dce",
		misuse.MemoryThrashing: "50563dbecd7c", misuse.Imbalance: "f6fc83a41ee8",
	} {
		if got := ID(&misuse.Finding{Rule: rule, Site: "lab", Owner: "alice", Workload: "slurm/1", Node: "n1", Part: "cpu", First: at}); got != want {
			t.Errorf("%s: %s, want %s", rule, got, want)
		}
	}
}

var start = time.Unix(0, 0).UTC()

// lab is a day on two nodes of four cores: on n1 bob and alice compete for the CPUs for three
// hours, on n2 alice is alone.
func lab(t testing.TB) (*Keeper, *time.Time) {
	t.Helper()
	s := promqltest.LoadedStorage(t, `
load 1m
  node_cpu_seconds_total{site="lab",node="n1",cpu="0",mode="idle"} 0+0x300
  node_cpu_seconds_total{site="lab",node="n1",cpu="1",mode="idle"} 0+0x300
  node_cpu_seconds_total{site="lab",node="n1",cpu="2",mode="idle"} 0+0x300
  node_cpu_seconds_total{site="lab",node="n1",cpu="3",mode="idle"} 0+0x300
  node_cpu_seconds_total{site="lab",node="n2",cpu="0",mode="idle"} 0+60x300
  node_cpu_seconds_total{site="lab",node="n2",cpu="1",mode="idle"} 0+60x300
  node_cpu_seconds_total{site="lab",node="n1",cpu="0",mode="user"} 0+240x300
  reckon_workload_cpu_seconds_total{site="lab",node="n1",workload="slurm/1",kind="slurm",owner="alice",mode="user"} 0+90x180 16200+0x120
  reckon_workload_cpu_seconds_total{site="lab",node="n1",workload="slurm/2",kind="slurm",owner="alice",mode="user"} 0+90x180 16200+0x120
  reckon_workload_cpu_seconds_total{site="lab",node="n1",workload="slurm/3",kind="slurm",owner="bob",mode="user"} 0+60x300
  reckon_workload_cpu_wait_seconds_total{site="lab",node="n1",workload="slurm/3",kind="slurm",owner="bob"} 0+120x300
  reckon_workload_cpu_seconds_total{site="lab",node="n2",workload="slurm/4",kind="slurm",owner="alice",mode="user"} 0+118x300
  reckon_workload_cpu_seconds_total{site="lab",node="n3",workload="slurm/5",kind="slurm",owner="carol",mode="user"} 0+240x300
  reckon_workload_cpu_seconds_total{site="lab",node="n4",workload="slurm/5",kind="slurm",owner="carol",mode="user"} 0+0x300
  node_cpu_seconds_total{site="lab",node="n3",cpu="0",mode="idle"} 0+0x300
  node_cpu_seconds_total{site="lab",node="n4",cpu="0",mode="idle"} 0+60x300
  reckon_gpu_info{site="lab",node="n2",device="GPU-1"} 1x300
  reckon_workload_gpu_memory_bytes{site="lab",node="n2",workload="slurm/4",owner="alice",device="GPU-1"} 1e10x300
  reckon_workload_gpu_seconds_total{site="lab",node="n2",workload="slurm/4",owner="alice",device="GPU-1"} 0+30x60 1800+0x240
`)
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	num := func(v float64) *float64 { return &v }
	row := func(id int, owner string, nodes []string, cpu float64) store.Workload {
		return store.Workload{Site: "lab", ID: fmt.Sprintf("slurm/%d", id), Kind: "slurm", Name: "x", Owner: owner, Partition: "all", State: "running", Nodes: nodes,
			Start: start.Add(time.Minute), Seen: start.Add(300 * time.Minute), Row: figure.Row{CPUSeconds: num(cpu), CoresMean: num(cpu / 18000), CoresP95: num(cpu / 18000), RequestCores: num(math4(cpu / 18000))}}
	}
	gpu := row(4, "alice", []string{"n2"}, 35400)
	gpu.RequestGPUs, gpu.GPUSeconds = num(1), num(1800)
	wasteful := row(3, "bob", []string{"n1"}, 18000)
	wasteful.RequestCores, wasteful.CoresP95 = num(16), num(1)
	rows := []store.Workload{row(1, "alice", []string{"n1"}, 16200), row(2, "alice", []string{"n1"}, 16200), wasteful, gpu, row(5, "carol", []string{"n3", "n4"}, 72000)}
	if err := c.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	now := start.Add(300 * time.Minute)
	return &Keeper{
		Evaluator: &Evaluator{Series: s, Facts: c},
		Store:     c, Window: 290 * time.Minute, Clock: func() time.Time { return now },
	}, &now
}

func math4(v float64) float64 { return max(1, v) }

func list(t *testing.T, k *Keeper, f store.FindingFilter) []store.Finding {
	t.Helper()
	out, _, err := k.Store.Findings(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLook(t *testing.T) {
	k, now := lab(t)
	if err := k.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]store.Finding{}
	for _, f := range list(t, k, store.FindingFilter{}) {
		got[f.Rule+" "+f.Owner+" "+f.Node+f.Workload+" "+f.Part] = f
		if f.State != store.FindingNew || f.Found != *now || !strings.Contains(string(f.Evidence), `"value":`) {
			t.Errorf("%+v", f)
		}
	}
	// alice on n1: 3 of 4 cores beside bob's one, for three hours: (3-2)/4 * 170 min.
	h, ok := got["over-share alice n1 cpu"]
	if !ok || h.Severity != "medium" || h.Last.After(start.Add(184*time.Minute)) {
		t.Errorf("alice: %+v", h)
	}
	for _, want := range []string{"over-requested bob slurm/3 cpu", "idle-allocation alice slurm/4 gpu", "imbalance carol slurm/5 nodes"} {
		if _, ok := got[want]; !ok {
			t.Errorf("no %s", want)
		}
	}
	for key := range got {
		if strings.HasPrefix(key, "over-share bob") || strings.HasPrefix(key, "over-share carol") || strings.Contains(key, "n2 cpu") {
			t.Errorf("%s was found", key)
		}
	}
	// The second evaluation notifies nobody again; acknowledgements and mutes stay.
	if _, err := k.Acknowledge(t.Context(), h.ID, "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Mute(t.Context(), got["over-requested bob slurm/3 cpu"].ID, "knows", now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Mute(t.Context(), "none", "", *now); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	looked := *now
	*now = now.Add(30 * time.Second)
	rows, err := k.Evaluator.Facts.Lasting(t.Context(), time.Time{}, time.Time{}, *now, store.GroupMinimum{})
	if err != nil {
		t.Fatal(err)
	}
	hear := func(at time.Time, end bool) {
		t.Helper()
		for i := range rows {
			if rows[i].Seen = at; end {
				rows[i].End, rows[i].State = start.Add(300*time.Minute), "completed"
			}
		}
		if err := k.Evaluator.Facts.(store.Catalogue).Upsert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		if err := k.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	hear(looked, false) // no sample since the evaluation
	for _, f := range list(t, k, store.FindingFilter{}) {
		if f.State != store.FindingNew || f.Seen != looked {
			t.Errorf("without a sample since: %+v", f)
		}
	}
	hear(looked.Add(time.Millisecond), false)
	for _, f := range list(t, k, store.FindingFilter{}) {
		if f.State != store.FindingOpen || !f.Found.Before(*now) {
			t.Errorf("after the second look: %+v", f)
		}
		if f.ID == h.ID && f.AckBy != "root" || f.Rule == "greedy" && f.MuteReason != "knows" {
			t.Errorf("what was said is lost: %+v", f)
		}
	}
	// While the site is disconnected for a week, no finding ends.
	*now = start.Add(7 * 24 * time.Hour)
	hear(start.Add(301*time.Minute), true)
	for _, f := range list(t, k, store.FindingFilter{}) {
		if f.State != store.FindingOpen {
			t.Errorf("cut off: %+v", f)
		}
	}
	// When it is back, findings that are not confirmed are gone, but still stored.
	other := rows[0]
	other.ID, other.Start, other.End, other.Seen = "slurm/9", now.Add(-time.Minute), time.Time{}, *now
	rows = []store.Workload{other}
	hear(*now, false)
	for _, f := range list(t, k, store.FindingFilter{}) {
		if f.State != store.FindingGone || f.ID == h.ID && f.AckBy != "root" {
			t.Errorf("long over: %+v", f)
		}
	}
}

func TestWhatIf(t *testing.T) {
	k, _ := lab(t)
	d, err := k.WhatIf(t.Context(), []byte("rules: {over-share: {seconds: 99999}, over-requested: {core_hours: 10000}}"), start.Add(10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	removed := map[string]bool{}
	for _, f := range d.Removed {
		removed[f.Rule] = true
	}
	if !removed[misuse.OverShare] || !removed[misuse.OverRequested] || len(d.Added) != 0 || len(d.Now)-len(d.Removed) != len(d.Then) {
		t.Errorf("%d now, %d then, removed %v, added %v", len(d.Now), len(d.Then), removed, d.Added)
	}
	if _, err := k.WhatIf(t.Context(), []byte("rules: {over-share: {full: 9}}"), start); err == nil {
		t.Error("a policy that cannot be meant was taken")
	}
	if all := list(t, k, store.FindingFilter{}); len(all) != 0 {
		t.Errorf("asking what if wrote %d findings", len(all))
	}
}

// TestIdleSite: an idle site has no findings.
func TestIdleSite(t *testing.T) {
	s := promqltest.LoadedStorage(t, `
load 1m
  node_cpu_seconds_total{node="n1",cpu="0",mode="idle"} 0+60x100
`)
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e := &Evaluator{Series: s, Facts: c}
	p, err := ReadPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := e.Evaluate(context.Background(), p, start, start.Add(100*time.Minute)); err != nil || len(f) != 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestSteps: the score of a finding is the sum of its steps.
func TestSteps(t *testing.T) {
	k, _ := lab(t)
	if err := k.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := list(t, k, store.FindingFilter{Rules: []string{misuse.OverShare}})
	if len(told) == 0 {
		t.Fatal("nobody has more than a fair share in the lab")
	}
	for _, f := range told {
		_, steps, err := k.Steps(t.Context(), f.ID)
		if err != nil || len(steps) == 0 {
			t.Fatalf("%v %v", steps, err)
		}
		evidence, values, err := Figures(&f)
		if err != nil || len(values) == 0 {
			t.Fatal(err, values)
		}
		sum := 0.0
		for i, s := range steps {
			again := (s.Use - s.Fair) / s.Capacity * s.End.Sub(s.Start).Seconds()
			if d := again - s.Seconds; d > 1e-6 || d < -1e-6 || s.End.Sub(s.Start) > 2*time.Hour || s.Owners < 2 || reasons[s.Why] == "" {
				t.Errorf("%+v adds %g", s, again)
			}
			if i > 0 && s.Node == steps[i-1].Node && s.Start.Before(steps[i-1].End) {
				t.Errorf("%+v overlaps %+v", s, steps[i-1])
			}
			sum += s.Seconds
		}
		if d := sum - evidence[0].Value; d > 1e-6 || d < -1e-6 {
			t.Errorf("the steps add up to %g, the finding says %g", sum, evidence[0].Value)
		}
		if q := Queries(&f); len(q) == 0 {
			t.Error("no queries")
		}
	}
	old := told[0] // of a rule with another score: its steps would contradict it
	old.Evidence = []byte(`[{"text":"score","value":123456,"unit":"seconds"}]`)
	if err := k.Store.PutFindings(t.Context(), []store.Finding{old}); err != nil {
		t.Fatal(err)
	}
	if _, steps, err := k.Steps(t.Context(), old.ID); !errors.Is(err, ErrChanged) || len(steps) != 0 {
		t.Errorf("%d steps of a finding of an older rule: %v", len(steps), err)
	}
	other := list(t, k, store.FindingFilter{Rules: []string{misuse.OverRequested}})
	if _, _, err := k.Steps(t.Context(), other[0].ID); !errors.Is(err, ErrNoSteps) {
		t.Errorf("steps of over-requested: %v", err)
	}
	if _, _, err := k.Steps(t.Context(), "nothing"); !errors.Is(err, ErrUnknown) {
		t.Errorf("steps of nothing: %v", err)
	}
}

// TestInconsistent: a finding that depends on a share above 1 is not stored, and is counted
// once; one with a share of exactly 1 is stored.
func TestInconsistent(t *testing.T) {
	var ledger invariant.Ledger
	e := Evaluator{Inconsistent: &ledger}
	of := func(share float64) *misuse.Finding {
		return &misuse.Finding{Rule: misuse.OverShare, Owner: "alice", Part: "cpu", Evidence: []misuse.Evidence{
			{Text: "score", Value: 5000, Unit: "seconds"}, {Text: "mean share of the capacity in that time", Value: share, Unit: "ratio"}}}
	}
	for _, c := range []struct {
		share float64
		kept  bool
		count int
	}{{1.01, true, 0}, {1.02, false, 1}, {1.02, false, 1}} {
		if kept := e.isConsistent(of(c.share), time.Now()); kept != c.kept {
			t.Errorf("a share of %g: kept is %v", c.share, kept)
		}
		if got := ledger.Broken(); len(got) != c.count || len(got) > 0 && (got[0].Count != 1 || got[0].Figure != misuse.OverShare || got[0].Of != "mean share of the capacity in that time") {
			t.Errorf("%+v", got)
		}
	}
}

// TestQueries: every query is valid PromQL, whatever the names are, and every
// rule and part has one.
func TestQueries(t *testing.T) {
	for _, part := range []string{"over-share cpu", "over-share memory", "over-share gpu", "over-share storage", "gpu-unused cpu", "gpu-unused gpu", "over-requested cpu", "over-requested memory", "idle-allocation gpu", "idle-allocation allocation", "idle-allocation zombies",
		"many-small-jobs cpu", "many-small-jobs short", "memory-thrashing faults", "memory-thrashing swap", "memory-thrashing quota", "imbalance nodes", "imbalance gpus", "many-connections tcp", "storage-pattern metadata", "storage-pattern again", "storage-pattern writer", "cannot-start queue"} {
		rule, p, _ := strings.Cut(part, " ")
		for _, f := range []store.Finding{
			{Rule: rule, Part: p, Owner: "alice", Node: "n1", Workload: "slurm/1", Site: "lab"},
			{Rule: rule, Part: p, Owner: "a\"b\\", Node: "n\n1", Workload: "group/\u202eé{}\x00"},
			{Rule: rule, Part: p, Owner: "alice", Node: "n1"},
		} {
			q := Queries(&f)
			if len(q) == 0 {
				t.Errorf("%s has no query", part)
			}
			for _, x := range q {
				if _, err := parser.NewParser(parser.Options{}).ParseExpr(x.Query); err != nil || x.Text == "" {
					t.Errorf("%s: %s: %v", part, x.Query, err)
				}
			}
		}
	}
}
