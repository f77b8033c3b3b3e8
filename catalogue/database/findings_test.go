package database

import (
	"path/filepath"
	"testing"

	"reckon/store"
	"reckon/store/storetest"
)

func TestFindings(t *testing.T) {
	c, err := Open(filepath.Join(t.TempDir(), "catalogue.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	storetest.Findings(t, c)
	// What people said of them outlives the catalogue, which is a view of the series.
	if err := c.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, n, err := c.Findings(t.Context(), store.FindingFilter{}); err != nil || n != 12 {
		t.Errorf("%d findings after Drop, %v", n, err)
	}
}
