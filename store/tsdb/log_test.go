package tsdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestLogOfDatabase: normal messages are no errors of the program.
func TestLogOfDatabase(t *testing.T) {
	for _, c := range []struct {
		message string
		err     error
		shown   bool
	}{
		{"compaction failed", fmt.Errorf("compact head: %w", context.Canceled), false},
		{"compaction failed", errors.New("no space left on device"), true},
		{"Overlapping blocks found during reloadBlocks", nil, false},
		{"Unknown series references", nil, true},
	} {
		var out bytes.Buffer
		slog.New(noiseFilter{slog.NewTextHandler(&out, nil), false}).Error(c.message, "err", c.err)
		if got := strings.Contains(out.String(), c.message); got != c.shown {
			t.Errorf("%s, %v: shown %v, want %v", c.message, c.err, got, c.shown)
		}
	}
}
