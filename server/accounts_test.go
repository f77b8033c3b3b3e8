package server

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reckon/agent"
)

// TestLostAccounts: that the saved accounts are missing is reported where this node was measured before, not in a new directory.
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
	const words = "accounts start from zero"
	if log := opened(); strings.Contains(log, words) {
		t.Errorf("in a new directory: %s", log)
	}
	_, stop := start(t, data)
	stop()
	if log := opened(); strings.Contains(log, words) {
		t.Errorf("with the file: %s", log)
	}
	must(t, os.Truncate(filepath.Join(data, "agent.state"), 100))
	if log := opened(); strings.Count(log, words) != 1 {
		t.Errorf("with a damaged file: %s", log)
	}
	if log := opened(); !strings.Contains(log, words) || !strings.Contains(log, "agent.state") {
		t.Errorf("without the file: %s", log)
	}
}

// TestLostCatalogueIsNoSilence: a server that makes its catalogue again from the series answers meanwhile, and reports what lacks; in
// a new directory it waits for the first workloads.
func TestLostCatalogueIsNoSilence(t *testing.T) {
	data := t.TempDir()
	ask := func() (status int, body string) {
		t.Helper()
		s, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Data: data, Agent: &agent.Config{Node: "n1", Source: "procfs"}})
		must(t, err)
		resp, err := s.InProcessClient().Get("http://server/api/reckon/v1/workloads")
		must(t, err)
		raw, err := io.ReadAll(resp.Body)
		must(t, errors.Join(err, resp.Body.Close(), s.close()))
		return resp.StatusCode, string(raw)
	}
	if status, body := ask(); status != http.StatusServiceUnavailable {
		t.Errorf("in a new directory: %d %s", status, body)
	}
	_, stop := start(t, data)
	stop()
	left, err := filepath.Glob(filepath.Join(data, "catalogue.db*"))
	must(t, err)
	for _, path := range left {
		must(t, os.Remove(path))
	}
	if status, body := ask(); status != http.StatusOK || !strings.Contains(body, "the catalogue was lost") {
		t.Errorf("without the catalogue: %d %s", status, body)
	}
}
