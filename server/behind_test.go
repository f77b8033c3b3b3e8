package server

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/answer"
	"reckon/catalogue/database"
)

// Who asks a catalogue that cannot be written is reported what it lacks, until it can be.
func TestBehind(t *testing.T) {
	facts, err := database.Open(filepath.Join(t.TempDir(), "catalogue.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	var b catalogueLag
	o := &answer.Outage{Catalogue: facts, Behind: b.reason}
	if got := o.Missing(t.Context(), time.Time{}, time.Time{}); got != nil {
		t.Errorf("nothing is wrong, and it says %q", got)
	}
	at, said := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), 0
	for i := range 121 { // every ten seconds for twenty minutes, each time in other words
		if b.recordUpdate(fmt.Errorf("write %d rows: %w", i, errors.New("no space left")), at.Add(time.Duration(i)*10*time.Second)) {
			said++
		}
	}
	if said != 3 {
		t.Errorf("said %d times in twenty minutes, want 3", said)
	}
	if got := o.Missing(t.Context(), time.Time{}, time.Time{}); len(got) != 1 || !strings.HasPrefix(got[0], "recent events") || !strings.Contains(got[0], "no space left") {
		t.Errorf("it says %q", got)
	}
	if b.recordUpdate(nil, at) || o.Missing(t.Context(), time.Time{}, time.Time{}) != nil {
		t.Error("it is over, and goes on being said")
	}
}
