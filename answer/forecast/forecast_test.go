package forecast_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"reckon/answer/forecast"
	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/query"
	"reckon/store"
	"reckon/store/tsdb"
)

// begin is a Monday.
var begin = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// site has roll-ups and a keeper for them, with a clock.
type site struct {
	*database.Catalogue
	keeper *forecast.Keeper
	engine *query.Engine
	series store.Series
	now    time.Time
}

func open(t *testing.T) *site {
	t.Helper()
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	series, err := tsdb.Open(tsdb.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Catalogue: c, engine: query.NewEngine(query.EngineOptions{}), series: series}
	t.Cleanup(func() {
		if err := errors.Join(series.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	s.keeper = &forecast.Keeper{Rollups: c, Catalogue: c, Store: c, Series: series, Engine: s.engine, Hour: 2, Clock: func() time.Time { return s.now }}
	return s
}

// cores returns the cores in use in an hour: more by day than by night, and more on five days of seven.
func cores(r *rand.Rand, hour int) float64 {
	v := 10 + 5*math.Sin(2*math.Pi*float64(hour)/24)
	if hour/24%7 >= 5 {
		v = 4
	}
	return max(v+r.NormFloat64(), 0)
}

// fill writes days of two nodes of 16 cores and of their owner.
func (s *site) fill(t *testing.T, days int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var use []store.Use
	var nodes []store.NodeUse
	up, all := 3600.0, 16*3600.0
	for h := range days * 24 {
		at := begin.Add(time.Duration(h) * time.Hour)
		sum := 0.0
		for _, n := range []string{"n1", "n2"} {
			v := cores(r, h) * 3600
			sum += v
			nodes = append(nodes, store.NodeUse{At: at, Site: "lab", Node: n, Capacity: figure.Capacity{UpSeconds: &up, CoreSeconds: &all, CoreUsedSeconds: &v}})
		}
		if h%24 != 3 { // alice is idle in this hour: there is no row
			use = append(use, store.Use{At: at, Site: "lab", Owner: "alice", Kind: "slurm", Used: store.Used{CPUSeconds: &sum}})
		}
	}
	end := begin.AddDate(0, 0, days)
	if err := s.ReplaceHours(t.Context(), begin, end, use, nodes); err != nil {
		t.Fatal(err)
	}
	if err := s.SetWatermark(t.Context(), end); err != nil {
		t.Fatal(err)
	}
}

func (s *site) look(t *testing.T, at time.Time) int {
	t.Helper()
	s.now = at
	n, err := s.keeper.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKept runs the server for nine days after four weeks of history: the stated error is correct, and nothing is duplicated.
func TestKept(t *testing.T) {
	s := open(t)
	s.fill(t, 37)
	start := begin.AddDate(0, 0, 28)
	for d := range 9 {
		at := start.AddDate(0, 0, d).Add(2*time.Hour + 10*time.Minute)
		if n := s.look(t, at); n != 4 { // cores of the site, two nodes and an owner
			t.Fatalf("day %d: %d forecasts, want 4", d, n)
		}
		if n := s.look(t, at.Add(20*time.Minute)); n != 0 {
			t.Errorf("day %d: made twice in an hour", d)
		}
	}
	if n := s.look(t, s.now.Add(time.Hour)); n != 4 {
		t.Errorf("the hourly run made %d forecasts", n)
	}
	for _, c := range []struct{ subject, name string }{{forecast.Site, ""}, {forecast.Node, "n1"}, {forecast.Owner, "alice"}} {
		kept, err := s.keeper.Kept(t.Context(), c.subject, "lab", c.name)
		if err != nil || len(kept) != 1 {
			t.Fatalf("%s: %d kept, %v", c.subject, len(kept), err)
		}
		k := kept[0]
		if k.Days != 7 || k.Judged.Steps != 7*forecast.DailySteps {
			t.Errorf("%s: %d forecasts and %d hours were judged, want 7 and %d", c.subject, k.Days, k.Judged.Steps, 7*forecast.DailySteps)
		}
		if in := float64(k.Judged.Inside) / float64(k.Judged.Steps); in < 0.9 {
			t.Errorf("%s: the band of 95 %% held %.1f %%", c.subject, 100*in)
		}
		if k.Judged.ErrorThere > 0.8*k.Judged.NaiveError {
			t.Errorf("%s: error %.1f, of the day before %.1f", c.subject, k.Judged.ErrorThere, k.Judged.NaiveError)
		}
		for i, v := range k.High {
			if c.subject == forecast.Node && v > 16 || k.Low[i] < 0 {
				t.Errorf("%s: %v to %v is not possible", c.subject, k.Low[i], v)
			}
		}
	}
	now, _, err := s.keeper.Now(t.Context(), forecast.Node, "lab", "n2", "", 24)
	if err != nil || len(now) != 1 || len(now[0].Point) != 24 {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestShortHistory: two days are the minimum for a stored forecast.
func TestShortHistory(t *testing.T) {
	for hours, want := range map[int]int{47: 0, 48: 4} {
		s := open(t)
		s.fill(t, 4)
		if err := s.SetWatermark(t.Context(), begin.Add(time.Duration(hours)*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if hours == 48 {
			// Alice's work started in the first hour.
			want = 4
		}
		if n := s.look(t, begin.AddDate(0, 0, 4)); n != want {
			t.Errorf("%d hours: %d forecasts, want %d", hours, n, want)
		}
	}
	s := open(t)
	if n := s.look(t, begin); n != 0 {
		t.Errorf("%d forecasts of nothing", n)
	}
}

// broken is a store that fails after some writes.
type broken struct {
	*database.Catalogue
	writes int // number of writes that succeed
}

var errAway = errors.New("the store is away")

func (b *broken) PutForecasts(ctx context.Context, list []store.Forecast) error {
	if b.writes--; b.writes < 0 {
		return errAway
	}
	return b.Catalogue.PutForecasts(ctx, list)
}

// TestKilled kills the daily run after each of its writes: the next run completes it without duplicates.
func TestKilled(t *testing.T) {
	s := open(t)
	s.fill(t, 30)
	s.now = begin.AddDate(0, 0, 29).Add(3 * time.Hour)
	away := &broken{s.Catalogue, 0}
	s.keeper.Store = away
	tries := 0
	for ; ; tries++ {
		away.writes = tries
		_, err := s.keeper.Look(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, errAway) || tries > 20 {
			t.Fatal(err)
		}
	}
	if tries < 3 {
		t.Fatalf("the run wrote only %d times", tries)
	}
	list, err := s.Forecasts(t.Context(), store.ForecastFilter{})
	if err != nil || len(list) != 5 { // including the marker of the run
		t.Errorf("%d forecasts, %v", len(list), err)
	}
}

// TestView reads forecasts by PromQL: the sample at t is the forecast for t + horizon by the newest run made at or before t.
func TestView(t *testing.T) {
	s := open(t)
	line := func(base float64, n int) (v []float64) {
		for i := range n {
			v = append(v, base+float64(i))
		}
		return v
	}
	made := begin.AddDate(0, 0, 30)
	put := func(at time.Time, base float64, n int) {
		f := store.Forecast{Subject: forecast.Node, Site: "lab", Name: "n1", Figure: "cores", Made: at, Step: time.Hour, Point: line(base, n), Low: line(base-10, n), High: line(base+10, n)}
		file := f
		file.Subject, file.Name, file.Figure = forecast.FileSystem, "n1:/var", "free_bytes"
		if err := s.PutForecasts(t.Context(), []store.Forecast{f, file}); err != nil {
			t.Fatal(err)
		}
	}
	put(made, 100, forecast.DailySteps)
	put(made.Add(4*time.Hour), 500, forecast.HourlySteps)
	put(made.Add(24*time.Hour), 900, forecast.DailySteps)
	view := forecast.View{SampleAndChunkQueryable: s.series, Store: s.Catalogue}
	at := func(expr string, t1 time.Time) string {
		t.Helper()
		q, err := s.engine.NewInstantQuery(t.Context(), view, nil, expr, t1)
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		r := q.Exec(t.Context())
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		v, ok := r.Value.(promql.Vector)
		if !ok || len(v) == 0 {
			return "nothing"
		}
		if len(v) > 1 {
			return fmt.Sprintf("%d series", len(v))
		}
		return fmt.Sprint(v[0].F)
	}
	node := `reckon_forecast{subject="node",quantile="0.5",horizon=`
	for _, c := range []struct {
		expr string
		at   time.Duration
		want string
	}{
		{node + `"1h"}`, -time.Second, "nothing"}, // it was made later
		{node + `"1h"}`, 0, "101"},
		{node + `"1h"}`, 59*time.Minute + 59*time.Second, "101"},
		{node + `"1h"}`, time.Hour, "102"},
		{node + `"6h"}`, 0, "106"},
		{node + `"24h"}`, time.Hour, "125"},
		{node + `"1h"}`, 4*time.Hour - time.Minute, "104"},
		{node + `"1h"}`, 4 * time.Hour, "501"}, // a newer run
		{node + `"6h"}`, 4*time.Hour + 59*time.Minute, "506"},
		{node + `"24h"}`, 4 * time.Hour, "128"}, // not covered by the newer run
		{node + `"1h"}`, 24*time.Hour - time.Minute, "124"},
		{node + `"1h"}`, 24 * time.Hour, "901"},
		{`reckon_forecast{subject="node",quantile="0.025",horizon="1h"}`, 0, "91"},
		{`reckon_forecast{subject="node",quantile="0.975",horizon="1h"}`, 0, "111"},
		{`reckon_forecast{mountpoint="/var",node="n1",quantile="0.5",horizon="1h"}`, 0, "101"},
		{`count(reckon_forecast)`, 0, "18"},
		{`reckon_forecast{node="n2"}`, 0, "nothing"},
		{`{quantile="0.5",horizon="1h",subject="node"}`, 0, "nothing"}, // only if the metric is named
		{`max_over_time(` + node + `"1h"}[4h])`, 4 * time.Hour, "501"},
	} {
		if got := at(c.expr, made.Add(c.at)); got != c.want {
			t.Errorf("%s at %v: %s, want %s", c.expr, c.at, got, c.want)
		}
	}
	q, err := view.Querier(made.UnixMilli(), made.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	names, _, err := q.LabelValues(t.Context(), "horizon", &storage.LabelHints{}, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, forecast.Metric))
	if err != nil || fmt.Sprint(names) != "[1h 24h 6h]" {
		t.Errorf("horizons %v, %v", names, err)
	}
}

// TestAnomalies: a deviation of a node from its past is one finding for a day; rising memory is another.
func TestAnomalies(t *testing.T) {
	s := open(t)
	s.fill(t, 30)
	end := begin.AddDate(0, 0, 30)
	rows, err := s.NodeUse(t.Context(), store.RollupQuery{From: begin, To: end, Span: store.SpanHour, By: []string{"site", "node"}})
	if err != nil {
		t.Fatal(err)
	}
	memory := 100 * 3600.0
	for i := range rows {
		r := &rows[i]
		if r.Node != "n1" {
			continue
		}
		left := int(end.Sub(r.At) / time.Hour)
		if left == 10 || left == 11 {
			v := 16 * 3600.0
			if r.At.Weekday() == time.Saturday || r.At.Weekday() == time.Sunday {
				t.Fatal("the fault is on a weekend")
			}
			r.CoreUsedSeconds = &v
			*r.CoreUsedSeconds = 0
		}
		used := (20 + 1.5*max(0, 48-float64(left))) * 3600
		r.NodeMemoryByteSeconds, r.NodeMemoryUsedByteSeconds = &memory, &used
	}
	if err := s.ReplaceHours(t.Context(), begin, end, nil, rows); err != nil {
		t.Fatal(err)
	}
	parts := func() map[string]int {
		got := map[string]int{}
		list, err := s.keeper.Anomalies(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if f.Text == "" || len(f.Evidence) < 2 || f.First.After(f.Last) {
				t.Errorf("%+v", f)
			}
			part, _, _ := strings.Cut(f.Part, " since")
			got[f.Node+" "+part]++
		}
		return got
	}
	s.now = end
	got := parts()
	if got["n1 odd"] != 1 || got["n1 memory-climbs"] != 1 || got["n2 odd"] != 0 {
		t.Errorf("found %v", got)
	}
	if err := s.ReplaceHours(t.Context(), end, end.AddDate(0, 0, 3), nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.SetWatermark(t.Context(), end.AddDate(0, 0, 3)); err != nil {
		t.Fatal(err)
	}
	s.now = end.AddDate(0, 0, 3)
	if got := parts(); len(got) != 0 {
		t.Errorf("three days later: %v", got)
	}
}

// TestBackfilled: a daily forecast of two days, while hours still arrived, is made again an hour later of all of them, and then not again.
func TestBackfilled(t *testing.T) {
	s := open(t)
	s.fill(t, 30)
	at := begin.AddDate(0, 0, 28).Add(2*time.Hour + 10*time.Minute)
	if err := s.ReplaceHours(t.Context(), begin, begin.AddDate(0, 0, 26), nil, nil); err != nil {
		t.Fatal(err)
	}
	steps := func() (int, []string) {
		kept, err := s.keeper.Kept(t.Context(), forecast.Node, "lab", "n1")
		if err != nil || len(kept) != 1 {
			t.Fatalf("%d kept, %v", len(kept), err)
		}
		return int(at.Truncate(time.Hour).Sub(kept[0].Made).Hours()), kept[0].Models
	}
	s.look(t, at)
	_, before := steps()
	s.fill(t, 30)
	at = at.Add(time.Hour)
	s.look(t, at)
	if age, models := steps(); age != 0 || slices.Equal(models, before) {
		t.Errorf("the forecast shown is %d hours old, by %v", age, models)
	}
	at = at.Add(time.Hour)
	s.look(t, at)
	if age, _ := steps(); age != 1 {
		t.Errorf("the forecast shown is %d hours old; no hour came late", age)
	}
}

// output accepts forecasts unless it is away.
type output struct {
	got  [][]store.Forecast
	away error
}

func (o *output) Write(_ context.Context, list []store.Forecast) error {
	if o.away == nil {
		o.got = append(o.got, list)
	}
	return o.away
}

// TestOutput: each daily run is written once; if the output fails it is offered again, and the run itself is stored.
func TestOutput(t *testing.T) {
	s := open(t)
	s.fill(t, 30)
	o := &output{away: errors.New("away")}
	s.keeper.Output = o
	s.now = begin.AddDate(0, 0, 28).Add(3 * time.Hour)
	if n, err := s.keeper.Look(t.Context()); n == 0 || err == nil {
		t.Fatalf("%d forecasts, %v", n, err)
	}
	o.away = nil
	for range 2 {
		if n, err := s.keeper.Look(t.Context()); n != 0 || err != nil {
			t.Fatalf("%d forecasts, %v", n, err)
		}
	}
	s.look(t, s.now.Add(time.Hour)) // the renewed hours are not written
	if len(o.got) != 1 || len(o.got[0]) == 0 {
		t.Fatalf("written %d times", len(o.got))
	}
	for _, f := range o.got[0] {
		if len(f.Point) != forecast.DailySteps || f.Subject == "run" {
			t.Errorf("%s %s of %d hours", f.Subject, f.Name, len(f.Point))
		}
	}
	s.look(t, s.now.AddDate(0, 0, 1))
	if len(o.got) != 2 {
		t.Errorf("written %d times after the second day", len(o.got))
	}
}
