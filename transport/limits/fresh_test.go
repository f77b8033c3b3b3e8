package limits

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// begin has a sender begin n series on a node in one request, which is stored or not; it
// returns how many were refused.
func begin(t *testing.T, l *Limiter, sender, node string, from, n int, stored bool) (refused int) {
	t.Helper()
	r, err := l.Begin(sender, Bound{})
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < from+n; i++ {
		if r.AllowNew(labels.FromStrings("__name__", "x", "node", node, "i", fmt.Sprint(i))) != nil {
			refused++
		}
	}
	if stored {
		r.Stored()
	}
	return refused
}

// The default bounds what begins on a node; other nodes and senders have bounds of their own,
// what was not stored does not count, and after an hour there is room again.
func TestNewSeries(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	l := New(Config{}, func() time.Time { return now }, nil)
	if begin(t, l, "a", "n1", 0, DefaultNodeSeries+1, true) != 0 {
		t.Error("bounded before bounds were set")
	}
	l.SetNewSeriesLimits(NewSeriesLimits{Learned: map[string]int{"\x00big": DefaultNodeSeries + 5, "\x00small": 7}})
	if n := begin(t, l, "a", "n1", 0, DefaultNodeSeries, false); n != 0 {
		t.Errorf("%d refused up to the bound", n)
	}
	if n := begin(t, l, "a", "n1", 0, DefaultNodeSeries, true); n != 0 {
		t.Errorf("what was not stored counts: %d refused", n)
	}
	if n := begin(t, l, "a", "n1", 0, 1, true); n != 1 {
		t.Error("one more than the bound was taken")
	}
	for _, other := range [][2]string{{"b", "n1"}, {"a", "n2"}, {"a", "small"}} {
		if n := begin(t, l, other[0], other[1], 0, DefaultNodeSeries, true); n != 0 {
			t.Errorf("%v: %d refused", other, n)
		}
	}
	if n := begin(t, l, "a", "big", 0, DefaultNodeSeries+6, true); n != 1 {
		t.Errorf("of a node that had more before: %d refused, want 1", n)
	}
	now = now.Add(2*countedTime - time.Second)
	if n := begin(t, l, "a", "n1", 0, 1, true); n != 0 {
		t.Logf("%d refused within the hour", n)
	}
	now = now.Add(2 * countedTime)
	if n := begin(t, l, "a", "n1", 0, DefaultNodeSeries, true); n != 0 {
		t.Errorf("%d refused after an hour", n)
	}
}

func TestNewSeriesOfAll(t *testing.T) {
	live := 9
	for _, tt := range []struct {
		config Config
		most   int
		want   int
	}{{Config{}, 10, 0}, {Config{}, 9, 1}, {Config{Series: 5}, 10, 1}, {Config{Series: -1}, 5, 0}, {Config{}, 0, 0}} {
		l := New(tt.config, nil, nil)
		l.SetNewSeriesLimits(NewSeriesLimits{Live: func() int { return live }, Most: tt.most})
		if got := begin(t, l, "a", "n", 0, 1, true); got != tt.want {
			t.Errorf("%+v with %d: %d refused, want %d", tt.config, tt.most, got, tt.want)
		}
	}
	c := Config{}
	c.Nodes.Series = -1
	l := New(c, nil, nil)
	l.SetNewSeriesLimits(NewSeriesLimits{})
	if n := begin(t, l, "a", "n", 0, DefaultNodeSeries+1, true); n != 0 {
		t.Errorf("%d refused without a bound", n)
	}
	c.Nodes.Series = 3
	l = New(c, nil, nil)
	l.SetNewSeriesLimits(NewSeriesLimits{})
	if n := begin(t, l, "a", "n", 0, 4, true); n != 1 {
		t.Errorf("%d of 4 refused by a bound of 3", n)
	}
}

// The bound of a node falls on who causes it: others may go on, the refusal names the owner, and no number of owners gets around it.
func TestNewSeriesOfOwners(t *testing.T) {
	l := New(Config{}, nil, nil)
	l.SetNewSeriesLimits(NewSeriesLimits{})
	begin := func(owner string, from, n int) (refused int, why error) {
		t.Helper()
		r, err := l.Begin("a", Bound{})
		if err != nil {
			t.Fatal(err)
		}
		for i := from; i < from+n; i++ {
			if err := r.AllowNew(labels.FromStrings("__name__", "x", "node", "n1", "owner", owner, "i", fmt.Sprint(i))); err != nil {
				refused, why = refused+1, err
			}
		}
		r.Stored()
		return refused, why
	}
	if n, why := begin("games", 0, DefaultNodeSeries+100); n != 100 || !strings.Contains(why.Error(), "owner games") {
		t.Errorf("%d refused: %v", n, why)
	}
	for _, other := range []string{"news", ""} {
		if n, why := begin(other, 0, ownerSeries); n != 0 {
			t.Errorf("%q: %d of its own refused: %v", other, n, why)
		}
		if n, _ := begin(other, ownerSeries, 10); n != 10 {
			t.Errorf("%q: %d of 10 refused beyond its share", other, n)
		}
	}
	for i := range 12 {
		begin(fmt.Sprint("invented", i), 0, ownerSeries)
	}
	if n, _ := begin("another", 0, 1); n != 1 {
		t.Error("owners without end are taken")
	}
}

// What shows again what others have is refused first, then what one owner begins; both are named with their node, owner and number, and
// are taken again within an hour.
func TestRefusedSeries(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var c Config
	c.Nodes.Series = 8_000
	l := New(c, func() time.Time { return now }, nil)
	l.SetNewSeriesLimits(NewSeriesLimits{})
	of := func(name, owner string, n int) (refused int) {
		r, err := l.Begin("a", Bound{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if r.AllowNew(labels.FromStrings("__name__", name, "node", "n1", "owner", owner, "i", fmt.Sprint(now, i))) != nil {
				refused++
			}
		}
		r.Stored()
		return refused
	}
	for _, step := range []struct {
		name, owner string
		n, want     int
	}{
		{"reckon_workload_processes", "games", 6_000, 0}, {"container_tasks", "news", 5, 5}, {"reckon_command_cpu_seconds_total", "games", 7, 7},
		{"reckon_workload_processes", "games", 2_100, 100}, {"reckon_workload_processes", "news", 1_000, 0},
	} {
		if got := of(step.name, step.owner, step.n); got != step.want {
			t.Errorf("%d %s of %s: %d refused, want %d", step.n, step.name, step.owner, got, step.want)
		}
	}
	got := map[Refusal]bool{}
	for _, r := range l.Refused() {
		got[r] = true
	}
	if len(got) != 2 || !got[Refusal{Node: "n1", Owner: "games", Series: 100}] || !got[Refusal{Node: "n1", Owner: "news", Series: 5}] {
		t.Errorf("named: %v", got)
	}
	now = now.Add(2*countedTime + time.Second)
	if n := of("reckon_workload_processes", "games", 100); n != 0 || len(l.Refused()) != 0 {
		t.Errorf("after an hour %d are refused, and %v named", n, l.Refused())
	}
}
