package database

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestWaitsIndex(t *testing.T) {
	c := openAt(t, filepath.Join(t.TempDir(), "c.db"), nil)
	t.Cleanup(func() { _ = c.Close() })
	var plan strings.Builder
	err := c.eachRow(t.Context(),
		"EXPLAIN QUERY PLAN SELECT "+waitColumns+" FROM workloads"+c.d.indexed("workloads_waits")+" WHERE submit_ms IS NOT NULL AND start_ms >= 1 AND start_ms < 2", nil, func(scan func(...any) error) error {
			var id, parent, unused int
			var text string
			err := scan(&id, &parent, &unused, &text)
			plan.WriteString(text)
			return err
		})
	if err != nil || !strings.Contains(plan.String(), "workloads_waits (start_ms>? AND start_ms<?)") {
		t.Error(plan.String(), err)
	}
}
