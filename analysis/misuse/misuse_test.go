package misuse_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reckon/analysis/misuse"
	"reckon/figure"
	"reckon/internal/phrase"
)

var epoch = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func min(n float64) misuse.Duration { return misuse.Duration(n * float64(time.Minute)) }

// policy returns the default policy (the same values as answer/findings/policy.yaml).
func policy() *misuse.Policy {
	return &misuse.Policy{
		OverShare:       misuse.OverShareRule{On: true, Full: 0.9, Pressure: 0.1, Available: 0.1, Wants: 0.02, Seconds: 600, High: 7200},
		GPUUnused:       misuse.GPUUnusedRule{On: true, Minimum: min(10), CPUShare: 0.1, GPUBusy: 0.05, GPUMinimum: min(30), GPUHighHours: 24},
		OverRequested:   misuse.OverRequestedRule{On: true, Minimum: min(10), Share: 0.25, MinCores: 4, MinMemory: 8 << 30, CoreHours: 24, GiBHours: 192},
		IdleAllocation:  misuse.IdleAllocationRule{On: true, GPUIdle: min(30), Empty: min(10), Zombies: 20, ZombiesFor: min(30)},
		ManySmallJobs:   misuse.ManySmallJobsRule{On: true, Count: 20, Short: min(1), ShortCount: 1000, Exempt: []string{"root", "systemd-*"}},
		MemoryThrashing: misuse.MemoryThrashingRule{On: true, Minimum: min(5), FaultRate: 100, SwapShare: 0.3, ThrottledShare: 0.3},
		Imbalance:       misuse.ImbalanceRule{On: true, Minimum: min(10), Idle: 0.05, Busy: 0.5, Tasks: 0.5, GPUBusy: 0.2},
		StoragePattern:  misuse.StoragePatternRule{On: true, Minimum: min(10), MetadataRate: 500, MetadataHighRate: 5000, Bytes: 10 << 30, Again: 0.5, Nodes: 4, WriterShare: 0.95, Exempt: []string{"root", "systemd-*"}},
		ManyConnections: misuse.ManyConnectionsRule{On: true, Minimum: min(10), Rate: 10, HighRate: 100, Exempt: []string{"root", "systemd-*"}},
		CannotStart:     misuse.CannotStartRule{On: true, Minimum: min(10)},
	}
}

func num(v float64) *float64 { return &v }

// job lasts hours on one node of 64 cores, uses all it requested, and breaks no rule.
func job(id int, hours float64, edit ...func(*misuse.Workload)) misuse.Workload {
	w := misuse.Workload{
		Run: figure.Run{Site: "lab", ID: fmt.Sprintf("slurm/%d", id), Kind: "slurm", Owner: "alice", Partition: "cpu", State: "completed", Nodes: []string{"n1"}, Start: epoch,
			Row: figure.Row{CPUSeconds: num(16 * hours * 3600 * 0.95), CoresMean: num(15.2), CoresP95: num(16), MemoryPeakBytes: num(30 << 30), MajorFaults: num(10), RequestSeconds: num(hours * 3600)}},
		Last: epoch.Add(time.Duration(hours * float64(time.Hour))), Reports: true, NodeCores: num(64), Lines: map[string]*misuse.Line{},
		Cores: num(16), Memory: num(32 << 30),
	}
	for _, e := range edit {
		e(&w)
	}
	return w
}

func onGPU(requested, busySeconds float64) func(*misuse.Workload) {
	return func(w *misuse.Workload) {
		w.GPUNodes, w.GPUs, w.GPUSeconds = 1, num(requested), num(busySeconds)
	}
}

// labelled returns cases labelled with the rules that an expert would report, or none.
func labelled() map[string]struct {
	list []misuse.Workload
	want []string
} {
	many := func(n int, hours float64, edit ...func(*misuse.Workload)) (out []misuse.Workload) {
		for i := range n {
			out = append(out, job(1000+i, hours, edit...))
		}
		return out
	}
	wasteful := func(w *misuse.Workload) { w.CoresP95, w.CoresMean = num(2), num(1.9) }
	unmeasured := func(w *misuse.Workload) {
		w.CPUSeconds, w.CoresMean, w.CoresP95, w.MemoryPeakBytes, w.MajorFaults = nil, nil, nil, nil, nil
	}
	return map[string]struct {
		list []misuse.Workload
		want []string
	}{
		"a good job":            {many(1, 10), nil},
		"a good GPU job":        {many(1, 10, onGPU(2, 60000)), nil},
		"nothing was measured":  {many(1, 100, unmeasured, func(w *misuse.Workload) { w.GPUNodes, w.GPUs = 1, num(4); w.State = "completed" }), nil},
		"CPU job on a GPU node": {many(1, 5, func(w *misuse.Workload) { w.GPUNodes, w.GPUs = 1, nil }), []string{"gpu-unused"}},
		"small job on GPU node": {many(1, 5, func(w *misuse.Workload) {
			w.GPUNodes = 1
			w.CoresMean, w.CoresP95, w.Cores = num(1), num(1), num(1)
		}), nil},
		"short on a GPU node":     {many(1, 0.1, func(w *misuse.Workload) { w.GPUNodes = 1 }), nil},
		"GPUs that do nothing":    {many(1, 10, onGPU(4, 100)), []string{"gpu-unused"}},
		"GPU for a quarter hour":  {many(1, 0.25, onGPU(4, 0)), nil},
		"no GPU sensor there":     {many(1, 10, func(w *misuse.Workload) { w.GPUs = num(4) }), nil},
		"eight times too many":    {many(1, 10, wasteful), []string{"over-requested"}},
		"too many for a moment":   {many(1, 0.5, wasteful), nil},
		"one burst of all cores":  {many(1, 10, func(w *misuse.Workload) { w.CoresP95 = num(15) }), nil},
		"two cores of four":       {many(1, 100, func(w *misuse.Workload) { w.Cores, w.CoresP95 = num(4), num(2) }), nil},
		"memory for nothing":      {many(1, 20, func(w *misuse.Workload) { w.MemoryPeakBytes = num(1 << 30) }), []string{"over-requested"}},
		"memory a little much":    {many(1, 20, func(w *misuse.Workload) { w.MemoryPeakBytes = num(20 << 30) }), nil},
		"GPU memory held, idle":   {many(1, 10, onGPU(1, 20000), func(w *misuse.Workload) { w.Running, w.State, w.IdleGPU = true, "running", num(7200) }), []string{"idle-allocation"}},
		"GPU idle for a while":    {many(1, 10, onGPU(1, 20000), func(w *misuse.Workload) { w.Running, w.State, w.IdleGPU = true, "running", num(600) }), nil},
		"allocation, no process":  {many(1, 2, unmeasured, func(w *misuse.Workload) { w.Running, w.State = true, "running" }), []string{"idle-allocation"}},
		"its processes ended":     {many(1, 2, func(w *misuse.Workload) { w.Running, w.State, w.Empty = true, "running", num(3600) }), []string{"idle-allocation"}},
		"between two steps":       {many(1, 2, func(w *misuse.Workload) { w.Running, w.State, w.Empty = true, "running", num(120) }), nil},
		"ended and said so":       {many(1, 2, func(w *misuse.Workload) { w.State, w.Empty = "completed", num(3600) }), nil},
		"the node is silent":      {many(1, 2, unmeasured, func(w *misuse.Workload) { w.Running, w.State, w.Reports = true, "running", false }), nil},
		"it waits":                {many(1, 2, unmeasured, func(w *misuse.Workload) { w.State = "pending" }), nil},
		"many that waste little":  {many(40, 0.4, wasteful), []string{"many-small-jobs"}},
		"few that waste little":   {many(5, 0.4, wasteful), nil},
		"many good ones":          {many(40, 0.4), nil},
		"two thousand short":      {many(2000, 0.003), []string{"many-small-jobs"}},
		"a hundred short":         {many(100, 0.003), nil},
		"pages from disk":         {many(1, 1, func(w *misuse.Workload) { w.MajorFaults = num(1e6) }), []string{"memory-thrashing"}},
		"searches a file system":  {many(1, 1, func(w *misuse.Workload) { w.MountMetadataOperations = num(1e7) }), []string{"storage-pattern"}},
		"asks a server in a loop": {many(1, 1, func(w *misuse.Workload) { w.NetworkConnections = num(1e5) }), []string{"many-connections"}},
		"a start from disk":       {many(1, 1, func(w *misuse.Workload) { w.MajorFaults = num(20000) }), nil},
		"swapped out":             {many(1, 1, func(w *misuse.Workload) { w.SwapBytes = num(20 << 30) }), []string{"memory-thrashing"}},
		"held by a quota":         {many(1, 1, func(w *misuse.Workload) { w.ThrottledSeconds = num(2000) }), []string{"memory-thrashing"}},
		"nodes stand still":       {many(1, 2, func(w *misuse.Workload) { w.PerNode = map[string]float64{"n1": 100000, "n2": 30, "n3": 20} }), []string{"imbalance"}},
		"nodes share the work":    {many(1, 2, func(w *misuse.Workload) { w.PerNode = map[string]float64{"n1": 100000, "n2": 60000} }), nil},
		"all nodes stand still":   {many(1, 2, func(w *misuse.Workload) { w.PerNode = map[string]float64{"n1": 100, "n2": 0} }), nil},
		"it can never start": {many(1, 0, unmeasured, func(w *misuse.Workload) {
			w.State, w.Stuck, w.Waited = "pending", phrase.Join("its partition is too small"), 600
		}), []string{"cannot-start"}},
		"it will start":         {many(1, 0, unmeasured, func(w *misuse.Workload) { w.State, w.Waited = "pending", 86400 }), nil},
		"one of two GPUs works": {many(1, 2, onGPU(2, 7000), func(w *misuse.Workload) { w.PerGPU = map[string]float64{"a": 7000, "b": 0} }), []string{"imbalance"}},
	}
}

// TestLabelled prints precision and recall of every rule over the labelled cases; both
// must be 1, otherwise the case is named.
func TestLabelled(t *testing.T) {
	hit, found, wanted := map[string]int{}, map[string]int{}, map[string]int{}
	for name, c := range labelled() {
		var got []string
		for _, f := range misuse.Judge(c.list, nil, func(string, []string) *misuse.Policy { return policy() }) {
			if !slices.Contains(got, f.Rule) {
				got = append(got, f.Rule)
			}
			if f.Text == "" || len(f.Evidence) == 0 || f.Owner != "alice" || strings.Contains(f.Text, "alice") || f.Last.Before(f.First) {
				t.Errorf("%s: %+v", name, f)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: found %v, want %v", name, got, c.want)
		}
		for _, r := range got {
			found[r]++
			if slices.Contains(c.want, r) {
				hit[r]++
			}
		}
		for _, r := range c.want {
			wanted[r]++
		}
	}
	for _, r := range misuse.Rules()[1:] { // over-share is part of analysis/fairshare
		if r == misuse.Anomaly || r == misuse.UnusedOverTime { // parts of analysis/anomaly and test/pipeline
			continue
		}
		if wanted[r] == 0 {
			t.Errorf("%s has no labelled case", r)
			continue
		}
		t.Logf("%-16s precision %.2f, recall %.2f (%d cases)", r, float64(hit[r])/math.Max(1, float64(found[r])), float64(hit[r])/float64(wanted[r]), wanted[r])
	}
}

// TestUnknownIsNothing: a workload with missing figures has no finding
// that the same workload with all figures would not have, but for memory that is not needed as far as is known: whether
// the workload thrashes with it is not known then.
func TestUnknownIsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := func(name string, most float64) *float64 {
			if rapid.Bool().Draw(t, name+" known") {
				return num(rapid.Float64Range(0, most).Draw(t, name))
			}
			return nil
		}
		w := misuse.Workload{
			Run: figure.Run{Site: "lab", ID: "slurm/1", Owner: "alice", State: "completed", Nodes: []string{"n1"}, Start: epoch, Row: figure.Row{
				CPUSeconds: num(1), CoresMean: f("mean", 64), CoresP95: f("p95", 64), MemoryPeakBytes: f("peak", 1<<40), SwapBytes: f("swap", 1<<40), MajorFaults: f("faults", 1e9),
				ThrottledSeconds: f("throttled", 1e6), GPUSeconds: f("gpu", 1e6)}},
			Last: epoch.Add(time.Duration(rapid.IntRange(0, 1e6).Draw(t, "wall")) * time.Second), Cores: f("cores", 64), Memory: f("memory", 1<<40), GPUs: f("gpus", 8), NodeCores: f("node", 64),
			GPUNodes: rapid.IntRange(0, 1).Draw(t, "gpu nodes"),
		}
		judge := func(w misuse.Workload) map[string]bool {
			out := map[string]bool{}
			for _, x := range misuse.Judge([]misuse.Workload{w}, nil, func(string, []string) *misuse.Policy { return policy() }) {
				out[x.Rule+x.Part] = true
			}
			return out
		}
		whole := judge(w)
		for name, forget := range map[string]func(*misuse.Workload){
			"p95": func(w *misuse.Workload) { w.CoresP95 = nil }, "mean": func(w *misuse.Workload) { w.CoresMean = nil }, "peak": func(w *misuse.Workload) { w.MemoryPeakBytes = nil },
			"cores": func(w *misuse.Workload) { w.Cores = nil }, "memory": func(w *misuse.Workload) { w.Memory = nil }, "faults": func(w *misuse.Workload) { w.MajorFaults = nil },
			"swap": func(w *misuse.Workload) { w.SwapBytes = nil }, "throttled": func(w *misuse.Workload) { w.ThrottledSeconds = nil }, "node": func(w *misuse.Workload) { w.NodeCores = nil },
		} {
			less := w
			forget(&less)
			for r := range judge(less) {
				thrashes := whole[misuse.MemoryThrashing+"faults"] || whole[misuse.MemoryThrashing+"swap"]
				if !whole[r] && !(thrashes && r == misuse.OverRequested+"memory") {
					t.Fatalf("without %s there is %s", name, r)
				}
			}
		}
	})
}

// TestOff: a disabled rule finds nothing.
func TestOff(t *testing.T) {
	p := policy()
	p.GPUUnused.On, p.OverRequested.On, p.IdleAllocation.On, p.ManySmallJobs.On, p.MemoryThrashing.On, p.Imbalance.On, p.CannotStart.On, p.ManyConnections.On, p.StoragePattern.On = false, false, false, false, false, false, false, false, false
	for name, c := range labelled() {
		if f := misuse.Judge(c.list, nil, func(string, []string) *misuse.Policy { return p }); len(f) != 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestShortWork: very many short runs are reported with their duration, but
// not for system owners.
func TestShortWork(t *testing.T) {
	var list []misuse.Workload
	for i := range 1200 {
		start := epoch.Add(time.Duration(i) * time.Minute)
		for _, owner := range []string{"alice", "root", "systemd-network"} {
			list = append(list, misuse.Workload{Run: figure.Run{Site: "lab", ID: fmt.Sprint("group/", owner, i), Kind: "group", Owner: owner, Start: start, Row: figure.Row{CPUSeconds: num(2)}}, Last: start.Add(12 * time.Second)})
		}
	}
	got := misuse.Judge(list, nil, func(string, []string) *misuse.Policy { return policy() })
	if len(got) != 1 || got[0].Owner != "alice" || got[0].Text != "ran 1,200 jobs shorter than 1m, 12s on average: start-up dominates; batch them into fewer jobs" {
		t.Errorf("%+v", got)
	}
}
