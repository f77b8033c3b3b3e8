package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"reckon/access"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeUsage returns three owners and records the query.
type fakeUsage struct{ asked client.UsageQuery }

func (f *fakeUsage) Usage(_ context.Context, q client.UsageQuery) (client.UsageList, error) {
	f.asked = q
	list := client.UsageList{Since: q.Since, Until: q.Until, Span: q.Span, By: q.By}
	one, two := 1.0, 2.0
	for _, o := range []string{"alice", "bob", "carol"} {
		if len(q.Owners) == 0 || strings.Contains(strings.Join(q.Owners, " "), o) {
			list.Rows = append(list.Rows, client.Usage{Owner: o, UsageFigures: client.UsageFigures{CPUSeconds: &two}, CapacityShare: &one})
		}
	}
	return list, nil
}

func TestUsageParameters(t *testing.T) {
	f := &fakeUsage{}
	h := api.New(api.Options{Backend: apitest.Site(now), Usage: f})
	list := decode[client.UsageList](t, get(t, h, "/api/reckon/v1/usage?by=owner,account&span=month&since=2026-01-01&until=2026-07-01&kind=slurm&command=py*"), 200)
	if len(list.Rows) != 3 || f.asked.Span != "month" || strings.Join(f.asked.By, " ") != "account owner" || f.asked.Command != "py*" || f.asked.Until.Sub(f.asked.Since) < 180*24*time.Hour {
		t.Errorf("%+v", f.asked)
	}
	get(t, h, "/api/reckon/v1/usage")
	if !f.asked.Since.Equal(f.asked.Until.AddDate(0, 0, -30)) || f.asked.Span != "whole" {
		t.Errorf("without parameters: %+v", f.asked)
	}
	for _, bad := range []string{
		"by=nonsense", "span=year", "since=2026-02-01&until=2026-01-01", "since=2020-01-01&until=2026-01-01&span=hour", "limit=3", "command=[", "by=",
	} {
		if e := decode[client.Error](t, get(t, h, "/api/reckon/v1/usage?"+bad), 400); e.Hint == "" {
			t.Errorf("%s: no hint", bad)
		}
	}
	for _, good := range []string{"by=node&owner=alice", "by=kind&node=n1", "by=node,owner", "by=qos,size", "by=gpus,length"} {
		decode[client.UsageList](t, get(t, h, "/api/reckon/v1/usage?"+good), 200)
	}
	if w := get(t, h, "/api/reckon/v1/usage?format=csv"); !strings.HasPrefix(w.Body.String(), "from,site,owner,") || !strings.Contains(w.Body.String(), "bob") {
		t.Errorf("%s", w.Body)
	}
	if w := get(t, api.New(api.Options{Backend: apitest.Site(now)}), "/api/reckon/v1/usage"); w.Code != 404 {
		t.Errorf("a server without history answers %d", w.Code)
	}
}

// TestUsageHidesOthers: users see themselves and a total of the others, the public sees no
// names, whatever the query.
func TestUsageHidesOthers(t *testing.T) {
	for _, c := range []struct {
		viewer access.Viewer
		query  string
		status int
		want   string // owners
	}{
		{access.Viewer{Role: access.User, Name: "alice"}, "by=owner", 200, "alice others"},
		{access.Viewer{Role: access.User, Name: "alice"}, "by=owner,command", 200, "alice"},
		{access.Viewer{Role: access.User, Name: "alice"}, "by=account", 200, "alice"},
		{access.Viewer{Role: access.User, Name: "alice"}, "by=owner&owner=bob", 200, ""},
		{access.Viewer{Role: access.User, Name: "alice"}, "by=owner&owner=bob,alice", 200, "alice"},
		{access.Viewer{Role: access.User, Name: "alice"}, "by=kind&command=secret*", 200, "alice"},
		{access.Viewer{Role: access.Public}, "by=owner", 403, ""},
		{access.Viewer{Role: access.Public}, "by=command", 403, ""},
		{access.Viewer{Role: access.Public}, "by=kind&account=a", 403, ""},
		{access.Viewer{Role: access.Public}, "owner=alice", 403, ""},
		{access.Viewer{}, "by=kind", 401, ""},
		{access.Viewer{Role: access.Support}, "by=owner", 200, "alice bob carol"},
	} {
		h := api.New(api.Options{Backend: apitest.Site(now), Usage: &fakeUsage{}, Viewer: func(*http.Request) (access.Viewer, error) { return c.viewer, nil }})
		w := get(t, h, "/api/reckon/v1/usage?"+c.query)
		if w.Code != c.status {
			t.Errorf("%s %s: status %d, want %d", c.viewer.Role, c.query, w.Code, c.status)
			continue
		}
		if c.status != 200 {
			continue
		}
		list := decode[client.UsageList](t, w, 200)
		var owners []string
		for _, r := range list.Rows {
			owners = append(owners, r.Owner)
			if r.Owner == "others" && (*r.CPUSeconds != 4 || *r.CapacityShare != 2) {
				t.Errorf("others: %+v", r)
			}
		}
		if got := strings.Join(owners, " "); got != c.want {
			t.Errorf("%s %s: sees %q, want %q", c.viewer.Role, c.query, got, c.want)
		}
	}
}
