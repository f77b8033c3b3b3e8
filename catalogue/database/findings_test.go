package database

import (
	"path/filepath"
	"testing"
	"time"

	"reckon/store"
)

// renamedRules opens findings that were written before their rules were renamed, with
// their acknowledgements and mutes.
func renamedRules(t *testing.T, open func() *Catalogue) {
	c := open()
	until := time.UnixMilli(1900000000000).UTC()
	var old []store.Finding
	for _, rule := range []string{"hog", "misfit", "greedy", "deadweight", "vampire", "thrash", "imbalance"} {
		old = append(old, store.Finding{ID: "id-" + rule, Rule: rule, Severity: "high", Owner: "alice", State: store.FindingOpen, Evidence: []byte("[]"),
			AckBy: "root", AckAt: until, MutedUntil: until, MuteReason: "agreed", First: until, Last: until, Found: until, Seen: until})
	}
	if err := c.PutFindings(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if _, err := c.db.ExecContext(t.Context(), `DELETE FROM migrations WHERE name = '0013_rules'`); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = open()
	defer c.Close()
	got, n, err := c.Findings(t.Context(), store.FindingFilter{})
	if err != nil || n != len(old) {
		t.Fatalf("%d findings, %v", n, err)
	}
	want := map[string]string{"id-hog": "over-share", "id-misfit": "gpu-unused", "id-greedy": "over-requested", "id-deadweight": "idle-allocation",
		"id-vampire": "many-small-jobs", "id-thrash": "memory-thrashing", "id-imbalance": "imbalance"}
	for _, f := range got {
		if f.Rule != want[f.ID] || !f.MutedUntil.Equal(until) || f.MuteReason != "agreed" || f.AckBy != "root" || f.State != store.FindingOpen {
			t.Errorf("%+v", f)
		}
	}
}

func TestRenamedRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalogue.db")
	renamedRules(t, func() *Catalogue { return openAt(t, path, nil) })
}
