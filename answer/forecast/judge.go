package forecast

import (
	"context"
	"math"
	"strings"
	"time"

	"reckon/store"
)

// forecastKey identifies the subject and figure of a forecast.
type forecastKey struct{ subject, site, name, figure string }

// openForecasts holds forecasts that are not yet evaluated, with a time that may have passed.
type openForecasts map[forecastKey][]store.Forecast

func (k *Keeper) readOpen(ctx context.Context, end time.Time) (openForecasts, error) {
	list, err := k.Store.Forecasts(ctx, store.ForecastFilter{Unjudged: true, Since: end.Add(-keepDaily), Until: end})
	if err != nil {
		return nil, err
	}
	out := openForecasts{}
	for _, f := range list {
		id := forecastKey{f.Subject, f.Site, f.Name, f.Figure}
		out[id] = append(out[id], f)
	}
	return out, nil
}

// judgeSeries computes the errors of the forecasts of a series after its last step has passed.
func (o openForecasts) judgeSeries(s *series, end time.Time) []store.Forecast {
	var out []store.Forecast
	for _, f := range o[forecastKey{s.subject, s.site, s.name, s.figure}] {
		if f.Made.Add(time.Duration(len(f.Point)) * f.Step).After(end) {
			continue
		}
		j := forecastErrors(&f, s.values, end)
		f.Judged = &j
		out = append(out, f)
	}
	return out
}

// forecastErrors returns the errors over the measured steps. The baseline is the same hour of the day before the forecast was made.
func forecastErrors(f *store.Forecast, values []float64, end time.Time) store.Judged {
	var j store.Judged
	first := len(values) - int(end.Sub(f.Made)/time.Hour)
	for i, v := range f.Point {
		at := first + i
		if at < 0 || at >= len(values) || math.IsNaN(values[at]) {
			continue
		}
		came := values[at]
		j.Steps++
		e := math.Abs(came - v)
		j.Error += e
		// Forecasts are stored with seven digits.
		if room := 1e-6 * math.Abs(came); came >= f.Low[i]-room && came <= f.High[i]+room {
			j.Inside++
		}
		if before := first - 24 + i%24; before >= 0 && !math.IsNaN(values[before]) {
			j.NaiveSteps++
			j.NaiveError += math.Abs(came - values[before])
			j.ErrorThere += e
		}
	}
	return j
}

// Kept is the newest forecast of one figure, with the errors of earlier ones.
type Kept struct {
	store.Forecast
	// Judged sums the errors of the two-day forecasts made in the 14 days before. Days is their number.
	Judged store.Judged
	Days   int
}

// Kept returns the newest daily forecasts of a subject by figure. Hours covered by a later hourly run are replaced.
func (k *Keeper) Kept(ctx context.Context, subject, site, name string) ([]Kept, error) {
	now := k.Clock()
	list, err := k.Store.Forecasts(ctx,
		store.ForecastFilter{Subject: subject, Site: site, Name: name, Since: now.Add(-JudgedFor - DailySteps*time.Hour)})
	if err != nil {
		return nil, err
	}
	var out []Kept
	at := map[forecastKey]int{}
	for _, f := range list { // by time within each key
		id := forecastKey{f.Subject, f.Site, f.Name, f.Figure}
		i, ok := at[id]
		if !ok {
			if len(f.Point) < DailySteps {
				continue // an hourly run before the first daily one
			}
			i = len(out)
			at[id], out = i, append(out, Kept{})
		}
		out[i].addForecast(f)
	}
	return out, nil
}

func (kept *Kept) addForecast(f store.Forecast) {
	if len(f.Point) < DailySteps {
		kept.replaceHours(&f)
		return
	}
	kept.Forecast = f
	if j := f.Judged; j != nil {
		kept.Days++
		s := &kept.Judged
		s.Steps, s.Inside, s.NaiveSteps = s.Steps+j.Steps, s.Inside+j.Inside, s.NaiveSteps+j.NaiveSteps
		s.Error, s.NaiveError, s.ErrorThere = s.Error+j.Error, s.NaiveError+j.NaiveError, s.ErrorThere+j.ErrorThere
	}
}

// replaceHours replaces hours by a later hourly forecast's.
func (kept *Kept) replaceHours(f *store.Forecast) {
	if kept.Step != f.Step || kept.Step <= 0 {
		return
	}
	first := int(f.Made.Sub(kept.Made) / kept.Step)
	for i := range f.Point {
		if at := first + i; at >= 0 && at < len(kept.Point) {
			kept.Point[at], kept.Low[at], kept.High[at] = f.Point[i], f.Low[i], f.High[i]
			if kept.Mean != nil && f.Mean != nil {
				kept.Mean[at] = f.Mean[i]
			}
		}
	}
}

// FileSystems returns the newest forecasts of the file systems of a node.
func (k *Keeper) FileSystems(ctx context.Context, site, node string) ([]Kept, error) {
	list, err := k.Store.Forecasts(ctx, store.ForecastFilter{Subject: FileSystem, Site: site, Newest: true, Since: k.Clock().Add(-2 * Old)})
	if err != nil {
		return nil, err
	}
	var out []Kept
	seen := map[string]bool{}
	for _, f := range list {
		if on, _, _ := strings.Cut(f.Name, ":"); on != node || seen[f.Name] {
			continue
		}
		seen[f.Name] = true
		kept, err := k.Kept(ctx, FileSystem, f.Site, f.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, kept...)
	}
	return out, nil
}
