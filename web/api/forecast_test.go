package api_test

import (
	"context"
	"strings"
	"testing"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeForecasts echoes the name of the subject.
type fakeForecasts struct{}

func (fakeForecasts) Forecast(_ context.Context, q client.ForecastQuery, w *client.Workload) (client.ForecastList, error) {
	one := client.Forecast{Name: q.Node + q.Owner, Steps: []client.ForecastStep{}, Methods: []string{}, Flags: []string{}}
	if w != nil {
		one.Name = w.ID
	}
	return client.ForecastList{Forecasts: []client.Forecast{one}, Next: []client.NextFigure{}}, nil
}

// TestForecastIsGuarded: totals of machines are visible to everybody, the work of an owner only to the owner.
func TestForecastIsGuarded(t *testing.T) {
	h := asViewer(api.Options{Backend: apitest.Site(now), Forecasts: fakeForecasts{}})
	for _, c := range []struct {
		viewer, question string
		status           int
		name             string
	}{
		{"public", "", 200, ""}, {"public", "node=n1", 200, "n1"}, {"public", "owner=alice", 403, ""}, {"public", "workload=slurm/4711", 403, ""}, {"", "", 401, ""},
		{"alice", "owner=alice", 200, "alice"}, {"alice", "owner=bob", 403, ""}, {"alice", "workload=4711", 200, "slurm/4711"}, {"alice", "workload=slurm/4712", 404, ""},
		{"support", "owner=bob", 200, "bob"}, {"support", "workload=slurm/4712", 200, "slurm/4712"},
		{"support", "owner=bob&node=n1", 400, ""}, {"support", "hours=24", 200, ""}, {"support", "hours=336", 200, ""},
		{"support", "hours=337", 400, ""}, {"support", "hours=0", 400, ""}, {"support", "horizon=1", 400, ""},
	} {
		w := get(t, h, "/api/reckon/v1/forecast?"+c.question, "X-Test-Viewer", c.viewer)
		if w.Code != c.status {
			t.Errorf("%s %s: %d %s", c.viewer, c.question, w.Code, w.Body)
		}
		if c.status == 200 && !strings.Contains(w.Body.String(), `"name":"`+c.name+`"`) && c.name != "" {
			t.Errorf("%s %s: %s", c.viewer, c.question, w.Body)
		}
	}
	if w := get(t, api.New(api.Options{Backend: apitest.Site(now)}), "/api/reckon/v1/forecast"); w.Code != 404 {
		t.Errorf("a server that makes none answers %d", w.Code)
	}
}
