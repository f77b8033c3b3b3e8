package api_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"reckon/answer"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeLogs echoes the query.
type fakeLogs struct{ err error }

func (f fakeLogs) Logs(_ context.Context, d *client.WorkloadDetail, r client.LogRange) (client.Logs, error) {
	text := fmt.Sprint(d.Owner, " first=", r.First, " limit=", r.Limit)
	if !r.Start.IsZero() {
		text += r.Start.Format(" from=15:04:05.000")
	}
	return client.Logs{ID: d.ID, Source: "loki", Lines: []client.LogLine{{Time: now, Text: text}}}, f.err
}

// TestLogsAreGuarded: logs are visible only to those who may see the workload, and only after sign-in.
func TestLogsAreGuarded(t *testing.T) {
	h := asViewer(api.Options{Backend: apitest.Site(now), Logs: fakeLogs{}})
	for _, c := range []struct {
		viewer, target string
		status         int
		text           string
	}{
		{"alice", "slurm/4711", 200, "alice first=false limit=500"}, {"alice", "slurm/4711?order=first&limit=7", 200, "alice first=true limit=7"},
		{"alice", "slurm/4711?from=2026-11-21T11:30:00.5Z", 200, "from=11:30:00.500"},
		{"alice", "slurm/4712", 404, ""}, {"public", "slurm/4711", 403, ""}, {"", "slurm/4711", 401, ""}, {"support", "slurm/4712", 200, ""},
		{"support", "train", 409, ""}, {"support", "slurm/9", 404, ""}, {"alice", "slurm/4711?order=all", 400, ""}, {"alice", "slurm/4711?limit=0", 400, ""},
		{"alice", "slurm/4711?limit=5000", 200, ""}, {"alice", "slurm/4711?limit=5001", 400, ""},
	} {
		w := get(t, h, "/api/reckon/v1/logs/"+c.target, "X-Test-Viewer", c.viewer)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) || c.status != 200 && strings.Contains(w.Body.String(), "first=") {
			t.Errorf("%s %s: %d %s", c.viewer, c.target, w.Code, w.Body)
		}
	}
	if w := get(t, api.New(api.Options{Backend: apitest.Site(now)}), "/api/reckon/v1/logs/slurm/4711"); w.Code != 404 || !strings.Contains(w.Body.String(), "loki") {
		t.Errorf("a server without a place of logs answers %d %s", w.Code, w.Body)
	}
	busy := api.New(api.Options{Backend: apitest.Site(now), Logs: fakeLogs{answer.Busy("", errors.New("ask Loki: it is away"))}})
	if w := get(t, busy, "/api/reckon/v1/logs/slurm/4711"); w.Code != 503 || !strings.Contains(w.Body.String(), "it is away") {
		t.Errorf("a place of logs that is away: %d %s", w.Code, w.Body)
	}
}
