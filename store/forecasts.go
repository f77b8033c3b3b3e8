package store

import (
	"context"
	"time"
)

// Forecast is a forecast of one figure, made at one time. Unlike a row of the catalogue, it cannot be rebuilt from the
// series, because it depends on the data that was available at that time.
type Forecast struct {
	Subject string // site, node, owner, workload or filesystem
	Site    string
	Owner   string // owner of a workload; the subject itself if it is an owner
	Name    string // node, owner or workload; node and mount point of a file system; empty for a site
	Figure  string // cores, memory_bytes, ...

	Made time.Time // beginning of the first step
	Step time.Duration
	// Point, Low and High have the same length: the median forecast of each step, and its 95 % prediction interval. So
	// has Mean, the expected value, which is nil in forecasts of older versions. They are stored with seven digits.
	Point, Low, High []float64
	Mean             []float64
	Models, Flags    []string
	// Backtest is the mean absolute error on the subject's past, Naive the error of the seasonal
	// naive forecast there; nil if unknown.
	Backtest, Naive *float64

	Judged *Judged // nil until its last step has passed
}

// Judged compares a forecast with the measured values.
type Judged struct {
	Steps      int     // with a measured value
	Inside     int     // steps within the band
	Error      float64 // sum of absolute errors
	NaiveError float64 // sum of the absolute errors of the value one day before
	NaiveSteps int     // number of steps in NaiveError
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

// Forecasts stores forecasts. It is safe for concurrent use; dropping the catalogue keeps them.
type Forecasts interface {
	// PutForecasts writes forecasts. Each replaces the one with the same subject, site, name, figure and time.
	PutForecasts(ctx context.Context, list []Forecast) error
	// Forecasts returns the selected forecasts by subject, site, name, figure and the time they were made.
	Forecasts(ctx context.Context, f ForecastFilter) ([]Forecast, error)
	// TrimForecasts removes forecasts made before before, and those with fewer than short steps
	// made before shortBefore.
	TrimForecasts(ctx context.Context, before time.Time, short int, shortBefore time.Time) error
}
