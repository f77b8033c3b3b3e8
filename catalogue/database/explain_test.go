package database

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/store"
)

// TestExplainedOnce: an error passes through several functions that explain it, and reports what it is once.
func TestExplainedOnce(t *testing.T) {
	c := &Catalogue{path: "catalogue.db", d: &dialect{corrupt: neverRetry, unopened: neverRetry, gone: neverRetry, away: neverRetry,
		full: func(error) bool { return true }}}
	err := c.translateError(t.Context(), c.translateError(t.Context(), errors.New("database or disk is full (13)")))
	if n := strings.Count(err.Error(), "catalogue.db"); n != 1 || !errors.Is(err, store.ErrFull) {
		t.Errorf("%d times: %v", n, err)
	}
}

// TestEndedTransaction: a write that the context ends fails with the error of the context, also in the middle of a transaction.
func TestEndedTransaction(t *testing.T) {
	c := openAt(t, filepath.Join(t.TempDir(), "catalogue.db"), nil)
	rows := make([]store.Workload, 5000)
	for i := range rows {
		at := time.Unix(1_700_000_000+int64(i), 0)
		rows[i] = store.Workload{ID: fmt.Sprint("slurm/", i), Kind: "slurm", Start: at, End: at, Seen: at}
	}
	began := time.Now()
	if err := c.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*took/20)
		if err := c.Upsert(ctx, rows); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %d of 20 parts: %v", i, err)
		}
		cancel()
	}
}
