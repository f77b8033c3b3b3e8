package api_test

import (
	"context"
	"testing"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeDevices has one disk on each node.
type fakeDevices struct{}

func (fakeDevices) Devices(_ context.Context, site, node string) (client.NodeDevices, error) {
	return client.NodeDevices{Node: node, Site: site, Disks: []client.Disk{{Device: "sda", Busy: new(0.5)}}, Mounts: []client.Mount{}, Links: []client.Link{}}, nil
}

// TestDevices checks access and parameters.
func TestDevices(t *testing.T) {
	h := asViewer(api.Options{Backend: apitest.Site(now), Devices: fakeDevices{}})
	got := decode[client.NodeDevices](t, get(t, h, "/api/reckon/v1/nodes/n1/devices?site=lab", "X-Test-Viewer", "alice"), 200)
	if got.Node != "n1" || got.Site != "lab" || len(got.Disks) != 1 || *got.Disks[0].Busy != 0.5 {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		query, viewer string
		status        int
	}{{"", "public", 403}, {"", "admin", 200}, {"?sites=lab", "admin", 400}} {
		if w := get(t, h, "/api/reckon/v1/nodes/n1/devices"+c.query, "X-Test-Viewer", c.viewer); w.Code != c.status {
			t.Errorf("%s of %s: %d %s", c.query, c.viewer, w.Code, w.Body)
		}
	}
	if w := get(t, api.New(api.Options{Backend: apitest.Site(now)}), "/api/reckon/v1/nodes/n1/devices"); w.Code != 404 {
		t.Errorf("a server that knows none answers %d", w.Code)
	}
}
