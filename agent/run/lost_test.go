package run

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// procTree is a /proc of processes with their parents, all sleeping.
func procTree(t *testing.T, parents map[int]int, state string) string {
	t.Helper()
	root := t.TempDir()
	for pid, ppid := range parents {
		dir := filepath.Join(root, fmt.Sprint(pid))
		if err := os.MkdirAll(filepath.Join(dir, "task", fmt.Sprint(pid)), 0o755); err != nil {
			t.Fatal(err)
		}
		children := ""
		for c, p := range parents {
			if p == pid {
				children += fmt.Sprintf("%d ", c)
			}
		}
		for name, text := range map[string]string{
			"stat":                               fmt.Sprintf("%d (job) %s %d 1 1 0 -1 0 0 0 0 0 100 0 0 0 20 0 1 0 %d 1 1 0\n", pid, state, ppid, pid),
			"statm":                              "100 50 10 0 0 0 0\n",
			fmt.Sprintf("task/%d/children", pid): children,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

// A record of an end that is lost leaves no process behind that "still runs", and no CPU time
// of it is counted beside what its parent waited for.
func TestLostEndsAreNoSurvivors(t *testing.T) {
	tree := newTree(1, procTree(t, map[int]int{1: 0, 10: 1, 11: 10}, "S"))
	w := &perfWatch{}
	for pid, ppid := range map[int32]int32{10: 1, 11: 10, 12: 10, 13: 10} {
		tree.byEvents = true
		w.applyRecord(&perfRecord{kind: unix.PERF_RECORD_FORK, pid: pid, ppid: ppid, tid: pid, ptid: ppid}, tree, 0)
	}
	tree.procs[12].clock = 5e9 // had used it when it was looked at
	r := &runner{meter: &meter{tree: tree, perf: w}}
	if n := len(r.listSurvivors()); n != 4 {
		t.Fatalf("%d are taken for alive before, want 4", n)
	}
	tree.endMissing(1)
	left := r.listSurvivors()
	if len(left) != 2 || tree.procs[12].dead != true || tree.procs[13].dead != true {
		t.Errorf("%+v still run, want 10 and 11", left)
	}
	// One of another start has taken the number.
	tree.procs[11].stat.Start = 5
	tree.endMissing(2)
	if left := r.listSurvivors(); len(left) != 1 || left[0].PID != 10 {
		t.Errorf("%+v still run, want 10", left)
	}
}

// After a loss the tree is searched: what the events did not report is found, and what they
// tell twice counts once.
func TestSearchAfterLoss(t *testing.T) {
	root := procTree(t, map[int]int{1: 0, 10: 1, 11: 10}, "S")
	tree := newTree(1, root)
	tree.byEvents = true
	w := &perfWatch{}
	fork := func(pid, ppid int32) {
		w.applyRecord(&perfRecord{kind: unix.PERF_RECORD_FORK, pid: pid, ppid: ppid, tid: pid, ptid: ppid}, tree, 0)
	}
	fork(10, 1)
	w.applyRecord(&perfRecord{kind: unix.PERF_RECORD_LOST, value: 1}, tree, 0)
	if tree.findLive(1); tree.started != 2 || tree.procs[11] == nil {
		t.Fatalf("%d processes, want 2: the lost one is found", tree.started)
	}
	fork(11, 10) // its record comes late
	if tree.started != 2 {
		t.Errorf("%d processes, want 2", tree.started)
	}
	// It ends, and nobody has waited for it yet.
	if err := os.WriteFile(filepath.Join(root, "11/stat"), []byte("11 (job) Z 10 1 1 0 -1 0 0 0 0 0 100 0 0 0 20 0 1 0 11 1 1 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.applyRecord(&perfRecord{kind: unix.PERF_RECORD_EXIT, pid: 11, tid: 11}, tree, 2)
	m := &meter{tree: tree, perf: w}
	for at := range 8 {
		tree.findLive(2 + float64(at))
		tree.foldReady(m.canFold(2 + float64(at)))
	}
	if tree.started != 2 {
		t.Errorf("%d processes after one became a zombie, want 2", tree.started)
	}
}

// TestProgramSeenOnlyInLoading: the memory of a program is not known that ended after its process was looked at often enough, but before it
// ran the program, or while it waited for a processor to load it.
func TestProgramSeenOnlyInLoading(t *testing.T) {
	const shell, child = 5_000_010, 5_000_011 // no process of this machine has such a number
	for name, c := range map[string]struct {
		state string
		exec  bool // after the looks
		want  bool
	}{
		"asleep":             {"S", false, false},
		"waits to be loaded": {"R", false, true},
		"before its exec":    {"S", true, true},
	} {
		tree := newTree(1, procTree(t, map[int]int{1: 0, shell: 1, child: shell}, c.state))
		tree.byEvents = true
		w := &perfWatch{}
		w.applyRecord(&perfRecord{kind: unix.PERF_RECORD_FORK, pid: shell, ppid: 1, tid: shell, ptid: 1}, tree, 0)
		w.applyRecord(&perfRecord{kind: unix.PERF_RECORD_FORK, pid: child, ppid: shell, tid: child, ptid: shell}, tree, 0)
		for range 4 {
			tree.findLive(1)
		}
		if c.exec {
			w.applyRecord(&perfRecord{kind: unix.PERF_RECORD_COMM, pid: child, tid: child, exec: true}, tree, 2)
		}
		w.applyRecord(&perfRecord{kind: unix.PERF_RECORD_EXIT, pid: child, tid: child}, tree, 2)
		m := &meter{tree: tree, perf: w}
		tree.foldReady(m.canFold(2 + 2*exitDelay))
		if tree.procs[child] != nil || tree.glimpsed != c.want {
			t.Errorf("%s: its memory is unknown: %v, want %v", name, tree.glimpsed, c.want)
		}
	}
}

// Whoever did not see all reports it.
func TestCountedClaimsNoMoreThanItSaw(t *testing.T) {
	taskstats := &exitFeed{source: named("taskstats"), whole: true}
	for name, c := range map[string]struct {
		r     runner
		exact bool
		by    string
	}{
		"perf":                                {runner{meter: &meter{perf: &perfWatch{}}}, true, "perf"},
		"perf lost some":                      {runner{meter: &meter{perf: &perfWatch{lost: 1}}}, false, sampledSource},
		"perf lost some, beside taskstats":    {runner{meter: &meter{perf: &perfWatch{lost: 1}, exits: taskstats}}, false, sampledSource},
		"perf saw too little":                 {runner{hidden: true, meter: &meter{perf: &perfWatch{}}}, false, "perf"},
		"so did it, and records know no more": {runner{hidden: true, meter: &meter{perf: &perfWatch{}, exits: taskstats}}, true, "perf"},
		"and records know more": {runner{hidden: true, meter: &meter{perf: &perfWatch{},
			exits: &exitFeed{source: named("taskstats"), whole: true, strangers: 1}}}, false, "perf"},
		"records":           {runner{meter: &meter{exits: taskstats}}, true, "taskstats"},
		"some records lost": {runner{meter: &meter{exits: &exitFeed{source: named("taskstats"), whole: true, lost: 1}}}, false, sampledSource},
		"samples":           {runner{meter: &meter{}}, false, sampledSource},
	} {
		if by, exact := c.r.countSource(); by != c.by || exact != c.exact {
			t.Errorf("%s: by %s, exact %v; want %s, %v", name, by, exact, c.by, c.exact)
		}
	}
}

type named string

func (n named) Name() string           { return string(n) }
func (named) Drain(*sensor.Pass) error { return nil }
func (named) Close() error             { return nil }

// What short children used that no source reports has a name all the same.
func TestRunNamesChildrenThatNobodySaw(t *testing.T) {
	r, err := Run(Options{NoCgroup: true, NoPerf: true, Args: []string{"sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done"}})
	if err != nil {
		t.Fatal(err)
	}
	named := 0.0
	for _, c := range r.Commands {
		if c.Name != otherName {
			named += c.CPUSeconds
		}
	}
	if named < 0.8*r.CPU.Total {
		t.Errorf("%.3f of %.3f s have a name: %+v", named, r.CPU.Total, r.Commands)
	}
}
