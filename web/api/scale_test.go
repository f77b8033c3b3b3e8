package api_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeScale echoes the query.
type fakeScale struct{}

func (fakeScale) Scale(_ context.Context, w client.Workload) (client.Scale, error) {
	return client.Scale{Workload: w}, nil
}

// TestScaleIsGuarded: a viewer other than the owner does not learn that the workload exists.
func TestScaleIsGuarded(t *testing.T) {
	h := asViewer(api.Options{Backend: apitest.Site(now), Scale: fakeScale{}})
	for _, c := range []struct {
		viewer, target string
		status         int
	}{
		{"alice", "slurm/4711", 200}, {"alice", "4711", 200}, {"alice", "train", 200}, {"alice", "slurm/4712", 404}, {"alice", "4712", 404},
		{"alice", "slurm/4712?start=2026-11-21T11:30:00Z", 404}, {"public", "slurm/4711", 403}, {"public", "slurm/4711?start=1h", 403}, {"", "slurm/4711", 401},
		{"support", "slurm/4712", 200}, {"support", "train", 409}, {"support", "slurm/9", 404}, {"support", "slurm/4711?begin=1h", 400}, {"support", "slurm/4711?start=soon", 400},
	} {
		w := get(t, h, "/api/reckon/v1/scale/"+c.target, "X-Test-Viewer", c.viewer)
		if w.Code != c.status {
			t.Errorf("%s %s: %d %s", c.viewer, c.target, w.Code, w.Body)
		}
		if c.status == 200 && (strings.Contains(w.Body.String(), "null,\"runs\"") || !strings.Contains(w.Body.String(), `"runs":[]`)) {
			t.Errorf("%s: lists are null: %s", c.target, w.Body)
		}
	}
	if w := get(t, api.New(api.Options{Backend: apitest.Site(now)}), "/api/reckon/v1/scale/slurm/4711"); w.Code != 404 {
		t.Errorf("a server that does not know answers %d", w.Code)
	}
}

// TestLives requests each run of a reused id.
func TestLives(t *testing.T) {
	b := apitest.Site(now)
	older := b.Details[0]
	end := now.Add(-90 * 24 * time.Hour)
	older.Start, older.Owner, older.Running, older.End, older.Seen = end.Add(-time.Hour), "bob", false, &end, end
	b.Details = append(b.Details, older)
	h := asViewer(api.Options{Backend: b, Scale: fakeScale{}})
	const path = "/api/reckon/v1/workloads/slurm/4711"
	both := decode[client.WorkloadDetail](t, get(t, h, path, "X-Test-Viewer", "support"), 200)
	if len(both.Runs) != 2 || both.Owner != "alice" || both.Runs[1].Owner != "bob" || !both.Runs[0].Start.After(both.Runs[1].Start) {
		t.Errorf("%+v", both.Runs)
	}
	for text, owner := range map[string]string{
		older.Start.Format(time.RFC3339): "bob", end.Add(-time.Minute).Format(time.RFC3339): "bob", older.Start.Add(-40 * time.Second).Format(time.RFC3339): "bob",
		b.Details[0].Start.Format(time.RFC3339): "alice", now.Add(-time.Minute).Format(time.RFC3339): "alice",
	} {
		for _, name := range []string{"slurm/4711", "4711"} {
			if d := decode[client.WorkloadDetail](t, get(t, h, "/api/reckon/v1/workloads/"+name+"?start="+text, "X-Test-Viewer", "support"), 200); d.Owner != owner {
				t.Errorf("%s at %s: of %s, want %s", name, text, d.Owner, owner)
			}
		}
		if d := decode[client.Scale](t, get(t, h, "/api/reckon/v1/scale/slurm/4711?start="+text, "X-Test-Viewer", "support"), 200); d.Owner != owner {
			t.Errorf("scale at %s: of %s, want %s", text, d.Owner, owner)
		}
	}
	gone := decode[client.Error](t, get(t, h, path+"?start=2020-01-01T00:00:00Z", "X-Test-Viewer", "support"), 404)
	if !strings.Contains(gone.Error, "slurm/4711 was not there at 2020-01-01") || !strings.Contains(gone.Hint, "from "+older.Start.Format(time.RFC3339)+" to "+end.Format(time.RFC3339)) {
		t.Errorf("%+v", gone)
	}
	// Bob owns the older run: he sees it as if it were the only one.
	b.Details[0], b.Details[len(b.Details)-1] = b.Details[len(b.Details)-1], b.Details[0]
	for i := range b.Details { // names of the test's viewers
		if b.Details[i].Owner == "bob" && b.Details[i].ID == "slurm/4711" {
			b.Details[i].Owner = "carol"
		}
	}
	mine := decode[client.WorkloadDetail](t, get(t, h, path, "X-Test-Viewer", "carol"), 200)
	if mine.Owner != "carol" || mine.Runs != nil {
		t.Errorf("%s sees %+v", mine.Owner, mine.Runs)
	}
	if w := get(t, h, path+"?start="+now.Add(-time.Minute).Format(time.RFC3339), "X-Test-Viewer", "carol"); w.Code != 404 || strings.Contains(w.Body.String(), "alice") {
		t.Errorf("the life of another: %d %s", w.Code, w.Body)
	}
	for _, bad := range []string{"start=", "start=soon", "by=nodes", "by=node,part"} {
		if w := get(t, h, path+"?"+bad, "X-Test-Viewer", "support"); w.Code != 400 {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
}
