package simulate_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/lab/simulate"
	"reckon/sensor"
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

func made(t testing.TB, c simulate.Config) *simulate.Site {
	t.Helper()
	if c.From.IsZero() {
		c.From = monday
	}
	s, err := simulate.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPlan looks at a week of a site as somebody would who does not believe it.
func TestPlan(t *testing.T) {
	s := made(t, simulate.Config{Nodes: 40, Jobs: 6000, Seed: 3, For: 7 * 24 * time.Hour})
	outcomes, owners, byHour := map[string]int{}, map[string]int{}, map[int]int{}
	ran, waited, used, inside := 0, 0, 0.0, 0
	for _, j := range s.Jobs {
		byHour[j.Submit.Hour()]++
		owners[j.User.Name]++
		if !j.Submit.Before(s.From) {
			inside++
		}
		if j.Start.IsZero() {
			continue
		}
		ran++
		outcomes[j.Outcome]++
		switch {
		case j.Start.Before(j.Submit), !j.End.After(j.Start), len(j.On) != j.Nodes:
			t.Fatalf("job %s: handed in %v, began %v, ended %v on %v", j.ID(), j.Submit, j.Start, j.End, j.On)
		case j.End.Sub(j.Start) > j.Limit+time.Minute:
			t.Fatalf("job %s took %v of %v", j.ID(), j.End.Sub(j.Start), j.Limit)
		case j.Start.Sub(j.Submit) > time.Minute:
			waited++
		}
		used += min(j.End.Sub(j.Start).Seconds(), s.End().Sub(j.Start).Seconds()) * float64(j.Nodes*j.Cores)
	}
	if inside < 5400 || inside > 6600 {
		t.Errorf("%d jobs in the time asked for, want about 6000", inside)
	}
	full := used / (float64(s.Nodes*s.Cores) * s.For.Seconds())
	t.Logf("%d of %d jobs ran, %d waited, %.0f %% of the processors held; %v", ran, len(s.Jobs), waited, 100*full, outcomes)
	if full < 0.3 || full > 0.95 {
		t.Errorf("%.0f %% of the processors are held: believable is between a third and all", 100*full)
	}
	for _, o := range []string{"completed", "failed", "timeout", "out_of_memory", "cancelled", "node_fail"} {
		if outcomes[o] == 0 {
			t.Errorf("no job ends %s", o)
		}
	}
	if outcomes["completed"] < ran/2 {
		t.Errorf("%d of %d completed", outcomes["completed"], ran)
	}
	if waited == 0 {
		t.Error("nothing ever waits")
	}
	if byHour[10]+byHour[14] < 3*(byHour[2]+byHour[4]) {
		t.Errorf("by day %d and %d jobs an hour, by night %d and %d", byHour[10], byHour[14], byHour[2], byHour[4])
	}
	most := 0
	for _, n := range owners {
		most = max(most, n)
	}
	if most < 2*len(s.Jobs)/len(owners) {
		t.Errorf("the busiest of %d users has %d of %d jobs: all are alike", len(owners), most, len(s.Jobs))
	}
}

// TestNoNodeTwice: no node is given away twice, and nothing runs on one that is off.
func TestNoNodeTwice(t *testing.T) {
	s := made(t, simulate.Config{Nodes: 16, Jobs: 3000, Seed: 9, For: 5 * 24 * time.Hour})
	type edge struct {
		at    time.Time
		cores int
		gpus  int
		mem   int64
	}
	edges := map[int][]edge{}
	for _, j := range s.Jobs {
		if j.Start.IsZero() {
			continue
		}
		for _, n := range j.On {
			edges[n] = append(edges[n], edge{j.Start, j.Cores, j.GPUs, int64(j.MemoryBytes)}, edge{j.End, -j.Cores, -j.GPUs, -int64(j.MemoryBytes)})
			if s.About(n).Down(j.Start) {
				t.Errorf("job %s begins on node %d, which is off", j.ID(), n)
			}
		}
	}
	for n, list := range edges {
		slices.SortFunc(list, func(a, b edge) int {
			if c := a.at.Compare(b.at); c != 0 {
				return c
			}
			return a.cores - b.cores
		})
		about := s.About(n)
		var cores, gpus int
		var mem int64
		for _, e := range list {
			cores, gpus, mem = cores+e.cores, gpus+e.gpus, mem+e.mem
			if cores > about.Cores || gpus > about.GPUs || mem > int64(about.MemoryBytes) {
				t.Fatalf("node %d at %v: %d of %d cores, %d of %d GPUs, %d of %d bytes", n, e.at, cores, about.Cores, gpus, about.GPUs, mem, about.MemoryBytes)
			}
		}
	}
}

// TestConservation: on every machine and step the processes and what was idle make the
// time of its processors, and counters never fall.
func TestConservation(t *testing.T) {
	s := made(t, simulate.Config{Nodes: 10, Jobs: 300, Seed: 5, For: 12 * time.Hour})
	for i := range s.Names() {
		n := s.Node(i)
		var before sensor.Machine
		var pass sensor.Pass
		last := map[int32]sensor.Process{}
		counted := uint64(0)
		for at := s.From; at.Before(s.From.Add(2 * time.Hour)); at = at.Add(15 * time.Second) {
			n.Advance(at)
			if n.Down() {
				last, before, counted = map[int32]sensor.Process{}, sensor.Machine{}, 0
				continue
			}
			pass.Reset()
			if err := n.Read(&pass); err != nil {
				t.Fatal(err)
			}
			var m sensor.Machine
			if err := n.ReadMachine(&m); err != nil {
				t.Fatal(err)
			}
			now := uint64(0)
			for _, p := range slices.Concat(pass.Live, pass.Exited) {
				q := last[p.PID]
				if p.UserNanos < q.UserNanos || p.SystemNanos < q.SystemNanos || p.ReadBytes < q.ReadBytes {
					t.Fatalf("%s at %v: a counter of process %d (%s) fell", n.Hostname(), at, p.PID, p.Comm)
				}
				now += p.UserNanos + p.SystemNanos - q.UserNanos - q.SystemNanos
				last[p.PID] = p
			}
			if before.Boot != 0 {
				span := float64(m.Boot - before.Boot)
				busy := float64(m.User + m.System - before.User - before.System)
				idle := float64(m.Idle - before.Idle)
				if all := span * float64(m.Cores); math.Abs(busy+idle-all) > 1e-6*all {
					t.Fatalf("%s at %v: busy %g and idle %g of %g", n.Hostname(), at, busy, idle, all)
				}
				if math.Abs(float64(now)-busy) > 0.001*busy+1e6 {
					t.Fatalf("%s at %v: processes used %g ns, the machine %g", n.Hostname(), at, float64(now), busy)
				}
			}
			before = m
			counted += now
		}
		if counted == 0 {
			t.Errorf("%s did nothing in two hours", n.Hostname())
		}
	}
}

// TestOutage: a node that goes down comes back with another boot and nothing of before.
func TestOutage(t *testing.T) {
	s := made(t, simulate.Config{Nodes: 60, Jobs: 100, Seed: 2, For: 7 * 24 * time.Hour})
	seen := 0
	for i := range s.Names() {
		n := s.Node(i)
		boot, down := n.Booted(), false
		for at := s.From; at.Before(s.From.Add(48*time.Hour)) && seen < 3; at = at.Add(5 * time.Minute) {
			n.Advance(at)
			if n.Down() != s.About(i).Down(at) {
				t.Fatalf("%s at %v: down is %v", n.Hostname(), at, n.Down())
			}
			if down = down || n.Down(); down && !n.Down() {
				seen++
				var p sensor.Pass
				if err := n.Read(&p); err != nil {
					t.Fatal(err)
				}
				if !n.Booted().After(boot) || p.Boot > uint64(5*time.Minute) || len(p.Live) == 0 {
					t.Fatalf("%s is back: booted %v, %d processes", n.Hostname(), n.Booted(), len(p.Live))
				}
				break
			}
		}
	}
	if seen == 0 {
		t.Error("no node went down in two days of 60 nodes")
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []simulate.Config{
		{}, {From: monday, Nodes: -1}, {From: monday, Nodes: 1e6}, {From: monday, Cores: 2}, {From: monday, Nodes: 3, GPUNodes: 4},
		{From: monday, For: time.Second}, {From: monday, Jobs: -4}, {From: monday, Users: 1e6},
	} {
		if s, err := simulate.New(c); err == nil {
			t.Errorf("%+v: no error, %d nodes", c, len(s.Names()))
		}
	}
	for gpus, want := range map[int]int{0: 2, -1: 0, 1: 1} {
		s := made(t, simulate.Config{Nodes: 16, GPUNodes: gpus, Jobs: 100, For: time.Hour})
		with := 0
		for _, name := range s.Names() {
			if strings.HasPrefix(name, "gpu") {
				with++
			}
		}
		if with != want || s.GPUNodes != want {
			t.Errorf("GPUNodes %d: %d nodes with GPUs, %d by its configuration, want %d", gpus, with, s.GPUNodes, want)
		}
	}
	// The smallest sites work too.
	for nodes := 1; nodes < 5; nodes++ {
		s := made(t, simulate.Config{Nodes: nodes, Jobs: 10, For: time.Hour})
		n := s.Node(nodes - 1)
		n.Advance(s.From.Add(time.Minute))
	}
}

func ExampleNew() {
	s, err := simulate.New(simulate.Config{Nodes: 10, Jobs: 100, Seed: 1, From: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		panic(err)
	}
	n := s.Node(2)
	n.Advance(s.From)
	var p sensor.Pass
	_ = n.Read(&p) // it has no error
	fmt.Println(s.Names()[:3], len(p.Live) > 5)
	// Output: [login1 svc1 cpu0001] true
}

func BenchmarkNode(b *testing.B) {
	s := made(b, simulate.Config{Nodes: 10, Jobs: 500, Seed: 5})
	n := s.Node(4)
	at := s.From
	var p sensor.Pass
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(time.Second)
		if n.Advance(at); at.After(s.End()) {
			at, n = s.From, s.Node(4)
		}
		p.Reset()
		_ = n.Read(&p)
	}
}

// TestQueueMoves: on the smallest sites too jobs go on to begin all year, whatever waits.
func TestQueueMoves(t *testing.T) {
	for _, nodes := range []int{1, 2, 3} {
		s := made(t, simulate.Config{Nodes: nodes, Seed: 1, For: 365 * 24 * time.Hour})
		month := func(at time.Time) int { return int(at.Sub(s.From).Hours() / 24 / 30) }
		began := map[int]int{}
		for _, j := range s.Jobs {
			if !j.Start.IsZero() {
				began[month(j.Start)]++
			}
		}
		for m := range 12 {
			if began[m] == 0 {
				t.Errorf("%d nodes: no job began in month %d: %v", nodes, m, began)
				break
			}
		}
	}
}
