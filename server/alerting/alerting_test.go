package alerting

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/metric"
	"reckon/query"
	"reckon/store/tsdb"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// bench is a store with one series, up, of node n1.
type bench struct {
	t      *testing.T
	store  *tsdb.Store
	dir    string
	series *metric.Series
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir()}
	b.open()
	b.series = metric.NewSeries(&metric.Desc{Name: "test_broken", Kind: metric.Gauge, Labels: []string{"part"}}, "disk")
	return b
}

func (b *bench) open() {
	s, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(b.dir, "series"), OutOfOrder: time.Hour})
	if err != nil {
		b.t.Fatal(err)
	}
	b.store = s
	b.t.Cleanup(func() { _ = s.Close() })
}

func (b *bench) set(v float64) {
	b.t.Helper()
	batch := &metric.Batch{Time: time.Now()}
	batch.Add(b.series, v)
	if err := b.store.Append(context.Background(), map[string]string{"node": "n1"}, batch); err != nil {
		b.t.Fatal(err)
	}
}

const rulesText = `
groups:
  - name: test
    interval: 1s
    rules:
      - record: test:broken:sum
        expr: sum(test_broken)
      - alert: Broken
        expr: test_broken > 0
        labels: {severity: critical}
        annotations: {summary: 'it is {{ $value }}'}
`

// start runs a service; stop ends it and waits.
func (b *bench) start(o Options) (s *Service, stop func()) {
	b.t.Helper()
	engine := query.NewEngine(query.EngineOptions{})
	o.Engine, o.Parser, o.Queryable, o.Appendable = engine, engine.Parser(), b.store, b.store
	o.Dir, o.External = filepath.Join(b.dir, "alerts"), "http://127.0.0.1:9870"
	s, err := Open(b.t.Context(), o)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				b.t.Error(err)
			}
		})
	}
	b.t.Cleanup(stop)
	return s, stop
}

// A rule fires, is reported once over a restart of everything, and its end is reported once.
func TestRuleToWebhookOverRestart(t *testing.T) {
	h, b := newHook(t), newBench(t)
	o := Options{Rules: []string{write(t, "r.yml", rulesText)}, Config: h.config(t)}
	b.set(1)
	s, stop := b.start(o)
	h.wait(t, "firing Broken")
	if got := len(s.AlertingRules()); got != 1 {
		t.Errorf("%d alerting rules", got)
	}
	stop()
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	b.open()
	b.set(1)
	again := time.Now()
	_, stop = b.start(o)
	defer stop()
	until(t, func() bool { return evaluated(t, b, "ALERTS", again) })
	b.set(0)
	h.wait(t, "resolved Broken")
	if got := h.text(); got != "firing Broken\nresolved Broken" {
		t.Errorf("told:\n%s", got)
	}
}

// evaluated reports whether a series of this name has a sample after a time.
func evaluated(t *testing.T, b *bench, name string, after time.Time) bool {
	t.Helper()
	q, err := b.store.Querier(after.UnixMilli(), time.Now().UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", name))
	return set.Next()
}

// A finding is reported once while it lasts, also over a restart without a farewell, and
// its end is reported.
func TestFindingOnce(t *testing.T) {
	h, b := newHook(t), newBench(t)
	var mu sync.Mutex
	found := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	list := []Finding{{ID: "f1", Rule: "over-share", Severity: "warning", Owner: "alice", Text: "alice hogs n1", Found: found}, {ID: "f2", Rule: "over-share", Quiet: true, Found: found}}
	o := Options{Rules: []string{"none"}, Config: h.config(t), Findings: func(context.Context) ([]Finding, error) {
		mu.Lock()
		defer mu.Unlock()
		return list, nil
	}}
	s, stop := b.start(o)
	h.wait(t, "firing Findingf1")
	for i := range 3 {
		if err := s.Follow(t.Context(), time.Now().Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	mu.Lock()
	list[0].Quiet = true // acknowledged: it lasts, and does not end
	mu.Unlock()
	s, stop = b.start(o)
	defer stop()
	if err := s.Follow(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	list = nil
	mu.Unlock()
	if err := s.Follow(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	h.wait(t, "resolved Findingf1")
	if got := h.text(); got != "firing Findingf1\nresolved Findingf1" {
		t.Errorf("told:\n%s", got)
	}
}

func TestTestArrives(t *testing.T) {
	h, b := newHook(t), newBench(t)
	s, _ := b.start(Options{Rules: []string{"none"}, Config: h.config(t)})
	last := func() Delivery {
		list, ok := s.TestDeliveries(t.Context(), LastTest)
		if !ok || len(list) != 1 || list[0].Receiver != "hook" || list[0].Integration != "webhook[0]" {
			t.Fatalf("the receivers are %+v", list)
		}
		return list[0]
	}
	if d := last(); d.Arrived || d.Time != nil || d.Failed != 0 {
		t.Errorf("before anything was sent: %+v", d)
	}
	id := s.SendTest(time.Now(), "root")
	h.wait(t, "firing ReckonTest")
	until(t, func() bool {
		list, ok := s.TestDeliveries(t.Context(), id)
		return ok && len(list) == 1 && list[0].Arrived && list[0].Receiver == "hook" && list[0].Integration == "webhook[0]" && list[0].Error == ""
	})
	if d := last(); !d.Arrived || d.Time == nil || d.Failed != 0 {
		t.Errorf("after a notification: %+v", d)
	}
	if _, ok := s.TestDeliveries(t.Context(), "other"); ok {
		t.Error("a test that was never sent is known")
	}
	h.mu.Lock()
	h.fail = true
	h.mu.Unlock()
	id = s.SendTest(time.Now(), "root")
	until(t, func() bool {
		list, _ := s.TestDeliveries(t.Context(), id)
		return list[0].Error != ""
	})
	until(t, func() bool { return last().Failed > 1 && last().Error != "" && !last().Arrived })
	h.mu.Lock()
	h.fail = false
	h.mu.Unlock()
	until(t, func() bool { return last().Arrived && last().Failed == 0 && last().Error == "" })
}

// Silences made by the API outlive a restart.
func TestSilenceIsKept(t *testing.T) {
	h, b := newHook(t), newBench(t)
	o := Options{Rules: []string{"none"}, Config: h.config(t)}
	s, stop := b.start(o)
	body := fmt.Sprintf(`{"matchers":[{"name":"alertname","value":"Broken","isRegex":false,"isEqual":true}],"startsAt":%q,"endsAt":%q,"createdBy":"me","comment":"x"}`,
		time.Now().Format(time.RFC3339), time.Now().Add(time.Hour).Format(time.RFC3339))
	req := httptest.NewRequest(http.MethodPost, Prefix+"/api/v2/silences", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if raw, err := os.ReadFile(filepath.Join(b.dir, "alerts", "silences")); err != nil || len(raw) == 0 {
		t.Fatalf("not written at once: %v", err)
	}
	stop()
	s, _ = b.start(o)
	w = httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, Prefix+"/api/v2/silences", nil))
	if !strings.Contains(w.Body.String(), `"comment":"x"`) {
		t.Error(w.Body)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	engine := query.NewEngine(query.EngineOptions{})
	b := newBench(t)
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Rules: []string{"/nonexistent/*.yml"}}, "there is no such file"},
		{Options{Rules: []string{write(t, "bad.yml", "groups: [{name: a, rules: [{alert: X, expr: 'sum('}]}]")}}, "promtool check rules"},
		{Options{Rules: []string{"none"}, Alertmanagers: []string{"host:9093"}}, "write it as http://"},
		{Options{Rules: []string{"none"}, Config: write(t, "am.yml", "route: {receiver: nobody}")}, "deploy/alerts/alertmanager.yml"},
		{Options{Alertmanagers: []string{"http://a"}, Config: "b"}, "not both"},
	} {
		c.o.Engine, c.o.Parser, c.o.Queryable, c.o.Appendable, c.o.Dir = engine, engine.Parser(), b.store, b.store, t.TempDir()
		_, err := Open(t.Context(), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// The rules that the program brings are taken, and a broken file leaves the present ones.
func TestDefaultsAndReload(t *testing.T) {
	b := newBench(t)
	file := write(t, "r.yml", rulesText)
	s, _ := b.start(Options{Rules: []string{"default", file}})
	before := len(s.RuleGroups())
	if before < 5 {
		t.Errorf("%d groups", before)
	}
	if err := os.WriteFile(file, []byte("groups: 7"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil || len(s.RuleGroups()) != before {
		t.Errorf("%v, %d groups", err, len(s.RuleGroups()))
	}
	if err := os.WriteFile(file, []byte("groups: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err != nil || len(s.RuleGroups()) != before-1 {
		t.Errorf("%v, %d groups", err, len(s.RuleGroups()))
	}
	if s.Reachable() == nil {
		t.Error("somebody is notified without an Alertmanager")
	}
}

func TestChartAt(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		begin, end time.Time
		want       string
	}{
		{begin, time.Time{}, "http://h:1/explore?expr=up+%3D%3D+0&from=996400&to=1003600"},
		{begin, begin.Add(time.Hour), "http://h:1/explore?expr=up+%3D%3D+0&from=996400&to=1007200"},
		{time.Time{}, time.Time{}, "http://h:1/explore?expr=up+%3D%3D+0"},
	} {
		if got := chartURL("http://h:1/", "up == 0", c.begin, c.end); got != c.want {
			t.Errorf("from %v to %v: %s, want %s", c.begin, c.end, got, c.want)
		}
	}
}
