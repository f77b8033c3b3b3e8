package storetest

import (
	"fmt"
	"testing"
	"time"

	"reckon/store"
)

// Findings runs the suite on an empty store of findings.
func Findings(t *testing.T, s store.Findings) {
	t.Helper()
	ctx := t.Context()
	make1 := func(i int) store.Finding {
		at := epoch.Add(time.Duration(i) * time.Hour)
		return store.Finding{
			ID: fmt.Sprintf("f%d", i), Rule: []string{"over-share", "over-requested"}[i%2],
			Severity: []string{"low", "high", "medium"}[i%3], Site: "lab", Owner: fmt.Sprintf("user%d", i%4),
			Workload: fmt.Sprintf("slurm/%d", i), Node: "n1", Part: "cpu", Text: "it's \"odd\" \U0001F980",
			Evidence: []byte(`[{"text":"x"}]`),
			First:    at.Add(-time.Hour), Last: at, Found: at, Seen: at.Add(time.Minute), State: []string{"new", "open", "gone"}[i%3],
		}
	}
	var list []store.Finding
	for i := range 12 {
		list = append(list, make1(i))
	}
	requireNoError(t, s.PutFindings(ctx, list))
	requireNoError(t, s.PutFindings(ctx, list)) // again: creates no duplicates
	requireNoError(t, s.PutFindings(ctx, nil))
	all, n, err := s.Findings(ctx, store.FindingFilter{})
	requireNoError(t, err)
	if n != 12 || len(all) != 12 {
		t.Fatalf("%d of %d findings", len(all), n)
	}
	order := map[string]int{"high": 0, "medium": 1, "low": 2}
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if order[a.Severity] > order[b.Severity] || (a.Severity == b.Severity && a.Last.Before(b.Last)) {
			t.Errorf("%s %v before %s %v", a.Severity, a.Last, b.Severity, b.Last)
		}
	}
	one, _, err := s.Findings(ctx, store.FindingFilter{ID: "f5"})
	requireNoError(t, err)
	if len(one) != 1 || fmt.Sprint(one[0]) != fmt.Sprint(list[5]) {
		t.Errorf("got  %+v\nwant %+v", one, list[5])
	}
	changed := list[5]
	changed.State, changed.AckBy, changed.AckAt = "gone", "root", epoch
	changed.MutedUntil, changed.MuteReason = epoch.AddDate(0, 1, 0), "known"
	requireNoError(t, s.PutFindings(ctx, []store.Finding{changed}))
	yes, no := true, false
	for name, c := range map[string]struct {
		f    store.FindingFilter
		want int
	}{
		"rule":      {store.FindingFilter{Rules: []string{"over-share"}}, 6},
		"rules":     {store.FindingFilter{Rules: []string{"over-share", "over-requested"}}, 12},
		"owner":     {store.FindingFilter{Owners: []string{"user1"}}, 3},
		"severity":  {store.FindingFilter{Severities: []string{"high"}, States: []string{"open"}}, 4},
		"workload":  {store.FindingFilter{Workload: "slurm/3"}, 1},
		"node":      {store.FindingFilter{Node: "n2"}, 0},
		"since":     {store.FindingFilter{Since: epoch.Add(6 * time.Hour)}, 6},
		"muted":     {store.FindingFilter{Muted: &yes, Now: epoch}, 1},
		"not muted": {store.FindingFilter{Muted: &no, Now: epoch}, 11},
		"past":      {store.FindingFilter{Muted: &yes, Now: epoch.AddDate(0, 2, 0)}, 0},
		"hostile":   {store.FindingFilter{Owners: []string{"'; DROP TABLE findings; --"}}, 0},
	} {
		got, n, err := s.Findings(ctx, c.f)
		requireNoError(t, err)
		if n != c.want || len(got) != c.want {
			t.Errorf("%s: %d of %d, want %d", name, len(got), n, c.want)
		}
	}
	if got, n, err := s.Findings(ctx, store.FindingFilter{Limit: 3}); err != nil || len(got) != 3 || n != 12 {
		t.Errorf("%d of %d, %v", len(got), n, err)
	}
}
