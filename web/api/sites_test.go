package api_test

import (
	"strings"
	"testing"
	"time"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// TestSameIDAtTwoSites: clusters number their jobs independently, so an
// id alone may mean two jobs. Neither is returned for the other.
func TestSameIDAtTwoSites(t *testing.T) {
	b := apitest.Site(now)
	b.Details[0].Site = "alpha"
	here := b.Details[0]
	there := here
	there.Site, there.Owner, there.Start = "beta", "bob", here.Start.Add(-10*time.Minute)
	b.Details = append(b.Details, there)
	h := asViewer(api.Options{Backend: b, Scale: fakeScale{}})
	at := func(w client.WorkloadDetail) string { return "start=" + w.Start.Format(time.RFC3339) }
	for _, path := range []string{"/api/reckon/v1/workloads/slurm/4711", "/api/reckon/v1/workloads/4711", "/api/reckon/v1/scale/slurm/4711", "/api/reckon/v1/scale/4711"} {
		for _, several := range []string{"", "?start=" + now.Add(-time.Minute).Format(time.RFC3339)} {
			e := decode[client.Error](t, get(t, h, path+several, "X-Test-Viewer", "support"), 409)
			if !strings.Contains(e.Error, "2 sites") || !strings.Contains(e.Hint, "beta (of bob") || !strings.Contains(e.Hint, here.Site+" (of alice") {
				t.Errorf("%s%s: %+v", path, several, e)
			}
		}
		for query, owner := range map[string]string{"site=beta": "bob", "site=" + here.Site: "alice", at(there): "bob", at(here): "alice"} {
			if body := get(t, h, path+"?"+query, "X-Test-Viewer", "support"); body.Code != 200 || !strings.Contains(body.Body.String(), `"owner":"`+owner+`"`) {
				t.Errorf("%s?%s: %d %.100s, want that of %s", path, query, body.Code, body.Body, owner)
			}
		}
		if e := decode[client.Error](t, get(t, h, path+"?site=gamma", "X-Test-Viewer", "support"), 404); !strings.Contains(e.Hint, "beta") {
			t.Errorf("%s: %+v", path, e)
		}
		// Alice owns one of them, and does not learn of the other.
		if w := get(t, h, path, "X-Test-Viewer", "alice"); w.Code != 200 || !strings.Contains(w.Body.String(), `"owner":"alice"`) {
			t.Errorf("%s: alice sees %d %.100s", path, w.Code, w.Body)
		}
		if w := get(t, h, path+"?site=beta", "X-Test-Viewer", "alice"); w.Code != 404 || strings.Contains(w.Body.String(), "bob") {
			t.Errorf("%s: alice is told %s", path, w.Body)
		}
	}
	// Only the runs at the same site are listed.
	if d := decode[client.WorkloadDetail](t, get(t, h, "/api/reckon/v1/workloads/slurm/4711?site=beta", "X-Test-Viewer", "support"), 200); d.Runs != nil {
		t.Errorf("lives of another site: %+v", d.Runs)
	}
}

// TestPartsOfJobs: a query for an array, a heterogeneous job or a pending task returns
// the known parts of it.
func TestPartsOfJobs(t *testing.T) {
	b := apitest.Site(now)
	for _, id := range []string{"slurm/500_0", "slurm/500_3", "slurm/600+0", "slurm/600+1", "slurm/700"} {
		d := b.Details[0]
		d.ID = id
		b.Details = append(b.Details, d)
	}
	h := asViewer(api.Options{Backend: b})
	for ask, hint := range map[string]string{
		"500": "slurm/500_0, slurm/500_3", "slurm/500": "slurm/500_0, slurm/500_3", "600": "slurm/600+0, slurm/600+1", "700_12": "slurm/700 stands", "slurm/700_12": "slurm/700 stands",
	} {
		e := decode[client.Error](t, get(t, h, "/api/reckon/v1/workloads/"+ask, "X-Test-Viewer", "support"), 404)
		if !strings.Contains(e.Hint, hint) {
			t.Errorf("%s: %+v", ask, e)
		}
		if w := get(t, h, "/api/reckon/v1/workloads/"+ask, "X-Test-Viewer", "carol"); w.Code != 404 || strings.Contains(w.Body.String(), "id of its own") || strings.Contains(w.Body.String(), "represents") {
			t.Errorf("carol is told of %s: %s", ask, w.Body)
		}
	}
}
