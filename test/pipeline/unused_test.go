package pipeline_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/analysis/misuse"
	"reckon/answer/findings"
	"reckon/lab/simulate"
	"reckon/store"
	"reckon/test/pipeline"
)

// crowd plants owners in a week of accounting. Names and partitions are drawn, so that they give nothing away.
type crowd struct {
	*rand.Rand
	begin time.Time
	used  map[string]bool
	jobs  []pastJob
}

func (c *crowd) word() string {
	for {
		var b strings.Builder
		for range 6 {
			b.WriteByte("aeioubdfgklmnprst"[c.IntN(17)])
		}
		if !c.used[b.String()] {
			c.used[b.String()] = true
			return b.String()
		}
	}
}

// runs are n runs of hours each, somewhere in the week, with a share of their cores busy.
func (c *crowd) runs(owner, name, partition string, n, cores int, hours, busy float64, set func(*pastJob)) {
	for range n {
		ran := time.Duration((hours * (0.8 + 0.4*c.Float64())) * float64(time.Hour)).Round(time.Second)
		start := c.begin.Add(time.Duration(c.Float64() * float64(7*24*time.Hour-ran))).Round(time.Second)
		share := min(busy*(0.9+0.2*c.Float64()), 1)
		j := pastJob{owner: owner, account: "a", partition: partition, name: name, cores: cores, nodes: []string{fmt.Sprint("n", c.IntN(40))},
			submit: start.Add(-time.Minute), start: start, end: start.Add(ran), cpu: time.Duration(share * ran.Seconds() * float64(cores) * 1e9)}
		if set != nil {
			set(&j)
		}
		c.jobs = append(c.jobs, j)
	}
}

// sonarOf writes what sonar reads of jobs with GPUs, every ten minutes and at their end.
func sonarOf(jobs []pastJob) string {
	var b strings.Builder
	for i, j := range jobs {
		if j.gpus == 0 || j.unmeasured {
			continue
		}
		for at := j.start; at.Before(j.end); {
			at = at.Add(min(10*time.Minute, j.end.Sub(at)))
			cards := []string{"0", "1", "2", "3"}[:j.gpus]
			fmt.Fprintf(&b, "v=0.13.200,time=%s,host=%s,user=%s,cmd=%s,job=%d,pid=%d,ppid=1,cpu%%=90,cpukib=1000000,rssanonkib=500000,"+
				"\"gpus=%s\",gpu%%=%.1f,gpukib=2000000,cputime_sec=%d,epoch=0\n", at.Format(time.RFC3339), j.nodes[0], j.owner, j.name, 100+i, 3000+i,
				strings.Join(cards, ","), 100*j.busy*float64(j.gpus), int(j.cpu.Seconds()*at.Sub(j.start).Seconds()/j.end.Sub(j.start).Seconds()))
		}
	}
	return b.String()
}

// plant adds owners who must be found and owners who must not, ten of each, by their names.
func (c *crowd) plant() (wasters, innocent map[string]string) {
	wasters, innocent = map[string]string{}, map[string]string{}
	shared, whole, other := c.word(), c.word(), c.word()
	node := func(asked int, peak float64) func(*pastJob) {
		return func(j *pastJob) { // of a partition that gives nodes of 64 cores and 256 GiB
			j.asked, j.memory, j.peak = asked, 256<<10, int(peak*256*1024)
		}
	}
	gpus := func(n int, busy float64) func(*pastJob) {
		return func(j *pastJob) { j.gpus, j.busy = n, busy }
	}
	for kind, f := range map[string]func(owner string){
		"GPUs held and never used":              func(o string) { c.runs(o, c.word(), shared, 10, 2, 2, 0.95, gpus(2, 0)) },
		"a fifth of its GPUs":                   func(o string) { c.runs(o, c.word(), shared, 12, 2, 3, 0.95, gpus(1, 0.2)) },
		"two fifths of 16 cores, job after job": func(o string) { c.runs(o, c.word(), shared, 40, 16, 2, 0.4, nil) },
		"one large job, nearly idle":            func(o string) { c.runs(o, c.word(), shared, 1, 64, 40, 0.1, nil) },
		"hundreds of small jobs":                func(o string) { c.runs(o, c.word(), shared, 150, 8, 0.5, 0.3, nil) },
		"many names, each of them little": func(o string) {
			for range 20 {
				c.runs(o, c.word(), shared, 2, 8, 1.5, 0.3, nil)
			}
		},
		"half of it well used": func(o string) {
			c.runs(o, c.word(), shared, 20, 16, 2, 0.95, nil)
			c.runs(o, c.word(), shared, 20, 16, 2, 0.05, nil)
		},
		"one name, beside much that is well used": func(o string) {
			c.runs(o, c.word(), shared, 60, 32, 3, 0.97, nil)
			c.runs(o, c.word(), other, 10, 16, 3, 0.3, nil)
		},
		"whole nodes that it asked for": func(o string) { c.runs(o, c.word(), whole, 10, 64, 2, 0.2, node(64, 0.1)) },
		"asleep since before the time":  func(o string) { c.asleep(o, shared) },
	} {
		owner := c.word()
		wasters[owner] = kind
		f(owner)
	}
	for kind, f := range map[string]func(owner string){
		"GPUs that it keeps busy":             func(o string) { c.runs(o, c.word(), shared, 20, 2, 3, 0.95, gpus(2, 0.9)) },
		"a GPU for an hour, and idle":         func(o string) { c.runs(o, c.word(), shared, 1, 2, 1, 0.95, gpus(1, 0)) },
		"much, of which four fifths are used": func(o string) { c.runs(o, c.word(), shared, 60, 64, 6, 0.85, nil) },
		"little, and nearly idle":             func(o string) { c.runs(o, c.word(), shared, 10, 4, 2, 0.1, nil) },
		"wasted before the time":              func(o string) { c.before(o, shared) },
		"four cores where nodes are given": func(o string) {
			c.runs(o, c.word(), whole, 30, 64, 3, 0.058, node(4, 0.1))
		},
		"the memory of whole nodes": func(o string) { c.runs(o, c.word(), whole, 20, 64, 3, 0.2, node(64, 0.9)) },
		"nothing gathered its CPU time": func(o string) {
			c.runs(o, c.word(), shared, 40, 16, 3, 0.3, func(j *pastJob) { j.unmeasured = true })
		},
		"suspended for half of its time": func(o string) {
			c.runs(o, c.word(), shared, 10, 16, 6, 0.45, func(j *pastJob) { j.suspended = j.end.Sub(j.start) / 2 })
		},
		"near the limit, in every run": func(o string) { c.runs(o, c.word(), shared, 50, 16, 3, 0.78, nil) },
	} {
		owner := c.word()
		innocent[owner] = kind
		f(owner)
	}
	c.runs(c.word(), c.word(), whole, 20, 64, 2, 0.95, node(64, 0.3)) // others use the partition as it is meant
	return wasters, innocent
}

// asleep is a job that began before the week and ended with it.
func (c *crowd) asleep(owner, partition string) {
	end := c.begin.Add(7 * 24 * time.Hour)
	start := c.begin.Add(-time.Duration(30+c.IntN(60)) * time.Hour)
	c.jobs = append(c.jobs, pastJob{owner: owner, account: "a", partition: partition, name: c.word(), cores: 16, nodes: []string{"n1"}, submit: start,
		start: start, end: end.Add(-time.Minute), cpu: time.Duration(end.Sub(start).Seconds()*0.5) * time.Second, state: "TIMEOUT"})
}

// before is a week of waste that was over when the time began.
func (c *crowd) before(owner, partition string) {
	here := c.begin
	c.begin = here.AddDate(0, 0, -10)
	c.runs(owner, c.word(), partition, 40, 16, 2, 0.2, nil)
	c.begin = here
}

// TestUnusedOverTime: owners who were planted to waste are found, by owner, and owners who were planted beside them are not.
func TestUnusedOverTime(t *testing.T) {
	found, accused := 0, 0
	for seed := range uint64(5) {
		c := &crowd{Rand: rand.New(rand.NewPCG(seed, 77)), begin: time.Date(2025, 6, 2, 0, 0, 0, 0, time.UTC), used: map[string]bool{}}
		wasters, innocent := c.plant()
		c.Shuffle(len(c.jobs), func(i, k int) { c.jobs[i], c.jobs[k] = c.jobs[k], c.jobs[i] })
		s := pipeline.ImportAll(t, sacctOf(c.jobs), sonarOf(c.jobs), c.begin.AddDate(0, 0, 7))
		owners := map[string]misuse.Finding{}
		for _, f := range s.Imported("", c.begin) {
			if f.Rule != misuse.UnusedOverTime {
				t.Errorf("%+v", f)
			}
			owners[f.Owner] = f
		}
		for o, kind := range wasters {
			f, ok := owners[o]
			if !ok {
				t.Logf("seed %d: not found: %s", seed, kind)
				continue
			}
			found++
			most, names := 0.0, 0
			for _, e := range f.Evidence {
				if strings.HasPrefix(e.Text, "runs of ") && e.Unit == "core-seconds" {
					most, names = max(most, e.Value), names+1
				}
			}
			if want := fmt.Sprintf(", the largest part (%.0f core-hours) in ", most/3600); names > 1 && !strings.Contains(f.Text, want) {
				t.Errorf("%q, want %q: no name has most of it", f.Text, want)
			}
		}
		for o, kind := range innocent {
			if f, ok := owners[o]; ok {
				accused++
				t.Logf("seed %d: accused: %s: %s", seed, kind, f.Text)
			}
		}
		// Imported time is reported on demand alone.
		for _, f := range s.Findings("") {
			if f.Rule == misuse.UnusedOverTime {
				t.Errorf("seed %d: a finding of imported time: %s %s", seed, f.Owner, f.Text)
			}
		}
		if seed == 0 {
			for _, f := range owners {
				t.Logf("%s (%s): %s %s", f.Owner, wasters[f.Owner], f.Severity, f.Text)
			}
		}
	}
	t.Logf("%d of 50 wasters found, %d of 50 innocent owners accused", found, accused)
	if found < 48 || accused > 1 {
		t.Error("at least 48 must be found, and at most one accused")
	}
}

// TestUnusedReplaces: at a measured site one finding over days stands in the place of those about single runs, which are its evidence.
func TestUnusedReplaces(t *testing.T) {
	const low = "rules: {unused-over-time: {core_hours: 24, share: 0.3}}"
	s := idleSite(t)
	single := s.Findings("rules: {unused-over-time: {on: false}}")
	i := slices.IndexFunc(single, func(f misuse.Finding) bool { return f.Rule == misuse.OverRequested && f.Part == "cpu" })
	if i < 0 {
		t.Fatalf("no single finding to replace: %q", s.Short(single))
	}
	owner := single[i].Owner
	over := 0
	for _, f := range s.Findings(low) {
		if f.Owner == owner && f.Rule == misuse.OverRequested && f.Part == "cpu" {
			t.Errorf("it stands beside the one over days: %s", f.Text)
		}
		if f.Owner != owner || f.Rule != misuse.UnusedOverTime {
			continue
		}
		over++
		if !slices.ContainsFunc(f.Evidence, func(e misuse.Evidence) bool { return strings.Contains(e.Text, single[i].Text) }) {
			t.Errorf("%q is no evidence of %+v", single[i].Text, f.Evidence)
		}
	}
	if over != 1 {
		t.Errorf("%d findings over days of %s", over, owner)
	}
}

// idleSite is a simulated site of twelve hours on which some hold what they do not use.
func idleSite(t *testing.T) *pipeline.Site {
	return pipeline.Run(t, simulate.Config{Seed: 5, Nodes: 12, GPUNodes: 1, Jobs: 250, Cores: 32, For: 16 * time.Hour}, 16*time.Hour, pipeline.Coarse)
}

// TestMutedRunsAreSpared: a run with a muted finding is not held against its owner again over days, and its finding stays.
func TestMutedRunsAreSpared(t *testing.T) {
	s := idleSite(t)
	look := func(k *findings.Keeper, policy string) map[string][]store.Finding {
		t.Helper()
		k.Policy = []byte(policy)
		if err := k.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, _, err := s.Catalogue.Findings(t.Context(), store.FindingFilter{States: []string{store.FindingNew, store.FindingOpen}})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string][]store.Finding{}
		for _, f := range list {
			out[f.Rule] = append(out[f.Rule], f)
		}
		return out
	}
	unused := func(list []store.Finding, owner string) (seconds float64) {
		t.Helper()
		for _, f := range list {
			evidence, _, err := findings.Figures(&f)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range evidence {
				if f.Owner == owner && e.Wasted && e.Unit == "core-seconds" {
					seconds += e.Value
				}
			}
		}
		return seconds
	}
	k := &findings.Keeper{Evaluator: &findings.Evaluator{Series: s.Series, Facts: s.Catalogue}, Store: s.Catalogue, Clock: func() time.Time { return s.Now }}
	singles := look(k, "rules: {unused-over-time: {on: false}}")[misuse.OverRequested]
	i := slices.IndexFunc(singles, func(f store.Finding) bool { return f.Part == "cpu" })
	if i < 0 {
		t.Fatal("no finding about the cores of a run")
	}
	one := singles[i]
	const low = "rules: {unused-over-time: {core_hours: 1, share: 0.05}}"
	over := func() []store.Finding { // at a site that sends no more, findings stay as they are: another look has its own store
		t.Helper()
		found, err := k.WhatIf(t.Context(), []byte(low), s.Now.Add(-24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		var list []store.Finding
		for _, f := range found.Then {
			raw, err := json.Marshal(map[string]any{"evidence": f.Evidence})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, store.Finding{ID: findings.ID(&f), Rule: f.Rule, Owner: f.Owner, Part: f.Part, Workload: f.Workload, Evidence: raw})
		}
		return list
	}
	of := func(list []store.Finding, rule string) []store.Finding {
		return slices.DeleteFunc(slices.Clone(list), func(f store.Finding) bool { return f.Rule != rule })
	}
	before := over()
	if _, err := k.Mute(t.Context(), one.ID, "agreed", s.Now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	look(k, "rules: {unused-over-time: {on: false}}")
	after := over()
	had, has := unused(of(before, misuse.UnusedOverTime), one.Owner), unused(of(after, misuse.UnusedOverTime), one.Owner)
	if wasted := unused([]store.Finding{one}, one.Owner); wasted < 3600 || had-has < 0.8*wasted {
		t.Errorf("over days %g core-seconds, %g with the mute of a run that wasted %g", had, has, wasted)
	}
	same := func(f store.Finding) bool { return f.ID == one.ID }
	if slices.ContainsFunc(before, same) || !slices.ContainsFunc(after, same) {
		t.Error("the muted finding is evidence against the owner")
	}
}

// TestUnusedMemory: without a limit in the policy, memory counts where it runs out before the cores, and only there.
func TestUnusedMemory(t *testing.T) {
	for name, c := range map[string]struct {
		fill   int // cores of other jobs with little memory, on each node
		policy string
		want   []string
	}{
		"memory runs out":     {0, "", []string{"hoarder"}},
		"cores run out":       {13, "", nil},
		"it is turned off":    {0, "rules: {unused-over-time: {gib_hours: -1}}", nil},
		"as the policy says":  {13, "rules: {unused-over-time: {gib_hours: 300}}", []string{"hoarder"}},
		"more than is wasted": {0, "rules: {unused-over-time: {gib_hours: 3000}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var jobs []simulate.Planned
			for i := range 6 {
				one := simulate.Planned{User: "hoarder", Name: "assemble", Cores: 1, MemoryBytes: 24 * gib, Submit: time.Minute,
					Length: 15 * time.Hour, Does: simulate.Does{Cores: 0.95, Needed: 3 * gib}}
				jobs = append(jobs, one)
				one.User, one.Name, one.Does.Needed = "honest", fmt.Sprint("solve-", i), 22*gib
				jobs = append(jobs, one)
			}
			for i := range 6 * min(c.fill, 1) {
				jobs = append(jobs, simulate.Planned{User: "filler", Name: fmt.Sprint("count-", i), Cores: c.fill, MemoryBytes: 2 * gib, Submit: time.Minute,
					Length: 15 * time.Hour, Does: simulate.Does{Cores: 0.95 * float64(c.fill), Needed: gib}})
			}
			s := pipeline.Run(t, simulate.Config{OnlyPlanned: true, Nodes: 6, GPUNodes: -1, Cores: 16, Plan: jobs}, 16*time.Hour, pipeline.Coarse)
			var got []string
			for _, f := range s.Findings(c.policy) {
				if f.Rule == misuse.UnusedOverTime {
					got = append(got, f.Owner)
					t.Logf("%s %s", f.Owner, f.Text)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}
