package findings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"

	"reckon/analysis/misuse"
	"reckon/catalogue/database"
	"reckon/store"
)

func TestPolicy(t *testing.T) {
	p, err := ReadPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := p.For("", nil)
	if !d.Hog.On || d.Hog.Seconds != 600 || d.Hog.Full != 0.9 || d.Misfit.Minimum.Seconds() != 600 || d.Greedy.CoreHours != 24 || d.Deadweight.GPUIdle.Seconds() != 1800 || d.Vampire.ShortCount != 1000 || !d.Imbalance.On {
		t.Errorf("%+v", d)
	}
	p, err = ReadPolicy([]byte(`
rules:
  greedy: {core_hours: 5}
  thrash: {minimum: 1h}
overrides:
  - {partition: debug, rules: {greedy: {on: false}}}
  - {node: "gpu*", rules: {misfit: {cpu_share: 0.02, minimum: 2m}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time from memory
		base, debug, gpu := p.For("cpu", []string{"n1"}), p.For("debug", []string{"n1"}), p.For("debug", []string{"n1", "gpu7"})
		if base.Greedy.CoreHours != 5 || base.Greedy.Share != 0.25 || base.Thrash.Minimum.Seconds() != 3600 || !base.Greedy.On || base.Misfit.CPUShare != 0.1 {
			t.Errorf("base %+v", base)
		}
		if debug.Greedy.On || debug.Misfit.CPUShare != 0.1 || gpu.Greedy.On || gpu.Misfit.CPUShare != 0.02 || gpu.Misfit.Minimum.Seconds() != 120 || gpu.Greedy.CoreHours != 5 {
			t.Errorf("debug %+v\ngpu %+v", debug.Greedy, gpu.Misfit)
		}
	}
	for text, want := range map[string]string{
		"rule: {}":                                                "line 1: field rule not found",
		"rules: {gready: {on: false}}":                            "field gready not found",
		"rules: {greedy: {share: 3}}":                             "greedy.share: 3 is no share",
		"rules: {greedy: {minimum: soon}}":                        `line 1: minimum: "soon" is no duration`,
		"rules: {greedy: {core_hours: -1}}":                       "greedy.core_hours: -1",
		"rules: {vampire: {count: many}}":                         "cannot unmarshal",
		"overrides: [{rules: {}}]":                                "override 1: say for which",
		"overrides: [{partition: p, rules: {hog: {seconds: 9}}}]": "override 1: hog is of a node",
		"overrides: [{partition: p, node: n, rules: {deadweight: {zombies: 9}}}]": "override 1: deadweight.zombies is of a node",
		"rules: {vampire: {exempt: ['[']}}":                                       "vampire.exempt",
		"overrides: [{node: '[', rules: {}}]":                                     "no pattern",
		"overrides: [{node: a, rules: {x: {}}}]":                                  "override 1: ",
		"overrides: [{node: a, rules: {hog: {full: 7}}}]":                         "override 1: hog.full",
		"\tx": "",
	} {
		if _, err := ReadPolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

var start = time.Unix(0, 0).UTC()

// lab is a day on two nodes of four cores: on n1 bob and alice want the CPUs for three
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
			Start: start.Add(time.Minute), Seen: start.Add(300 * time.Minute), CPUSeconds: num(cpu), CoresMean: num(cpu / 18000), CoresP95: num(cpu / 18000), RequestCores: num(math4(cpu / 18000))}
	}
	gpu := row(4, "alice", []string{"n2"}, 35400)
	gpu.RequestGPUs, gpu.GPUSeconds = num(1), num(1800)
	greedy := row(3, "bob", []string{"n1"}, 18000)
	greedy.RequestCores, greedy.CoresP95 = num(16), num(1)
	rows := []store.Workload{row(1, "alice", []string{"n1"}, 16200), row(2, "alice", []string{"n1"}, 16200), greedy, gpu, row(5, "carol", []string{"n3", "n4"}, 72000)}
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
	h, ok := got["hog alice n1 cpu"]
	if !ok || h.Severity != "medium" || h.Last.After(start.Add(184*time.Minute)) {
		t.Errorf("the hog: %+v", h)
	}
	for _, want := range []string{"greedy bob slurm/3 cpu", "deadweight alice slurm/4 gpu", "imbalance carol slurm/5 nodes"} {
		if _, ok := got[want]; !ok {
			t.Errorf("no %s", want)
		}
	}
	for key := range got {
		if strings.HasPrefix(key, "hog bob") || strings.HasPrefix(key, "hog carol") || strings.Contains(key, "n2 cpu") {
			t.Errorf("%s was found", key)
		}
	}
	// The second look tells nobody again; what people said stays.
	if _, err := k.Acknowledge(t.Context(), h.ID, "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Mute(t.Context(), got["greedy bob slurm/3 cpu"].ID, "knows", now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Mute(t.Context(), "none", "", *now); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	*now = now.Add(30 * time.Second)
	if err := k.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range list(t, k, store.FindingFilter{}) {
		if f.State != store.FindingOpen || !f.Found.Before(*now) {
			t.Errorf("after the second look: %+v", f)
		}
		if f.ID == h.ID && f.AckBy != "root" || f.Rule == "greedy" && f.MuteReason != "knows" {
			t.Errorf("what was said is lost: %+v", f)
		}
	}
	// Much later nothing of it is in the window: gone, and kept.
	*now = start.Add(20 * time.Hour)
	rows, _, err := k.Evaluator.Facts.Workloads(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i].End, rows[i].State = rows[i].Seen, "completed"
	}
	if err := k.Evaluator.Facts.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := k.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range list(t, k, store.FindingFilter{}) {
		if f.State != store.FindingGone {
			t.Errorf("long over: %+v", f)
		}
	}
}

func TestWhatIf(t *testing.T) {
	k, _ := lab(t)
	d, err := k.WhatIf(t.Context(), []byte("rules: {hog: {seconds: 99999}, greedy: {core_hours: 10000}}"), start.Add(10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	removed := map[string]bool{}
	for _, f := range d.Removed {
		removed[f.Rule] = true
	}
	if !removed[misuse.Hog] || !removed[misuse.Greedy] || len(d.Added) != 0 || len(d.Now)-len(d.Removed) != len(d.Then) {
		t.Errorf("%d now, %d then, removed %v, added %v", len(d.Now), len(d.Then), removed, d.Added)
	}
	if _, err := k.WhatIf(t.Context(), []byte("rules: {hog: {full: 9}}"), start); err == nil {
		t.Error("a policy that can not be meant was taken")
	}
	if all := list(t, k, store.FindingFilter{}); len(all) != 0 {
		t.Errorf("asking what if wrote %d findings", len(all))
	}
}

// TestIdleSite: where nothing happens nothing is found.
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

// TestSteps: the score of a finding is the sum of its steps, which anybody can add up.
func TestSteps(t *testing.T) {
	k, _ := lab(t)
	if err := k.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := list(t, k, store.FindingFilter{Rules: []string{misuse.Hog}})
	if len(told) == 0 {
		t.Fatal("no hog in the lab")
	}
	for _, f := range told {
		_, steps, err := k.Steps(t.Context(), f.ID)
		if err != nil || len(steps) == 0 {
			t.Fatalf("%v %v", steps, err)
		}
		var evidence []misuse.Evidence
		if err := json.Unmarshal(f.Evidence, &evidence); err != nil {
			t.Fatal(err)
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
	other := list(t, k, store.FindingFilter{Rules: []string{misuse.Greedy}})
	if _, _, err := k.Steps(t.Context(), other[0].ID); !errors.Is(err, ErrNoSteps) {
		t.Errorf("steps of greedy: %v", err)
	}
	if _, _, err := k.Steps(t.Context(), "nothing"); !errors.Is(err, ErrUnknown) {
		t.Errorf("steps of nothing: %v", err)
	}
}

// TestQueries: every query is PromQL, whatever the names are, and there is one for every
// rule and part.
func TestQueries(t *testing.T) {
	for _, part := range []string{"hog cpu", "hog memory", "hog gpu", "misfit cpu", "misfit gpu", "greedy cpu", "greedy memory", "deadweight gpu", "deadweight allocation", "deadweight zombies",
		"vampire cpu", "vampire short", "thrash faults", "thrash swap", "thrash quota", "imbalance nodes", "imbalance gpus"} {
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
