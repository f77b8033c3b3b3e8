package answer

import (
	"context"
	"testing"
	"time"

	"reckon/figure/wire"
	"reckon/store"
)

// noWorkloads is a catalogue without workloads.
type noWorkloads struct{}

func (noWorkloads) Workloads(context.Context, store.Filter) ([]store.Workload, int, error) {
	return nil, 0, nil
}

// TestListsNameLostSamples: a list of workloads with lost samples reports it, also where it has no end.
func TestListsNameLostSamples(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	gap := store.Gap{From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour), File: "wal/00000000", Why: "it is missing"}
	j := &Jobs{Catalogue: noWorkloads{}, Outage: &Outage{Catalogue: noFacts{}, Gaps: func(from, to time.Time) []store.Gap {
		if gap.From.Before(to) && gap.To.After(from) {
			return []store.Gap{gap}
		}
		return nil
	}}}
	for _, c := range []struct {
		name         string
		since, until time.Time
		want         int
	}{
		{"everything", time.Time{}, time.Time{}, 1},
		{"since before the gap", now.Add(-24 * time.Hour), time.Time{}, 1},
		{"since after the gap", now.Add(-30 * time.Minute), time.Time{}, 0},
		{"until before the gap", time.Time{}, now.Add(-3 * time.Hour), 0},
		{"around the gap", now.Add(-24 * time.Hour), now, 1},
	} {
		list, err := j.Workloads(t.Context(), wire.Filter{Since: c.since, Until: c.until})
		if err != nil || len(list.Missing) != c.want {
			t.Errorf("%s: missing %q, want %d; %v", c.name, list.Missing, c.want, err)
		}
	}
}
