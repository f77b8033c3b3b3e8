package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"reckon/access"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// secretUsage names everything "secret".
type secretUsage struct{}

func (secretUsage) Usage(_ context.Context, q client.UsageQuery) (client.UsageList, error) {
	one := 1.0
	u := client.Usage{Site: "secret-site", UsageFigures: client.UsageFigures{CPUSeconds: &one}}
	for _, by := range q.By {
		*map[string]*string{"owner": &u.Owner, "account": &u.Account, "command": &u.Command, "node": &u.Node, "kind": &u.Kind}[by] = "secret-" + by
	}
	if u.Kind != "" {
		u.Kind = "slurm"
	}
	return client.UsageList{Since: q.Since, Until: q.Until, Span: q.Span, Rows: []client.Usage{u}, Missing: []string{"secret-site-2"}}, nil
}

// TestPublicReportTellsNoName: public reports, and reports without names on request, contain no names.
func TestPublicReportTellsNoName(t *testing.T) {
	for _, c := range []struct {
		role  access.Role
		query string
		names bool
	}{
		{access.Public, "", false}, {access.Public, "?public=false", false}, {access.Admin, "?public=true", false}, {access.User, "?public=true", false},
		{access.Admin, "", true},
	} {
		h := api.New(api.Options{Backend: apitest.Site(now), Usage: secretUsage{},
			Viewer: func(*http.Request) (access.Viewer, error) { return access.Viewer{Role: c.role, Name: "alice"}, nil }})
		w := get(t, h, "/api/reckon/v1/report"+c.query)
		if w.Code != 200 {
			t.Fatalf("%s %s: %d %s", c.role, c.query, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), "secret") != c.names {
			t.Errorf("%s %s: names are %s", c.role, c.query, w.Body)
		}
		rep := decode[client.Report](t, w, 200)
		if len(rep.Owners) != 1 || rep.Period != "month" || rep.Step != "day" || (!c.names && rep.Owners[0].Owner != "owner 1") {
			t.Errorf("%s %s: %+v", c.role, c.query, rep)
		}
	}
	h := api.New(api.Options{Backend: apitest.Site(now), Usage: secretUsage{}})
	for _, bad := range []string{"period=fortnight", "public=maybe", "until=soon", "owner=alice"} {
		if w := get(t, h, "/api/reckon/v1/report?"+bad); w.Code != 400 {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
	viewer := func(*http.Request) (access.Viewer, error) {
		return access.Viewer{Role: access.User, Name: "alice"}, nil
	}
	h = api.New(api.Options{Backend: apitest.Site(now), Usage: secretUsage{}, Viewer: viewer})
	if body := get(t, h, "/api/reckon/v1/report").Body.String(); strings.Contains(body, "secret-owner") || !strings.Contains(body, `"others"`) {
		t.Errorf("a user sees %s", body)
	}
}
