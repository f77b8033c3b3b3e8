package storetest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"reckon/store"
)

// Forecasts runs the suite on an empty store of forecasts.
func Forecasts(t *testing.T, s store.Forecasts) {
	t.Helper()
	ctx := t.Context()
	backtest := 0.5
	one := func(i int) store.Forecast {
		f := store.Forecast{
			Subject: []string{"node", "owner"}[i%2], Site: "lab", Name: fmt.Sprintf("it's \"n%d\"", i%4),
			Figure: []string{"cores", "watts"}[i/4%2],
			Made:   epoch.Add(time.Duration(i/8) * time.Hour), Step: time.Hour, Point: []float64{1, 2.5, 3}, Low: []float64{0, 1, 1},
			High:   []float64{4, 4, 1e30},
			Models: []string{"a method", "another one"}, Flags: []string{"gaps"}, Backtest: &backtest,
		}
		if f.Subject == "owner" {
			f.Owner = f.Name
		}
		return f
	}
	var list []store.Forecast
	for i := range 24 { // of eight series, three each
		list = append(list, one(i))
	}
	requireNoError(t, s.PutForecasts(ctx, list))
	requireNoError(t, s.PutForecasts(ctx, list)) // again: creates no duplicates
	requireNoError(t, s.PutForecasts(ctx, nil))
	count := func(what string, f store.ForecastFilter, want int) []store.Forecast {
		t.Helper()
		got, err := s.Forecasts(ctx, f)
		requireNoError(t, err)
		if len(got) != want {
			t.Errorf("%s: %d forecasts, want %d", what, len(got), want)
		}
		return got
	}
	count("all", store.ForecastFilter{}, 24)
	got := count("one", store.ForecastFilter{Subject: "owner", Site: "lab", Name: list[1].Name, Figures: []string{"cores"}, Since: epoch,
		Until: epoch.Add(time.Hour)}, 1)
	if len(got) == 1 {
		if f, want := got[0], list[1]; f.Backtest == nil || *f.Backtest != backtest || f.Naive != nil || math.Abs(f.High[2]-1e30) > 1e24 ||
			fmt.Sprint(f.Point, f.Low, f.Models, f.Flags, f.Owner, f.Made, f.Step, f.Judged) !=
				fmt.Sprint(want.Point, want.Low, want.Models, want.Flags, want.Owner, want.Made, want.Step, want.Judged) {
			t.Errorf("got  %+v\nwant %+v", f, want)
		}
	}
	for _, f := range count("newest", store.ForecastFilter{Newest: true}, 8) {
		if !f.Made.Equal(epoch.Add(2 * time.Hour)) {
			t.Errorf("made at %v is not the newest", f.Made)
		}
	}
	count("newest before", store.ForecastFilter{Newest: true, Until: epoch.Add(2 * time.Hour), Subject: "node"}, 4)
	count("hostile", store.ForecastFilter{Name: "'; DROP TABLE forecasts; --"}, 0)

	judged := list[0]
	judged.Judged = &store.Judged{Steps: 3, Inside: 2, Error: 1.5, NaiveError: 2.5, NaiveSteps: 2, ErrorThere: 1}
	requireNoError(t, s.PutForecasts(ctx, []store.Forecast{judged}))
	count("unjudged", store.ForecastFilter{Unjudged: true}, 23)
	if got := count("judged", store.ForecastFilter{Subject: "node", Name: judged.Name, Figures: []string{"cores"},
		Until: epoch.Add(time.Hour)}, 1); len(got) == 1 && (got[0].Judged == nil || *got[0].Judged != *judged.Judged) {
		t.Errorf("judged %+v, want %+v", got[0].Judged, judged.Judged)
	}

	long := list[2]
	long.Point, long.Low, long.High = []float64{1, 1, 1, 1}, []float64{0, 0, 0, 0}, []float64{2, 2, 2, 2}
	requireNoError(t, s.PutForecasts(ctx, []store.Forecast{long}))
	requireNoError(t, s.TrimForecasts(ctx, epoch, 4, epoch.Add(time.Hour))) // removes short ones of the first hour
	count("after short ones were forgotten", store.ForecastFilter{}, 17)
	requireNoError(t, s.TrimForecasts(ctx, epoch.Add(2*time.Hour), 0, time.Time{}))
	count("after old ones were forgotten", store.ForecastFilter{}, 8)
}
