package misuse_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/analysis/misuse"
	"reckon/figure"
	"reckon/internal/phrase"
	"reckon/internal/phrase/phrasetest"
)

// found returns the rules and parts that some workloads break, with their severities.
func found(list ...misuse.Workload) string {
	var out []string
	for _, f := range misuse.Judge(list, nil, func(string, []string) *misuse.Policy { return policy() }) {
		out = append(out, f.Rule+" "+f.Part+" "+string(f.Severity))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// TestOnce: no finding of a job repeats or contradicts another one.
func TestOnce(t *testing.T) {
	running := func(w *misuse.Workload) { w.Running, w.State, w.Reports = true, "running", true }
	waste := func(w *misuse.Workload) {
		w.Cores, w.CoresP95, w.Memory, w.MemoryPeakBytes = num(64), num(1), num(256<<30), num(1<<30)
	}
	held := func(w *misuse.Workload) { w.IdleGPU = num(9 * 3600) }
	for name, c := range map[string]struct {
		edits []func(*misuse.Workload)
		want  string
	}{
		"holds memory of a GPU":         {[]func(*misuse.Workload){onGPU(4, 0), running, held}, "idle-allocation gpu high"},
		"ended, GPUs never used":        {[]func(*misuse.Workload){onGPU(4, 0), held}, "gpu-unused gpu high"},
		"no process is left":            {[]func(*misuse.Workload){onGPU(4, 0), waste, running, held, func(w *misuse.Workload) { w.Empty = num(8 * 3600) }}, "idle-allocation allocation high"},
		"too many cores and too much":   {[]func(*misuse.Workload){waste}, "over-requested cpu high, over-requested memory low"},
		"cores of nodes that are idle":  {[]func(*misuse.Workload){waste, func(w *misuse.Workload) { w.PerNode = map[string]float64{"n1": 36000, "n2": 0} }}, "imbalance nodes high, over-requested memory low"},
		"thrashing with memory to give": {[]func(*misuse.Workload){waste, func(w *misuse.Workload) { w.MajorFaults = num(1e7) }}, "memory-thrashing faults medium, over-requested cpu high"},
		"held up for lack of memory":    {[]func(*misuse.Workload){waste, func(w *misuse.Workload) { w.Squeezed = true }}, "over-requested cpu high"},
	} {
		if got := found(job(1, 10, c.edits...)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestEdges tests both sides of every threshold of rules about one workload.
func TestEdges(t *testing.T) {
	gpu := func(hours, gpus, busy float64, edit ...func(*misuse.Workload)) misuse.Workload {
		return job(1, hours, append([]func(*misuse.Workload){onGPU(gpus, busy*gpus*hours*3600)}, edit...)...)
	}
	cpuOnGPU := func(hours, cores float64) misuse.Workload {
		return job(1, hours, func(w *misuse.Workload) { w.GPUNodes, w.CoresMean = 1, num(cores) })
	}
	cores := func(hours, given, p95 float64) misuse.Workload {
		return job(1, hours, func(w *misuse.Workload) { w.Cores, w.CoresP95 = num(given), num(p95) })
	}
	memory := func(hours, given, peak float64) misuse.Workload {
		return job(1, hours, func(w *misuse.Workload) { w.Memory, w.MemoryPeakBytes = num(given*(1<<30)), num(peak*(1<<30)) })
	}
	running := func(edit func(*misuse.Workload)) misuse.Workload {
		return job(1, 2, func(w *misuse.Workload) { w.Running, w.State = true, "running" }, edit)
	}
	nodes := func(hours, a, b float64) misuse.Workload {
		return job(1, hours, func(w *misuse.Workload) {
			w.PerNode = map[string]float64{"n1": a * hours * 3600, "n2": a * hours * 3600, "n3": b * hours * 3600}
		})
	}
	tasks := func(hours, allocated, n, busiest, others float64) misuse.Workload { // all in cores
		return job(1, hours, func(w *misuse.Workload) {
			all := (busiest + (n-1)*others) * hours * 3600
			w.Cores, w.CPUSeconds, w.CoresP95 = num(allocated), num(all), num(busiest+(n-1)*others)
			w.Tasks = []misuse.StepTasks{{Step: "0", Node: "n1", Tasks: n, Busiest: busiest * hours * 3600, CPUSeconds: all}}
		})
	}
	stuck := func(seconds float64) misuse.Workload {
		return misuse.Workload{Run: figure.Run{ID: "slurm/1", Owner: "alice", State: "pending", Start: epoch}, Stuck: phrase.Join("x"), Waited: seconds, Last: epoch}
	}
	for name, c := range map[string]struct {
		w    misuse.Workload
		want string
	}{
		"GPUs never opened":                 {gpu(10, 4, 0), "gpu-unused gpu high"},
		"GPUs busy below 5 %":               {gpu(1, 1, 0.0499), "gpu-unused gpu medium"},
		"GPUs busy 5 %":                     {gpu(1, 1, 0.05), ""},
		"GPUs busy above half of the limit": {gpu(1, 1, 0.026), "gpu-unused gpu medium"},
		"GPUs of half an hour":              {gpu(0.5, 1, 0), "gpu-unused gpu medium"},
		"GPUs of less":                      {gpu(0.499, 1, 0), ""},
		"24 GPU-hours":                      {gpu(6, 4, 0), "gpu-unused gpu high"},
		"less than 24 GPU-hours":            {gpu(5.99, 4, 0), "gpu-unused gpu medium"},
		"GPU use is a lower bound":          {gpu(10, 4, 0, func(w *misuse.Workload) { w.GPUInexact = true }), ""},
		"GPU use not measured":              {gpu(10, 4, 0, func(w *misuse.Workload) { w.GPUSeconds = nil }), ""},
		"GPUs not measured on the node":     {gpu(10, 4, 0, func(w *misuse.Workload) { w.GPUNodes = 0 }), ""},
		"10 % of a GPU node's CPUs":         {cpuOnGPU(1, 6.4), "gpu-unused cpu medium"},
		"less of them":                      {cpuOnGPU(1, 6.3), ""},
		"for ten minutes":                   {cpuOnGPU(1.0/6, 20), "gpu-unused cpu medium"},
		"for less":                          {cpuOnGPU(0.166, 20), ""},

		"p95 below a quarter":       {cores(10, 16, 3.99), "over-requested cpu medium"},
		"p95 at a quarter":          {cores(10, 16, 4), ""},
		"four cores":                {cores(10, 4, 0.5), "over-requested cpu medium"},
		"fewer than four cores":     {cores(100, 3.9, 0.5), ""},
		"suspended for a while":     {job(1, 4, func(w *misuse.Workload) { w.CoresP95, w.SuspendedSeconds = num(3.99), num(2*3600+60) }), ""},
		"suspended for less":        {job(1, 4, func(w *misuse.Workload) { w.CoresP95, w.SuspendedSeconds = num(3.99), num(2*3600-60) }), "over-requested cpu medium"},
		"24 core-hours":             {cores(2, 16, 3.99), "over-requested cpu medium"},
		"less than 24 core-hours":   {cores(1.99, 16, 3.99), ""},
		"240 core-hours":            {cores(20, 16, 3.99), "over-requested cpu high"},
		"less than 240":             {cores(19.9, 16, 3.99), "over-requested cpu medium"},
		"ten minutes":               {cores(1.0/6, 1024, 1), "over-requested cpu medium"},
		"less than ten minutes":     {cores(0.166, 1024, 1), ""},
		"p95 is a lower bound":      {job(1, 10, func(w *misuse.Workload) { w.CoresP95, w.CPUInexact = num(1), true }), ""},
		"memory below a quarter":    {memory(9, 32, 7.99), "over-requested memory low"},
		"memory at a quarter":       {memory(9, 32, 8), ""},
		"8 GiB":                     {memory(40, 8, 1), "over-requested memory low"},
		"less than 8 GiB":           {memory(40, 7.9, 1), ""},
		"192 GiB-hours":             {memory(8, 25, 1), "over-requested memory low"},
		"less than 192 GiB-hours":   {memory(7.99, 25, 1), ""},
		"its page cache is no need": {job(1, 20, func(w *misuse.Workload) { w.MemoryNeededPeakBytes = num(1 << 30) }), "over-requested memory low"},
		"it may have needed more between readings": {job(1, 20, func(w *misuse.Workload) {
			w.MemoryNeededPeakBytes, w.MemoryNeededMostBytes = num(1<<30), w.MemoryPeakBytes
		}), ""},
		"memory is an estimate": {job(1, 20, func(w *misuse.Workload) { w.MemoryNeededPeakBytes, w.MemoryInexact = num(1<<30), true }), ""},

		"GPU idle for half an hour":        {running(func(w *misuse.Workload) { w.IdleGPU = num(1800) }), "idle-allocation gpu high"},
		"GPU idle for less":                {running(func(w *misuse.Workload) { w.IdleGPU = num(1799) }), ""},
		"no process for ten minutes":       {running(func(w *misuse.Workload) { w.Empty = num(600) }), "idle-allocation allocation high"},
		"no process for less":              {running(func(w *misuse.Workload) { w.Empty = num(599) }), ""},
		"no process, and it does not run":  {job(1, 2, func(w *misuse.Workload) { w.Running, w.State, w.Empty = true, "completing", num(7200) }), ""},
		"a third of the nodes below 5 %":   {nodes(1, 4, 0.199), "imbalance nodes medium"},
		"at 5 %":                           {nodes(1, 4, 0.2), ""},
		"busiest node half a core":         {nodes(1, 0.5, 0), "imbalance nodes medium"},
		"busiest node less":                {nodes(1, 0.49, 0), ""},
		"nodes for ten minutes":            {nodes(1.0/6, 4, 0), "imbalance nodes medium"},
		"nodes for less":                   {nodes(0.166, 4, 0), ""},
		"nodes by a lower bound":           {job(1, 1, func(w *misuse.Workload) { w.PerNode, w.CPUInexact = map[string]float64{"a": 9000, "b": 0}, true }), ""},
		"other tasks below half":           {tasks(1, 4, 4, 1, 0.499), "imbalance tasks medium"},
		"other tasks half":                 {tasks(1, 4, 4, 1, 0.5), ""},
		"other tasks below 5 %":            {tasks(1, 4, 4, 1, 0.0499), "imbalance tasks high"},
		"other tasks 5 %":                  {tasks(1, 4, 4, 1, 0.05), "imbalance tasks medium"},
		"one task":                         {tasks(1, 4, 1, 1, 0), ""},
		"busiest task half a core":         {tasks(1, 2, 4, 0.5, 0), "imbalance tasks high"},
		"busiest task less":                {tasks(1, 2, 4, 0.499, 0), ""},
		"tasks for ten minutes":            {tasks(1.0/6, 4, 4, 1, 0), "imbalance tasks high"},
		"tasks for less":                   {tasks(0.166, 4, 4, 1, 0), ""},
		"tasks explain half of the unused": {tasks(10, 7, 4, 1, 0), "imbalance tasks high"},
		"they explain less":                {tasks(10, 7.1, 4, 1, 0), "over-requested cpu medium"},
		"tasks by a lower bound":           {func() misuse.Workload { w := tasks(1, 4, 4, 1, 0); w.CPUInexact = true; return w }(), ""},
		"busiest GPU 20 %":                 {job(1, 1, func(w *misuse.Workload) { w.PerGPU = map[string]float64{"a": 720, "b": 0} }), "imbalance gpus high"},
		"busiest GPU less":                 {job(1, 1, func(w *misuse.Workload) { w.PerGPU = map[string]float64{"a": 719, "b": 0} }), ""},
		"100 faults a second":              {job(1, 1, func(w *misuse.Workload) { w.MajorFaults = num(360000) }), "memory-thrashing faults medium"},
		"fewer faults":                     {job(1, 1, func(w *misuse.Workload) { w.MajorFaults = num(359999) }), ""},
		"swap 30 %":                        {job(1, 1, func(w *misuse.Workload) { w.SwapBytes, w.MemoryPeakBytes = num(12<<30), num(28<<30) }), "memory-thrashing swap medium"},
		"swap less":                        {job(1, 1, func(w *misuse.Workload) { w.SwapBytes, w.MemoryPeakBytes = num(11.9*(1<<30)), num(28<<30) }), ""},
		"64 MiB of swap":                   {job(1, 0.1, func(w *misuse.Workload) { w.SwapBytes, w.MemoryPeakBytes = num(64<<20), num(64<<20) }), "memory-thrashing swap medium"},
		"less than 64 MiB of swap":         {job(1, 0.1, func(w *misuse.Workload) { w.SwapBytes, w.MemoryPeakBytes = num(64<<20-1), num(64<<20) }), ""},
		"quota 30 %":                       {job(1, 1, func(w *misuse.Workload) { w.ThrottledSeconds = num(1080) }), "memory-thrashing quota low"},
		"quota less":                       {job(1, 1, func(w *misuse.Workload) { w.ThrottledSeconds = num(1079) }), ""},
		"thrashing for five minutes":       {job(1, 5.0/60, func(w *misuse.Workload) { w.MajorFaults = num(1e6) }), "memory-thrashing faults medium"},
		"thrashing for less":               {job(1, 0.083, func(w *misuse.Workload) { w.MajorFaults = num(1e6) }), ""},
		"ten connections a second":         {job(1, 1, connects(10)), "many-connections tcp medium"},
		"fewer connections":                {job(1, 1, connects(9.99)), ""},
		"a hundred connections a second":   {job(1, 1, connects(100)), "many-connections tcp high"},
		"connections for ten minutes":      {job(1, 1.0/6, connects(10)), "many-connections tcp medium"},
		"connections for less":             {job(1, 0.166, connects(10)), ""},
		"connections of a service":         {job(1, 1, connects(10), func(w *misuse.Workload) { w.Kind = "deployment" }), ""},
		"connections of root":              {job(1, 1, connects(10), func(w *misuse.Workload) { w.Owner = "root" }), ""},
		"connections of ten minutes":       {job(1, 1, connects(0.1), connecting(10, 10)), "many-connections tcp medium"},
		"connections of nine minutes":      {job(1, 1, connects(100), connecting(9, 10)), ""},
		"short work without a line":        {job(1, 1, connects(10), func(w *misuse.Workload) { w.Kind = "short" }), ""},
		"short work in a loop":             {job(1, 1, connects(10), connecting(10, 10), func(w *misuse.Workload) { w.Kind = "short" }), "many-connections tcp medium"},
		"500 metadata requests a second":   {job(1, 1, metadata(500)), "storage-pattern metadata medium"},
		"fewer metadata requests":          {job(1, 1, metadata(499.9)), ""},
		"5000 metadata requests a second":  {job(1, 1, metadata(5000)), "storage-pattern metadata high"},
		"metadata for less":                {job(1, 0.166, metadata(500)), ""},
		"metadata of root":                 {job(1, 1, metadata(500), func(w *misuse.Workload) { w.Owner = "root" }), ""},
		"metadata for ten minutes":         {job(1, 1, metadata(1), asking(10, 500)), "storage-pattern metadata medium"},
		"metadata for nine minutes":        {job(1, 1, metadata(1000), asking(9, 500)), ""},
		"half of 10 GiB read again":        {job(1, 1, func(w *misuse.Workload) { w.ReadBytes, w.Refaulted = num(10<<30), num(5<<30) }), "storage-pattern again low"},
		"less of it":                       {job(1, 1, func(w *misuse.Workload) { w.ReadBytes, w.Refaulted = num(10<<30), num(5<<30-1) }), ""},
		"half of less read again":          {job(1, 1, func(w *misuse.Workload) { w.ReadBytes, w.Refaulted = num(10<<30-1), num(9<<30) }), ""},
		"read again is not known":          {job(1, 1, func(w *misuse.Workload) { w.ReadBytes = num(10 << 40) }), ""},
		"one of four writes":               {job(1, 1, writers(95, 5, 0, 0)), "storage-pattern writer low"},
		"one of four writes less":          {job(1, 1, writers(94.9, 5.1, 0, 0)), ""},
		"one of three writes":              {job(1, 1, writers(95, 5, 0)), ""},
		"one of four writes little":        {job(1, 1, writers(9.4, 0.5, 0, 0)), ""},
		"can never start, for ten minutes": {stuck(600), "cannot-start queue medium"},
		"can never start, for a moment":    {stuck(599), ""},
	} {
		if got := found(c.w); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// connects sets the rate of connections per second over the whole run, connecting for some minutes of an hour only.
func connects(rate float64) func(*misuse.Workload) {
	return func(w *misuse.Workload) { w.NetworkConnections = num(rate * w.Wall()) }
}

func connecting(minutes int, rate float64) func(*misuse.Workload) {
	return func(w *misuse.Workload) {
		w.Lines["network_connections"] = &misuse.Line{Start: epoch, Step: time.Minute, Values: make([]float64, 60)}
		for i := range minutes {
			w.Lines["network_connections"].Values[20+i] = rate
		}
	}
}

// metadata sets the rate of metadata requests per second over the whole run, asking for some minutes of an hour only.
func metadata(rate float64) func(*misuse.Workload) {
	return func(w *misuse.Workload) { w.MountMetadataOperations = num(rate * w.Wall()) }
}

func asking(minutes int, rate float64) func(*misuse.Workload) {
	return func(w *misuse.Workload) {
		w.Lines["mount_metadata_operations"] = &misuse.Line{Start: epoch, Step: time.Minute, Values: make([]float64, 60)}
		for i := range minutes {
			w.Lines["mount_metadata_operations"].Values[20+i] = rate
		}
	}
}

// writers sets the GiB that each node writes.
func writers(gib ...float64) func(*misuse.Workload) {
	return func(w *misuse.Workload) {
		w.PerNodeWritten = map[string]float64{}
		for i, v := range gib {
			w.PerNodeWritten[string(rune('a'+i))] = v * (1 << 30)
		}
	}
}

// TestManyEdges tests the thresholds of the sum of many small jobs.
func TestManyEdges(t *testing.T) {
	jobs := func(n int, hours, given, p95 float64) (out []misuse.Workload) {
		for i := range n {
			out = append(out, job(i, hours, func(w *misuse.Workload) { w.Cores, w.CoresP95 = num(given), num(p95) }))
		}
		return out
	}
	for name, c := range map[string]struct {
		list []misuse.Workload
		want string
	}{
		"twenty jobs":             {jobs(20, 1, 2, 0.4), "many-small-jobs cpu medium"},
		"nineteen jobs":           {jobs(19, 1.3, 2, 0.4), ""},
		"24 core-hours":           {jobs(20, 0.76, 2, 0.4), "many-small-jobs cpu medium"},
		"less than 24 core-hours": {jobs(20, 0.74, 2, 0.4), ""},
		"p95 below a quarter":     {jobs(30, 1, 2, 0.499), "many-small-jobs cpu medium"},
		"p95 at a quarter":        {jobs(30, 1, 2, 0.5), ""},
		"a thousand short ones":   {jobs(1000, 59.0/3600, 1, 1), "many-small-jobs short low"},
		"fewer short ones":        {jobs(999, 59.0/3600, 1, 1), ""},
		"a thousand of a minute":  {jobs(1000, 60.0/3600, 1, 1), ""},
	} {
		if got := found(c.list...); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	running := jobs(30, 1, 2, 0.4)
	for i := range running {
		running[i].Running = true
	}
	if got := found(running...); got != "" {
		t.Errorf("they run on: %q", got)
	}
}

// TestWords checks every sentence.
func TestWords(t *testing.T) {
	var said []string
	say := func(edit ...func(*misuse.Workload)) {
		for _, f := range misuse.Judge([]misuse.Workload{job(1, 48, edit...)}, nil, func(string, []string) *misuse.Policy { return policy() }) {
			if loose := phrasetest.Figures(f.Text, f.Values, "node", "step"); loose != "" {
				t.Error(loose)
			}
			said = append(said, f.Owner+" "+f.Text)
		}
	}
	say(onGPU(1, 0))
	say(onGPU(4, 0))
	say(onGPU(4, 300))
	say(onGPU(1, 8000))
	say(func(w *misuse.Workload) { w.GPUNodes = 1 })
	say(func(w *misuse.Workload) { w.CoresP95 = num(1.26) })
	say(func(w *misuse.Workload) { w.CoresP95 = num(0.02) })
	say(func(w *misuse.Workload) { w.Kind, w.CoresP95 = "deployment", num(1) })
	say(func(w *misuse.Workload) { w.Memory, w.MemoryNeededPeakBytes = num(2<<40), num(700<<20) })
	say(func(w *misuse.Workload) { w.Running, w.State, w.IdleGPU = true, "running", num(7200) })
	say(func(w *misuse.Workload) { w.Running, w.State, w.CPUSeconds = true, "running", nil })
	say(func(w *misuse.Workload) { w.Running, w.State, w.Empty = true, "running", num(4800) })
	say(func(w *misuse.Workload) { w.MajorFaults = num(278 * 48 * 3600) })
	say(func(w *misuse.Workload) { w.SwapBytes = num(20 << 30) })
	say(func(w *misuse.Workload) { w.ThrottledSeconds = num(0.5 * 48 * 3600) })
	say(func(w *misuse.Workload) { w.PerNode = map[string]float64{"n1": 32 * 48 * 3600, "n2": 0} })
	say(func(w *misuse.Workload) { w.PerGPU = map[string]float64{"a": 1e5, "b": 0, "c": 0, "d": 1e5} })
	say(connects(1234.4))
	say(func(w *misuse.Workload) {
		w.State, w.Stuck, w.Waited = "pending", phrase.Join("it asks for more time than its partition allows"), 10800
	})
	for _, x := range []misuse.Excess{
		{Share: 0.95, What: "CPUs", Where: phrase.Join("login1"), Seconds: 18000, Fair: 0.25},
		{Share: 0.5, What: "memory", Where: phrase.Join("login1 and ", phrase.Count(1), " more node"), Seconds: 1200, Fair: 0.25, Held: 0.5},
		{Share: 0.9, What: "CPUs", Where: phrase.Join("login1"), Seconds: 3600, Waited: 60, Fair: 0.25},
		{Share: 0.9, What: "storage traffic", Where: phrase.Join("login1"), Seconds: 3600, Waited: 59.9, Fair: 0.25},
		{Share: 0.9, What: "storage traffic", Where: phrase.Join("login1"), Seconds: 3600, Waited: 7200, Fair: 0.25},
	} {
		var f misuse.Finding
		f.SetText(misuse.OverShareText(x))
		if loose := phrasetest.Figures(f.Text, f.Values, "where"); loose != "" {
			t.Error(loose)
		}
		said = append(said, "alice "+f.Text)
	}
	want := []string{
		"alice has not used its GPU at all",
		"alice has not used its 4 GPUs at all",
		"alice keeps its 4 GPUs busy < 0.1 % of the time",
		"alice keeps its GPU busy 4.6 % of the time",
		"alice uses 24 % of the CPUs of a GPU node and none of its GPUs",
		"alice was allocated 16 cores and used no more than 1.3 for 95 % of the time",
		"alice was allocated 16 cores and was idle for 95 % of the time",
		"alice requested 16 cores and used no more than 1 for 95 % of the time",
		"alice was allocated 2 TiB of memory and needed 700 MiB at its peak",
		"alice holds memory of a GPU and has not computed on it for 2h",
		"alice holds an allocation in which no process ever ran",
		"alice holds an allocation in which no process has run for 1h20m",
		"alice reads 278 pages a second back from disk for lack of memory, for 48h from 2026-11-21 00:00 UTC on",
		"alice has 40 % of its memory swapped out, for 48h from 2026-11-21 00:00 UTC on",
		"alice is throttled by its CPU quota 50 % of the time, for 48h from 2026-11-21 00:00 UTC on",
		"alice leaves 1 of its 2 nodes idle while others work",
		"alice leaves 2 of its 4 GPUs idle while others work",
		"alice opens 1,234 TCP connections a second, for 48h from 2026-11-21 00:00 UTC on",
		"alice has waited for 3h and can never start: it asks for more time than its partition allows",
		"alice used 95 % of the CPUs of login1 while others wanted them, for 5h in all; 25 % was a fair share: as much as those who want it can all have",
		"alice used 50 % of the memory of login1 and 1 more node while others wanted it, for 20m in all; 25 % was a fair share: jobs held 50 % on average, and those who want more share the rest",
		"alice used 90 % of the CPUs of login1 while others wanted them, for 1h in all; threads of others waited 1m for them; 25 % was a fair share: as much as those who want it can all have",
		"alice used 90 % of the storage traffic of login1 while others wanted it, for 1h in all; 25 % was a fair share: as much as those who want it can all have",
		"alice used 90 % of the storage traffic of login1 while others wanted it, for 1h in all; threads of others waited 2h for it; 25 % was a fair share: as much as those who want it can all have",
	}
	for i := range max(len(said), len(want)) {
		a, b := "", ""
		if i < len(said) {
			a = said[i]
		}
		if i < len(want) {
			b = want[i]
		}
		if a != b {
			t.Errorf("%d: %q, want %q", i, a, b)
		}
	}
	for _, s := range said {
		if strings.ContainsAny(s, "{}!") {
			t.Error(s)
		}
	}
}

// TestWasted: unused allocations are marked in the evidence, so that they can be added up.
func TestWasted(t *testing.T) {
	for name, c := range map[string]struct {
		w    misuse.Workload
		unit string
		want float64
	}{
		"GPUs":       {job(1, 10, onGPU(4, 3600)), "gpu-seconds", 39 * 3600},
		"cores":      {job(1, 10, func(w *misuse.Workload) { w.CoresP95 = num(2) }), "core-seconds", 140 * 3600},
		"memory":     {job(1, 20, func(w *misuse.Workload) { w.MemoryPeakBytes = num(2 << 30) }), "byte-seconds", 600 * 3600 * (1 << 30)},
		"no process": {job(1, 2, func(w *misuse.Workload) { w.Running, w.State, w.Empty = true, "running", num(3600) }), "core-seconds", 16 * 3600},
		"idle nodes": {job(1, 2, func(w *misuse.Workload) { w.PerNode = map[string]float64{"a": 9e4, "b": 0} }), "core-seconds", 16 * 3600},
		"idle GPUs":  {job(1, 2, func(w *misuse.Workload) { w.PerGPU = map[string]float64{"a": 7000, "b": 0} }), "gpu-seconds", 7200},
	} {
		sum, n := 0.0, 0
		for _, f := range misuse.Judge([]misuse.Workload{c.w}, nil, func(string, []string) *misuse.Policy { return policy() }) {
			for _, e := range f.Evidence {
				if e.Wasted && e.Unit == c.unit {
					sum, n = sum+e.Value, n+1
				}
			}
		}
		if n != 1 || sum != c.want {
			t.Errorf("%s: %d times, %g, want %g", name, n, sum, c.want)
		}
	}
}

// TestNames: every rule has a meaning, and a key of its own that ids of findings hash.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range misuse.Rules() {
		if misuse.Meaning(r) == "" || seen[misuse.Key(r)] {
			t.Errorf("%s: %s %q", r, misuse.Key(r), misuse.Meaning(r))
		}
		seen[misuse.Key(r)] = true
	}
	if misuse.Key(misuse.OverShare) != "hog" || misuse.Key(misuse.Imbalance) != "imbalance" || misuse.Key(misuse.CannotStart) != "cannot-start" {
		t.Error("keys changed: the ids of findings change with them")
	}
	if misuse.Meaning("gready") != "" {
		t.Error("a word that is no rule")
	}
}

// A rise from nothing names no figure of before: "0 W was expected" is about no work that anybody did.
func TestRiseFromNothing(t *testing.T) {
	for expected, want := range map[float64]string{
		0:    "power rose to 956 W; the days before had none at this time",
		1e-9: "power rose to 956 W; the days before had none at this time",
		120:  "power rose to 956 W; 120 W was expected from the days before",
	} {
		if got := misuse.AnomalyText("high", "watts", 956, expected); got.String() != want {
			t.Errorf("%g W before: %s", expected, got.String())
		}
	}
}
