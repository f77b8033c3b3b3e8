package main

import (
	"slices"
	"strings"
	"testing"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
)

// TestMemoryTraffic: memory traffic stands beside the cores where it is counted, and has no column where it is not.
func TestMemoryTraffic(t *testing.T) {
	const gib = 1 << 30
	var out strings.Builder
	s := term.Screen{Writer: &out}
	printed := func(print func() error) string {
		t.Helper()
		out.Reset()
		if err := print(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	nodes := []client.Node{{Node: "a", Agent: true, MemoryTraffic: new(float64(3 * gib))}, {Node: "b", Agent: true}}
	if got := printed(func() error { return nodesTable(s, nodes, fixedNow()).Print(s) }); !strings.Contains(got, "MEM TRAFFIC") || !strings.Contains(got, "3 GiB/s") {
		t.Error(got)
	}
	if got := printed(func() error { return nodesTable(s, nodes[1:], fixedNow()).Print(s) }); strings.Contains(got, "MEM TRAFFIC") {
		t.Error(got)
	}
	sockets := &client.NodeDevices{Sockets: []client.Socket{{Socket: "0", ReadBytes: new(float64(2 * gib)), CacheBytes: new(float64(gib / 128))}}}
	if got := strings.Join(strings.Fields(printed(func() error { return printDevices(s, sockets) })), " "); got != "Memory traffic SOCKET READ WRITE LOCAL REMOTE CACHE IN USE 0 2 GiB/s - - - 8 MiB" {
		t.Error(got)
	}
	m := newTopModel(s, nil, "test", findOrder("traffic"))
	rows := []*client.LiveWorkload{{ID: "slurm/1", MemoryTrafficRate: new(float64(gib)), Exactness: figure.Degrees{"memory_traffic_bytes": figure.Estimated}}, {ID: "slurm/2"}}
	if got := printed(func() error { return m.workloadTable(rows).Print(s) }); !strings.Contains(got, "MEM TRAFFIC") || !strings.Contains(got, "~1 GiB/s") {
		t.Error(got)
	}
	if got := printed(func() error { return m.workloadTable(rows[1:]).Print(s) }); strings.Contains(got, "MEM TRAFFIC") {
		t.Error(got)
	}
}

// TestProcessorFacts: the counts of a job, with how exact it is.
func TestProcessorFacts(t *testing.T) {
	var w client.Workload
	facts := func() []string { return append(marked{}.formatProcessor(w), marked{}.formatInterconnect(w)) }
	if got := facts(); !slices.Equal(got, []string{""}) {
		t.Errorf("nothing was counted: %q", got)
	}
	w.WallSeconds = 100
	w.Instructions, w.Cycles, w.MemoryTrafficBytes, w.CacheBytes, w.InterconnectBytes = new(15e9), new(10e9), new(1024.0), new(2048.0), new(4096.0)
	w.Exactness = figure.Degrees{"memory_traffic_bytes": figure.Estimated, "interconnect_bytes": figure.AtLeast}
	if got, want := facts(), []string{"1.5 instructions in a cycle", "memory traffic ~1 KiB (~10 B/s)", "cache 2 KiB", "interconnect >=4 KiB"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
