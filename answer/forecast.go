package answer

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	analysis "reckon/analysis/forecast"
	"reckon/answer/forecast"
	"reckon/figure/wire"
	"reckon/store"
	"reckon/workload"
)

// Forecasts answers questions about future demand.
type Forecasts struct {
	Keeper    *forecast.Keeper
	Catalogue Catalogue
	Outage    *Outage // nil if the series are stored in this process
}

// maxForecastHours limits the horizon of a question: further ahead the forecast adds nothing to its band.
const maxForecastHours = 14 * 24

// Forecast returns the stored forecasts of the query's subject with their errors. If none are stored, it computes them.
// w is the workload in the query, or nil if the subject is not a workload.
func (f *Forecasts) Forecast(ctx context.Context, q wire.ForecastQuery, w *wire.Workload) (wire.ForecastList, error) {
	list := wire.ForecastList{Forecasts: []wire.Forecast{}, Next: []wire.NextFigure{}}
	if q.Hours > maxForecastHours {
		return list, Invalid("give at most 336", errors.New("cannot forecast more than 14 days"))
	}
	subject, name, owner := forecast.Site, "", ""
	switch {
	case w != nil && !workload.Kind(w.Kind).Service():
		var err error
		list.Next, err = f.forecastNextRun(ctx, w)
		return list, err
	case w != nil:
		subject, name, owner, q.Site = forecast.Workload, w.ID, w.Owner, w.Site
	case q.Node != "":
		subject, name = forecast.Node, q.Node
	case q.Owner != "":
		subject, name = forecast.Owner, q.Owner
	}
	err := f.readStored(ctx, &list, q, subject, name, owner)
	return list, f.Outage.addMissing(&list.Missing, "forecasts that are made of the series", err)
}

func (f *Forecasts) readStored(ctx context.Context, list *wire.ForecastList, q wire.ForecastQuery, subject, name, owner string) error {
	now := f.Keeper.Clock()
	if !q.Now && q.Hours == 0 {
		kept, err := f.Keeper.Kept(ctx, subject, q.Site, name)
		if err != nil {
			return err
		}
		if subject == forecast.Node {
			files, err := f.Keeper.FileSystems(ctx, q.Site, name)
			if err != nil {
				return err
			}
			kept = append(kept, files...)
		}
		for i := range kept {
			if one := keptToWire(&kept[i], now); len(one.Steps) > 0 {
				list.Forecasts = append(list.Forecasts, one)
			}
		}
		if len(list.Forecasts) > 0 {
			return nil
		}
	}
	steps := cmp.Or(q.Hours, forecast.DailySteps)
	made, measured, err := f.Keeper.Now(ctx, subject, q.Site, name, owner, steps)
	if err == nil && len(made) == 0 {
		list.MeasuredHours, list.LeastHours = measured, forecast.Least
	}
	for i := range made {
		list.Forecasts = append(list.Forecasts, forecastToAPI(&made[i], time.Time{}))
	}
	return err
}

// forecastToAPI leaves out steps that ended before now.
func forecastToAPI(f *store.Forecast, now time.Time) wire.Forecast {
	out := wire.Forecast{
		Subject: f.Subject, Site: f.Site, Name: f.Name, Figure: f.Figure, Made: f.Made, StepSeconds: f.Step.Seconds(),
		Steps:   []wire.ForecastStep{},
		Methods: f.Models, Flags: f.Flags, Backtest: finiteValue(f.Backtest), Naive: finiteValue(f.Naive),
	}
	for i, v := range f.Point {
		if at := f.Made.Add(time.Duration(i) * f.Step); at.Add(f.Step).After(now) {
			out.Steps = append(out.Steps, wire.ForecastStep{At: at, Median: v, Low: f.Low[i], High: f.High[i]})
			if f.Mean != nil {
				out.Steps[len(out.Steps)-1].Mean = &f.Mean[i]
			}
		}
	}
	if out.Methods == nil {
		out.Methods = []string{}
	}
	if out.Flags == nil {
		out.Flags = []string{}
	}
	return out
}

// finiteValue returns nil for values that JSON cannot represent.
func finiteValue(v *float64) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return nil
	}
	return v
}

func keptToWire(k *forecast.Kept, now time.Time) wire.Forecast {
	out := forecastToAPI(&k.Forecast, now)
	out.Kept, out.Old = true, now.Sub(k.Made) > forecast.Old
	if j := k.Judged; j.Steps > 0 {
		e := wire.ForecastError{Forecasts: k.Days, Hours: j.Steps, Mean: j.Error / float64(j.Steps),
			Coverage: float64(j.Inside) / float64(j.Steps)}
		if j.NaiveError > 0 {
			of := j.ErrorThere / j.NaiveError
			e.OfNaive = &of
		}
		out.Error = &e
	}
	return out
}

// maxNextRuns is the number of runs of a name used for the forecast of the next one.
const maxNextRuns = 40

// forecastNextRun forecasts the next run of a batch job from the runs of its name.
func (f *Forecasts) forecastNextRun(ctx context.Context, w *wire.Workload) ([]wire.NextFigure, error) {
	rows, err := sameName(ctx, f.Catalogue, w, maxNextRuns)
	if err != nil {
		return nil, err
	}
	out := []wire.NextFigure{}
	for _, of := range []struct {
		figure string
		value  func(*wire.Workload) *float64
	}{
		{"wall_seconds", func(w *wire.Workload) *float64 { return &w.WallSeconds }},
		{"cores_mean", func(w *wire.Workload) *float64 { return w.CoresMean }},
		{"memory_needed_peak_bytes", func(w *wire.Workload) *float64 { return w.MemoryNeededPeakBytes }},
		{"memory_peak_bytes", func(w *wire.Workload) *float64 { return w.MemoryPeakBytes }},
		{"energy_joules", func(w *wire.Workload) *float64 { return w.EnergyJoules }},
	} {
		var values []float64
		for i := range rows {
			// A killed or failed run does not show how much the work needs.
			if r := toAPI(&rows[i]); endedWell(&r) {
				if v := of.value(&r); v != nil {
					values = append(values, *v)
				}
			}
		}
		n, ok := analysis.NextRun(values)
		if !ok {
			continue
		}
		one := wire.NextFigure{Figure: of.figure, Median: n.Point, Low: n.Low, High: n.High, Runs: n.Runs, Error: finiteValue(&n.Error)}
		out = append(out, one)
	}
	return out, nil
}
