package infiniband

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"reckon/metric"
)

// TestLikeNodeExporter compares names, labels, units and values with node_exporter's for the same tree. One
// counter differs by intention: it is saturated, which node_exporter exports as a value.
func TestLikeNodeExporter(t *testing.T) {
	golden, err := os.ReadFile("testdata/node_exporter.golden")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{}
	for line := range strings.Lines(string(golden)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if want[key+"}"], err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatal(err)
		}
	}
	const atItsEnd = `node_infiniband_port_transmit_wait_total{device="mlx4_0",port="1"}`
	if want[atItsEnd] != top32 {
		t.Errorf("node_exporter has %v", want[atItsEnd])
	}
	delete(want, atItsEnd)
	root, _ := machine(t, "node_exporter.txtar")
	var b metric.Batch
	if err := start(t, root).Read(&b); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range b.Samples {
		if !strings.HasPrefix(m.Series.Desc.Name, "node_") {
			continue
		}
		pairs := map[string]string{}
		for i, l := range m.Series.Desc.Labels {
			pairs[l] = l + `="` + m.Series.Values[i] + `"`
		}
		var sorted []string
		for _, l := range slices.Sorted(maps.Keys(pairs)) {
			sorted = append(sorted, pairs[l])
		}
		got[m.Series.Desc.Name+"{"+strings.Join(sorted, ",")+"}"] = m.Value
	}
	for key, v := range want {
		if g, ok := got[key]; !ok || g != v {
			t.Errorf("%s is %v (there: %t), node_exporter has %v", key, g, ok, v)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s: node_exporter does not have it", key)
		}
	}
}
