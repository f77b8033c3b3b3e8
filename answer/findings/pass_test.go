package findings

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
	"pgregory.net/rapid"

	"reckon/analysis/misuse"
	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/store"
)

// Series of single workloads that the rules follow.
const (
	workloadFaults    = "reckon_workload_major_faults_total"
	workloadSwap      = "reckon_workload_swap_bytes"
	workloadThrottled = "reckon_workload_cpu_throttled_seconds_total"
)

// TestSpans: for any time range, the whole amount is distributed over the steps, each part in its place.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.Int64Range(1, 5000).Draw(t, "step")
		steps := rapid.IntRange(1, 50).Draw(t, "steps")
		from := rapid.Int64Range(-10_000, 10_000).Draw(t, "from")
		a := rapid.Int64Range(-50_000, 300_000).Draw(t, "a")
		b := a + rapid.Int64Range(0, 100_000).Draw(t, "length")
		var sum float64
		last := -1
		spans(from, step, steps, a, b, func(i int, seconds float64) {
			if i < 0 || i >= steps || i <= last || !(seconds > 0) || seconds*1000 > float64(step)+1e-9 {
				t.Fatalf("step %d after %d: %g s of %d ms", i, last, seconds, step)
			}
			sum, last = sum+seconds, i
		})
		if want := float64(max(0, min(b, from+step*int64(steps))-max(a, from))) / 1000; math.Abs(sum-want) > 1e-6 {
			t.Fatalf("%g s of %g", sum, want)
		}
	})
}

// evaluate applies the default policy to series over 100 minutes.
func evaluate(t *testing.T, load, policy string, rows ...store.Workload) []misuse.Finding {
	t.Helper()
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	p, err := ReadPolicy([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	e := &Evaluator{Series: promqltest.LoadedStorage(t, "load 1m\n"+load), Facts: c}
	found, err := e.Evaluate(t.Context(), p, start, start.Add(100*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func rules(found []misuse.Finding) string {
	var out []string
	for _, f := range found {
		out = append(out, strings.Join([]string{f.Rule, f.Owner, f.Node + f.Workload, f.Part}, " "))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// node is a machine of n cores with so many busy.
func node(name string, n int, busy float64) string {
	var b strings.Builder
	for c := range n {
		fmt.Fprintf(&b, "  node_cpu_seconds_total{site=\"lab\",node=%q,cpu=\"%d\",mode=\"user\"} 0+%gx100\n", name, c, 60*busy/float64(n))
		fmt.Fprintf(&b, "  node_cpu_seconds_total{site=\"lab\",node=%q,cpu=\"%d\",mode=\"idle\"} 0+%gx100\n", name, c, 60*(1-busy/float64(n)))
	}
	return b.String()
}

// uses is a workload that uses some cores and waits for others.
func uses(where, id, owner string, cores, wait float64) string {
	labels := fmt.Sprintf("{site=\"lab\",node=%q,workload=%q,kind=\"session\",part=\"\",owner=%q", where, id, owner)
	return fmt.Sprintf("  reckon_workload_cpu_seconds_total%s,mode=\"user\"} 0+%gx100\n  reckon_workload_cpu_wait_seconds_total%s} 0+%gx100\n", labels, 60*cores, labels, 60*wait)
}

// TestHogs: the same use on a full and on an idle machine, as one workload and split into many,
// on one node and on two.
func TestHogs(t *testing.T) {
	split := func(where string, k int, cores, wait float64) string {
		out := ""
		for i := range k {
			out += uses(where, fmt.Sprintf("session/a%d", i), "alice", cores/float64(k), wait/float64(k))
		}
		return out
	}
	cases := map[string]struct{ load, want string }{
		"full":                       {node("n1", 4, 4) + split("n1", 1, 3, 4) + uses("n1", "session/b", "bob", 1, 2), "over-share alice n1 cpu"},
		"full, in seven workloads":   {node("n1", 4, 4) + split("n1", 7, 3, 4) + uses("n1", "session/b", "bob", 1, 2), "over-share alice n1 cpu"},
		"idle":                       {node("n1", 8, 4) + split("n1", 1, 3, 0) + uses("n1", "session/b", "bob", 1, 0), ""},
		"alone":                      {node("n1", 4, 4) + split("n1", 3, 4, 9), ""},
		"the other has all he wants": {node("n1", 4, 4) + split("n1", 1, 3.7, 9) + uses("n1", "session/b", "bob", 0.3, 0), ""},
		"the kernel is nobody": {node("n1", 4, 4) + split("n1", 1, 3, 4) +
			`  reckon_workload_cpu_seconds_total{site="lab",node="n1",workload="other/n1",kind="other",part="",owner="root",mode="system"} 0+60x100` + "\n", ""},
		"told once for two nodes": {node("n1", 4, 4) + split("n1", 1, 3, 4) + uses("n1", "session/b", "bob", 1, 2) +
			node("n2", 4, 4) + split("n2", 1, 3.5, 4) + uses("n2", "session/c", "carol", 0.5, 2), "over-share alice n2 cpu"},
		"root's service is not reported, and counts": {node("n1", 4, 4) + strings.ReplaceAll(uses("n1", "unit/r", "root", 3, 4), `kind="session"`, `kind="unit"`) + uses("n1", "session/b", "bob", 1, 2), ""},
	}
	for name, c := range cases {
		found := evaluate(t, c.load, "")
		if got := rules(found); got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
		if strings.HasPrefix(name, "full") && len(found) == 1 { // (3-2)/4 of 100 minutes
			if v := found[0].Evidence[0].Value; math.Abs(v-1500) > 20 {
				t.Errorf("%s: %g seconds, want 1500", name, v)
			}
		}
	}
	hits, told, wanted := 0, 0, 0
	for _, c := range cases {
		found := rules(evaluate(t, c.load, ""))
		if found != "" {
			told++
		}
		if c.want != "" {
			wanted++
			if found == c.want {
				hits++
			}
		}
	}
	t.Logf("over-share  precision %.2f, recall %.2f (%d cases)", float64(hits)/float64(told), float64(hits)/float64(wanted), wanted)
	// A node class with another limit, and with the rule disabled.
	full := node("gpu1", 4, 4) + split("gpu1", 1, 3, 4) + uses("gpu1", "session/b", "bob", 1, 2)
	for policy, want := range map[string]string{
		"overrides: [{node: 'gpu*', rules: {over-share: {seconds: 2000}}}]": "",
		"overrides: [{node: 'gpu*', rules: {over-share: {seconds: 1000}}}]": "over-share alice gpu1 cpu",
		"overrides: [{node: 'gpu*', rules: {over-share: {on: false}}}]":     "",
	} {
		if got := rules(evaluate(t, full, policy)); got != want {
			t.Errorf("%s: %q, want %q", policy, got, want)
		}
	}
}

// TestInexactUse: use that is a bound or an estimate does not cause over-share, for as long as it is inexact.
func TestInexactUse(t *testing.T) {
	load := node("n1", 4, 4) + uses("n1", "session/a", "alice", 3, 4) + uses("n1", "session/b", "bob", 1, 2)
	inexact := func(figure, kind, workload, points string) string {
		return fmt.Sprintf("  reckon_figure_exactness{site=\"lab\",node=\"n1\",figure=%q,kind=%q,source=\"x\",workload=%q} %s\n", figure, kind, workload, points)
	}
	const want = "over-share alice n1 cpu"
	for name, c := range map[string]struct{ load, want string }{
		"exact":                  {inexact("cpu_seconds", "session", "", "0x100"), want},
		"a lower bound":          {inexact("cpu_seconds", "session", "", "1x100"), ""},
		"of this workload":       {inexact("cpu_seconds", "session", "session/a", "1x100"), ""},
		"of that of another":     {inexact("cpu_seconds", "session", "session/b", "1x100"), want},
		"of another kind":        {inexact("cpu_seconds", "group", "", "1x100"), want},
		"of another figure":      {inexact("gpu_seconds", "session", "", "2x100"), want},
		"for the first minute":   {inexact("cpu_seconds", "session", "", "1x1 0x99"), want},
		"but for the last hours": {inexact("cpu_seconds", "session", "", "1x80 0x20"), ""},
	} {
		if got := rules(evaluate(t, load+c.load, "")); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWaiting: jobs that wait for capacity on a node count as demand; jobs that wait
// for something else do not.
func TestWaiting(t *testing.T) {
	half := node("n1", 8, 5) + uses("n1", "slurm/1", "alice", 5, 0)
	used := 60.0
	runs := store.Workload{Site: "lab", ID: "slurm/1", Kind: "slurm", Owner: "alice", Partition: "all", State: "running", Nodes: []string{"n1"}, Start: start, Seen: start.Add(100 * time.Minute), Row: figure.Row{CPUSeconds: &used}}
	for reason, want := range map[string]string{"": "over-share alice n1 cpu", "Resources": "over-share alice n1 cpu", "priority": "over-share alice n1 cpu", "Dependency": "", "BeginTime": "", "QOSMaxJobsPerUserLimit": ""} {
		waits := store.Workload{Site: "lab", ID: "slurm/2", Kind: "slurm", Owner: "bob", Partition: "all", State: "pending", Reason: reason, Submit: start.Add(time.Minute), Start: start.Add(time.Minute), Seen: start.Add(100 * time.Minute)}
		if got := rules(evaluate(t, half, "", runs, waits)); got != want {
			t.Errorf("pending for %q: %q, want %q", reason, got, want)
		}
		// Jobs that could never run there wait for other nodes.
		for text, change := range map[string]func(*store.Workload){
			"more cores":  func(w *store.Workload) { v := 9.0; w.RequestCores = &v },
			"a GPU":       func(w *store.Workload) { v := 1.0; w.RequestGPUs = &v },
			"all of them": func(w *store.Workload) { v := 8.0; w.RequestCores = &v },
			"two nodes":   func(w *store.Workload) { v, n := 16.0, 2.0; w.RequestCores, w.RequestNodes = &v, &n },
		} {
			other := waits
			change(&other)
			wanted := want
			if text == "more cores" || text == "a GPU" {
				wanted = ""
			}
			if got := rules(evaluate(t, half, "", runs, other)); got != wanted {
				t.Errorf("pending for %q, needs %s: %q, want %q", reason, text, got, wanted)
			}
		}
		waits.Partition = "other"
		if got := rules(evaluate(t, half, "", runs, waits)); got != "" {
			t.Errorf("waits for another partition: %q", got)
		}
	}
}

// TestDead: lasting zombies, and GPU memory that is held but not used; without a
// measurement there is no finding.
func TestDead(t *testing.T) {
	used := 60.0
	job := store.Workload{Site: "lab", ID: "slurm/1", Kind: "slurm", Owner: "alice", Partition: "gpu", State: "running", Nodes: []string{"n1"}, Start: start, Seen: start.Add(100 * time.Minute), Row: figure.Row{CPUSeconds: &used}}
	labels := `{site="lab",node="n1",workload="slurm/1",kind="slurm",part="0",owner="alice",vendor="nvidia",device="GPU-1"`
	held := "  reckon_workload_gpu_memory_bytes" + labels + "} 1e10x100\n"
	busy := "  reckon_workload_gpu_seconds_total" + labels + ",method=\"measured\"} "
	device := `  reckon_node_gpu_seconds_total{site="lab",node="n1",vendor="nvidia",device="GPU-1",state="idle"} `
	for name, c := range map[string]struct{ load, want string }{
		"zombies":           {`  reckon_zombie_processes{site="lab",node="n1",owner="bob"} 40x100` + "\n", "idle-allocation bob n1 zombies"},
		"a few zombies":     {`  reckon_zombie_processes{site="lab",node="n1",owner="bob"} 4x100` + "\n", ""},
		"zombies that went": {`  reckon_zombie_processes{site="lab",node="n1",owner="bob"} 40x80 stale` + "\n", ""},
		// A device that was never used has no series of its own: the device metric proves that it is measured.
		"held, never used":      {held + device + "0+60x100\n", "idle-allocation alice slurm/1 gpu"},
		"device silent lately":  {held + device + "0+60x80\n", ""},
		"used up to 40 ago":     {held + device + "0+30x100\n" + busy + "0+30x60 1800x40\n", "idle-allocation alice slurm/1 gpu"},
		"used up to 20 ago":     {held + device + "0+30x100\n" + busy + "0+30x80 2400x20\n", ""},
		"in use":                {held + device + "0+30x100\n" + busy + "0+30x100\n", ""},
		"use is not measured":   {held, ""},
		"memory not measured":   {device + "0+60x100\n", ""},
		"memory held just now":  {"  reckon_workload_gpu_memory_bytes" + labels + "} 0x90 1e10x10\n" + device + "0+60x100\n", ""},
		"memory was given back": {"  reckon_workload_gpu_memory_bytes" + labels + "} 1e10x90 0x10\n" + device + "0+60x100\n", ""},
		"held for 31 minutes":   {"  reckon_workload_gpu_memory_bytes" + labels + "} 0x69 1e10x31\n" + device + "0+60x100\n", "idle-allocation alice slurm/1 gpu"},
		"held for 29 minutes":   {"  reckon_workload_gpu_memory_bytes" + labels + "} 0x71 1e10x29\n" + device + "0+60x100\n", ""},
	} {
		if got := rules(evaluate(t, node("n1", 4, 1)+c.load, "", job)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestMemory: more than a fair share of memory matters when little is left.
func TestMemory(t *testing.T) {
	load := func(available float64) string {
		mem := func(id, owner string, gb float64) string {
			return fmt.Sprintf("  reckon_workload_memory_bytes{site=\"lab\",node=\"n1\",workload=%q,kind=\"session\",part=\"\",owner=%q,type=\"anon\"} %gx100\n", id, owner, gb*1e9)
		}
		return node("n1", 4, 1) + "  node_memory_MemTotal_bytes{site=\"lab\",node=\"n1\"} 1e11x100\n" +
			fmt.Sprintf("  node_memory_MemAvailable_bytes{site=\"lab\",node=\"n1\"} %gx100\n", available) + mem("session/1", "alice", 70) + mem("session/2", "bob", 25)
	}
	if got := rules(evaluate(t, load(5e9), "")); got != "over-share alice n1 memory" {
		t.Errorf("nearly full: %q", got)
	}
	if got := rules(evaluate(t, load(2e10), "")); got != "" {
		t.Errorf("a fifth is free: %q", got)
	}
}

// TestThrash: the figures of a workload over time decide, if they are known.
func TestThrash(t *testing.T) {
	faults := 2e6
	job := store.Workload{Site: "lab", ID: "slurm/1", Kind: "slurm", Owner: "alice", Partition: "all", State: "running", Nodes: []string{"n1"}, Start: start, Seen: start.Add(100 * time.Minute), Row: figure.Row{MajorFaults: &faults, CPUSeconds: &faults}}
	series := func(name, points string) string {
		return fmt.Sprintf("  %s{site=\"lab\",node=\"n1\",workload=\"slurm/1\",kind=\"slurm\",part=\"0\",owner=\"alice\"} %s\n", name, points)
	}
	for name, c := range map[string]struct{ load, want string }{
		"only totals":          {"", "memory-thrashing alice slurm/1 faults"},
		"at the start only":    {series(workloadFaults, "0 25000x99"), ""},
		"for twenty minutes":   {series(workloadFaults, "0x40 0+60000x20 1200000x40"), "memory-thrashing alice slurm/1 faults"},
		"on two nodes in half": {series(workloadFaults, "0+3500x100") + strings.ReplaceAll(series(workloadFaults, "0+3500x100"), `node="n1"`, `node="n2"`), "memory-thrashing alice slurm/1 faults"},
		"somebody else's":      {strings.ReplaceAll(series(workloadFaults, "0+60000x100"), `site="lab"`, `site="other"`) + series(workloadFaults, "0x100"), ""},
	} {
		row := job
		if strings.HasPrefix(name, "on two") {
			row.Nodes = []string{"n1", "n2"}
		}
		if got := rules(evaluate(t, node("n1", 4, 1)+c.load, "", row)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	swap, peak := 20e9, 30e9
	job.MajorFaults, job.SwapBytes, job.MemoryPeakBytes = nil, &swap, &peak
	for name, c := range map[string]struct{ load, want string }{
		"only totals":  {"", "memory-thrashing alice slurm/1 swap"},
		"for a moment": {series(workloadSwap, "0x50 2e10x2 0x48") + series(workloadMemory, "3e10x100"), ""},
		"for long":     {series(workloadSwap, "0x50 2e10x50") + series(workloadMemory, "3e10x100"), "memory-thrashing alice slurm/1 swap"},
	} {
		if got := rules(evaluate(t, node("n1", 4, 1)+c.load, "", job)); got != c.want {
			t.Errorf("swap, %s: %q, want %q", name, got, c.want)
		}
	}
}

// TestEmpty: an allocation with ended processes while the batch system reports it as running.
func TestEmpty(t *testing.T) {
	used := 60.0
	job := store.Workload{Site: "lab", ID: "slurm/1", Kind: "slurm", Owner: "alice", Partition: "all", State: "running", Nodes: []string{"n1"}, Start: start, Seen: start.Add(100 * time.Minute), Row: figure.Row{CPUSeconds: &used}}
	processes := func(id, points string) string {
		return fmt.Sprintf("  reckon_workload_processes{site=\"lab\",node=\"n1\",workload=%q,kind=\"slurm\",part=\"0\",owner=\"alice\"} %s\n", id, points)
	}
	for name, c := range map[string]struct{ load, want string }{
		"it runs":                  {processes("slurm/1", "3x100"), ""},
		"ended an hour ago":        {processes("slurm/1", "3x40 stale") + processes("slurm/2", "3x100"), "idle-allocation alice slurm/1 allocation"},
		"none for half an hour":    {processes("slurm/1", "3x70 0x30"), "idle-allocation alice slurm/1 allocation"},
		"ended a moment ago":       {processes("slurm/1", "3x97 stale") + processes("slurm/2", "3x100"), ""},
		"the node counts none":     {"", ""},
		"one of its parts goes on": {processes("slurm/1", "3x40 stale") + strings.ReplaceAll(processes("slurm/1", "1x100"), `part="0"`, `part="1"`), ""},
	} {
		if got := rules(evaluate(t, node("n1", 4, 1)+c.load, "", job)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	job.State = "completed"
	job.End = start.Add(50 * time.Minute)
	if got := rules(evaluate(t, node("n1", 4, 1)+processes("slurm/1", "3x40 stale")+processes("slurm/2", "3x100"), "", job)); got != "" {
		t.Errorf("it ended and was said to: %q", got)
	}
}

// TestInexact: a figure that is a bound or an estimate during a job is not judged.
func TestInexact(t *testing.T) {
	num := func(v float64) *float64 { return &v }
	job := store.Workload{Site: "lab", ID: "slurm/1", Kind: "slurm", Owner: "alice", Partition: "all", State: "completed", Nodes: []string{"n1"}, Start: start.Add(20 * time.Minute), Seen: start.Add(60 * time.Minute), End: start.Add(60 * time.Minute),
		Row: figure.Row{CPUSeconds: num(2400), CoresMean: num(1), CoresP95: num(1), RequestCores: num(64)}}
	series := func(figure, kind, points string) string {
		return fmt.Sprintf("  reckon_figure_exactness{site=\"lab\",node=\"n1\",figure=%q,kind=%q,source=\"x\"} %s\n", figure, kind, points)
	}
	const want = "over-requested alice slurm/1 cpu"
	for name, c := range map[string]struct{ load, want string }{
		"nothing is said":    {"", want},
		"exact":              {series("cpu_seconds", "slurm", "0x100"), want},
		"a lower bound":      {series("cpu_seconds", "slurm", "1x100"), ""},
		"for a while":        {series("cpu_seconds", "slurm", "0x30 1x5 0x65"), ""},
		"before it began":    {series("cpu_seconds", "slurm", "1x15 0x85"), want},
		"after it ended":     {series("cpu_seconds", "slurm", "0x75 1x25"), want},
		"of another kind":    {series("cpu_seconds", "group", "1x100"), want},
		"of another figure":  {series("memory_bytes", "slurm", "2x100"), want},
		"by another source":  {series("cpu_seconds", "slurm", "0x100") + strings.ReplaceAll(series("cpu_seconds", "slurm", "_x40 1x10"), `"x"`, `"y"`), ""},
		"exact again, twice": {series("cpu_seconds", "slurm", "1x2 0x80 1x18"), want},
	} {
		if got := rules(evaluate(t, node("n1", 64, 1)+c.load, "", job)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// moves is a workload that moves so many bytes per second and has so many threads waiting for storage; -1 if that is not measured.
func moves(where, id, owner string, bytes, wait float64) string {
	labels := fmt.Sprintf("{site=\"lab\",node=%q,workload=%q,kind=\"session\",part=\"\",owner=%q", where, id, owner)
	out := fmt.Sprintf("  reckon_workload_io_bytes_total%s,direction=\"read\"} 0+%gx100\n", labels, 60*bytes)
	if wait >= 0 {
		out += fmt.Sprintf("  reckon_workload_io_wait_seconds_total%s} 0+%gx100\n", labels, 60*wait)
	}
	return out
}

// TestStorage: an owner who moves most of the bytes while others wait for storage has over-share; without waiting there is none.
func TestStorage(t *testing.T) {
	pressure := func(share float64) string {
		return node("n1", 4, 1) + fmt.Sprintf("  node_pressure_io_waiting_seconds_total{site=\"lab\",node=\"n1\"} 0+%gx100\n", 60*share)
	}
	const mib = 1 << 20
	cases := map[string]struct{ load, want string }{
		"one moves, the other waits":        {pressure(0.5) + moves("n1", "session/a", "alice", 90*mib, 2) + moves("n1", "session/b", "bob", 1*mib, 1), "over-share alice n1 storage"},
		"without PSI":                       {node("n1", 4, 1) + moves("n1", "session/a", "alice", 90*mib, 2) + moves("n1", "session/b", "bob", 1*mib, 1), "over-share alice n1 storage"},
		"a pressure of a tenth":             {pressure(0.1) + moves("n1", "session/a", "alice", 90*mib, 2) + moves("n1", "session/b", "bob", 1*mib, 1), "over-share alice n1 storage"},
		"the other waits hardly ever":       {pressure(0.5) + moves("n1", "session/a", "alice", 90*mib, 2) + moves("n1", "session/b", "bob", 1*mib, 0.019), ""},
		"the other waits now and then":      {pressure(0.5) + moves("n1", "session/a", "alice", 90*mib, 2) + moves("n1", "session/b", "bob", 1*mib, 0.02), "over-share alice n1 storage"},
		"hardly any pressure":               {pressure(0.09) + moves("n1", "session/a", "alice", 90*mib, 2) + moves("n1", "session/b", "bob", 1*mib, 1), ""},
		"nobody else waits":                 {pressure(0.5) + moves("n1", "session/a", "alice", 90*mib, 2) + moves("n1", "session/b", "bob", 10*mib, 0), ""},
		"waits are not measured":            {pressure(0.5) + moves("n1", "session/a", "alice", 90*mib, -1) + moves("n1", "session/b", "bob", 10*mib, -1), ""},
		"alone":                             {pressure(0.5) + moves("n1", "session/a", "alice", 90*mib, 2), ""},
		"both alike":                        {pressure(0.5) + moves("n1", "session/a", "alice", 50*mib, 2) + moves("n1", "session/b", "bob", 50*mib, 2), ""},
		"too little to say whose it is":     {pressure(0.5) + moves("n1", "session/a", "alice", 0.9*mib, 2) + moves("n1", "session/b", "bob", 0, 1), ""},
		"a megabyte a second says it":       {pressure(0.5) + moves("n1", "session/a", "alice", 1*mib, 2) + moves("n1", "session/b", "bob", 0, 1), "over-share alice n1 storage"},
		"a node of a batch system likewise": {pressure(0.5) + "  reckon_slurm_node_cores{site=\"lab\",node=\"n1\"} 4x100\n" + moves("n1", "session/a", "alice", 90*mib, 2) + moves("n1", "session/b", "bob", 1*mib, 1), "over-share alice n1 storage"},
		"a lower bound is not judged":       {pressure(0.5) + `  reckon_figure_exactness{site="lab",node="n1",kind="session",figure="io_write_bytes",source="procfs"} 1x100` + "\n" + moves("n1", "session/a", "alice", 90*mib, 2) + moves("n1", "session/b", "bob", 1*mib, 1), ""},
		"root's service is not blamed":      {pressure(0.5) + strings.ReplaceAll(moves("n1", "unit/a", "root", 90*mib, 2), `kind="session"`, `kind="unit"`) + moves("n1", "session/b", "bob", 1*mib, 1), ""},
	}
	for name, c := range cases {
		found := evaluate(t, c.load, "")
		if got := rules(found); got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
		if name == "one moves, the other waits" && len(found) == 1 { // 90/91 of the bytes where a half is fair, for 100 minutes in which bob waits
			f := found[0]
			if v := f.Evidence[0].Value; math.Abs(v-(90.0/91-0.5)*6000) > 40 {
				t.Errorf("score %g", v)
			}
			if !strings.Contains(f.Text, "used 99 % of the storage traffic of n1 while others wanted it") || !strings.Contains(f.Text, "; threads of others waited 1h39m for it; 50 % was a fair share: as much as") {
				t.Error(f.Text)
			}
		}
	}
}

// TestConnections: a loop of commands that each query a server, in a session, as short work and of a service.
func TestConnections(t *testing.T) {
	load := func(id, kind string, rate float64, role string) string {
		return node("n1", 4, 1) + fmt.Sprintf("  reckon_workload_network_connections_total{site=\"lab\",node=\"n1\",workload=%q,kind=%q,part=\"\",owner=\"alice\",role=%q} 0+0x50 0+%gx49\n", id, kind, role, 60*rate)
	}
	row := func(id, kind string) store.Workload {
		return store.Workload{Site: "lab", ID: id, Kind: kind, Owner: "alice", State: "completed", Nodes: []string{"n1"}, Start: start, Seen: start.Add(100 * time.Minute), End: start.Add(100 * time.Minute),
			Row: figure.Row{NetworkConnections: new(30000.0)}}
	}
	for name, c := range map[string]struct {
		id, kind, role, want string
		rate                 float64
	}{
		"in a session":  {"session/alice/1", "session", "client", "many-connections alice session/alice/1 tcp", 10.5},
		"fewer":         {"session/alice/1", "session", "client", "", 9.5},
		"as short work": {"short/alice/n1", "short", "client", "many-connections alice short/alice/n1 tcp", 10.5},
		"as a server":   {"session/alice/1", "session", "server", "", 10.5},
		"of a service":  {"unit/proxy.service", "unit", "client", "", 10.5},
	} {
		r := row(c.id, c.kind)
		if c.role == "server" {
			r.NetworkConnections = new(0.0)
		}
		if got := rules(evaluate(t, load(c.id, c.kind, c.rate, c.role), "", r)); got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

// TestCannotStart: a job with a condition that can never be met, and one that waits its turn.
func TestCannotStart(t *testing.T) {
	for reason, want := range map[string]string{"PartitionTimeLimit": "cannot-start alice slurm/9 queue", "DependencyNeverSatisfied": "cannot-start alice slurm/9 queue", "Resources": "", "JobHeldUser": ""} {
		waits := store.Workload{Site: "lab", ID: "slurm/9", Kind: "slurm", Owner: "alice", Partition: "all", State: "pending", Reason: reason, Submit: start.Add(time.Minute), Start: start.Add(time.Minute), Seen: start.Add(100 * time.Minute)}
		found := evaluate(t, node("n1", 4, 1), "", waits)
		if got := rules(found); got != want {
			t.Errorf("pending for %q: %q, want %q", reason, got, want)
		}
		if len(found) == 1 && !strings.HasPrefix(found[0].Text, "has waited for 1h39m and can never start: ") {
			t.Error(found[0].Text)
		}
	}
}

// TestContainerCannotStart: pods that run with a container that the kubelet does not start, for long enough, and often enough where it
// ends again and again.
func TestContainerCannotStart(t *testing.T) {
	num := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		reason   string
		restarts float64
		minutes  int
		want     string
	}{
		{"ImagePullBackOff", 0, 90, "has a container that does not start: ImagePullBackOff; is the name of the image right, and may the node read the registry?"},
		{"CrashLoopBackOff", 4, 90, "has a container that does not start: CrashLoopBackOff: it ends again and again, 4 times by now"},
		{"Unschedulable: 0/1 nodes are available: 1 Insufficient cpu", 0, 90,
			"has a container that does not start: no node can take its pod (0/1 nodes are available: 1 Insufficient cpu)"},
		{"CrashLoopBackOff", 2, 90, ""}, {"ImagePullBackOff", 0, 5, ""}, {"ContainerCreating", 0, 90, ""}, {"", 9, 90, ""},
	} {
		pod := store.Workload{Site: "lab", ID: "deployment/shop/cart", Kind: "deployment", Owner: "shop", Reason: c.reason, Nodes: []string{"n1"},
			Start: start.Add(time.Duration(100-c.minutes) * time.Minute), Seen: start.Add(100 * time.Minute), Row: figure.Row{CPUSeconds: num(1), Restarts: num(c.restarts)}}
		got := ""
		for _, f := range evaluate(t, node("n1", 4, 1), "", pod) {
			got += f.Text
			if f.Rule != misuse.CannotStart || f.Part != "container" || f.Workload != pod.ID {
				t.Errorf("%+v", f)
			}
		}
		if got != c.want {
			t.Errorf("%+v: found %q", c, got)
		}
	}
}

// TestScheduled: on a node of a batch system, owners are compared with their allocations,
// from the series of the node or from the rows of their jobs.
func TestScheduled(t *testing.T) {
	num := func(v float64) *float64 { return &v }
	row := func(id, owner string, cores float64) store.Workload {
		return store.Workload{Site: "lab", ID: id, Kind: "slurm", Owner: owner, Partition: "all", State: "running", Nodes: []string{"n1"}, Start: start, Seen: start.Add(100 * time.Minute), Row: figure.Row{CPUSeconds: num(6000), CoresMean: num(1), CoresP95: num(cores), RequestCores: num(cores)}}
	}
	uses := func(id, owner string, cores float64) string {
		return strings.ReplaceAll(uses("n1", id, owner, cores, 1), `kind="session"`, `kind="slurm"`)
	}
	given := func(metric, id, owner string, cores float64) string {
		return fmt.Sprintf("  %s{site=\"lab\",node=\"n1\",workload=%q,kind=\"slurm\",part=\"0\",owner=%q} %gx100\n", metric, id, owner, cores)
	}
	full := node("n1", 8, 8)
	for name, c := range map[string]struct {
		load string
		rows []store.Workload
		want string
	}{
		"as allocated, by rows":       {full + uses("slurm/1", "alice", 6) + uses("slurm/2", "bob", 2), []store.Workload{row("slurm/1", "alice", 6), row("slurm/2", "bob", 2)}, ""},
		"more, by rows":               {full + uses("slurm/1", "alice", 6) + uses("slurm/2", "bob", 2), []store.Workload{row("slurm/1", "alice", 4), row("slurm/2", "bob", 4)}, "over-share alice n1 cpu"},
		"as allocated, by the node":   {full + uses("slurm/1", "alice", 6) + uses("slurm/2", "bob", 2) + given("reckon_workload_request_cores", "slurm/1", "alice", 6) + given("reckon_workload_request_cores", "slurm/2", "bob", 2), nil, ""},
		"more, by the node":           {full + uses("slurm/1", "alice", 6) + uses("slurm/2", "bob", 2) + given("reckon_workload_allocated_cores", "slurm/1", "alice", 4) + given("reckon_workload_allocated_cores", "slurm/2", "bob", 4), nil, "over-share alice n1 cpu"},
		"two jobs of one owner":       {full + uses("slurm/1", "alice", 3) + uses("slurm/3", "alice", 3) + uses("slurm/2", "bob", 2), []store.Workload{row("slurm/1", "alice", 3), row("slurm/3", "alice", 3), row("slurm/2", "bob", 2)}, ""},
		"beside it, without a job":    {full + uses("slurm/1", "alice", 6) + strings.ReplaceAll(uses("session/b", "bob", 2), `kind="slurm"`, `kind="session"`), []store.Workload{row("slurm/1", "alice", 6)}, ""},
		"beside it, of what it wants": {full + uses("slurm/1", "alice", 6) + strings.ReplaceAll(uses("session/b", "bob", 2), `kind="slurm"`, `kind="session"`), []store.Workload{row("slurm/1", "alice", 8)}, "over-share bob n1 cpu"},
		"nothing was allocated here":  {full + strings.ReplaceAll(uses("session/a", "alice", 6)+uses("session/b", "bob", 2), `kind="slurm"`, `kind="session"`), nil, "over-share alice n1 cpu"},
		"slurm gives the node out":    {full + strings.ReplaceAll(uses("session/a", "alice", 6), `kind="slurm"`, `kind="session"`) + uses("slurm/2", "bob", 2) + "  reckon_slurm_node_cores{site=\"lab\",node=\"n1\"} 8x100\n", []store.Workload{row("slurm/2", "bob", 2)}, ""},
		"a job earlier that day": {full + strings.ReplaceAll(uses("session/a", "alice", 6)+uses("session/b", "bob", 2), `kind="slurm"`, `kind="session"`) + "  reckon_slurm_node_cores{site=\"lab\",node=\"n1\"} 8x100\n" +
			`  reckon_workload_allocated_cores{site="lab",node="n1",workload="slurm/9",kind="slurm",part="0",owner="carol"} 4x5 _x94` + "\n", nil, "over-share alice n1 cpu"},
		"root's shell, not its services": {full + strings.ReplaceAll(uses("session/root/1", "root", 6)+uses("session/b", "bob", 2), `kind="slurm"`, `kind="session"`), nil, "over-share root n1 cpu"},
		"root's services":                {full + strings.ReplaceAll(uses("unit/db", "root", 6), `kind="slurm"`, `kind="unit"`) + strings.ReplaceAll(uses("session/b", "bob", 2), `kind="slurm"`, `kind="session"`), nil, ""},
		"a job waits in the queue": {node("n1", 8, 6) + uses("slurm/1", "alice", 5) + uses("slurm/2", "bob", 1), []store.Workload{row("slurm/1", "alice", 5), row("slurm/2", "bob", 1),
			{Site: "lab", ID: "slurm/7", Kind: "slurm", Owner: "carol", Partition: "all", State: "pending", Reason: "Resources", Submit: start, Start: start, Seen: start.Add(100 * time.Minute), Row: figure.Row{RequestCores: num(8)}}}, ""},
	} {
		if got := rules(evaluate(t, c.load, "", c.rows...)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestStoragePattern: metadata requests in a loop, nine of ten on one of two file systems, and a job of four nodes of which
// one writes.
func TestStoragePattern(t *testing.T) {
	row := func(nodes ...string) store.Workload {
		return store.Workload{Site: "lab", ID: "slurm/7", Kind: "slurm", Owner: "alice", State: "completed", Nodes: nodes, Start: start, Seen: start.Add(100 * time.Minute), End: start.Add(100 * time.Minute)}
	}
	labels := func(node string) string {
		return fmt.Sprintf("site=\"lab\",node=%q,workload=\"slurm/7\",kind=\"slurm\",part=\"0\",owner=\"alice\"", node)
	}
	for rate, want := range map[float64]string{550: "storage-pattern alice slurm/7 metadata", 450: ""} {
		load := node("n1", 4, 1)
		for source, share := range map[string]float64{"host:/a": 0.9, "host:/b": 0.1} {
			load += fmt.Sprintf("  reckon_workload_mount_operations_total{%s,type=\"fuse.sshfs\",source=%q,operation=\"metadata\"} 0+%gx100\n  reckon_workload_mount_operations_total{%s,type=\"fuse.sshfs\",source=%q,operation=\"read\"} 0+60000x100\n",
				labels("n1"), source, 60*rate*share, labels("n1"), source)
		}
		w := row("n1")
		w.MountMetadataOperations = new(6000 * rate)
		if got := rules(evaluate(t, load, "", w)); got != want {
			t.Errorf("%g metadata requests a second: found %q, want %q", rate, got, want)
		}
	}
	for most, want := range map[float64]string{97: "storage-pattern alice slurm/7 writer", 80: ""} {
		load := ""
		for i, n := range []string{"n1", "n2", "n3", "n4"} {
			gib := (100 - most) / 3
			if i == 2 {
				gib = most
			}
			load += node(n, 4, 1) + fmt.Sprintf("  reckon_workload_io_bytes_total{%s,direction=\"write\"} 0+%gx100\n  reckon_workload_io_bytes_total{%s,direction=\"read\"} 0+1e9x100\n  reckon_workload_cpu_seconds_total{%s,mode=\"user\"} 0+60x100\n", labels(n), gib*(1<<30)/100, labels(n), labels(n))
		}
		if got := rules(evaluate(t, load, "", row("n1", "n2", "n3", "n4"))); got != want {
			t.Errorf("one of four writes %g %%: found %q, want %q", most, got, want)
		}
	}
}
