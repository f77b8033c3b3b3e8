package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"reckon/access/auth"
)

// TestPrintAudit: the queries of one page view are one row, no line is long, and nobody is left without a word.
func TestPrintAudit(t *testing.T) {
	at := time.Date(2026, 11, 28, 13, 40, 50, 0, time.UTC)
	var entries []auth.Entry
	for i := range 30 {
		entries = append(entries, auth.Entry{Time: at.Add(-time.Duration(i) * time.Second), Viewer: "root", Role: "admin", Action: "query",
			Object: strings.Repeat("sum by (owner) (rate(x[60s])) ", i+50), Source: "socket"})
	}
	entries = append(entries,
		auth.Entry{Time: at, Viewer: "root", Role: "admin", Action: "query", Object: "y", Owner: "ada", Source: "socket"},
		auth.Entry{Time: at.Add(-time.Hour), Role: "admin", Action: "workload", Object: "group/vm/1", Owner: "ada", Source: "::1"})
	var out bytes.Buffer
	g := &globals{deps: deps{stdout: &out, getenv: func(string) string { return "" }, clock: func() time.Time { return at }}}
	if err := printAudit(g, entries, "table"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines {
		if len(line) > 160 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
	text := out.String()
	if len(lines) != 4 || !strings.Contains(text, "30, such as sum by (owner)") || !strings.Contains(text, "without login") {
		t.Errorf("\n%s", text)
	}
}
