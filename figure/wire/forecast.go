package wire

import (
	"net/url"
	"strconv"
	"time"
)

// ForecastQuery selects the subject of a forecast: a workload, a node or an owner; the site if none is set.
type ForecastQuery struct {
	Workload, Node, Owner string
	Site                  string
	// Now computes the forecast from the current data instead of reading a stored one; so does Hours, the horizon (0 is 48).
	Now   bool
	Hours int
}

// Query encodes the query as parameters of GET /api/reckon/v1/forecast.
func (f ForecastQuery) Query() url.Values {
	q := url.Values{}
	for key, v := range map[string]string{"workload": f.Workload, "node": f.Node, "owner": f.Owner, "site": f.Site} {
		if v != "" {
			q.Set(key, v)
		}
	}
	if f.Now {
		q.Set("now", "true")
	}
	if f.Hours > 0 {
		q.Set("hours", strconv.Itoa(f.Hours))
	}
	return q
}

// ForecastStep is the forecast of the mean over one hour, and the band that should contain 95 %.
type ForecastStep struct {
	At     time.Time `json:"at"`     // Start of the step.
	Median float64   `json:"median"` // As likely exceeded as not.
	// Expected value, for sums over hours. Bursty use has a median near zero and a mean above it.
	// Null for forecasts of older versions.
	Mean *float64 `json:"mean"`
	Low  float64  `json:"low"`  // Lower end of the band that should hold 95 %.
	High float64  `json:"high"` // Upper end of the band.
}

// ForecastError is the error of past two-day forecasts, over those made in the last 14 days for times that have passed.
type ForecastError struct {
	Forecasts int     `json:"forecasts"` // Number of forecasts.
	Hours     int     `json:"hours"`     // Number of their hours that were measured.
	Mean      float64 `json:"mean"`      // Mean absolute error, in the unit of the figure.
	Coverage  float64 `json:"coverage"`  // Share of the hours that lay in the band.
	// Mean absolute error relative to the error of the value of the same hour a day before; null if there is none.
	OfNaive *float64 `json:"of_naive"`
}

// Forecast is the forecast of one figure.
type Forecast struct {
	Subject string `json:"subject"`        // site, node, owner, workload or filesystem.
	Site    string `json:"site,omitempty"` // Site of the subject.
	// Node, owner or workload; node and mount point of a file system, with a colon between them.
	Name string `json:"name,omitempty"`
	// cores, memory_bytes, watts, gpus, disk_bytes_per_second, network_bytes_per_second or free_bytes.
	Figure      string         `json:"figure"`
	Made        time.Time      `json:"made"`         // Start of the first forecast hour; no later data was used.
	Kept        bool           `json:"kept"`         // Whether it was stored when it was made; false for one made for this request.
	Old         bool           `json:"old"`          // Whether a newer one should have been made.
	StepSeconds float64        `json:"step_seconds"` // Length of a step, seconds.
	Steps       []ForecastStep `json:"steps"`        // Steps that have not ended.
	Methods     []string       `json:"methods"`      // Methods that the median is taken of, the best first.
	Flags       []string       `json:"flags"`        // Limitations of the history, such as short, gaps, stale or level-shift.
	// Mean absolute error on the last days before the forecast was made, in the unit of the figure;
	// null without enough history.
	Backtest *float64 `json:"backtest"`
	// The same for a forecast that repeats the day before; null without enough history.
	Naive *float64 `json:"naive"`
	// Errors of earlier forecasts; null until the first have passed.
	Error *ForecastError `json:"error"`
}

// NextFigure is the forecast of one figure of the next run. It has the median, the interval of nine in ten runs, and
// the median relative error of the same forecast for earlier runs. The error is null for fewer than four runs.
type NextFigure struct {
	// wall_seconds, cores_mean, memory_needed_peak_bytes, memory_peak_bytes (page cache included) or energy_joules.
	Figure string  `json:"figure"`
	Median float64 `json:"median"` // Median of the last five runs that ended well.
	Low    float64 `json:"low"`    // A twentieth of the last runs lay below.
	High   float64 `json:"high"`   // A twentieth of the last runs lay above.
	Runs   int     `json:"runs"`   // Number of runs that it is based on.
	// Median relative error of the same forecast on those runs; null for fewer than four.
	Error *float64 `json:"error"`
}

// ForecastList is the forecast: the response of GET /api/reckon/v1/forecast.
type ForecastList struct {
	// One per figure and file system; empty with too few measurements, and for batch work.
	Forecasts     []Forecast   `json:"forecasts"`
	Next          []NextFigure `json:"next"`                     // Next run of batch work, else empty.
	Missing       []string     `json:"missing,omitempty"`        // Unavailable parts of a partial answer.
	MeasuredHours int          `json:"measured_hours,omitempty"` // Number of measured hours of the subject, if there is no forecast.
	LeastHours    int          `json:"least_hours,omitempty"`    // Minimum number of hours for a forecast, if there is none.
}
