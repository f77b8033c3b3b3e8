package findings

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/store"
)

// TestManyGroups: process groups that ended soon count as short ones whether they are read as sums or, where a policy looks at work
// as short as they, one by one, and an owner has as many as there are in both.
func TestManyGroups(t *testing.T) {
	load := node("n1", 4, 0.1)
	groups := func(n int, lasts time.Duration) (rows []store.Workload) {
		for i := range n {
			begin := start.Add(time.Duration(i) * time.Second)
			rows = append(rows, store.Workload{Site: "lab", ID: fmt.Sprintf("group/n1/%d-1", i), Kind: "group", Owner: "alice", Nodes: []string{"n1"}, State: "completed",
				Start: begin, Seen: begin.Add(lasts), End: begin.Add(lasts), Row: figure.Row{CPUSeconds: new(0.25)}})
		}
		return rows
	}
	batch := func(n int) (rows []store.Workload) {
		for i := range n {
			begin := start.Add(time.Duration(i) * time.Minute)
			rows = append(rows, store.Workload{Site: "lab", ID: fmt.Sprintf("slurm/%d", i), Kind: "slurm", Owner: "alice", Nodes: []string{"n1"}, State: "completed",
				Start: begin, Seen: begin.Add(20 * time.Second), End: begin.Add(20 * time.Second)})
		}
		return rows
	}
	const oneByOne = "rules: {many-connections: {minimum: 1s}}"
	for name, c := range map[string]struct {
		policy string
		rows   []store.Workload
		want   string // in the sentence
	}{
		"as many as it takes":    {"", groups(1000, 10*time.Second), "1,000 jobs"},
		"one less":               {"", groups(999, 10*time.Second), ""},
		"one by one":             {oneByOne, groups(1000, 10*time.Second), "1,000 jobs"},
		"with jobs":              {"", append(groups(990, 10*time.Second), batch(10)...), "1,000 jobs"},
		"none of them is short":  {"", groups(1000, time.Minute), ""},
		"longer than a minute":   {"rules: {many-small-jobs: {short: 2m}}", groups(1000, 119*time.Second), "1,000 jobs"},
		"short is less":          {"rules: {many-small-jobs: {short: 5s}}", groups(1000, 5*time.Second), ""},
		"shorter than that":      {"rules: {many-small-jobs: {short: 5s}}", groups(1000, 4*time.Second), "1,000 jobs"},
		"a node with its own":    {"overrides: [{node: n1, rules: {many-small-jobs: {short: 5s}}}]", groups(1000, 10*time.Second), ""},
		"another node's":         {"overrides: [{node: n2, rules: {many-small-jobs: {short: 5s}}}]", groups(1000, 10*time.Second), "1,000 jobs"},
		"an owner who is exempt": {"rules: {many-small-jobs: {exempt: [alice]}}", groups(1000, 10*time.Second), ""},
		"the rule is off":        {"rules: {many-small-jobs: {on: false}}", groups(1000, 10*time.Second), ""},
	} {
		got := ""
		for _, f := range evaluate(t, load, c.policy, c.rows...) {
			if f.Rule == "many-small-jobs" {
				got += f.Owner + " " + f.Text
				if cpu := f.Evidence[2].Value; !strings.Contains(name, "jobs") && cpu != 250 {
					t.Errorf("%s: CPU time of all of them is %g s, want 250", name, cpu)
				}
			}
		}
		if (got != "") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestGroupsThatAreRead: of process groups those are read one by one that a rule may say something about, and no others, of which a
// machine may begin twenty each second.
func TestGroupsThatAreRead(t *testing.T) {
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var rows []store.Workload
	for _, seconds := range []int{20, 59, 60, 90, 299, 300, 601} {
		end := start.Add(time.Duration(seconds) * time.Second)
		rows = append(rows, store.Workload{Site: "lab", ID: fmt.Sprintf("group/n1/%d-1", seconds), Kind: "group", Owner: "alice", Nodes: []string{"n1"}, State: "completed", Start: start, Seen: end, End: end})
	}
	if err := c.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	e := &Evaluator{Facts: c}
	for policy, want := range map[string]struct{ read, passed int }{
		"": {2, 2},
		"rules: {memory-thrashing: {minimum: 80s}}":                       {4, 2},
		"rules: {memory-thrashing: {on: false}}":                          {1, 2},
		"rules: {idle-allocation: {gpu_idle: 2m}}":                        {3, 2},
		"rules: {many-connections: {minimum: 30s}}":                       {6, 1},
		"rules: {many-small-jobs: {short: 2m}}":                           {5, 2},
		"rules: {many-small-jobs: {short: 30s}}":                          {2, 1},
		"overrides: [{node: n1, rules: {many-small-jobs: {short: 2m}}}]":  {5, 2},
		"overrides: [{node: n2, rules: {imbalance: {minimum: 70s}}}]":     {4, 2},
		"overrides: [{node: n2, rules: {many-small-jobs: {short: 30s}}}]": {6, 1},
	} {
		p, err := ReadPolicy([]byte(policy))
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.readRuns(t.Context(), start, start.Add(time.Hour), p)
		if err != nil {
			t.Fatal(err)
		}
		passed := 0
		for _, x := range got.passed {
			passed += x.Count
		}
		if len(got.rows) != want.read || passed != want.passed {
			t.Errorf("%s: %d groups read and %d in sums, want %d and %d", policy, len(got.rows), passed, want.read, want.passed)
		}
	}
}
