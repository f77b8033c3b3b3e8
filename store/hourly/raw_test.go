package hourly

import (
	"context"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"reckon/internal/dirty"
	"reckon/store"
)

var stale = math.Float64frombits(value.StaleNaN)

// t0 is the beginning of a day, of blocks of 8 days and of 64 days.
var t0 = dirty.Floor(time.Date(2025, 3, 5, 0, 0, 0, 0, time.UTC).UnixMilli(), 64*day)

// raw is a real database, as a store of samples.
type raw struct {
	*tsdb.DB
	tb    testing.TB
	types map[string]metadata.Metadata
	since *time.Time
}

func openRaw(tb testing.TB) *raw {
	tb.Helper()
	o := tsdb.DefaultOptions()
	o.OutOfOrderTimeWindow = (100 * 24 * time.Hour).Milliseconds()
	o.RetentionDuration = 0
	o.MaxBlockDuration = 8 * day
	db, err := tsdb.Open(filepath.Join(tb.TempDir(), "raw"), slog.New(slog.DiscardHandler), nil, o, nil)
	if err != nil {
		tb.Fatal(err)
	}
	db.DisableCompactions()
	r := &raw{DB: db, tb: tb}
	tb.Cleanup(func() { _ = db.Close() })
	return r
}

func (r *raw) Metadata() map[string]metadata.Metadata { return r.types }

func (r *raw) Origins() ([]store.Origin, error) {
	var out []store.Origin
	for _, m := range r.BlockMetas() {
		for _, id := range m.Compaction.Sources {
			out = append(out, store.Origin{ID: id.String(), From: time.UnixMilli(m.MinTime), To: time.UnixMilli(m.MaxTime)})
		}
	}
	slices.SortFunc(out, func(a, b store.Origin) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out, nil
}

func (r *raw) Sealed() (time.Time, bool) {
	t := r.Head().MinTime()
	return time.UnixMilli(t), t != math.MaxInt64
}

func (r *raw) Since() (time.Time, bool) {
	if r.since != nil {
		return *r.since, true
	}
	return r.Oldest()
}

func (r *raw) Oldest() (time.Time, bool) {
	t := r.Head().MinTime()
	for _, m := range r.BlockMetas() {
		t = min(t, m.MinTime)
	}
	return time.UnixMilli(t), t != math.MaxInt64
}

// point is a sample to append; h wins over v.
type point struct {
	t int64
	v float64
	h *histogram.Histogram
}

func (r *raw) append(ls labels.Labels, points ...point) {
	r.tb.Helper()
	app := r.AppenderV2(context.Background())
	var ref storage.SeriesRef
	for _, p := range points {
		v := p.v
		if p.h != nil {
			v = 0
		}
		got, err := app.Append(ref, ls, 0, p.t, v, p.h, nil, storage.AOptions{})
		if err != nil {
			r.tb.Fatal(err)
		}
		ref = got
	}
	if err := app.Commit(); err != nil {
		r.tb.Fatal(err)
	}
}

// seal writes everything to blocks, and a sample at a time after it that keeps the head.
func (r *raw) seal(at int64) {
	r.tb.Helper()
	if h := r.Head(); h.MinTime() < at {
		if err := r.CompactHead(tsdb.NewRangeHead(h, h.MinTime(), at-1)); err != nil {
			r.tb.Fatal(err)
		}
	}
	if err := r.CompactOOOHead(context.Background()); err != nil {
		r.tb.Fatal(err)
	}
}

// query runs a range query on a store, and returns its warnings and infos too.
func query(tb testing.TB, q storage.Queryable, text string, from, to, step int64, lookback time.Duration) (promql.Matrix, []string) {
	tb.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e8, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer engine.Close()
	asked, err := engine.NewRangeQuery(context.Background(), q, promql.NewPrometheusQueryOpts(false, lookback), text,
		time.UnixMilli(from), time.UnixMilli(to), time.Duration(step)*time.Millisecond)
	if err != nil {
		tb.Fatal(err)
	}
	defer asked.Close()
	got := asked.Exec(context.Background())
	m, err := got.Matrix()
	if err != nil {
		tb.Fatal(err)
	}
	warnings, infos := got.Warnings.AsStrings("", 0, 0)
	out := make(promql.Matrix, len(m))
	for i, s := range m {
		out[i] = promql.Series{Metric: s.Metric, Floats: slices.Clone(s.Floats)}
	}
	return out, append(warnings, infos...)
}

func openStore(tb testing.TB, r *raw, dir string) *Store {
	tb.Helper()
	s, err := Open(Options{Dir: dir, Raw: r})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func pass(tb testing.TB, s *Store) {
	tb.Helper()
	if err := s.Pass(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// kept reads the hours alone.
func kept(tb testing.TB, s *Store, name string) (out []sample) {
	tb.Helper()
	list, err := s.blocks.queriers(math.MinInt64, math.MaxInt64)
	if err != nil {
		tb.Fatal(err)
	}
	q := storage.NewMergeQuerier(list, nil, storage.ChainedSeriesMerge)
	defer q.Close()
	set := q.Select(tb.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", name))
	for set.Next() {
		it := set.At().Iterator(nil)
		for typ := it.Next(); typ != 0; typ = it.Next() {
			one, err := sampleAt(it, typ)
			if err != nil {
				tb.Fatal(err)
			}
			out = append(out, one)
		}
		if err := it.Err(); err != nil {
			tb.Fatal(err)
		}
	}
	if err := set.Err(); err != nil {
		tb.Fatal(err)
	}
	return out
}
func lset(name string, more ...string) labels.Labels {
	return labels.FromStrings(append([]string{"__name__", name}, more...)...)
}
