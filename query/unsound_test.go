package query_test

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	promtsdb "github.com/prometheus/prometheus/tsdb"

	"reckon/query"
	"reckon/store/tsdb"
)

// plain writes histograms as older versions did, and as a backup may hold them: with the database alone.
func plain(t *testing.T, dir string, at time.Time) {
	t.Helper()
	db, err := promtsdb.Open(dir, slog.New(slog.DiscardHandler), nil, promtsdb.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	app := db.AppenderV2(t.Context())
	for name, h := range map[string]*histogram.FloatHistogram{
		"a": {ZeroThreshold: math.NaN(), ZeroCount: 1, Count: 1}, "b": {ZeroThreshold: 1, ZeroCount: 1, Count: 1},
		"c": {PositiveSpans: []histogram.Span{{Offset: math.MaxInt32, Length: 2}}, PositiveBuckets: []float64{1, 1}, Count: 2},
	} {
		ls := labels.FromStrings("__name__", "loops", "i", name)
		if _, err := app.Append(0, ls, 0, at.UnixMilli(), 0, nil, h, storage.AOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// What is stored already is read as if its series had ended, with a warning, and the query ends.
func TestStoredUnsoundHistogramsAreLeftOut(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	plain(t, dir, now)
	s, err := tsdb.Open(tsdb.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e := query.NewEngine(query.EngineOptions{Timeout: 5 * time.Second})
	q, err := e.NewInstantQuery(t.Context(), s, nil, "sum(loops)", now)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	r := q.Exec(t.Context())
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	v, err := r.Vector()
	if err != nil || len(v) != 1 || v[0].H == nil || v[0].H.Count != 1 {
		t.Errorf("got %v, %v; want the one that is sound", v, err)
	}
	if text := r.Warnings.AsErrors(); len(text) == 0 || !strings.Contains(text[0].Error(), "2 native histograms") {
		t.Errorf("warnings: %v", text)
	}
}
