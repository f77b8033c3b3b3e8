package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reckon/agent"
)

// TestLostAccounts: that the saved accounts are missing is said where this node was measured before, not in a new directory.
func TestLostAccounts(t *testing.T) {
	data := t.TempDir()
	opened := func() string {
		t.Helper()
		var log lockedBytes
		s, err := Open(t.Context(), Config{
			Listen: "127.0.0.1:0", Data: data, Agent: &agent.Config{Node: "n1", Source: "procfs"},
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		must(t, err)
		must(t, s.close())
		return log.String()
	}
	const words = "accounts begin anew"
	if log := opened(); strings.Contains(log, words) {
		t.Errorf("in a new directory: %s", log)
	}
	_, stop := start(t, data)
	stop()
	if log := opened(); strings.Contains(log, words) {
		t.Errorf("with the file: %s", log)
	}
	must(t, os.Remove(filepath.Join(data, "agent.state")))
	if log := opened(); !strings.Contains(log, words) || !strings.Contains(log, "agent.state") {
		t.Errorf("without the file: %s", log)
	}
}
