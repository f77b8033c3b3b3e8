package server

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"reckon/catalogue/database"
	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/graph/object"
	vocabulary "reckon/graph/own"
)

// Data is the place where the graph has it stored, and where a running pod has a volume mounted; a pod that ended holds nothing.
func TestDataPlaces(t *testing.T) {
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	shared := c.Shared()
	s, err := embedded.Open(t.Context(), embedded.Options{DB: shared.DB, Write: shared.Write})
	if err != nil {
		t.Fatal(err)
	}
	v := vocabulary.Vocabulary{}
	put := func(id string, quads []graph.Quad) {
		t.Helper()
		if _, _, err := s.Put(t.Context(), id, graph.Put{Quads: quads, IfVersion: graph.AnyVersion}); err != nil {
			t.Fatal(err)
		}
	}
	put("site", v.Describe(object.Site{Name: "default", Nodes: []string{"n1", "n2"}}))
	for _, n := range []string{"n1", "n2"} {
		put(n, v.Node(object.Node{Name: n, Status: "Ready"}))
	}
	for i, phase := range []string{"Running", "Succeeded"} {
		put(phase, v.Pod(object.Pod{Namespace: "shop", Name: phase, Node: fmt.Sprintf("n%d", i+1), Phase: phase,
			Volumes: []object.Data{{Kind: "persistentVolumeClaim", Namespace: "shop", Name: "carts"}, {Kind: "configMap", Namespace: "shop", Name: "settings"}}}))
	}
	put("maps", []graph.Quad{{S: graph.Node("urn:maps"), P: graph.Node(vocabulary.Namespace + "storedOn"), O: v.NodeID("n2")}})
	got, err := (&dataPlaces{s, "default"}).Places(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, p := range got {
		text = append(text, fmt.Sprint(p.IRI, " ", p.Name, " ", p.Site, " ", p.Node))
	}
	slices.Sort(text)
	want := []string{"urn:maps   n2", "urn:reckon:data/default/persistentVolumeClaim/shop/carts persistentVolumeClaim/shop/carts  n1"}
	if !slices.Equal(text, want) {
		t.Errorf("%q, want %q", text, want)
	}
}
