package run

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/internal/term"
	"reckon/sensor"
)

func TestBreakdown(t *testing.T) {
	m := map[string]*commandTally{
		"a": {n: 2, cpu: 600e6, split: 2, user: 90e6, system: 30e6, peak: 5},
		"b": {n: 8, cpu: 200e6},
	}
	sum := func(l []Command) (cpu float64, n uint64) {
		for _, c := range l {
			cpu += c.CPUSeconds
			n += c.Processes
		}
		return
	}
	for _, c := range []struct {
		name           string
		total, started uint64
		rest           bool
	}{
		{"all known", 800e6, 10, false},
		{"beginning and end of each missing", 850e6, 10, false},
		{"processes missing", 850e6, 12, true},
		{"clocks differ", 790e6, 10, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, _ := splitByCommand(m, nil, c.total, c.started, true)
			cpu, n := sum(l)
			if math.Abs(cpu-seconds(c.total)) > 1e-9 || n != c.started {
				t.Errorf("sum %.6f s of %d processes, want %.6f s of %d", cpu, n, seconds(c.total), c.started)
			}
			if l[0].Name != "a" || (l[len(l)-1].Name == otherName) != c.rest {
				t.Errorf("order %+v, want a first, other last: %v", l, c.rest)
			}
			if a := l[0]; math.Abs(*a.User/(*a.User+*a.System)-0.75) > 1e-9 {
				t.Errorf("split %v %v, want 3 to 1", *a.User, *a.System)
			}
		})
	}
}

// A command that was never in the kernel has no system time, and not less.
func TestBreakdownSplitIsNotNegative(t *testing.T) {
	for cpu := uint64(3_029_000_001); cpu < 3_029_001_000; cpu += 7 {
		l, _ := splitByCommand(map[string]*commandTally{"sh": {n: 1, cpu: cpu, split: 1, user: 3_030_000_000}}, nil, cpu, 1, true)
		if *l[0].System != 0 {
			t.Fatalf("of %d ns, all in user mode, %g s are in the kernel", cpu, *l[0].System)
		}
	}
}

// Where every process has a name, the missing part is shared out and marked.
func TestBreakdownSharesOut(t *testing.T) {
	l, shared := splitByCommand(map[string]*commandTally{"a": {n: 2, cpu: 600e6}, "b": {n: 8, cpu: 200e6}}, nil, 1800e6, 10, true)
	if len(l) != 2 || l[0].Name != "b" || math.Abs(l[0].CPUSeconds-1) > 1e-9 || math.Abs(l[1].CPUSeconds-0.8) > 1e-9 ||
		math.Abs(shared-1) > 1e-9 {
		t.Errorf("%+v, shared out %v s; want b 1 s, a 0.8 s, 1 s", l, shared)
	}
}

// What nobody saw has the name of who waited for it, as far as that is known.
func TestBreakdownNamesChildren(t *testing.T) {
	m := map[string]*commandTally{"sh": {n: 1, cpu: 100e6}, "make": {n: 1, cpu: 50e6}}
	for _, c := range []struct {
		name  string
		total uint64
		want  string
	}{
		{"all is children", 1150e6, "children of sh 0.6, children of make 0.4, sh 0.1, make 0.05"},
		{"more than children", 1650e6, "children of sh 0.6, children of make 0.4, sh 0.1, make 0.05, other 0.5"},
		{"less: some were seen", 650e6, "children of sh 0.3, children of make 0.2, sh 0.1, make 0.05"},
	} {
		l, shared := splitByCommand(m, map[string]uint64{"sh": 600e6, "make": 400e6}, c.total, 2, false)
		var got []string
		for _, x := range l {
			got = append(got, fmt.Sprintf("%s %.3g", x.Name, x.CPUSeconds))
		}
		if s := strings.Join(got, ", "); s != c.want || shared != 0 {
			t.Errorf("%s: %s", c.name, s)
		}
	}
}

func TestBreakdownIsBounded(t *testing.T) {
	tree := newTree(1, t.TempDir())
	for i := range 5000 {
		p := tree.addProcess(int32(i+10), 1)
		p.comm = sensor.CommOf([]byte("n" + time.Duration(i).String()))
		tree.markDead(p, 0)
	}
	tree.foldReady(func(*treeProcess) bool { return true })
	if len(tree.commands) > maxNames+1 || len(tree.procs) != 0 || len(tree.order) != 0 {
		t.Errorf("%d names, %d processes kept", len(tree.commands), len(tree.procs))
	}
	if n := tree.commands[otherName].n; n != 5000-maxNames {
		t.Errorf("%d in other, want %d", n, 5000-maxNames)
	}
}

func TestSummarise(t *testing.T) {
	for _, c := range []struct {
		name    string
		windows []weightedValue
		mean    float64
		want    Cores
	}{
		{"shorter than a second", []weightedValue{{3, 0.3}}, 3, Cores{3, 3, 3, 3}},
		{"even", []weightedValue{{1, 1}, {2, 1}, {3, 1}, {4, 1}}, 2.5, Cores{2.5, 2, 4, 4}},
		{"a short last window is no maximum", []weightedValue{{1, 1}, {1, 1}, {1, 1}, {9, 0.01}}, 1, Cores{1, 1, 1.0792, 1.0792}},
		{"windows weigh by their length", []weightedValue{{1, 9}, {5, 1}}, 1.4, Cores{1.4, 1, 5, 5}},
	} {
		got := coresDistribution(c.windows, c.mean)
		for _, d := range []float64{got.Mean - c.want.Mean, got.P50 - c.want.P50, got.P95 - c.want.P95, got.Max - c.want.Max} {
			if math.Abs(d) > 1e-3 {
				t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
			}
		}
	}
}

// What is added up over windows is what was counted, however often they are merged.
func TestProfileConserves(t *testing.T) {
	var p profile
	var sum treeTotals
	area := 0.0
	for i := range maxRows*2 + 3 {
		at := float64(i + 1)
		sum.cpu += uint64(i%7) * 1e9
		sum.read += uint64(i)
		p.addMemory(at-0.5, 100)
		p.closeWindow(at, sum, 0, treeLevel{})
	}
	cpu, read := 0.0, 0.0
	for _, r := range p.rows {
		cpu += r.Cores * r.Seconds
		read += r.Read * r.Seconds
		area += r.Memory * r.Seconds
	}
	if math.Abs(cpu-seconds(sum.cpu)) > 1e-3 || math.Abs(read-float64(sum.read)) > 1 {
		t.Errorf("windows hold %.3f s and %.0f bytes, want %.3f s and %d", cpu, read, seconds(sum.cpu), sum.read)
	}
	if len(p.rows) > maxRows {
		t.Errorf("%d rows kept", len(p.rows))
	}
}

func TestCSVLeavesGapsEmpty(t *testing.T) {
	var b bytes.Buffer
	c, err := NewCSV(&b)
	if err != nil {
		t.Fatal(err)
	}
	gap := math.NaN()
	if err := c.Write(Row{Start: 1, Seconds: 1, Cores: 0.5, User: gap, System: gap, Memory: gap, MemoryPeak: gap, Anon: gap, File: gap,
		Processes: 2, Threads: 3}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if want := "2.000,1.000,0.5000,,,0.0000,,,,,0,0,2,3"; len(lines) != 2 || lines[1] != want {
		t.Errorf("got %q, want the second line %q", lines, want)
	}
	if n := strings.Count(lines[0], ","); n != strings.Count(lines[1], ",") {
		t.Errorf("header has %d columns", n+1)
	}
}

// recorded is an exit source that plays back what it was given, one batch for each call.
type recorded struct{ batches [][]sensor.Process }

func (r *recorded) Name() string { return "recorded" }
func (r *recorded) Close() error { return nil }
func (r *recorded) Drain(p *sensor.Pass) error {
	if len(r.batches) > 0 {
		p.Exited = append(p.Exited, r.batches[0]...)
		r.batches = r.batches[1:]
	}
	return nil
}

// The records of a machine hold much that is not of the tree, children before their
// parents, and grandchildren with a parent that nobody ever saw.
func TestExitRecordsFindTheTree(t *testing.T) {
	rec := func(pid, ppid int32, name string, ms uint64) sensor.Process {
		return sensor.Process{PID: pid, PPID: ppid, Comm: sensor.CommOf([]byte(name)), UserNanos: ms * 1e6, WaitNanos: 5e5,
			Have: sensor.FieldParent | sensor.FieldWait | sensor.FieldPeak, PeakBytes: 1 << 20}
	}
	source := &recorded{batches: [][]sensor.Process{
		{rec(900, 800, "foreign", 50), rec(31, 30, "leaf", 3), rec(30, 20, "middle", 2), rec(40, 21, "early", 4)},
		{rec(21, 20, "parent", 1), rec(901, 800, "foreign", 50)},
		{rec(20, 1, "main", 10)},
	}}
	tree := newTree(1, t.TempDir())
	tree.addProcess(20, 1)
	f := &exitFeed{source: source}
	for i := range 6 {
		f.readRecords(tree, float64(i))
	}
	tree.foldReady(func(*treeProcess) bool { return true })
	var cpu uint64
	for _, c := range tree.commands {
		cpu += c.cpu
	}
	if tree.started != 5 || cpu != 20e6 || tree.commands["foreign"] != nil || !f.whole {
		t.Errorf("%d processes, %d ns, commands %v; want 5, 20 ms, none foreign", tree.started, cpu, tree.commands)
	}
	if len(f.pending) != 0 {
		t.Errorf("%d foreign records are still kept", len(f.pending))
	}
	if tree.observed.wait != 5*5e5 || tree.largestEnded != 1<<20 {
		t.Errorf("waited %d ns, largest %d", tree.observed.wait, tree.largestEnded)
	}
}

func sample() *Report {
	peak, mean, largest, wait := uint64(300<<20), uint64(200<<20), uint64(250<<20), 0.1
	r := &Report{
		Command: []string{"make", "-j8", "evil\x1b[31m"}, Start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		WallSeconds: 10, CPU: CPU{15, 5, 20}, Cores: Cores{2, 2, 3.5, 4}, CPUWaitSeconds: &wait,
		MemoryPeakBytes: &peak, MemoryMeanBytes: &mean, MemoryLargestBytes: &largest,
		IO: IO{10 << 20, 20 << 20}, Switches: Switches{1000, 50}, Processes: 1234, ProcessesExact: true, ProcessesPeak: 9, ThreadsPeak: 12,
		Commands: []Command{{Name: "cc1", Processes: 400, CPUSeconds: 18}, {Name: otherName, Processes: 834, CPUSeconds: 2}},
		Machine:  Machine{Cores: 8, MemoryBytes: 16 << 30}, Source: "cgroup+perf",
	}
	for i := range 10 {
		r.Rows = append(r.Rows, Row{Start: float64(i), Seconds: 1, Cores: float64(i % 5), Memory: float64(i) * 30e6})
	}
	r.Judgement = Judge(r)
	return r
}

// Each source is named once, and by its first word alone.
func TestSourceWord(t *testing.T) {
	got := joinSources(map[string]string{
		"cpu": "cgroup", "memory": "cgroup peak less page cache", "commands": "taskstats; 2 % of the CPU time shared out",
		"processes": "perf",
		"io":        "wait4", "wait": "taskstats and schedstat of threads",
	})
	if want := "cgroup+taskstats+perf+wait4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPrintOfManyArguments: the head of the report does not repeat twenty thousand arguments, in a file as on a screen.
func TestPrintOfManyArguments(t *testing.T) {
	for _, width := range []int{0, 80} {
		r := sample()
		r.Command = slices.Repeat([]string{"argument"}, 20000)
		var b bytes.Buffer
		if err := r.Print(term.Screen{Writer: &b, Width: width}); err != nil {
			t.Fatal(err)
		}
		if head, _, _ := strings.Cut(b.String(), "\n"); len(head) > 210 || !strings.Contains(head, "argument argument") {
			t.Errorf("a head of %d bytes", len(head))
		}
	}
}

func TestPrint(t *testing.T) {
	for _, width := range []int{0, 80, 40} {
		var b bytes.Buffer
		if err := sample().Print(term.Screen{Writer: &b, Width: width}); err != nil {
			t.Fatal(err)
		}
		out := b.String()
		for _, want := range []string{"wall time  10.000 s", "p95 3.50", "1,234 started", "cc1", "measured by cgroup+perf"} {
			if !strings.Contains(out, want) {
				t.Errorf("width %d: %q is not in\n%s", width, want, out)
			}
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("width %d: an escape sequence of the command came through", width)
		}
	}
}

func TestPlotFitsTheScreen(t *testing.T) {
	out := sample().Plot(term.Screen{Width: 80})
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) > 23 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if n := len([]rune(l)); n > 80 {
			t.Errorf("%d columns: %q", n, l)
		}
	}
	if !strings.Contains(out, "█") || !strings.Contains(out, "cores in use") {
		t.Errorf("nothing is drawn:\n%s", out)
	}
	empty := sample()
	empty.Rows = nil
	if out := empty.Plot(term.Screen{Width: 80}); !strings.Contains(out, "nothing was measured") {
		t.Errorf("a run without windows: %s", out)
	}
}

// recordedProc writes what a look reads of a process; sizes in pages of 4 KiB.
func recordedProc(t *testing.T, root string, pid, ppid, resident, pssKB int) {
	t.Helper()
	dir := filepath.Join(root, strconv.Itoa(pid))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"stat":         fmt.Sprintf("%d (worker) S %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 %d 0", pid, ppid, resident),
		"statm":        fmt.Sprintf("%d %d 10 1 0 1 0", resident*2, resident),
		"smaps_rollup": fmt.Sprintf("0-1 ---p 0 00:00 0 [rollup]\nRss: %d kB\nPss: %d kB\n", resident*4, pssKB),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Five processes of 100 MiB that share all of it hold 100 MiB, not 500.
func TestSharedPagesCountOnce(t *testing.T) {
	root := t.TempDir()
	const pages = 25600
	size := uint64(os.Getpagesize())
	tree := newTree(1, root)
	tree.byEvents = true
	for i := range 5 {
		recordedProc(t, root, 5_000_000+i, 5_000_000, pages, pages*4/5)
		tree.addProcess(int32(5_000_000+i), 5_000_000)
	}
	m := &meter{tree: tree, begin: time.Now()}
	for range 4 {
		m.sampleMemory()
	}
	if want := uint64(pages * size); m.level.resident < want || m.level.resident > want*11/10 {
		t.Errorf("%d bytes resident, want about %d", m.level.resident, want)
	}
	if m.sampled > pages*size*11/10 {
		t.Errorf("the peak is %d: the first looks counted shared pages again", m.sampled)
	}
}

// Processes of one address space hold its memory once, also when the one that began it has ended. Where the kernel shows nobody which do,
// processes that look alike are an upper bound, unless their pages are shared one by one, as after a fork.
func TestOneAddressSpace(t *testing.T) {
	const pages = 25600
	whole := pages * uint64(os.Getpagesize())
	for name, c := range map[string]struct {
		same, refused bool
		pss           int
		want          uint64
		bound         bool
	}{
		"one space":  {same: true, pss: pages * 4, want: whole},
		"not told":   {refused: true, pss: pages * 4, want: 4 * whole, bound: true},
		"forked":     {refused: true, pss: pages, want: whole},
		"of its own": {pss: pages * 4, want: 4 * whole},
	} {
		root := t.TempDir()
		tree := newTree(1, root)
		tree.byEvents = true
		tree.same = func(a, b int32) (bool, bool) { return c.same, c.refused }
		for i := range 4 {
			recordedProc(t, root, 5_000_000+i, 5_000_000, pages, c.pss)
			tree.addProcess(int32(5_000_000+i), 5_000_000)
		}
		m := &meter{tree: tree, begin: time.Now()}
		for i := range 8 {
			if i == 5 && c.same {
				tree.markDead(tree.procs[5_000_000], m.secondsSinceStart())
			}
			m.sampleMemory()
		}
		if got := m.level.resident; got < c.want*9/10 || got > c.want*11/10 || m.tree.bound != c.bound {
			t.Errorf("%s: %d bytes, an upper bound %t; want %d, %t", name, got, m.tree.bound, c.want, c.bound)
		}
		r := &Report{MemoryPeakBytes: &m.sampled, MemoryBounds: MemoryBounds{MemoryAtMost: m.tree.bound}, Machine: Machine{MemoryBytes: 5 * whole}}
		if v := assessMemory(r); strings.Contains(v.Text, "<=") != c.bound {
			t.Errorf("%s: %s", name, v.Text)
		}
	}
}
