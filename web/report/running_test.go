package report

import (
	"strings"
	"testing"

	"reckon/web/client"
)

// TestRunningInLine: sums have the titles of the pages and of `reckon jobs`, and long ids keep the next column in line.
func TestRunningInLine(t *testing.T) {
	r := client.OwnerReport{Owner: "root", RunningTotal: 3, Running: []client.Workload{
		{ID: "other/vm", Kind: "other", Name: "vm"}, {ID: "group/vm/28435-1795871234", Kind: "group", Name: "bash"},
		{ID: "short/ada/vm", Kind: "short", Name: "ada/vm"}}}
	text := Text(&r)
	columns := map[int]bool{}
	for _, w := range r.Running {
		for line := range strings.SplitSeq(text, "\n") {
			if i := strings.Index(line, w.ID); i > 0 {
				columns[len(strings.TrimRight(line, " "))-len(strings.TrimLeft(line[i+len(w.ID):], " "))] = true
			}
		}
	}
	if !strings.Contains(text, "the system") || !strings.Contains(text, "short commands") || len(columns) != 1 {
		t.Errorf("columns begin at %v:\n%s", columns, text)
	}
}
