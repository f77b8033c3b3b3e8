package answer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/store"
)

// fewNodes is a fixed list of nodes.
type fewNodes struct {
	list []wire.Node
	age  time.Duration
	err  error
}

func (f *fewNodes) NodesAsOf(_ context.Context, now time.Time) ([]wire.Node, time.Time, error) {
	return f.list, now.Add(-f.age), f.err
}

// seen marks all nodes as measured.
func (f *fewNodes) seen(at time.Time) {
	for i := range f.list {
		f.list[i].Seen = at
	}
}

// ranked returns two nodes of ten cores; the first draws twice as much power per core.
func ranked(t *testing.T) (*Ranks, *fewNodes, *time.Time) {
	t.Helper()
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	now := time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)
	at := &now
	v := func(x float64) *float64 { return &x }
	nodes := &fewNodes{}
	for i, name := range []string{"n1", "n2"} {
		nodes.list = append(nodes.list, wire.Node{Node: name, Site: "lab", Agent: true, Up: true, Seen: now, Cores: v(10), CoresUsed: v(2), MemoryBytes: v(100), MemoryUsed: v(20)})
		var hours []store.NodeUse
		from := now.AddDate(0, 0, -3)
		for h := range 72 {
			used := float64(h%10) / 10
			hours = append(hours, store.NodeUse{At: from.Add(time.Duration(h) * time.Hour), Site: "lab", Node: name,
				Capacity: figure.Capacity{UpSeconds: v(3600), CoreSeconds: v(36000), CoreUsedSeconds: v(36000 * used), NodeJoules: v(3600 * (100 + used*200/float64(i+1)))}})
		}
		all := hours
		if i == 1 { // rows replace the rows of their hours: write both nodes at once
			both, err := c.NodeUse(t.Context(), store.RollupQuery{From: from, To: now, Span: store.SpanHour, By: []string{"site", "node"}})
			if err != nil {
				t.Fatal(err)
			}
			all = append(both, hours...)
		}
		if err := c.ReplaceHours(t.Context(), from, now, nil, all); err != nil {
			t.Fatal(err)
		}
	}
	r := &Ranks{Views: nodes, Rollups: c, Forecasts: c, Gone: time.Minute, Clock: func() time.Time { return *at }}
	if err := r.Fit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, nodes, at
}

func places(t *testing.T, r *Ranks, q wire.RankQuery) string {
	t.Helper()
	out, err := r.Rank(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	s := ""
	for _, n := range out.Nodes {
		s += fmt.Sprintf("%s %s %s;", n.Node, n.Tier, n.Curve)
	}
	return s
}

// placesOf is a fixed list of data locations.
type placesOf struct {
	list []DataPlace
	err  error
}

func (p *placesOf) Places(context.Context) ([]DataPlace, error) { return p.list, p.err }

// TestRankData: a node that has the data precedes one that adds less power, once the location is known.
func TestRankData(t *testing.T) {
	r, nodes, now := ranked(t)
	q := wire.RankQuery{Cores: 2, MemoryBytes: 10, Data: []string{"persistentVolumeClaim/shop/carts"}}
	const cheap, near = "n2 room fitted;n1 room fitted;", "n1 room fitted;n2 room fitted;"
	if got := places(t, r, q); got != cheap {
		t.Error("nothing says where data is:", got)
	}
	data := &placesOf{err: errors.New("away")}
	r.Data = data
	if got := places(t, r, q); got != cheap {
		t.Error("the graph does not answer:", got)
	}
	data.list, data.err = []DataPlace{{IRI: "urn:d", Name: "persistentVolumeClaim/shop/carts", Site: "lab", Node: "n1"}}, nil
	*now = now.Add(rankOld + time.Second)
	nodes.seen(*now)
	if got := places(t, r, q); got != near {
		t.Error("the next look:", got)
	}
	for name, want := range map[string]string{"urn:d": near, "urn:other": cheap, "persistentVolumeClaim/other/carts": cheap} {
		q.Data = []string{name}
		if got := places(t, r, q); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	data.list[0].Site, q.Data = "elsewhere", []string{"urn:d"}
	*now = now.Add(rankOld + time.Second)
	nodes.seen(*now)
	if got := places(t, r, q); got != cheap {
		t.Error("a node of the same name on another site:", got)
	}
}

func TestRanks(t *testing.T) {
	r, nodes, now := ranked(t)
	q := wire.RankQuery{Cores: 2, MemoryBytes: 10}
	check := func(what, want string) {
		t.Helper()
		if got := places(t, r, q); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	check("the cheaper one", "n2 room fitted;n1 room fitted;")
	for range 3 { // three times two cores, plus two measured before: six of ten are left at nine tenths
		if err := r.Placed(t.Context(), "lab", "n2", false, q); err != nil {
			t.Fatal(err)
		}
	}
	check("placed and not measured", "n1 room fitted;n2 tight fitted;")
	*now = now.Add(time.Minute + time.Second)
	for i := range nodes.list {
		nodes.list[i].Seen = *now
	}
	check("measured by now", "n2 room fitted;n1 room fitted;")

	f := store.Forecast{Subject: "node", Site: "lab", Name: "n2", Figure: "cores", Made: now.Truncate(time.Hour), Step: time.Hour}
	for i := range 48 {
		high := 3.0
		if i == 20 {
			high = 9
		}
		f.Point, f.Low, f.High = append(f.Point, 2), append(f.Low, 1), append(f.High, high)
	}
	if err := r.Forecasts.PutForecasts(t.Context(), []store.Forecast{f}); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(61 * time.Second)
	nodes.seen(*now)
	check("a forecast that is high tomorrow", "n1 room fitted;n2 tight fitted;")
	q.Hours = 12
	check("which is after the work", "n2 room fitted;n1 room fitted;")

	*now = now.Add(2 * time.Minute)
	nodes.list[0].Seen = *now
	check("silent", "n1 room fitted;n2 unknown fitted;")
	nodes.list[0].Up = false
	*now = now.Add(61 * time.Second)
	check("down", "n2 unknown fitted;n1 none fitted;")
	q.Nodes = []string{"n1"}
	check("among some", "n1 none fitted;")

	nodes.err = errors.New("away")
	*now = now.Add(61 * time.Second)
	if _, err := r.Rank(t.Context(), q); err == nil {
		t.Error("a store that is away gives an answer")
	}
}

// TestRankSaysItsAge: a ranking from a list of nodes that is minutes old reports it, and adds work that was placed since then to their load.
func TestRankSaysItsAge(t *testing.T) {
	r, nodes, now := ranked(t)
	q := wire.RankQuery{Cores: 2, MemoryBytes: 10}
	for range 3 {
		if err := r.Placed(t.Context(), "lab", "n2", false, q); err != nil {
			t.Fatal(err)
		}
	}
	*now = now.Add(3 * time.Minute)
	nodes.seen(*now)
	for _, c := range []struct {
		age  time.Duration
		asOf bool
		want string
	}{{2*time.Minute + time.Second, true, "n1 room fitted;n2 tight fitted;"}, {rankOld, false, "n2 room fitted;n1 room fitted;"}} {
		*now = now.Add(time.Second)
		r.read, nodes.age = time.Time{}, c.age
		list, err := r.Rank(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if asOf := list.AsOf != nil && now.Sub(*list.AsOf) == c.age; asOf != c.asOf {
			t.Errorf("a list of %v ago: as of %v", c.age, list.AsOf)
		}
		if got := places(t, r, q); got != c.want {
			t.Errorf("a list of %v ago: %s, want %s", c.age, got, c.want)
		}
	}
}

// TestExpectedLoad: the expected load while the work stays differs from now by the change in the daily forecast of these hours; the highest
// load is over all forecasts.
func TestExpectedLoad(t *testing.T) {
	r, nodes, now := ranked(t)
	line := func(made time.Time, n int, point, high func(i int) float64) store.Forecast {
		f := store.Forecast{Subject: "node", Site: "lab", Name: "n1", Figure: "cores", Made: made, Step: time.Hour}
		for i := range n {
			f.Point, f.Low, f.High = append(f.Point, point(i)), append(f.Low, 0), append(f.High, high(i))
		}
		return f
	}
	list := []store.Forecast{
		line(now.Add(-2*time.Hour), 48, func(i int) float64 { return float64(i) }, func(i int) float64 { return float64(i + 10) }),
		line(*now, 7, func(int) float64 { return 100 }, func(i int) float64 { return 16 - float64(i)*4 }),
	}
	if err := r.Forecasts.PutForecasts(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	found, err := r.readState(t.Context(), *now)
	if err != nil {
		t.Fatal(err)
	}
	r.nodesReading = found
	for _, c := range []struct {
		node         int
		stay         time.Duration
		change, high float64
	}{
		{0, 4 * time.Hour, 1.5, 16}, {0, 4*time.Hour + time.Second, 2, 16}, {0, time.Hour, 0, 16}, {0, 24 * time.Hour, 11.5, 35}, {1, time.Hour, math.NaN(), math.NaN()},
	} {
		change, high := r.expectedChange(&nodes.list[c.node], "cores", *now, c.stay)
		if fmt.Sprint(change, high) != fmt.Sprint(c.change, c.high) {
			t.Errorf("%s for %v: %v, at most %v, want %v and %v", nodes.list[c.node].Node, c.stay, change, high, c.change, c.high)
		}
	}
}

// TestPlacedOnce: work with an id counts once, where it was placed last, and not after its removal.
func TestPlacedOnce(t *testing.T) {
	r, _, _ := ranked(t)
	placed := func(node string, removed bool) {
		t.Helper()
		if err := r.Placed(t.Context(), "lab", node, removed, wire.RankQuery{Cores: 8, Work: "uid-1"}); err != nil {
			t.Fatal(err)
		}
	}
	one, same := wire.RankQuery{Cores: 1}, wire.RankQuery{Cores: 1, Work: "uid-1"}
	const free, onN2, onN1 = "n2 room fitted;n1 room fitted;", "n1 room fitted;n2 tight fitted;", "n2 room fitted;n1 tight fitted;"
	for _, c := range []struct {
		node        string
		removed     bool
		want, other string
	}{{"n2", false, onN2, free}, {"n2", false, onN2, free}, {"n1", false, onN1, free}, {"n1", true, free, free}} {
		placed(c.node, c.removed)
		if got := places(t, r, one); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
		if got := places(t, r, same); got != c.other {
			t.Errorf("%+v, asked for the work itself: %s", c, got)
		}
	}
	if err := r.Placed(t.Context(), "lab", "n1", true, wire.RankQuery{}); err == nil {
		t.Error("removed work without an id")
	}
}

// TestLookAgain: the previous reading is used while the nodes are read again in the background, unless it is too old.
func TestLookAgain(t *testing.T) {
	r, nodes, now := ranked(t)
	q := wire.RankQuery{Cores: 1}
	places(t, r, q)
	begin := *now
	nodes.list = nodes.list[:1]
	*now = begin.Add(11 * time.Second)
	if got := places(t, r, q); got != "n2 room fitted;n1 room fitted;" {
		t.Errorf("the question waited for a look: %s", got)
	}
	select {
	case <-r.refreshRequests():
	default:
		t.Fatal("no look was asked for")
	}
	r.refreshNodes(t.Context())
	if got := places(t, r, q); got != "n1 room fitted;" {
		t.Errorf("after the look: %s", got)
	}
	nodes.list = nil
	*now = begin.Add(72 * time.Second)
	if got := places(t, r, q); got != "" {
		t.Errorf("a look of a minute ago answers: %s", got)
	}
}
