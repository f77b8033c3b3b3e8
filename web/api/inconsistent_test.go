package api_test

import (
	"testing"
	"time"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

type fakeInconsistent struct{}

func (fakeInconsistent) Inconsistent() []client.InconsistentFigure {
	return []client.InconsistentFigure{{Figure: "cpu_seconds", Rule: "cpu_within_wall", Count: 2, Subject: "slurm/1", Value: 900, Bound: 800, Of: "wall time by the cores of its nodes", Time: now.UTC().Truncate(time.Second)}}
}

// TestInconsistent: operators of the server see the withheld figures, with an example, which may
// name somebody's work.
func TestInconsistent(t *testing.T) {
	const target = "/api/reckon/v1/inconsistent"
	h := asViewer(api.Options{Backend: apitest.Site(now), Inconsistent: fakeInconsistent{}})
	list := decode[client.InconsistentList](t, get(t, h, target, "X-Test-Viewer", "support"), 200)
	if len(list.Figures) != 1 || list.Figures[0] != (fakeInconsistent{}).Inconsistent()[0] {
		t.Errorf("%+v", list)
	}
	for viewer, status := range map[string]int{"alice": 403, "public": 403, "": 401} {
		decode[client.Error](t, get(t, h, target, "X-Test-Viewer", viewer), status)
	}
	decode[client.Error](t, get(t, asViewer(api.Options{Backend: apitest.Site(now)}), target, "X-Test-Viewer", "admin"), 404)
}
