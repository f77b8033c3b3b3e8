package judge

import (
	"strings"
	"testing"
)

// An answer as reckon gives it, of a job on a bed.
const of7 = `{"verdicts":[
 {"text":"it reached its time limit of 1 min and was ended; ask for more time, or write checkpoints","sentence":{"key":"timeout","run":"slurm/7",
  "template":"it reached its time limit of {limit} and was ended; ask for more time, or write checkpoints","values":[{"name":"limit","text":"1 min","value":60,"unit":"seconds"}]}},
 {"text":"it needed 152 MiB of the 200 MiB of memory it was allocated (76 %)","sentence":{"key":"memory.good","run":"slurm/7",
  "template":"it needed {needed} of the {given} of memory it was allocated ({share})","values":[{"name":"needed","text":"152 MiB","value":159383552,"unit":"bytes"},
  {"name":"given","text":"200 MiB","value":209715200,"unit":"bytes"},{"name":"share","text":"76 %","value":0.76,"unit":"ratio"}]}}],
 "advice":{"why":["time 1 h 15 min: it took 1 h, and a quarter above it"],"sentences":[{"key":"time.longest.one","run":"slurm/7",
  "template":"time {time}: it took {longest}, and a quarter above it","values":[{"name":"time","text":"1 h 15 min","value":4500,"unit":"seconds"},{"name":"longest","text":"1 h","value":3600,"unit":"seconds"}]}]}}`

// TestPlanted: a wrong number is found wherever it is put.
func TestPlanted(t *testing.T) {
	truth := Truth{ID: "slurm/7", Wall: 73, Limit: 60, CPU: 1, Cores: 1, Memory: 200 << 20, Peak: 153 << 20, Exit: -1, Must: []string{"timeout"}}
	if wrong, n := Sentences([]byte(of7), truth); len(wrong) > 0 || n != 3 {
		t.Fatalf("%d computed, %q", n, wrong)
	}
	for what, edit := range map[string][2]string{
		"in a text alone":             {"limit of 1 min and", "limit of 2 min and"},
		"in a template":               {"it needed {needed} of the {given}", "it needed 7 of the {given}"},
		"in a value that others know": {`"1 min","value":60`, `"1 min","value":61`},
		"shown wrongly":               {`"text":"152 MiB","value"`, `"text":"125 MiB","value"`},
		"above the peak of the group": {"159383552", "259383552"},
		"of another limit":            {"209715200", "209715201"},
		"of another run": {`"run":"slurm/7",
  "template":"it needed`, `"run":"slurm/8",
  "template":"it needed`},
		"in advice":                    {"4500", "5400"},
		"said of nothing that is said": {`"key":"timeout"`, `"key":"idle"`},
	} {
		if wrong, _ := Sentences([]byte(strings.Replace(of7, edit[0], edit[1], 1)), truth); len(wrong) == 0 || !strings.Contains(of7, edit[0]) {
			t.Errorf("%s: not found", what)
		}
	}
}
