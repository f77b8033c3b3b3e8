package limits

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

type clock struct{ t time.Time }

func (c *clock) now() time.Time           { return c.t }
func (c *clock) pass(d time.Duration)     { c.t = c.t.Add(d) }
func newClock() *clock                    { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }
func one(name, site string) labels.Labels { return labels.FromStrings("__name__", name, "site", site) }

func TestRead(t *testing.T) {
	c, err := Read(strings.NewReader(`
requests: {body_bytes: 1000}
labels: {value_bytes: -1}
senders: {series: 10, samples_per_second: 2.5}
sites: {lab: {series: 5}}
queries: {user: {time: 30s, samples: 1000, at_once: 2}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Body() != 1000 || c.Unpacked() != 64<<20 || c.Senders.SamplesPerSecond != 2.5 || c.Sites["lab"].Series != 5 {
		t.Errorf("%+v", c)
	}
	if q := c.QueryLimits("user"); q != (Query{30 * time.Second, 1000, 2}) {
		t.Errorf("user: %+v", q)
	}
	if q := c.QueryLimits("admin"); q != (Query{2 * time.Minute, 20_000_000, 8}) {
		t.Errorf("admin: %+v", q)
	}
	for text, want := range map[string]string{
		"sender: {series: 1}":          "field sender not found",
		"senders: {series: -2}":        "senders.series: -2 is no bound",
		"queries: {root: {time: 1s}}":  "roles are admin, support, user and public",
		"queries: {user: {time: -1s}}": "queries.user.time",
		"labels: {count: many}":        "cannot unmarshal",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Read(strings.NewReader("")); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

// Samples pass up to the rate over any time that is long against the burst, whatever
// the sizes of requests are.
func TestRate(t *testing.T) {
	at := newClock()
	var log bytes.Buffer
	l := New(Config{Senders: Bound{SamplesPerSecond: 10}}, at.now, slog.New(slog.NewTextHandler(&log, nil)))
	stored, slow := 0, 0
	const hours = 2
	for range hours * 3600 {
		at.pass(time.Second)
		r, err := l.Begin("agent a", Bound{})
		var s *RateError
		if errors.As(err, &s) {
			if s.Wait <= 0 {
				t.Fatalf("wait %s", s.Wait)
			}
			slow++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Series(one("m", ""), 500); err != nil {
			t.Fatal(err)
		}
		r.Stored()
		stored += 500
	}
	if most, least := 10*hours*3600+10*120+500, 10*hours*3600; stored > most || stored < least || slow == 0 {
		t.Errorf("%d samples in %d hours, want %d to %d; %d were told to wait", stored, hours, least, most, slow)
	}
	if n := strings.Count(log.String(), "\n"); n < 1 || n > 13 || !strings.Contains(log.String(), "sender agent a is held back") {
		t.Errorf("%d lines in the log:\n%s", n, log.String())
	}
	if _, err := l.Begin("agent b", Bound{}); err != nil {
		t.Errorf("another sender is held back too: %v", err)
	}
	if r, err := l.Begin("agent a", Bound{SamplesPerSecond: 1e6}); err != nil || r == nil {
		t.Errorf("a token with its own bound: %v", err)
	}
}

// What is not stored takes no room.
func TestNotStored(t *testing.T) {
	at := newClock()
	l := New(Config{Senders: Bound{SamplesPerSecond: 1}}, at.now, nil)
	for range 100 {
		r, err := l.Begin("a", Bound{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Series(one("m", ""), 1000); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSeries(t *testing.T) {
	at := newClock()
	l := New(Config{Sites: map[string]Bound{"lab": {Series: 2}, "*": {Series: 1}}}, at.now, nil)
	try := func(name, site string) bool {
		t.Helper()
		r, err := l.Begin("a", Bound{})
		if err != nil {
			t.Fatal(err)
		}
		err = r.Series(one(name, site), 1)
		if err != nil && !strings.Contains(err.Error(), "series already") {
			t.Fatal(err)
		}
		return err == nil
	}
	for i, c := range []struct {
		name, site string
		want       bool
	}{{"a", "lab", true}, {"b", "lab", true}, {"c", "lab", false}, {"a", "lab", true}, {"a", "x", true}, {"b", "x", false}, {"a", "", true}, {"b", "", false}} {
		if got := try(c.name, c.site); got != c.want {
			t.Errorf("%d: %s of %q: %v", i, c.name, c.site, got)
		}
	}
	// A series that goes on stays; one that is silent for an hour makes room.
	for range 3 {
		at.pass(countedTime)
		if !try("a", "lab") {
			t.Fatal("a series that goes on was refused")
		}
	}
	if !try("c", "lab") {
		t.Error("no room though b is long silent")
	}
	if try("d", "lab") {
		t.Error("more than the bound")
	}
	at.pass(10 * countedTime)
	if !try("e", "lab") || !try("f", "lab") || try("g", "lab") {
		t.Error("after a long silence of all there is room for two")
	}
}

func TestLabels(t *testing.T) {
	l := New(Config{Labels: Labels{Count: 3, Name: 10, Value: 20}}, nil, nil)
	r, err := l.Begin("a", Bound{})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 21)
	for want, ls := range map[string]labels.Labels{
		"":                              labels.FromStrings("__name__", "m", "a", "b"),
		"m has 4 labels, more than 3":   labels.FromStrings("__name__", "m", "a", "b", "c", "d", "e", "f"),
		"the name of the label xxxx":    labels.FromStrings("__name__", "m", long, "b"),
		"the name of the metric xxxxxx": labels.FromStrings("__name__", long),
		"the label a has 21 bytes":      labels.FromStrings("__name__", "m", "a", long),
	} {
		if err := r.Labels(ls); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func BenchmarkSeries(b *testing.B) {
	l := New(Config{Senders: Bound{Series: 1e6, SamplesPerSecond: 1e12}, Sites: map[string]Bound{"*": {Series: 1e6}}}, nil, nil)
	ls := labels.FromStrings("__name__", "reckon_workload_cpu_seconds_total", "site", "lab", "node", "n17", "workload", "slurm/4711", "kind", "slurm", "owner", "alice")
	r, err := l.Begin("a", Bound{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Series(ls, 1); err != nil {
			b.Fatal(err)
		}
	}
}
