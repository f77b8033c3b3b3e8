package database

import (
	"errors"
	"strings"
	"testing"

	"reckon/store"
)

// TestExplainedOnce: an error passes through several functions that explain it, and reports what it is once.
func TestExplainedOnce(t *testing.T) {
	c := &Catalogue{path: "catalogue.db", d: &dialect{corrupt: never, unopened: never, gone: never, away: never, full: func(error) bool { return true }}}
	err := c.explain(t.Context(), c.explain(t.Context(), errors.New("database or disk is full (13)")))
	if n := strings.Count(err.Error(), "catalogue.db"); n != 1 || !errors.Is(err, store.ErrFull) {
		t.Errorf("%d times: %v", n, err)
	}
}
