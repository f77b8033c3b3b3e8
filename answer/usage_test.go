package answer

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/store"
)

// TestShareOfKnownCapacity: two days of imported history before the first agent count in the
// CPU time but not in the share of capacity, which is known only from then on.
func TestShareOfKnownCapacity(t *testing.T) {
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	begin, first := now.AddDate(0, 0, -3), now.AddDate(0, 0, -1)
	var use []store.Use
	var nodes []store.NodeUse
	for at := begin; at.Before(now); at = at.Add(time.Hour) {
		u := store.Use{At: at, Site: "s", Kind: "slurm", Owner: "a"}
		u.CPUSeconds = new(100 * 3600.0)
		if !at.Before(first) {
			u.CPUSeconds = new(3600.0)
			nodes = append(nodes, store.NodeUse{At: at, Site: "s", Node: "n1", Capacity: figure.Capacity{UpSeconds: new(3600.0), CoreSeconds: new(4 * 3600.0)}})
		}
		use = append(use, u)
	}
	if err := c.ReplaceHours(t.Context(), begin, now, use, nodes); err != nil {
		t.Fatal(err)
	}
	u := &Usage{Rollups: c, Catalogue: c, Clock: func() time.Time { return now }}
	for _, since := range []time.Time{begin, first, now.Add(-time.Hour)} {
		list, err := u.Usage(t.Context(), wire.UsageQuery{Since: since, Until: now, Span: "whole", By: []string{"owner"}})
		if err != nil || len(list.Rows) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		if s := list.Rows[0].CapacityShare; s == nil || *s != 0.25 || list.Total.CapacityShare == nil || *list.Total.CapacityShare != 0.25 {
			t.Errorf("since %s: %v and %v, want a quarter", since, s, list.Total.CapacityShare)
		}
	}
	days, err := u.Usage(t.Context(), wire.UsageQuery{Since: begin, Until: now, Span: "day", By: []string{"owner"}})
	if err != nil || len(days.Rows) != 3 || days.Rows[0].CapacityShare != nil || days.Rows[2].CapacityShare == nil || *days.Rows[2].CapacityShare != 0.25 {
		t.Errorf("%+v, %v", days.Rows, err)
	}
	if days.Rows[0].CPUSeconds == nil {
		t.Error("the imported history is gone")
	}
}

// TestUsageSaysUpToWhen: of hours that are not over, usage reports up to when it was counted, and of others nothing.
func TestUsageSaysUpToWhen(t *testing.T) {
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	now := time.Date(2026, 11, 22, 11, 55, 0, 0, time.UTC)
	end := now.Truncate(time.Hour).Add(time.Hour)
	for counted, want := range map[time.Time]bool{{}: false, now.Add(-4 * time.Minute): true, end.Add(-1): true, end: false} {
		u := &Usage{Rollups: c, Catalogue: c, Counted: func(context.Context) time.Time { return counted }, Clock: func() time.Time { return now }}
		list, err := u.Usage(t.Context(), wire.UsageQuery{Since: now.Add(-time.Hour), Until: now, Span: "whole"})
		if err != nil {
			t.Fatal(err)
		}
		if told := list.AsOf != nil && list.AsOf.Equal(counted); told != want || !list.Until.Equal(end) {
			t.Errorf("counted up to %v: as of %v, until %v", counted, list.AsOf, list.Until)
		}
	}
}
