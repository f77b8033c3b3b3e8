package answer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/metric"
	"reckon/query"
	"reckon/store/tsdb"
	"reckon/workload"
)

// history is a store filled with samples.
type history struct {
	t   *testing.T
	s   *tsdb.Store
	now time.Time
}

func newHistory(t *testing.T) *history {
	s, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(t.TempDir(), "series"), Ahead: -1, OutOfOrder: 90 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &history{t, s, time.Now().UTC().Truncate(time.Minute).Add(-time.Hour)}
}

// put appends one sample; labels are passed in pairs after the name.
func (h *history) put(at time.Time, node, name string, v float64, pairs ...string) {
	h.t.Helper()
	d := &metric.Desc{Name: name, Kind: metric.Gauge}
	var values []string
	for i := 0; i < len(pairs); i += 2 {
		d.Labels, values = append(d.Labels, pairs[i]), append(values, pairs[i+1])
	}
	b := metric.Batch{Time: at}
	b.Add(metric.NewSeries(d, values...), v)
	if err := h.s.Append(h.t.Context(), map[string]string{"site": "lab", "node": node}, &b); err != nil {
		h.t.Fatal(err)
	}
}

// run is one run of a job with even use on each of its nodes.
type run struct {
	id, name, owner string
	start           time.Time
	wall            time.Duration
	asked, used     float64 // cores, sum over all nodes
	memory          float64 // peak on the first node; half of it on the others
	code            float64
	nodes           []string
	works           time.Duration // it sleeps from then on, if that is before its end
}

func (h *history) job(r run) {
	if r.nodes == nil {
		r.nodes = []string{"n1"}
	}
	who := []string{"workload", r.id, "kind", string(workload.ID(r.id).Kind()), "part", "0", "owner", r.owner}
	end := r.start.Add(r.wall)
	for i, node := range r.nodes {
		n := float64(len(r.nodes))
		for at := r.start.Add(15 * time.Second); ; at = at.Add(15 * time.Second) {
			if at.After(end) {
				at = end
			}
			h.put(at, node, "reckon_workload_start_time_seconds", float64(r.start.UnixMilli())/1000, who...)
			h.put(at, node, "reckon_workload_info", 1, append(who, "name", r.name)...)
			busy := at.Sub(r.start).Seconds()
			if r.works > 0 {
				busy = min(busy, r.works.Seconds())
			}
			h.put(at, node, "reckon_workload_cpu_seconds_total", r.used/n*busy, append(who, "mode", "user")...)
			h.put(at, node, "reckon_command_cpu_seconds_total", r.used/n*busy, append(who, "command", "solver")...)
			h.put(at, node, "reckon_workload_memory_peak_bytes", r.memory/float64(min(i+1, 2)), who...)
			h.put(at, node, "reckon_workload_request_cores", r.asked/n, who...)
			if at.Equal(end) {
				break
			}
		}
		h.put(end, node, "reckon_workload_end_time_seconds", float64(end.UnixMilli())/1000, who...)
		h.put(end, node, "reckon_workload_exit_code", r.code, who...)
	}
}

// site answers questions from a history.
type site struct {
	*Jobs
	scale *Scale
}

func (h *history) site() site {
	h.t.Helper()
	c, err := database.Open(filepath.Join(h.t.TempDir(), "catalogue.db"), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = c.Close() })
	if _, err := catalogue.NewBuilder(h.s, c, catalogue.BuilderOptions{Gone: time.Minute}).Advance(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	views := query.New(h.s, query.Options{Gone: time.Minute})
	return site{&Jobs{Catalogue: c, Views: views, Series: h.s, Engine: query.NewEngine(query.EngineOptions{}), Clock: time.Now}, &Scale{Catalogue: c, Views: views}}
}

// Scale answers for the latest run of an id.
func (s site) Scale(ctx context.Context, id string) (wire.Scale, error) {
	list, err := s.Workloads(ctx, wire.Filter{IDs: []string{id}, Sort: "-start", Limit: 1})
	if err != nil || len(list.Workloads) == 0 {
		return wire.Scale{}, fmt.Errorf("%d workloads: %w", len(list.Workloads), err)
	}
	return s.scale.Scale(ctx, list.Workloads[0])
}

func said(list []wire.Verdict, text string) bool { return times(list, text) > 0 }

func times(list []wire.Verdict, text string) (n int) {
	for _, v := range list {
		if strings.Contains(v.Text, text) {
			n++
		}
	}
	return n
}

// TestAdviceWaitsForAccounting: a job that has just ended gets no advice before its batch system reported how it ended, or a minute passed.
func TestAdviceWaitsForAccounting(t *testing.T) {
	h := newHistory(t)
	h.job(run{id: "slurm/1", name: "train", owner: "alice", start: h.now, wall: 4 * time.Minute, asked: 4, used: 0.5, memory: 1 << 30, nodes: []string{"n1"}})
	s := h.site()
	end := h.now.Add(4 * time.Minute)
	list, err := s.Workloads(t.Context(), wire.Filter{})
	if err != nil || len(list.Workloads) != 1 {
		t.Fatal(list, err)
	}
	w := list.Workloads[0]
	for _, c := range []struct {
		after  time.Duration
		state  string
		advice bool
	}{{36 * time.Second, "", false}, {61 * time.Second, "", true}, {36 * time.Second, "completed", true}} {
		s.Clock = func() time.Time { return end.Add(c.after) }
		w.State = c.state
		d, err := s.Workload(t.Context(), w, wire.Range{})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Advice != nil; got != c.advice {
			t.Errorf("%s after its end in the state %q: advice %+v", c.after, c.state, d.Advice)
		}
		if c.advice != (d.NoAdvice == nil) || d.NoAdvice != nil && !strings.Contains(d.NoAdvice.Text, "the batch system has reported") {
			t.Errorf("%s after its end: no advice because %+v", c.after, d.NoAdvice)
		}
	}
	s.Clock = func() time.Time { return end.Add(time.Hour) }
	for why, c := range map[string]struct {
		kind, state          string
		running, end, silent bool
		wall                 float64
	}{
		"a session requests nothing, so there is no advice":                           {kind: "session", running: true},
		"no advice yet: a job that waits gets it from the first run of its name":      {kind: "slurm", state: "pending"},
		"no advice yet: a service gets it after two days of exact figures":            {kind: "unit", running: true},
		"no advice yet: it comes when a run has ended":                                {kind: "group", running: true},
		"no advice: whether and when it ended is unknown":                             {kind: "slurm", silent: true},
		"no advice: cores need an exactly measured run of 30 s or more, memory an ex": {kind: "group", end: true, wall: 30},
		"no advice: it ran for less than 30 s":                                        {kind: "group", end: true},
	} {
		x := w
		x.Kind, x.ID, x.State, x.Running, x.Lost, x.End = c.kind, c.kind+"/2", c.state, c.running, c.silent, nil
		x.WallSeconds, x.MemoryPeakBytes, x.MemoryNeededPeakBytes = c.wall, nil, nil
		if c.end {
			x.End = &w.Start
		}
		d, err := s.Workload(t.Context(), x, wire.Range{})
		if err != nil || d.Advice != nil || d.NoAdvice == nil || !strings.HasPrefix(d.NoAdvice.Text, why) || d.NoAdvice.Sentence == nil {
			t.Errorf("%s %s: %+v, %+v, %v; want %q", c.kind, c.state, d.Advice, d.NoAdvice, err, why)
		}
	}
}

// TestAdviceOfGroup: a process group is advised by its own run, once it has ended: others of the name of its shell are other work.
func TestAdviceOfGroup(t *testing.T) {
	h := newHistory(t)
	for i, memory := range []float64{8 << 30, 1 << 30} {
		h.job(run{id: fmt.Sprintf("group/n1/%d-1795640977", i+1), name: "bash", owner: "alice", start: h.now, wall: 4 * time.Minute, used: 1,
			memory: memory, nodes: []string{"n1"}})
	}
	s := h.site()
	list, err := s.Workloads(t.Context(), wire.Filter{IDs: []string{"group/n1/2-1795640977"}})
	if err != nil || len(list.Workloads) != 1 {
		t.Fatal(list, err)
	}
	w := list.Workloads[0]
	d, err := s.Workload(t.Context(), w, wire.Range{})
	if err != nil || d.Advice == nil || d.Advice.Runs != 1 || orZero(d.Advice.MemoryBytes) != 1.25*(1<<30) || d.Advice.Seconds != nil || d.Advice.Paste != "" {
		t.Fatalf("%+v %v", d.Advice, err)
	}
	w.Running, w.End = true, nil
	if d, err = s.Workload(t.Context(), w, wire.Range{}); err != nil || d.Advice != nil {
		t.Errorf("while it runs: %+v %v", d.Advice, err)
	}
}

// TestRest: a run that works no more says since when, and is not advised more time.
func TestRest(t *testing.T) {
	h := newHistory(t)
	const wall = 20 * time.Minute
	for id, works := range map[string]time.Duration{
		"slurm/1": 4 * time.Minute, "slurm/2": 15 * time.Minute, "slurm/3": wall, "slurm/4": time.Second,
	} {
		h.job(run{id: id, name: id, owner: "alice", start: h.now, wall: wall, asked: 1, used: 0.9, works: works,
			nodes: []string{"n1", "n2"}})
	}
	// What one of its nodes did last is not known.
	five := run{id: "slurm/5", name: "5", owner: "alice", start: h.now, wall: wall, asked: 1, used: 0.9, works: time.Minute}
	h.job(five)
	five.nodes, five.wall = []string{"n2"}, 5*time.Minute
	h.job(five)
	s := h.site()
	for _, c := range []struct {
		id, state string
		says, not string
		rest      float64
		more      bool // time is advised
		gpu       bool // it has one, of which nothing was measured
		lacks     bool // CPU time is a lower bound
	}{
		{"slurm/1", "timeout", "was ended, but had used next to no CPU time for its last 16 min: find out", "ask for more time", 960,
			false, false, false},
		{"slurm/1", "running", "it has used next to no CPU time for 16 min", "for its last", 960, false, false, false},
		{"slurm/1", "suspended", "", "no CPU time", 960, false, false, false},
		{"slurm/1", "cancelled", "it used next to no CPU time for its last 16 min", "", 960, false, false, false},
		{"slurm/2", "timeout", "ask for more time", "no CPU time", 300, true, false, false},
		{"slurm/3", "timeout", "ask for more time", "no CPU time", 0, true, false, false},
		{"slurm/1", "timeout", "ask for more time", "no CPU time", 960, true, true, false},
		{"slurm/1", "timeout", "ask for more time", "no CPU time", 960, true, false, true},
		{"slurm/1", "cancelled", "", "no CPU time", 960, false, true, false},
		{"slurm/5", "timeout", "ask for more time", "no CPU time", 0, true, false, false},
		{"slurm/4", "timeout", "more time would not help", "ask for more time", 1185, false, false, false},
	} {
		list, err := s.Workloads(t.Context(), wire.Filter{IDs: []string{c.id}})
		if err != nil || len(list.Workloads) != 1 {
			t.Fatal(list, err)
		}
		w := list.Workloads[0]
		w.AllocatedCores = new(1.0)
		if c.gpu {
			w.AllocatedGPUs = new(1.0)
		}
		if c.lacks {
			w.Exactness.Add("cpu_seconds", figure.AtLeast)
		}
		if w.State = c.state; c.state == "running" || c.state == "suspended" {
			w.Running, w.End = true, nil
		}
		d, err := s.Workload(t.Context(), w, wire.Range{})
		if err != nil {
			t.Fatal(err)
		}
		if (d.RestSeconds == nil) != (c.rest == 0) || math.Abs(orZero(d.RestSeconds)-c.rest) > 16 {
			t.Errorf("%s %s: rest %v, want %g", c.id, c.state, d.RestSeconds, c.rest)
		}
		if c.says != "" && !said(d.Verdicts, c.says) || c.not != "" && said(d.Verdicts, c.not) {
			t.Errorf("%s %s: %+v", c.id, c.state, d.Verdicts)
		}
		w.Nodes = append(slices.Clone(w.Nodes), "unmeasured")
		if other, err := s.Workload(t.Context(), w, wire.Range{}); err != nil || other.RestSeconds != nil {
			t.Errorf("%s %s: with a node that was not measured: rest %v, %v", c.id, c.state, other.RestSeconds, err)
		}
		if n := times(d.Verdicts, "no CPU time"); n > 1 {
			t.Errorf("%s %s: said %d times: %+v", c.id, c.state, n, d.Verdicts)
		}
		if c.state == "timeout" && (d.Advice != nil && d.Advice.Seconds != nil) != c.more {
			t.Errorf("%s %s: advice %+v", c.id, c.state, d.Advice)
		}
	}
}

// TestScaleOfRuns finds the serial fraction that the runs were generated with, using only runs of the
// same work.
func TestScaleOfRuns(t *testing.T) {
	h := newHistory(t)
	for i, n := range []float64{1, 2, 4, 8} {
		wall := time.Duration(400*(0.2+0.8/n)*1000) * time.Millisecond
		h.job(run{id: fmt.Sprintf("slurm/%d", 10+i), name: "cfd", owner: "alice", start: h.now.Add(time.Duration(-60+10*i) * time.Minute), wall: wall, asked: n, used: 400 / wall.Seconds(), memory: 1 << 30})
	}
	h.job(run{id: "slurm/20", name: "cfd", owner: "alice", start: h.now.Add(-5 * time.Minute), wall: 20 * time.Second, asked: 16, used: 1, code: 1}) // failed
	h.job(run{id: "slurm/21", name: "cfd", owner: "bob", start: h.now.Add(-5 * time.Minute), wall: 100 * time.Second, asked: 32, used: 1})           // another user's
	h.job(run{id: "slurm/22", name: "cfd*", owner: "alice", start: h.now.Add(-5 * time.Minute), wall: 100 * time.Second, asked: 64, used: 8})        // another name
	c := h.site()
	s, err := c.Scale(t.Context(), "slurm/13")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Runs) != 4 || s.LeftOut != 1 || s.Amdahl == nil || math.Abs(s.Amdahl.Serial-0.2) > 0.01 || s.Amdahl.Error == nil || *s.Amdahl.Error > 0.01 || math.Abs(*s.Amdahl.SpeedupLimit-5) > 0.3 {
		t.Errorf("%d runs, %d left out, %+v", len(s.Runs), s.LeftOut, s.Amdahl)
	}
	if r := s.Runs[3]; r.Cores != 8 || r.CoresFrom != "requested" || r.Speedup == nil || math.Abs(*r.Speedup-3.33) > 0.05 {
		t.Errorf("%+v", r)
	}
	if !said(s.Verdicts, "20 % of the work does not run in parallel") || !said(s.Verdicts, "4 runs at 4 sizes, 1 to 8 cores") {
		t.Errorf("%+v", s.Verdicts)
	}
	alone, err := c.Scale(t.Context(), "slurm/22")
	if err != nil || len(alone.Runs) != 1 || alone.Amdahl != nil || alone.USL != nil || alone.Runs[0].Speedup != nil || !said(alone.Verdicts, "1 run at one size (64 cores): its scaling is unknown") {
		t.Errorf("%+v %v", alone, err)
	}
}

// TestScaleOfGrowingWork expects no scaling law when the CPU time grows in proportion to the cores.
func TestScaleOfGrowingWork(t *testing.T) {
	h := newHistory(t)
	for i, n := range []float64{1, 2, 4, 8} {
		wall := time.Duration(100+2*n) * time.Second
		h.job(run{id: fmt.Sprintf("slurm/%d", 10+i), name: "weak", owner: "alice", start: h.now.Add(time.Duration(-60+10*i) * time.Minute), wall: wall, asked: n, used: n, memory: 1 << 30})
	}
	s, err := h.site().Scale(t.Context(), "slurm/13")
	if err != nil || s.Amdahl != nil || s.USL != nil || s.Weak == nil || len(s.Runs) != 4 || s.Runs[0].Speedup != nil {
		t.Fatalf("%+v %v", s, err)
	}
	if w := s.Weak; w.FromCores != 1 || w.ToCores != 8 || w.Sizes != 4 || math.Abs(w.Efficiency-102.0/116) > 0.001 || math.Abs(w.CPUGrowth-8*116.0/102) > 0.01 {
		t.Errorf("%+v", w)
	}
	if !said(s.Verdicts, "if the work grew with the cores (weak scaling), they work with 88 % of the efficiency of 1 core") {
		t.Errorf("%+v", s.Verdicts)
	}
}

// TestJobAnswers checks events, balance, split profiles and advice.
func TestJobAnswers(t *testing.T) {
	h := newHistory(t)
	begin := h.now.Add(-30 * time.Minute)
	two := run{id: "slurm/7", name: "sim", owner: "alice", start: begin, wall: 5 * time.Minute, asked: 8, used: 4, memory: 6 << 30, nodes: []string{"n1", "n2"}}
	h.job(two)
	older := two
	older.start, older.owner, older.nodes = begin.Add(-24*time.Hour), "bob", nil
	h.job(older)
	who := []string{"workload", "slurm/7", "kind", "slurm", "part", "0", "owner", "alice"}
	for i, v := range []float64{0, 1, 1, 3} {
		h.put(begin.Add(time.Duration(i+1)*15*time.Second), "n2", "reckon_workload_oom_kills_total", v, who...)
	}
	for i, v := range []float64{0, 5, 10, 10.01, 10.01, 12} {
		h.put(begin.Add(time.Duration(i+1)*15*time.Second), "n1", "reckon_workload_cpu_throttled_seconds_total", v, who...)
	}
	// A request of the whole workload on a node: it must not count as a part, which would prevent judging balance.
	h.put(begin.Add(time.Minute), "n1", "reckon_workload_request_memory_bytes", 8<<30, "workload", "slurm/7", "kind", "slurm", "part", "", "owner", "alice")
	for i, v := range []float64{100, 200} {
		h.put(begin.Add(time.Duration(i+1)*15*time.Second), "n1", "reckon_workload_energy_joules_total", v, append(who, "domain", "package", "share", "active", "method", "measured-by-cpu")...)
		h.put(begin.Add(time.Duration(i+1)*15*time.Second), "n2", "reckon_workload_energy_joules_total", v, append(who, "domain", "package", "share", "active", "method", "modelled")...)
	}
	c := h.site()
	d, err := detail(t, c, "slurm/7")
	if err != nil {
		t.Fatal(err)
	}
	if d.Owner != "alice" || len(d.Nodes) != 2 || d.EnergyMethod != "both" {
		t.Errorf("%s, nodes %v, energy %q", d.Owner, d.Nodes, d.EnergyMethod)
	}
	want := []struct {
		kind     string
		from, to int
		value    float64
	}{{"oom_kill", 15, 30, 1}, {"throttled", 15, 45, 10}, {"oom_kill", 45, 60, 2}, {"throttled", 75, 90, 1.99}}
	if len(d.Events) != len(want) {
		t.Fatalf("%+v", d.Events)
	}
	for i, w := range want {
		e := d.Events[i]
		if e.Kind != w.kind || e.From.Sub(begin) != time.Duration(w.from)*time.Second || e.To.Sub(begin) != time.Duration(w.to)*time.Second || math.Abs(e.Value-w.value) > 1e-9 {
			t.Errorf("event %d: %+v, want %+v", i, e, w)
		}
	}
	if len(d.Parts) != 2 {
		t.Errorf("parts %+v", d.Parts)
	}
	// The run was killed, so its time is no evidence; the request covers the memory of the node with the largest peak.
	if a := d.Advice; a == nil || a.Nodes != 2 || a.MemoryBytes == nil || *a.MemoryBytes < 6<<30 || a.Seconds != nil || !strings.Contains(a.Paste, "--nodes=2") {
		t.Errorf("%+v", a)
	}
	if !said(d.Verdicts, "2 nodes shared the work evenly") {
		t.Errorf("%+v", d.Verdicts)
	}
	area := func(list []wire.Profile, metric, node, command string, step float64) (sum float64) {
		for _, p := range list {
			if p.Metric == metric && p.Node == node && p.Command == command {
				for _, x := range p.Points {
					if x.Value != nil {
						sum += *x.Value * step
					}
				}
			}
		}
		return sum
	}
	for by, line := range map[string][3]string{"total": {"cores", "", ""}, "command": {"command_cores", "", "solver"}} {
		p, err := c.Workload(t.Context(), d.Workload, wire.Range{By: by})
		if got := area(p.Profile, line[0], line[1], line[2], p.StepSeconds); err != nil || math.Abs(got-1200) > 15 {
			t.Errorf("by %s: %g CPU seconds of 1200, %v", by, got, err)
		}
	}
	p, err := c.Workload(t.Context(), d.Workload, wire.Range{By: "node"})
	if one, two := area(p.Profile, "cores", "n1", "", p.StepSeconds), area(p.Profile, "cores", "n2", "", p.StepSeconds); err != nil || math.Abs(one-600) > 10 || math.Abs(two-600) > 10 {
		t.Errorf("by node: %g and %g of 600, %v", one, two, err)
	}

	runs, err := c.Workloads(t.Context(), wire.Filter{IDs: []string{"slurm/7"}, Sort: "start"})
	if err != nil || len(runs.Workloads) != 2 {
		t.Fatalf("%+v %v", runs, err)
	}
	old, err := c.Workload(t.Context(), runs.Workloads[0], wire.Range{})
	if err != nil || old.Owner != "bob" || !old.Start.Equal(older.start) || len(old.Nodes) != 1 || old.CPUSeconds == nil || math.Abs(*old.CPUSeconds-1200) > 1e-6 || len(old.Events) != 0 {
		t.Errorf("the life before: %+v, events %+v, %v", old.Workload, old.Events, err)
	}
	for name, r := range map[string]wire.Range{
		"a profile in the future":       {From: time.Now().Add(24 * time.Hour)},
		"a profile after its end":       {From: begin.Add(10 * time.Minute)},
		"a profile that ends before it": {To: begin.Add(-time.Hour)},
		"a step that is much too fine":  {From: begin.Add(-30 * 24 * time.Hour), To: begin.Add(time.Minute), Step: time.Second},
	} {
		_, err := c.Workload(t.Context(), d.Workload, r)
		var refused *Error
		if !errors.As(err, &refused) || !errors.Is(err, ErrInvalid) || refused.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRenamedNode reports a machine that appears under two names: its agent counts
// from the start of the processes under each name.
func TestRenamedNode(t *testing.T) {
	h := newHistory(t)
	begin := h.now.Add(-30 * time.Minute)
	who := []string{"workload", "slurm/8", "kind", "slurm", "part", "0", "owner", "alice"}
	for i := 1; i <= 20; i++ {
		at, node := begin.Add(time.Duration(i)*15*time.Second), "old"
		if i > 10 {
			node = "new"
		}
		h.put(at, node, "reckon_workload_start_time_seconds", float64(begin.Unix()), who...)
		h.put(at, node, "reckon_workload_cpu_seconds_total", float64(i*15), append(who, "mode", "user")...)
		h.put(at, node, "node_boot_time_seconds", 1.7e9)
		h.put(at, "other", "node_boot_time_seconds", 1.7e9) // has the same boot time, and continues
	}
	d, err := detail(t, h.site(), "slurm/8")
	if err != nil {
		t.Fatal(err)
	}
	if !said(d.Verdicts, "node new was called old until "+begin.Add(165*time.Second).Format(time.RFC3339)) || !said(d.Verdicts, "150 s of CPU time") {
		t.Errorf("%+v", d.Verdicts)
	}
}

// TestShortRunRareMemory reports the steps of a run that ended after three readings of its memory.
func TestShortRunRareMemory(t *testing.T) {
	h := newHistory(t)
	begin := h.now.Add(-30 * time.Minute).Truncate(time.Minute)
	who := []string{"workload", "slurm/9", "kind", "slurm", "part", "0", "owner", "alice"}
	for i := 1; i <= 12; i++ {
		at := begin.Add(time.Duration(i) * 15 * time.Second)
		h.put(at, "n1", "reckon_workload_start_time_seconds", float64(begin.Unix()), who...)
		h.put(at, "n1", "reckon_workload_cpu_seconds_total", float64(i*15), append(who, "mode", "user")...)
		if i%4 == 0 {
			h.put(at, "n1", "reckon_workload_memory_bytes", 1<<30, append(who, "type", "anon")...)
		}
	}
	d, err := detail(t, h.site(), "slurm/9")
	if err != nil || d.StepSeconds != 60 {
		t.Fatalf("steps of %g s, want those of its memory: %v", d.StepSeconds, err)
	}
	for _, p := range d.Profile {
		for _, x := range p.Points {
			if (x.Value == nil) != x.Time.After(begin.Add(3*time.Minute)) {
				t.Errorf("%s at %s: %v", p.Metric, x.Time, x.Value)
			}
		}
	}
}

func TestStepFor(t *testing.T) {
	for span, want := range map[time.Duration]time.Duration{
		time.Minute:            15 * time.Second,
		2 * time.Hour:          30 * time.Second,
		24 * time.Hour:         5 * time.Minute,
		400 * 24 * time.Hour:   24 * time.Hour,
		10000 * 24 * time.Hour: 26 * 24 * time.Hour,
	} {
		if got := stepFor(span); got != want {
			t.Errorf("%v: step %v, want %v", span, got, want)
		}
	}
}

// detail returns the answer about the latest run of an id.
func detail(t *testing.T, j site, id string) (wire.WorkloadDetail, error) {
	t.Helper()
	list, err := j.Workloads(t.Context(), wire.Filter{IDs: []string{id}, Sort: "-start", Limit: 1})
	if err != nil || len(list.Workloads) == 0 {
		t.Fatalf("%s: %+v %v", id, list, err)
	}
	return j.Workload(t.Context(), list.Workloads[0], wire.Range{})
}
