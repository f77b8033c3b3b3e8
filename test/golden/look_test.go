package golden

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"reckon/analysis/misuse"
	"reckon/answer/findings"
	"reckon/catalogue/database"
	"reckon/store"
	"reckon/store/tsdb"
)

// TestLookAgain lets the rules of today look at the time at which the earlier program looked
// last: what it had found is found again, under the same id, so that who muted or acknowledged
// it is not reported again. The clock of a server cannot be set, so this one is put together here.
func TestLookAgain(t *testing.T) {
	dir, m := unpack(t)
	at, err := time.Parse(time.RFC3339, m.Looked)
	if err != nil {
		t.Fatal(err)
	}
	series, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(dir, "site/series"), Retention: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer series.Close()
	facts, err := database.Open(filepath.Join(dir, "site/catalogue.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	policy, err := os.ReadFile(filepath.Join(dir, "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	was := cases(t, facts)
	// The site fell silent before the last look. As if that had been earlier: findings of a site without newer samples are left alone.
	list, _, err := facts.Findings(t.Context(), store.FindingFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].Seen = list[i].Seen.Add(-time.Hour)
	}
	if err := facts.PutFindings(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	k := &findings.Keeper{
		Evaluator: &findings.Evaluator{Series: series, Facts: facts}, Store: facts, Policy: policy,
		Clock: func() time.Time { return at },
	}
	if err := k.Look(context.Background()); err != nil {
		t.Fatal(err)
	}
	judge(t, "look", was, cases(t, facts))
}

// cases lists the findings of each rule with what people did to them. One that is found again is
// no longer new.
func cases(t *testing.T, s store.Findings) any {
	t.Helper()
	list, _, err := s.Findings(t.Context(), store.FindingFilter{Limit: 100000})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 50 {
		t.Fatalf("%d findings", len(list))
	}
	rules := map[string]any{}
	for _, f := range list {
		if f.Rule == misuse.Anomaly {
			continue // a detector of its own finds it, at the clock of the server
		}
		if f.State == store.FindingNew {
			f.State = store.FindingOpen
		}
		rows, _ := rules[f.Rule].([]any)
		rules[f.Rule] = append(rows, map[string]any{
			"id": f.ID, "owner": f.Owner, "workload": f.Workload, "node": f.Node, "part": f.Part, "state": f.State,
			"severity": f.Severity, "acknowledged_by": f.AckBy, "mute_reason": f.MuteReason, "muted_until": f.MutedUntil.UTC().Format(time.RFC3339),
		})
	}
	return rules
}
