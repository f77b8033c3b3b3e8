package client

import "testing"

func TestParseState(t *testing.T) {
	for text, want := range map[string]string{
		"running": "running", "RUNNING": "running", "R": "running", "OOM": "out_of_memory", "pd": "pending",
		"Canceled": "cancelled", "NODE_FAIL": "node_fail", " TO ": "timeout",
	} {
		if got, ok := ParseState(text); got != want || !ok {
			t.Errorf("ParseState(%q) = %q, %v; want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{"bogus", "", "run", "oo"} {
		if got, ok := ParseState(text); ok {
			t.Errorf("ParseState(%q) = %q, want none", text, got)
		}
	}
	for _, s := range States() {
		if got, ok := ParseState(s); got != s || !ok {
			t.Errorf("ParseState(%q) = %q, %v", s, got, ok)
		}
	}
}
