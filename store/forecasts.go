package store

import (
	"context"
	"time"
)

// Forecast is what was expected, at one time, of one figure of a subject. Unlike the rows of the catalogue it can not be
// rebuilt from the series: it says what was known then.
type Forecast struct {
	Subject string // site, node, owner, workload or filesystem
	Site    string
	Owner   string // of a workload; the owner itself where that is the subject
	Name    string // node, owner or workload; node and mount point of a file system; empty for a site
	Figure  string // cores, memory_bytes, ...

	Made time.Time // the begin of the first step
	Step time.Duration
	// Point, Low and High are of the same length: the mean over each step, and the band that should hold 95 %. They
	// are kept with seven digits.
	Point, Low, High []float64
	Models, Flags    []string
	// Backtest is the mean absolute error on the subject's past, Naive that of the seasonal naive forecast there; nil
	// without any.
	Backtest, Naive *float64

	Judged *Judged // nil until its last step has passed
}

// Judged is how a forecast compares with what came.
type Judged struct {
	Steps      int     // that were measured
	Inside     int     // of them, within the band
	Error      float64 // sum of absolute errors
	NaiveError float64 // sum of those of the same time one day before
	NaiveSteps int     // of how many steps that is
	ErrorThere float64 // sum of absolute errors on those steps
}

// ForecastFilter selects forecasts. Zero fields select everything.
type ForecastFilter struct {
	Subject, Site, Name string
	Figures             []string
	Since, Until        time.Time // made at or after Since, before Until
	Unjudged            bool
	// Newest selects only the newest of each subject, site, name and figure.
	Newest bool
}

// Forecasts keeps what was expected. It is safe for concurrent use; dropping the catalogue leaves it.
type Forecasts interface {
	// PutForecasts writes forecasts whole, each replacing the one of its subject, site, name, figure and time.
	PutForecasts(ctx context.Context, list []Forecast) error
	// Forecasts returns what the filter selects, by subject, site, name, figure and the time it was made.
	Forecasts(ctx context.Context, f ForecastFilter) ([]Forecast, error)
	// TrimForecasts removes those made before a time; of those with fewer steps than short, before another.
	TrimForecasts(ctx context.Context, before time.Time, short int, shortBefore time.Time) error
}
