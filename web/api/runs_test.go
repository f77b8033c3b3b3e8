package api_test

import (
	"context"
	"testing"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// counted counts the queries that reach the catalogue.
type counted struct {
	*apitest.Backend
	lists, details int
}

func (c *counted) Workloads(ctx context.Context, f client.Filter) (client.WorkloadList, error) {
	c.lists++
	return c.Backend.Workloads(ctx, f)
}

func (c *counted) Workload(ctx context.Context, w client.Workload, r client.Range) (client.WorkloadDetail, error) {
	c.details++
	return c.Backend.Workload(ctx, w, r)
}

// TestPageOfAJobTakesOneQuery: the page of a job queries the catalogue once, by its full id or without the kind, for
// every viewer.
func TestPageOfAJobTakesOneQuery(t *testing.T) {
	for _, viewer := range []string{"admin", "alice"} {
		for _, path := range []string{"slurm/4711", "4711", "slurm/4711?start=2026-11-21T10:30:00Z"} {
			c := &counted{Backend: apitest.Site(now)}
			h := asViewer(api.Options{Backend: c})
			d := decode[client.WorkloadDetail](t, get(t, h, "/api/reckon/v1/workloads/"+path, "X-Test-Viewer", viewer), 200)
			if d.ID != "slurm/4711" || c.lists != 1 || c.details != 1 {
				t.Errorf("%s asks for %s: %s in %d lists and %d details", viewer, path, d.ID, c.lists, c.details)
			}
		}
	}
	// No details are read of another user's work.
	c := &counted{Backend: apitest.Site(now)}
	h := asViewer(api.Options{Backend: c})
	decode[client.Error](t, get(t, h, "/api/reckon/v1/workloads/slurm/4711", "X-Test-Viewer", "carol"), 404)
	if c.details != 0 {
		t.Errorf("%d details of what is not the viewer's", c.details)
	}
}
