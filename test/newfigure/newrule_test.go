package newfigure

import (
	"path/filepath"
	"testing"
)

// ruleCode is a rule about a figure that is there already.
const ruleCode = `package misuse

// ManyProcessesRule is about work that starts processes in a loop.
type ManyProcessesRule struct {
	On      bool     ` + "`yaml:\"on\"`" + `
	Minimum Duration ` + "`yaml:\"minimum\"`" + `
	// Rate of processes started per second from which there is a finding, and from which it is of high severity.
	Rate     float64 ` + "`yaml:\"rate\" limit:\"above 0\"`" + `
	HighRate float64 ` + "`yaml:\"high_rate\" limit:\"above 0\"`" + `
}

func (c *ManyProcessesRule) needs() (Needs, bool) { return Needs{Ran: c.Minimum}, c.On }

func (c *ManyProcessesRule) lines() (least map[string]float64, folded bool) {
	return map[string]float64{"processes": 6000}, false
}

// judge finds work that starts processes at a sustained rate.
func (c *ManyProcessesRule) judge(w *Workload, _ *Policy) []Finding {
	return sustainedRule{rule: "many-processes", part: "processes", key: "many-processes", what: "processes started in that time",
		figure: "processes", rate: c.Rate, high: c.HighRate, minimum: c.Minimum}.findings(w)
}
`

const ruleText = `help.many-processes: work that starts processes in a loop
words.many-processes: many processes
rule.many-processes: work started processes, one after the other, for minutes on end, so that most of its time goes into starting them
many-processes: starts {rate} processes a second, {when}
---
processes | processes started a second | sum(rate(reckon_workload_processes_started_total{$work}[5m]))
---
  # Starts processes in a loop, as a shell script with many commands does.
  many-processes:
    on: true
    minimum: 10m
    rate: 100          # processes a second, for the minimum on end
    high_rate: 1000
`

// ruleTest feeds the series of a run through the store and the catalogue.
const ruleTest = `package findings

import (
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/store"
)

func TestManyProcesses(t *testing.T) {
	load := node("n1", 4, 1) + "  reckon_workload_processes_started_total{site=\"lab\",node=\"n1\",workload=\"slurm/1\",kind=\"slurm\",part=\"0\",owner=\"alice\"} 0+9000x99\n"
	row := store.Workload{Site: "lab", ID: "slurm/1", Kind: "slurm", Owner: "alice", State: "completed", Nodes: []string{"n1"}, Start: start, Seen: start.Add(100 * time.Minute), End: start.Add(100 * time.Minute),
		Row: figure.Row{Processes: new(900000.0)}}
	found := evaluate(t, load, "", row)
	if got := rules(found); got != "many-processes alice slurm/1 processes" || !strings.Contains(found[0].Text, "starts 150 processes a second") {
		t.Errorf("%q %+v", got, found)
	}
	if q := Queries(&store.Finding{Rule: "many-processes", Part: "processes", Workload: "slurm/1"}); len(q) != 1 || !strings.Contains(q[0].Query, "slurm/1") {
		t.Error(q)
	}
}
`

// TestNewRule: a rule is its code, its text and its test; the command line, the API, the pages and the documents read the list.
func TestNewRule(t *testing.T) {
	root, scratch := copied(t)
	write(t, filepath.Join(scratch, "analysis/misuse/processes.go"), ruleCode)
	write(t, filepath.Join(scratch, "analysis/misuse/rules/12-many-processes.txt"), ruleText)
	write(t, filepath.Join(scratch, "answer/findings/processes_test.go"), ruleTest)
	run(t, scratch, "go", "generate", "./analysis/misuse")
	atMost(t, root, scratch, 3)
	contains(t, filepath.Join(scratch, "doc/rules.md"), "| many-processes |")
	contains(t, filepath.Join(scratch, "web/ui/src/lib/rules.ts"), "\"many processes\"")
	run(t, scratch, "go", "build", "./cmd/...")
	for what, args := range map[string][]string{
		"work that starts processes in a loop": {"findings", "--help"}, "    high_rate: 1000": {"findings", "--explain", "many-processes"}, "  many-processes:": {"findings", "policy"},
	} {
		if out := output(t, scratch, "go", append([]string{"run", "./cmd/reckon"}, args...)...); !has(out, what) {
			t.Errorf("%v does not say %q", args, what)
		}
	}
	run(t, scratch, "go", "test", "-run", "Rule|ManyProcesses|Policy|Queries|OpenAPI|Document|Help|Findings|Architecture", "./analysis/misuse", "./answer/findings", "./web/api", "./cmd/reckon", "./internal/archtest")
}
