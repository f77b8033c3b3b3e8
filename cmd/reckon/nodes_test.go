package main

import (
	"strings"
	"testing"
	"time"

	"reckon/internal/term"
	"reckon/web/client"
)

// TestNodesOfSlurm checks the output for nodes in the batch system, with and without
// an agent, and the reasons why they accept no jobs.
func TestNodesOfSlurm(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	drained := &client.NodeBatch{State: "idle", Flags: []string{"drain"}, Reason: "new\x1b[31m disk", Cores: f(16), CoresHeld: f(0)}
	nodes := []client.Node{
		{Node: "a", Agent: true, Up: true, Batch: &client.NodeBatch{State: "mixed", Open: true}, Workloads: 3},
		{Node: "b", Agent: true, Up: true, Batch: drained},
		{Node: "c", Agent: true, Seen: fixedNow().Add(-time.Hour), Batch: &client.NodeBatch{State: "down", Flags: []string{"not_responding"}}},
		{Node: "d", Agent: true, Seen: fixedNow().Add(-time.Hour)},
		{Node: "e", Up: true, Cores: f(16), Batch: drained},
		{Node: "f", Batch: &client.NodeBatch{State: "drained", Flags: []string{"drained"}, Reason: "fan"}},
	}
	var got []string
	for i := range nodes {
		got = append(got, nodeState(&nodes[i], fixedNow())+" "+formatRunning(&nodes[i]))
	}
	want := "mixed 3|idle, drain 0|down since 11:00:00; down, not_responding 0|down since 11:00:00 0|idle, drain; no agent -|drained; no agent -"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	var out strings.Builder
	if err := printClosed(term.Screen{Writer: &out, Width: 80}, nodes); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"  b, e: new", " disk (idle, drain)\n", "  f: fan (drained)\n", "  c: no reason was given (down, not_responding)\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b[31m") {
		t.Errorf("an escape sequence of a reason reaches the terminal: %q", out.String())
	}
}

// Sensors of hardware that a machine does not have are one line where there are more than a few; what stands in the way of one has its own.
func TestNodesWithoutHardware(t *testing.T) {
	n := client.Node{Node: "a", Agent: true, Up: true}
	for sensor, reason := range map[string]string{"rapl": "the kernel shows no power capping zones", "tegra": "not a Tegra board", "nvml": "no NVIDIA driver",
		"scrape": "no targets with figures of their own are configured", "resctrl": "the processor monitors neither caches nor memory bandwidth, or its resctrl is not mounted"} {
		n.Sensors = append(n.Sensors, client.Sensor{Sensor: sensor, Reason: reason})
	}
	for few, want := range map[bool]string{
		false: "resctrl: the processor monitors neither caches nor memory bandwidth, or its resctrl is not mounted\n" +
			"  not there, or not set up (--format json has the reasons): nvml, rapl, scrape, tegra\n",
		true: "  rapl: the kernel shows no power capping zones\n",
	} {
		one := n
		if few {
			one.Sensors = nil
			for _, s := range n.Sensors {
				if s.Sensor == "rapl" || s.Sensor == "nvml" {
					one.Sensors = append(one.Sensors, s)
				}
			}
		}
		var out strings.Builder
		if err := printMissing(term.Screen{Writer: &out}, []client.Node{one}); err != nil || !strings.HasSuffix(out.String(), want) {
			t.Errorf("no %q at the end of\n%s%v", want, out.String(), err)
		}
	}
}

// What a bound of the agent or the server gives no row is named with its owner and number.
func TestNodesHeldBack(t *testing.T) {
	n := client.Node{Node: "n1", Bounds: []client.NodeBound{{Owner: "games", Kind: "process groups", Count: 2400}, {Kind: "file systems", Count: 3000},
		{Owner: "games", Kind: "new series", Count: 512}}}
	var out strings.Builder
	if err := printHeldBack(term.Screen{Writer: &out, Width: 200}, []client.Node{n}, ""); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"2,400 process groups of games have no row of their own: what they use is in short/games/n1", "3,000 file systems of the node have",
		"512 new series of games have no row of their own: they were refused"} {
		if !strings.Contains(out.String(), "  n1: "+line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
}
