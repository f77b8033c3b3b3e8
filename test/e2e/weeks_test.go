//go:build e2e

package e2e

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"reckon/answer/forecast"
	"reckon/catalogue"
	cataloguedb "reckon/catalogue/database"
	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/query"
	"reckon/store"
	"reckon/store/tsdb"
	"reckon/transport/ingest"
	"reckon/transport/push"
)

// TestFiveWeeks sends five weeks of a simulated site as agents do (remote write over HTTP, a queue on disk for each node), with its own
// clock, to what a server is made of: receiver, store, catalogue, keeper of forecasts. Every day is forecast at 02:00. Of the forecasts
// made before the last week, the bands of 95 % must hold what came in it.
func TestFiveWeeks(t *testing.T) {
	const weeks, nodes, every = 5, 3, 5 * time.Minute
	from := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) // a Monday
	plan, err := simulate.New(simulate.Config{Nodes: nodes, Cores: 16, Jobs: weeks * 7 * 60, Users: 6, Seed: 7, From: from, For: weeks * 7 * 24 * time.Hour})
	check(t, err)
	fleet := simulation.New(simulation.Config{Site: plan, Slots: 1})
	agents := &senders{}
	agents.at.Store(from.Unix())
	clock := func() time.Time { return time.Unix(agents.at.Load(), 0).UTC() }

	series, err := tsdb.Open(tsdb.Options{Dir: t.TempDir(), Retention: -1, OutOfOrder: time.Hour, Clock: clock})
	check(t, err)
	defer func() { check(t, series.Close()) }()
	facts, err := cataloguedb.Open(filepath.Join(t.TempDir(), "catalogue.db"), nil)
	check(t, err)
	defer func() { check(t, facts.Close()) }()
	receiver := httptest.NewServer(ingest.Handler(ingest.Options{Store: series, Describe: series.Describe, Clock: clock}))
	defer receiver.Close()
	agents.Push, err = simulation.NewPush(simulation.PushConfig{Endpoints: []push.Endpoint{{URL: receiver.URL, Protocol: "2.0"}}, Site: "lab", Nodes: plan.Names(), Dir: t.TempDir()})
	check(t, err)
	defer func() { check(t, agents.Close(0)) }()

	builder := catalogue.NewBuilder(series, facts, catalogue.BuilderOptions{Gone: 4 * every, Clock: clock})
	keeper := &forecast.Keeper{Rollups: facts, Catalogue: facts, Store: facts, Series: series, Engine: query.NewEngine(query.EngineOptions{}), Hour: 2, Clock: clock}
	made := 0
	for at := from.Add(2*time.Hour + 10*time.Minute); at.Before(plan.End()); at = at.Add(12 * time.Hour) {
		_, err := fleet.Run(t.Context(), simulation.Stretch{Until: at, Tick: every, Export: every}, agents)
		check(t, err)
		if left := agents.Drain(t.Context(), time.Minute); left.Exports > 0 || left.Lost > 0 || left.Refused > 0 {
			t.Fatalf("%v: %+v", at, left)
		}
		_, err = builder.Advance(t.Context())
		check(t, err)
		n, err := keeper.Look(t.Context())
		check(t, err)
		made += n
	}
	last := plan.End().AddDate(0, 0, -7)
	list, err := facts.Forecasts(t.Context(), store.ForecastFilter{Since: last.Add(-time.Hour), Until: plan.End()})
	check(t, err)
	type tally struct{ forecasts, steps, inside int }
	total, by := tally{}, map[string]*tally{}
	ratio, ratios := 0.0, 0.0
	for _, f := range list {
		if f.Judged == nil || f.Judged.Steps == 0 || len(f.Point) != forecast.DailySteps {
			continue
		}
		k := f.Subject + " " + f.Figure
		if by[k] == nil {
			by[k] = &tally{}
		}
		for _, c := range []*tally{by[k], &total} {
			c.forecasts, c.steps, c.inside = c.forecasts+1, c.steps+f.Judged.Steps, c.inside+f.Judged.Inside
		}
		if f.Judged.NaiveError > 0 {
			ratio, ratios = ratio+f.Judged.ErrorThere/f.Judged.NaiveError, ratios+1
		}
	}
	for k, c := range by {
		t.Logf("%-30s %3d forecasts, %5d hours, %.1f %% within the band", k, c.forecasts, c.steps, 100*float64(c.inside)/float64(c.steps))
	}
	share := float64(total.inside) / float64(max(total.steps, 1))
	t.Logf("%d made, %d judged in the last week over %d hours: %.1f %% within the band, error %.2f of that of the day before", made, total.forecasts, total.steps, 100*share, ratio/ratios)
	if total.forecasts < 5*10 || share < 0.93 || share > 0.995 {
		t.Errorf("the bands of 95 %% held %.1f %% of %d hours (%d forecasts)", 100*share, total.steps, total.forecasts)
	}
}

// senders push as agents do, and keep the simulated time for those who receive.
type senders struct {
	*simulation.Push
	at atomic.Int64 // Unix seconds
}

// Before implements [simulation.Preparer].
func (s *senders) Before(_ context.Context, at time.Time) error {
	s.at.Store(at.Unix())
	return nil
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
