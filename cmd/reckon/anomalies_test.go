package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"reckon/analysis/misuse"
	"reckon/web/client"
)

// TestAnomalies: anomalies are the findings of one rule, in the table of findings.
func TestAnomalies(t *testing.T) {
	asked := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query().Get("rule")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(client.FindingList{Findings: []client.Finding{{ID: "f1", Rule: misuse.Anomaly, State: "open", Owner: "alice", Text: "memory of n1 climbs", First: fixedNow(), Last: fixedNow()}}})
	}))
	defer s.Close()
	for _, format := range []string{"table", "json", "csv"} {
		var out, errs bytes.Buffer
		d := deps{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }, clock: fixedNow}
		if rc := execute(t.Context(), d, []string{"--server", s.URL, "anomalies", "--format", format}); rc != 0 || !strings.Contains(out.String(), "f1") {
			t.Errorf("%s: exit code %d, %q, %q", format, rc, out.String(), errs.String())
		}
		if asked != misuse.Anomaly {
			t.Errorf("%s: asked for the rule %q", format, asked)
		}
	}
}
