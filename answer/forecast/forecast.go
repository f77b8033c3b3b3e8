// Package forecast forecasts the demand of sites, nodes, owners, services and file systems, and compares earlier forecasts
// with the outcome.
//
// Once a day it forecasts the next 48 hours, and every hour the next seven, from hourly means of the last weeks: the means of
// sites, nodes and owners from the roll-ups, and the means of services and file systems from the series. Forecasts are stored
// beside the catalogue, which can be rebuilt without them; when the forecast time has passed, the error is computed. [View] makes them
// available to PromQL.
//
// A run that was interrupted is repeated from the start: each forecast replaces the one of the same hour, so that nothing is
// lost or duplicated. Times are UTC, figures SI base units. A [Keeper] is safe for concurrent use; it reads no clock but its own.
package forecast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"reckon/analysis/forecast"
	"reckon/analysis/misuse"
	"reckon/store"
)

// Subjects of forecasts.
const (
	Site       = "site"
	Node       = "node"
	Owner      = "owner"
	Workload   = "workload"
	FileSystem = "filesystem"
	// done is the internal subject that marks a completed forecast run.
	done = "run"
)

const (
	// DailySteps and HourlySteps are the number of hours that the daily and the hourly forecast cover. Seven hours
	// always include the next six, until the next hourly forecast.
	DailySteps, HourlySteps = 48, 7
	// past is the number of days that a forecast is based on.
	past = 35
	// keepDaily and keepHourly are the retention of forecasts. Hourly ones are kept shorter because they are numerous.
	keepDaily, keepHourly = 30 * 24 * time.Hour, 48 * time.Hour
	// JudgedFor is the time range of the errors shown with a forecast.
	JudgedFor = 14 * 24 * time.Hour
	// Old is the age at which the newest daily forecast is overdue.
	Old = 26 * time.Hour
)

// Keeper computes and stores forecasts.
type Keeper struct {
	Rollups   Rollups
	Catalogue Catalogue
	Store     store.Forecasts
	Series    storage.Queryable
	Engine    promql.QueryEngine
	Hour      int            // of the daily run, 0 to 23, in Location
	Location  *time.Location // time zone of the days; nil is UTC
	Clock     func() time.Time

	// Output receives the forecasts of each daily run at least once; nil for none. After an error they are sent again.
	Output Output

	mu    sync.Mutex // one run at a time
	sent  time.Time  // time of the daily run that was written last
	odd   []misuse.Finding
	oddAt time.Time // end of the last search for anomalies

	past map[machineName]*recentHours // hours of services, by site, and id and owner

	limitsMu sync.Mutex
	known    *machineLimits
}

// PastHours is the maximum number of hours that a forecast is based on.
const PastHours = past * 24

// Output writes forecasts elsewhere; interop/influx implements it. It may receive the same forecast twice.
type Output interface {
	Write(ctx context.Context, list []store.Forecast) error
}

// Rollups reads the hourly roll-ups; implemented by store.Rollups.
type Rollups interface {
	Use(ctx context.Context, q store.RollupQuery) ([]store.Use, error)
	NodeUse(ctx context.Context, q store.RollupQuery) ([]store.NodeUse, error)
}

// Catalogue lists running services and returns up to when the hours are complete; implemented by store.Catalogue.
type Catalogue interface {
	Workloads(ctx context.Context, f store.Filter) ([]store.Workload, int, error)
	Watermark(ctx context.Context) (time.Time, error)
}

// Look computes the forecasts that are due, and returns their number.
func (k *Keeper) Look(ctx context.Context) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	end, err := k.completeUntil(ctx)
	if err != nil || end.IsZero() {
		return 0, err
	}
	n := 0
	steps, err := k.dueHours(ctx, end)
	if err == nil && steps > 0 {
		n, err = k.forecastAll(ctx, end, steps)
	}
	return n, errors.Join(err, k.sendDaily(ctx))
}

// sendDaily sends the forecasts of the newest daily run to the output, unless they were sent before.
func (k *Keeper) sendDaily(ctx context.Context) error {
	if k.Output == nil {
		return nil
	}
	runs, err := k.Store.Forecasts(ctx, store.ForecastFilter{Subject: done, Newest: true})
	if err != nil {
		return err
	}
	made := time.Time{}
	for _, r := range runs {
		if r.Name == "daily" {
			made = r.Made
		}
	}
	if !made.After(k.sent) {
		return nil
	}
	list, err := k.Store.Forecasts(ctx, store.ForecastFilter{Since: made, Until: made.Add(time.Millisecond)})
	if err != nil {
		return err
	}
	daily := make([]store.Forecast, 0, len(list))
	for i := range list {
		if f := &list[i]; f.Subject != done && len(f.Point) == DailySteps && f.Made.Equal(made) {
			daily = append(daily, *f)
		}
	}
	if err := k.Output.Write(ctx, daily); err != nil {
		return err
	}
	k.sent = made
	return nil
}

// completeUntil returns the hour up to which the roll-ups are complete; zero if there are none.
func (k *Keeper) completeUntil(ctx context.Context) (time.Time, error) {
	mark, err := k.Catalogue.Watermark(ctx)
	if err != nil || mark.IsZero() {
		return time.Time{}, err
	}
	if now := k.Clock(); mark.After(now) {
		mark = now
	}
	return mark.UTC().Truncate(time.Hour), nil
}

// dueHours returns the number of hours that a run at end must forecast; 0 if none is due.
func (k *Keeper) dueHours(ctx context.Context, end time.Time) (int, error) {
	runs, err := k.Store.Forecasts(ctx, store.ForecastFilter{Subject: done, Newest: true})
	if err != nil {
		return 0, err
	}
	last, based := map[string]time.Time{}, 0.0
	for _, r := range runs {
		if last[r.Name] = r.Made; r.Name == "daily" {
			based = r.High[0]
		}
	}
	switch {
	case last["daily"].Before(k.lastDaily(end)):
		return DailySteps, nil
	case !last["hourly"].Before(end) || !last["daily"].Before(end):
		return 0, nil
	}
	if now, err := k.upSeconds(ctx, last["daily"]); err != nil || now > repeatGrowth*based+24*hour {
		return DailySteps, err
	}
	return HourlySteps, nil
}

// repeatGrowth is the growth of the nodes' up-time above which a daily run is repeated. Such growth means that hours arrived
// late.
const repeatGrowth = 1.05

// upSeconds returns the seconds for which all nodes were up in the time that a forecast made at an hour is based on.
func (k *Keeper) upSeconds(ctx context.Context, end time.Time) (sum float64, err error) {
	rows, err := k.Rollups.NodeUse(ctx,
		store.RollupQuery{From: end.AddDate(0, 0, -past), To: end, Span: store.SpanWhole, By: []string{"site"}})
	for i := range rows {
		if v := rows[i].UpSeconds; v != nil {
			sum += *v
		}
	}
	return sum, err
}

// lastDaily returns the hour of the latest scheduled daily run.
func (k *Keeper) lastDaily(end time.Time) time.Time {
	where := k.Location
	if where == nil {
		where = time.UTC
	}
	t := end.In(where)
	at := time.Date(t.Year(), t.Month(), t.Day(), k.Hour, 0, 0, 0, where)
	if at.After(end) {
		at = time.Date(t.Year(), t.Month(), t.Day()-1, k.Hour, 0, 0, 0, where)
	}
	return at.UTC().Truncate(time.Hour)
}

// forecastAll forecasts every subject, evaluates past forecasts and deletes old ones.
func (k *Keeper) forecastAll(ctx context.Context, end time.Time, steps int) (int, error) {
	open, err := k.readOpen(ctx, end)
	if err != nil {
		return 0, err
	}
	up, err := k.upSeconds(ctx, end)
	if err != nil {
		return 0, err
	}
	n := 0
	var errs []error
	take := func(list []series) error {
		out := make([]store.Forecast, 0, len(list))
		for i := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			out = append(out, open.judgeSeries(&list[i], end)...)
			if f, ok := k.forecastSeries(&list[i], end, steps); ok {
				out = append(out, f)
				n++
			}
		}
		return k.Store.PutForecasts(ctx, out)
	}
	of := []func(context.Context, time.Time, func([]series) error) error{k.readSites, k.readNodes, k.readOwners}
	if steps == DailySteps {
		// Reading weeks of samples is expensive; reading the hours of the roll-ups is not.
		of = append(of, k.readServices, k.readFileSystems)
	}
	for _, read := range of {
		// An error of one store does not prevent the other forecasts.
		if err := read(ctx, end, take); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return n, fmt.Errorf("forecast of %s: %w", end.Format(time.RFC3339), err)
	}
	name := "hourly"
	if steps == DailySteps {
		name = "daily"
	}
	// The point of the mark is the number of forecasts. Its upper end is the time that the nodes were up before: see up.
	mark := store.Forecast{Subject: done, Name: name, Figure: "series", Made: end, Step: time.Hour, Point: []float64{float64(n)},
		Low: []float64{float64(n)}, High: []float64{up}, Judged: &store.Judged{}}
	if err := k.Store.PutForecasts(ctx, []store.Forecast{mark}); err != nil {
		return n, err
	}
	return n, k.Store.TrimForecasts(ctx, end.Add(-keepDaily), DailySteps, end.Add(-keepHourly))
}

// least is the minimum number of measured hours for a stored forecast, Least for one that is made on demand.
const (
	least = 48
	Least = 24
)

// forecastSeries extrapolates one series. ok is false if the series has too few hours.
func (k *Keeper) forecastSeries(s *series, end time.Time, steps int) (store.Forecast, bool) {
	if s.countMeasured() < least {
		return store.Forecast{}, false
	}
	return k.extrapolate(s, end, steps), true
}

func (k *Keeper) extrapolate(s *series, end time.Time, steps int) store.Forecast {
	r := forecast.Run(forecast.Input{
		Values: s.values, Start: end.Add(-time.Duration(len(s.values)) * time.Hour), Step: time.Hour, Location: k.Location, Horizon: steps,
		Capacity: s.capacity,
	})
	f := store.Forecast{
		Subject: s.subject, Site: s.site, Owner: s.owner, Name: s.name, Figure: s.figure, Made: end, Step: time.Hour,
		Point: r.Point, Mean: r.Mean, Low: r.Low, High: r.High, Models: r.Models, Flags: r.Flags.Names(),
	}
	if r.Origins > 0 {
		f.Backtest, f.Naive = &r.BacktestMAE, &r.NaiveMAE
	}
	return f
}

// Now forecasts the figures of one subject from the current data and does not store the result. owner applies to workloads. It omits
// figures with fewer than [Least] measured hours. measured is the largest number of measured hours of any figure.
func (k *Keeper) Now(ctx context.Context, subject, site, name, owner string, steps int) (out []store.Forecast, measured int, err error) {
	end, err := k.completeUntil(ctx)
	if err != nil || end.IsZero() {
		return nil, 0, err
	}
	one := func(s *series) {
		n := s.countMeasured()
		if measured = max(measured, n); n >= Least {
			out = append(out, k.extrapolate(s, end, steps))
		}
	}
	take := func(list []series) error {
		for i := range list {
			if s := &list[i]; s.name == name && (site == "" || s.site == site) {
				one(s)
			}
		}
		return ctx.Err()
	}
	switch subject {
	case Site:
		err = k.readSites(ctx, end, take)
	case Node:
		if err = k.readNamedNodes(ctx, end, []string{name}, take); err == nil {
			err = k.readNodeFileSystems(ctx, end, site, name, func(list []series) error {
				for i := range list {
					one(&list[i])
				}
				return nil
			})
		}
	case Owner:
		err = k.readNamedOwners(ctx, end, []string{name}, take)
	case Workload:
		err = k.readService(ctx, end, past*24, series{subject: Workload, site: site, name: name, owner: owner}, take)
	}
	return out, measured, err
}
