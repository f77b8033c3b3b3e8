package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/answer"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// send is like get for any method; a non-empty form is sent.
func send(t *testing.T, h http.Handler, method, target, form string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(form))
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// target fills in the id of a path.
func target(path string) string {
	id := "slurm/4711"
	if strings.Contains(path, "/findings/") {
		id = "f1"
	}
	return strings.Replace(strings.Replace(path, "{node}", "n1", 1), "{id}", id, 1)
}

// ask requests an address with the method in the document.
func ask(t *testing.T, h http.Handler, item any, path string) *httptest.ResponseRecorder {
	t.Helper()
	if strings.Contains(path, "/import/") {
		return upload(t, h, strings.Replace(path, "{format}", "sonar", 1), "", "text")
	}
	if _, post := item.(map[string]any)["post"]; post {
		form := ""
		switch {
		case strings.HasSuffix(path, "/mute"):
			form = "reason=known&until=2030-01-01"
		case strings.HasSuffix(path, "/what-if"):
			form = "policy=rules%3A+%7B%7D"
		case strings.HasSuffix(path, "/replace"):
			form = "node=n1"
		case strings.HasSuffix(path, "/keep"):
			form = "{}"
		case strings.HasSuffix(path, "/prioritize"):
			form = "{}"
		}
		return send(t, h, http.MethodPost, target(path), form)
	}
	if strings.Contains(path, "/data") {
		path += "?select=up"
	}
	if strings.HasSuffix(path, "/compare/runs") {
		path += "?a=alice/demo-1&b=alice/demo-1"
	}
	if strings.Contains(path, "/members/") {
		return get(t, api.New(api.Options{Backend: apitest.Array(now)}), strings.Replace(path, "{id}", "slurm/4", 1))
	}
	return get(t, h, target(path))
}

// fakeFindings holds a few findings in memory.
type fakeFindings struct{ list []client.Finding }

func newFindings() *fakeFindings {
	f := &fakeFindings{}
	for i, owner := range []string{"alice", "bob", "alice"} {
		f.list = append(f.list, client.Finding{ID: fmt.Sprintf("f%d", i+1), Rule: "over-requested", Severity: "medium", State: "new", Owner: owner, Workload: "slurm/4711", Text: "holds 16 cores", Evidence: []client.Evidence{{Text: "x", Value: 1, Unit: "ratio"}}})
	}
	return f
}

func (f *fakeFindings) Findings(_ context.Context, q client.FindingFilter) (client.FindingList, error) {
	list := client.FindingList{}
	for _, x := range f.list {
		if len(q.Owners) == 0 || slices.Contains(q.Owners, x.Owner) {
			list.Findings = append(list.Findings, x)
		}
	}
	list.Total = len(list.Findings)
	return list, nil
}

func (f *fakeFindings) Finding(_ context.Context, id string) (client.Finding, error) {
	for _, x := range f.list {
		if x.ID == id {
			return x, nil
		}
	}
	return client.Finding{}, answer.NotFound("", fmt.Errorf("no such finding: %s", id))
}

func (f *fakeFindings) Acknowledge(ctx context.Context, id, by string) (client.Finding, error) {
	x, err := f.Finding(ctx, id)
	x.AckBy = by
	return x, err
}

func (f *fakeFindings) Mute(ctx context.Context, id, reason string, until time.Time) (client.Finding, error) {
	x, err := f.Finding(ctx, id)
	x.MuteReason, x.MutedUntil = reason, &until
	return x, err
}

func (f *fakeFindings) WhatIf(_ context.Context, policy []byte, since time.Time) (client.FindingDifference, error) {
	return client.FindingDifference{Since: since, Now: len(policy)}, nil
}
func (f *fakeFindings) FindingSteps(ctx context.Context, id string) (client.FindingSteps, error) {
	_, err := f.Finding(ctx, id)
	return client.FindingSteps{Total: 60, Unit: "cores", Steps: []client.FindingStep{{Node: "n1", Start: now, End: now, Use: 3, Fair: 2, Capacity: 4, Owners: 2, Why: "full", Seconds: 60}}}, err
}
func (f *fakeFindings) Policy() []byte { return []byte("rules: {}\n") }

func TestFindings(t *testing.T) {
	h := asViewer(api.Options{Backend: apitest.Site(now), Findings: newFindings()})
	const base = "/api/reckon/v1/findings"
	for viewer, want := range map[string]int{"admin": 3, "support": 3, "alice": 2, "carol": 0} {
		if list := decode[client.FindingList](t, get(t, h, base, "X-Test-Viewer", viewer), 200); len(list.Findings) != want || list.Total != want {
			t.Errorf("%s sees %d findings, want %d", viewer, len(list.Findings), want)
		}
	}
	for _, c := range []struct {
		viewer, method, target, form string
		status                       int
	}{
		{"public", "GET", base, "", 403}, {"", "GET", base, "", 401}, {"alice", "GET", base + "?owner=bob", "", 200},
		{"alice", "GET", base + "/f1/steps", "", 200}, {"alice", "GET", base + "/f2/steps", "", 404}, {"admin", "GET", base + "/f9/steps", "", 404}, {"public", "GET", base + "/f1/steps", "", 403},
		{"alice", "GET", base + "/f1", "", 200}, {"alice", "GET", base + "/f2", "", 404}, {"admin", "GET", base + "/f9", "", 404},
		{"alice", "POST", base + "/f1/acknowledge", "", 403}, {"support", "POST", base + "/f1/acknowledge", "", 200}, {"admin", "POST", base + "/f9/acknowledge", "", 404},
		{"admin", "POST", base + "/f1/mute", "", 400}, {"admin", "POST", base + "/f1/mute", "reason=x", 400}, {"admin", "POST", base + "/f1/mute", "reason=x&until=2030-01-01", 200},
		{"alice", "POST", base + "/f1/mute", "reason=x&until=2030-01-01", 403}, {"admin", "GET", base + "/f1/mute", "", 405}, {"admin", "POST", base, "", 405},
		{"admin", "GET", base + "?rule=gready", "", 400}, {"admin", "GET", base + "?state=closed", "", 400}, {"admin", "GET", base + "?muted=perhaps", "", 400},
		{"alice", "POST", "/api/reckon/v1/policy/what-if", "policy=x", 403}, {"admin", "POST", "/api/reckon/v1/policy/what-if", "policy=x&since=2y", 400}, {"admin", "POST", "/api/reckon/v1/policy/what-if", "policy=" + url.QueryEscape(strings.Repeat("x", 2<<20)), 400},
		{"admin", "POST", "/api/reckon/v1/policy/what-if", "policy=x&since=2d", 200}, {"alice", "GET", "/api/reckon/v1/policy", "", 200},
	} {
		w := send(t, h, c.method, c.target, c.form, "X-Test-Viewer", c.viewer)
		if w.Code != c.status {
			t.Errorf("%s %s %s %.40s: %d, want %d: %.200s", c.viewer, c.method, c.target, c.form, w.Code, c.status, w.Body)
		}
		if c.viewer == "alice" && strings.Contains(w.Body.String(), "bob") && !strings.Contains(c.target, "bob") {
			t.Errorf("alice sees bob at %s", c.target)
		}
	}
	if w := get(t, api.New(api.Options{Backend: apitest.Site(now)}), base); w.Code != 404 || !strings.Contains(w.Body.String(), "does not look for misuse") {
		t.Errorf("a server that does not look: %d %s", w.Code, w.Body)
	}
}
