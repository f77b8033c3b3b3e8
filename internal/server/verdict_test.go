package server

import (
	"testing"

	"reckon/client"
)

func TestCoresOf(t *testing.T) {
	two, four := 2.0, 4.0
	nodes := []client.Node{{Node: "a", Cores: &two}, {Node: "b", Cores: &four}, {Node: "a", Site: "x", Cores: &four}, {Node: "c"}}
	for _, c := range []struct {
		site  string
		names []string
		want  float64 // below 0: not known
	}{
		{"", []string{"a"}, 2}, {"x", []string{"a"}, 4}, {"", []string{"a", "b"}, 6},
		{"", []string{"a", "c"}, -1}, {"", []string{"a", "gone"}, -1}, {"", nil, -1},
	} {
		got := coresOf(nodes, c.site, c.names)
		if got == nil && c.want >= 0 || got != nil && *got != c.want {
			t.Errorf("%s %v: got %v, want %g", c.site, c.names, got, c.want)
		}
	}
}

func TestByNode(t *testing.T) {
	one, two := 1.0, 2.0
	got := byNode([]client.Part{{Node: "a", Part: "0", CPUSeconds: &one}, {Node: "b", Part: "0"}, {Node: "a", Part: "1", CPUSeconds: &two}, {Node: "b", Part: "1", CPUSeconds: &one}})
	if len(got) != 2 || got[0].Name != "a" || *got[0].CPUSeconds != 3 || got[1].CPUSeconds != nil {
		t.Errorf("got %+v", got)
	}
	if one != 1 {
		t.Error("a figure of the caller was changed")
	}
}
