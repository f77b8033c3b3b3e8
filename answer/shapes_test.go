package answer_test

import (
	"strings"
	"testing"

	"reckon/answer"
)

// TestReadShapes: the forms of nodes, memory and times, and the errors of a file.
func TestReadShapes(t *testing.T) {
	list, err := answer.ReadShapes([]byte(`clusters:
  - name: fjord
    partitions:
      - {name: a, nodes: 3, cores: 64, memory: 256G, max_time: 7d, wait: {hours: 0.5, source: May}, who: [x]}
      - {name: b, nodes: "n[1-3,7]", cores: 64, memory: 256, max_time: 36h, gpu_vendor: NVIDIA, fast_network: false}
      - {name: c, nodes: [n8, "n[9-10]"], memory: 274877906944, max_time: 1-12:00:00}
      - {name: d, memory: 1.5TiB, max_time: 36}
`))
	if err != nil || len(list) != 4 {
		t.Fatal(list, err)
	}
	for i, want := range []struct{ nodes, memory, seconds float64 }{{3, 256 << 30, 7 * 86400}, {4, 256 << 30, 36 * 3600}, {3, 256 << 30, 36 * 3600}, {0, 1.5 * (1 << 40), 36 * 3600}} {
		if s := list[i]; s.Nodes != want.nodes || *s.Memory != want.memory || *s.MaxTime != want.seconds {
			t.Errorf("%s: %g nodes, %g bytes, %g s", s.Partition, s.Nodes, *s.Memory, *s.MaxTime)
		}
	}
	if a, b := list[0], list[1]; a.FileWait.Seconds != 1800 || a.FileWait.Source != "May" || a.Who[0] != "x" || b.Vendor != "nvidia" || *b.FastNetwork || a.FastNetwork != nil {
		t.Errorf("%+v\n%+v", a, b)
	}
	for text, want := range map[string]string{
		"clusters: [{name: x, partitions: [{name: a, core: 4}]}]":            "field core not found",
		"clusters: [{name: x, partitions: [{name: a, memory: much}]}]":       `partition a of x: "much" is neither`,
		"clusters: [{name: x, partitions: [{name: a, max_time: soon}]}]":     `"soon" is neither`,
		"clusters: [{name: x, partitions: [{name: a, nodes: 'n[1-'}]}]":      "partition a of x:",
		"clusters: [{name: x, partitions: [{name: a}, {name: a}]}]":          `partition "a" of cluster "x"`,
		"clusters: [{partitions: [{name: a}]}]":                              `of cluster ""`,
		"clusters: [{name: x, partitions: [{name: a, memory: -3}]}]":         `"-3" is neither`,
		"clusters: [{name: x, partitions: [{name: a, max_time: '1-x:00'}]}]": `"1-x:00" is neither`,
	} {
		if _, err := answer.ReadShapes([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
