package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var nan = math.NaN()

// straight is a straight line from idle to full power.
func straight(idle, full float64) (c Curve) {
	for i := range c {
		c[i] = idle + (full-idle)*float64(i)/10
	}
	return c
}

// node has 10 cores and 100 bytes, half of them in use, and draws 100 to 200 W.
func node(name string, change ...func(*Node)) Node {
	n := Node{Name: name, Cores: 10, Memory: 100, GPUs: 0, UsedCores: 5, UsedMemory: 50, HeldCores: 5, HeldMemory: 50, ExpectedCores: nan, UpperCores: nan, UpperMemory: nan, Pressure: nan, Age: 10, Curve: straight(100, 200)}
	for _, f := range change {
		f(&n)
	}
	return n
}

var small = Work{Cores: 1, Memory: 10, UseCores: nan}

// TestTiers tests both sides of every threshold.
func TestTiers(t *testing.T) {
	c := Default()
	for _, x := range []struct {
		name   string
		work   Work
		change func(*Node)
		tier   Tier
		why    Reason
	}{
		{"plain", small, func(*Node) {}, Room, 0},
		{"as old as may be", small, func(n *Node) { n.Age = 300 }, Room, 0},
		{"too old", small, func(n *Node) { n.Age = 300.1 }, Unknown, Stale},
		{"a clock ahead by as much as may be", small, func(n *Node) { n.Age = -300 }, Room, 0},
		{"a clock ahead by an hour", small, func(n *Node) { n.Age = -3600 }, Unknown, Stale},
		{"a clock ahead by too much", small, func(n *Node) { n.Age = -300.1 }, Unknown, Stale},
		{"no age", small, func(n *Node) { n.Age = nan }, Unknown, Stale},
		{"not measured", small, func(n *Node) { n.UsedCores = nan }, Unknown, NotMeasured | NoCurve},
		{"memory not measured", small, func(n *Node) { n.UsedMemory = nan }, Unknown, NotMeasured},
		{"cores as full as may be", small, func(n *Node) { n.UpperCores = 8 }, Room, 0},
		{"cores too full", small, func(n *Node) { n.UpperCores = 8.01 }, Tight, CoresTight},
		{"placed and not seen", small, func(n *Node) { n.UpperCores, n.PlacedCores = 8, 0.1 }, Tight, CoresTight},
		{"memory as full as may be", small, func(n *Node) { n.UpperMemory = 80 }, Room, 0},
		{"memory too full", small, func(n *Node) { n.UpperMemory = 80.1 }, Tight, MemoryTight},
		{"memory climbs, and not as far while the work stays", Work{Cores: 1, Memory: 10, UseCores: nan, Hours: 15}, func(n *Node) { n.MemoryPerHour = 2 }, Room,
			Climbs},
		{"memory climbs too far while the work stays", Work{Cores: 1, Memory: 10, UseCores: nan, Hours: 15.1}, func(n *Node) { n.MemoryPerHour = 2 }, Tight,
			Climbs | MemoryTight},
		{"unusual", small, func(n *Node) { n.Unusual = true }, Room, Unusual},
		{"pressure below", small, func(n *Node) { n.Pressure = 0.199 }, Room, 0},
		{"pressure", small, func(n *Node) { n.Pressure = 0.2 }, Tight, UnderPressure},
		{"the request fits exactly", Work{Cores: 5, UseCores: 1}, func(*Node) {}, Room, 0},
		{"the request does not fit", Work{Cores: 5.01, UseCores: 1}, func(*Node) {}, NoRoom, TooFewCores},
		{"memory fits exactly", Work{Memory: 50, UseCores: 1}, func(*Node) {}, Tight, MemoryTight},
		{"memory does not fit", Work{Memory: 50.1, UseCores: 1}, func(*Node) {}, NoRoom, TooLittleMemory | MemoryTight},
		{"no GPU", Work{GPUs: 1, UseCores: 1}, func(*Node) {}, NoRoom, TooFewGPUs},
		{"GPUs not known", Work{GPUs: 1, UseCores: 1}, func(n *Node) { n.GPUs = nan }, NoRoom, TooFewGPUs},
		{"a GPU of unknown power", Work{GPUs: 1, UseCores: 1}, func(n *Node) { n.GPUs = 1 }, Room, NoGPUWatts},
		{"a GPU", Work{GPUs: 1, UseCores: 1}, func(n *Node) { n.GPUs, n.GPUWatts = 1, 200 }, Room, 0},
		{"closed", small, func(n *Node) { n.Closed = true }, NoRoom, Closed},
		{"asks for nothing", Work{UseCores: nan}, func(*Node) {}, Room, 0},
		{"asks for nothing of a node that is full by requests", Work{UseCores: nan}, func(n *Node) { n.HeldCores = 10 }, Room, 0},
		{"nothing known of the node", small, func(n *Node) {
			*n = Node{Name: "x", Cores: nan, Memory: nan, UsedCores: nan, UsedMemory: nan, Age: nan}
		}, NoRoom, NotMeasured | Stale | NoCurve},
	} {
		got := Rank(c, x.work, []Node{node("n", x.change)}, nil)
		if got[0].Tier != x.tier || got[0].Why != x.why {
			t.Errorf("%s: tier %d, why %b; want %d, %b", x.name, got[0].Tier, got[0].Why, x.tier, x.why)
		}
	}
}

// TestData: within a tier data precedes watts, and unknown counts as no data.
func TestData(t *testing.T) {
	cheap := func(n *Node) { n.Curve = straight(100, 110) }
	data := func(share float64) func(*Node) { return func(n *Node) { n.Data = share } }
	full := func(n *Node) { n.UpperCores = 9.5 }
	nodes := []Node{node("a", cheap), node("b", data(1)), node("c", data(0.5), cheap), node("d", data(nan), cheap), node("e", data(1), full), node("f", data(1), cheap)}
	got := Rank(Default(), small, nodes, nil)
	if o := order(nodes, got); o != "fbcade" {
		t.Error(o)
	}
	for i, p := range got {
		if away := p.Why&DataElsewhere != 0; away != (i == 2 || i == 3 || i == 4) {
			t.Error(nodes[p.Node].Name, away)
		}
	}
	scores := Scores(got)
	if !slices.IsSortedFunc(scores, func(a, b int) int { return b - a }) || scores[0] != 100 || scores[1] < 65 || scores[3] >= 65 || scores[4] < 40 || scores[5] != tightScore {
		t.Error(scores)
	}
}

func order(nodes []Node, places []Place) string {
	s := ""
	for _, p := range places {
		s += nodes[p.Node].Name
	}
	return s
}

// TestOrder: watts decide among nodes with capacity; a node with missing or stale data is never the best.
func TestOrder(t *testing.T) {
	nodes := []Node{
		node("a"), // 10 W per core
		node("b", func(n *Node) { n.Curve = straight(50, 100) }),                                   // 5 W
		node("c", func(n *Node) { n.Curve = straight(10, 20); n.Age = 1000 }),                      // 1 W, stale
		node("d", func(n *Node) { n.Curve = straight(10, 20); n.UsedCores = nan }),                 // not measured
		node("e", func(n *Node) { n.Curve = Curve{} }),                                             // no curve
		node("f", func(n *Node) { n.Curve = straight(10, 20); n.Pressure = 0.5 }),                  // pressure
		node("g", func(n *Node) { n.Curve = straight(10, 20); n.HeldCores = 10 }),                  // does not fit
		node("h", func(n *Node) { n.Curve = straight(50, 100); n.UsedCores = 3; n.HeldCores = 3 }), // like b, with more headroom
	}
	for range 20 {
		rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		if got := order(nodes, Rank(Default(), small, nodes, nil)); got != "hbaefcdg" {
			t.Fatalf("order %s, want hbaefcdg", got)
		}
	}
	unknown := []Node{node("x", func(n *Node) { n.Age = nan }), node("y", func(n *Node) { n.UsedCores = nan })}
	if got := Rank(Default(), small, unknown, nil); got[0].Tier != Unknown || got[1].Tier != Unknown {
		t.Errorf("%+v", got)
	}
}

// TestWatts: the added power depends on the part of the curve where the work would run.
func TestWatts(t *testing.T) {
	bent := Curve{100, 110, 120, 130, 140, 150, 170, 190, 210, 230, 250} // 1 W per percent up to half, then 2
	n := []Node{node("n", func(n *Node) { n.Curve, n.UsedCores, n.PlacedCores = bent, 4, 1 })}
	for _, c := range []struct {
		work Work
		wake bool
		held float64
		want float64
	}{
		{Work{Cores: 1, UseCores: nan}, false, 5, 20},
		{Work{Cores: 1, UseCores: 0.5}, false, 5, 10},
		{Work{Cores: 1, UseCores: 0}, false, 5, 1},
		{Work{UseCores: nan}, false, 5, 1},
		{Work{Cores: 1, UseCores: nan}, true, 5, 20},
		{Work{Cores: 1, UseCores: nan}, true, 0, 120},
		{Work{Cores: 1, UseCores: nan, GPUs: 2, GPUWatts: 100}, false, 5, 220},
	} {
		n[0].HeldCores, n[0].HeldMemory, n[0].GPUs = c.held, 0, 4
		config := Default()
		config.WakeIdle = c.wake
		if got := Rank(config, c.work, n, nil)[0].Watts; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v W, want %v", c.work, got, c.want)
		}
	}
}

// TestExpected: the watts are those at the forecast load, or at the measured load without a forecast.
func TestExpected(t *testing.T) {
	bent := Curve{100, 101, 102, 103, 104, 105, 125, 145, 165, 185, 205} // ten times as steep above half of the cores
	for _, c := range []struct {
		used, expected, placed, want float64
	}{
		{2, nan, 0, 1}, {7, nan, 0, 20}, {2, 7, 0, 20}, {7, 2, 0, 1}, {7, 0, 0, 1}, {7, 2, 4, 20}, {7, -1, 0, 20},
	} {
		n := node("a", func(n *Node) {
			n.Curve, n.UsedCores, n.ExpectedCores, n.PlacedCores = bent, c.used, c.expected, c.placed
		})
		if got := Rank(Default(), Work{Cores: 1, UseCores: nan}, []Node{n}, nil)[0].Watts; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%g cores used, %g expected, %g placed: %g W, want %g", c.used, c.expected, c.placed, got, c.want)
		}
	}
}

func TestFitCurve(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	real := func(share float64) float64 { return 80 + 120*math.Sqrt(share) }
	var loads []Load
	for range 500 {
		s := 0.1 + 0.6*r.Float64()
		loads = append(loads, Load{Share: s, Watts: real(s) + 2*r.NormFloat64()})
	}
	c, ok := FitCurve(loads)
	if !ok {
		t.Fatal("no curve")
	}
	for _, s := range []float64{0.2, 0.3, 0.5, 0.6} {
		if math.Abs(c.At(s)-real(s)) > 5 {
			t.Errorf("at %.1f: %.0f W, want %.0f", s, c.At(s), real(s))
		}
	}
	if !slices.IsSorted(c[:]) {
		t.Errorf("power falls with use: %v", c)
	}
	for _, x := range []struct {
		name  string
		loads []Load
		want  bool
	}{
		{"23 hours", loads[:23], false}, {"24 hours", loads[:24], true},
		{"one load", slices.Repeat([]Load{{Share: 0.5, Watts: 100}}, 100), false},
		{"nonsense", slices.Repeat([]Load{{nan, 100, 0}, {0.5, nan, 0}, {-1, 5, 0}, {0.3, -5, 0}, {0.3, math.Inf(1), 0}, {0.3, 100, nan}}, 100), false},
		{"power that falls", []Load{}, false},
	} {
		if _, ok := FitCurve(x.loads); ok != x.want {
			t.Errorf("%s: %v", x.name, ok)
		}
	}
	if c, ok := Line(100, Load{Share: 0.5, Watts: 150}); !ok || c.At(1) != 200 || c.At(0) != 100 {
		t.Errorf("%v %v", c, ok)
	}
	for _, bad := range []Load{{Share: 0.04, Watts: 150}, {Share: 0.5, Watts: 100}, {Share: 0.5, Watts: nan}} {
		if _, ok := Line(100, bad); ok {
			t.Errorf("a line through %v", bad)
		}
	}
}

// TestGPUPower: the varying power of GPUs is not attributed to the cores, and is added for work that keeps some busy.
func TestGPUPower(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	hours := func(n int, gpus func(share float64) float64) []Load {
		var out []Load
		for range n {
			s := 0.05 + 0.7*r.Float64()
			g := gpus(s)
			out = append(out, Load{s, 200 + 100*s + 300*g + 3*r.NormFloat64(), g})
		}
		return out
	}
	free := func(float64) float64 { return 4 * r.Float64() }
	loads := hours(500, free)
	if got := GPUWatts(loads); math.Abs(got-300) > 3 {
		t.Errorf("a busy GPU adds %.1f W, want 300", got)
	}
	c, ok := FitCurve(loads)
	if d := c.At(0.5) - c.At(0.25); !ok || math.Abs(d-25) > 5 {
		t.Errorf("a quarter of the cores adds %.1f W, want 25", d)
	}
	for _, x := range []struct {
		name  string
		loads []Load
		want  float64
	}{
		{"23 hours", hours(23, free), 0},
		{"no GPU", hours(500, func(float64) float64 { return 0 }), 0},
		{"always as busy", hours(500, func(float64) float64 { return 2 }), 0},
		{"busy as the cores", hours(500, func(s float64) float64 { return 4 * s }), 0},
	} {
		if got := GPUWatts(x.loads); got != x.want {
			t.Errorf("%s: %.1f W, want %.1f", x.name, got, x.want)
		}
	}
	n := node("a", func(n *Node) { n.Curve, n.GPUs, n.GPUWatts = straight(100, 200), 4, 250 })
	w := Work{Cores: 1, GPUs: 2, UseCores: nan}
	without := Work{Cores: 1, UseCores: nan}
	at := func(w Work) float64 { return Rank(Default(), w, []Node{n}, nil)[0].Watts }
	if d := at(w) - at(without); math.Abs(d-500) > 1e-9 {
		t.Errorf("two GPUs add %.1f W, want 500", d)
	}
	w.GPUWatts = 100
	if d := at(w) - at(without); math.Abs(d-200) > 1e-9 {
		t.Errorf("two GPUs of 100 W add %.1f W", d)
	}
}

func thousand() []Node {
	r := rand.New(rand.NewPCG(3, 4))
	nodes := make([]Node, 1000)
	for i := range nodes {
		nodes[i] = node(fmt.Sprintf("n%04d", i), func(n *Node) { n.UsedCores, n.Curve = 8*r.Float64(), straight(50+50*r.Float64(), 150+100*r.Float64()) })
	}
	return nodes
}

func TestNoAllocation(t *testing.T) {
	nodes := thousand()
	out := make([]Place, 0, len(nodes))
	if n := testing.AllocsPerRun(10, func() { out = Rank(Default(), small, nodes, out) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRank(b *testing.B) {
	nodes := thousand()
	out := make([]Place, 0, len(nodes))
	b.ReportAllocs()
	for b.Loop() {
		out = Rank(Default(), small, nodes, out)
	}
}

// TestScores: the best node has a higher score than all others even in tenths; without fresh data none has.
func TestScores(t *testing.T) {
	p := func(tier Tier, watts float64) Place { return Place{Tier: tier, Watts: watts} }
	for _, c := range []struct {
		name   string
		places []Place
		want   []int
	}{
		{"none", nil, []int{}},
		{"one", []Place{p(Room, 5)}, []int{100}},
		{"by watts", []Place{p(Room, 5), p(Room, 6), p(Room, 10), p(Room, 15), p(Tight, 1), p(Unknown, 1), p(NoRoom, 1)}, []int{100, 85, 65, 40, 20, 10, 0}},
		{"alike", []Place{p(Room, 5), p(Room, 5)}, []int{100, 90}},
		{"watts not known", []Place{p(Room, nan), p(Room, nan)}, []int{100, 90}},
		{"all tight", []Place{p(Tight, 5), p(Tight, 6)}, []int{30, 20}},
		{"nothing fresh", []Place{p(Unknown, 5), p(Unknown, 6), p(NoRoom, 1)}, []int{10, 10, 0}},
	} {
		if got := Scores(c.places); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestStranded: work without GPUs, or with little memory, leaves nodes with them to other work, whatever the watts.
func TestStranded(t *testing.T) {
	cheap := func(n *Node) { n.Curve = straight(100, 110) }
	for name, special := range map[string]func(*Node){
		"free GPUs":    func(n *Node) { n.GPUs, n.HeldGPUs = 4, 1; cheap(n) },
		"large memory": func(n *Node) { n.Memory, n.UsedMemory, n.HeldMemory = 1000, 50, 50; cheap(n) },
	} {
		nodes := []Node{node("special", special), node("plain"), node("other"), node("full", func(n *Node) { n.HeldCores = 10 })}
		got := Rank(Default(), small, nodes, nil)
		if names := []string{nodes[got[0].Node].Name, nodes[got[1].Node].Name, nodes[got[2].Node].Name}; !slices.Equal(names, []string{"other", "plain", "special"}) {
			t.Errorf("%s: %v", name, names)
		}
		if got[2].Why&Strands == 0 || got[0].Why&Strands != 0 || got[3].Tier != NoRoom {
			t.Errorf("%s: %+v", name, got)
		}
		watts := Default()
		watts.WattsOnly = true
		if got := Rank(watts, small, nodes, nil); nodes[got[0].Node].Name != "special" || got[0].Why != 0 {
			t.Errorf("%s, by watts only: %+v", name, got)
		}
	}
	gpu := Work{Cores: 1, Memory: 10, GPUs: 1, UseCores: nan}
	nodes := []Node{node("gpu", func(n *Node) { n.GPUs = 4 }), node("plain")}
	if got := Rank(Default(), gpu, nodes, nil); nodes[got[0].Node].Name != "gpu" || got[0].Why&Strands != 0 {
		t.Errorf("work with GPUs: %+v", got)
	}
	outside := []Node{node("login", func(n *Node) { n.NoPartition = true; cheap(n) }), node("plain")}
	if got := Rank(Default(), small, outside, nil); got[1].Why != NoPartition || got[1].Tier != NoRoom {
		t.Errorf("a node in no partition: %+v", got)
	}
}
