package api_test

import (
	"net/http/httptest"
	"slices"
	"testing"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// TestReplaceNode asks as `reckon node replace` does, with and without a site.
func TestReplaceNode(t *testing.T) {
	var asked []string
	s := httptest.NewServer(api.New(api.Options{Backend: &apitest.Backend{}, Replace: func(site, node string) bool {
		asked = append(asked, site+"/"+node)
		return node != "nobody"
	}}))
	defer s.Close()
	c, err := client.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []client.Replaced{{Node: "n1"}, {Node: "n1", Site: "lab"}} {
		if got, err := c.ReplaceNode(t.Context(), of.Site, of.Node); err != nil || got != of {
			t.Errorf("%+v: %+v, %v", of, got, err)
		}
	}
	if _, err := c.ReplaceNode(t.Context(), "", "nobody"); err == nil {
		t.Error("a node that nobody sends as was replaced")
	}
	if want := []string{"/n1", "lab/n1", "/nobody"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
}
