package scraping

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/store/tsdb"
	"reckon/transport/limits"
)

// latest is the last value of a series that matches, and of how many.
func latest(t *testing.T, s *tsdb.Store, name string) (v float64, n int) {
	t.Helper()
	q, err := s.Querier(0, time.Now().Add(time.Hour).UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", name))
	for set.Next() {
		n++
		for it := set.At().Iterator(nil); it.Next() != chunkenc.ValNone; {
			_, v = it.At()
		}
	}
	return v, n
}

// scrapeWith scrapes a target under bounds.
func scrapeWith(t *testing.T, c limits.Config, answer string) (*tsdb.Store, *limits.Limiter) {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
	t.Cleanup(target.Close)
	file := filepath.Join(t.TempDir(), "scrape.yaml")
	text := "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: shop, static_configs: [{targets: ['" + strings.TrimPrefix(target.URL, "http://") + "']}]}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := tsdb.Open(tsdb.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	l := limits.New(c, nil, nil)
	s, err := Open(Options{File: file, Store: store, Settle: 50 * time.Millisecond, Begin: func() (*limits.Request, error) { return l.Begin("scraping", limits.Bound{}) }})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return store, l
}

// TestBoundedSeries: of a target with too many series, and one with a label that is too
// long, the first ones are stored and the others counted beside up.
func TestBoundedSeries(t *testing.T) {
	text := "bad{a=\"" + strings.Repeat("x", 101) + "\"} 1\n"
	for i := range 6 {
		text += fmt.Sprintf("orders{i=\"%d\"} %d\n", i, i)
	}
	store, l := scrapeWith(t, limits.Config{Senders: limits.Bound{Series: 4}, Labels: limits.Labels{Value: 100}}, text)
	wait(t, "what was refused", func() bool { _, n := latest(t, store, Refused.Name); return n == 1 })
	if v, _ := latest(t, store, Refused.Name); v != 3 {
		t.Errorf("%g samples were refused, want 3", v)
	}
	if v, n := latest(t, store, "up"); v != 1 || n != 1 {
		t.Errorf("up is %g, of %d series", v, n)
	}
	if _, n := latest(t, store, "orders"); n != 4 {
		t.Errorf("%d series of orders, want 4", n)
	}
	if _, n := latest(t, store, "bad"); n != 0 {
		t.Error("a label that is too long was stored")
	}
	if !has(t, store, "__name__", Refused.Name, "job", "shop") {
		t.Error("what was refused does not say of which target")
	}
	l.Set(limits.Config{})
	wait(t, "the end of what was refused", func() bool { v, _ := latest(t, store, Refused.Name); return math.IsNaN(v) })
}

// TestBoundedRate: who is scraped too fast is down, and reports it.
func TestBoundedRate(t *testing.T) {
	store, _ := scrapeWith(t, limits.Config{Senders: limits.Bound{SamplesPerSecond: 0.001}}, "orders 1\nothers 2\n")
	wait(t, "a scrape that is refused", func() bool { v, n := latest(t, store, "up"); return n == 1 && v == 0 })
	if _, n := latest(t, store, "orders"); n != 1 {
		t.Errorf("%d series of the first scrape, want 1", n)
	}
}
