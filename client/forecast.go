package client

import (
	"context"
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

// ForecastStep is the forecast of one hour: its mean, and the band that should contain 95 %.
type ForecastStep struct {
	At   time.Time `json:"at"` // its start
	Mean float64   `json:"mean"`
	Low  float64   `json:"low"`
	High float64   `json:"high"`
}

// ForecastError is the error of past two-day forecasts, over those made in the last 14 days whose time has passed.
type ForecastError struct {
	Forecasts int     `json:"forecasts"`
	Hours     int     `json:"hours"`    // measured hours
	Mean      float64 `json:"mean"`     // mean absolute error, in the unit of the figure
	Coverage  float64 `json:"coverage"` // share of the hours within the band
	// OfNaive is the mean absolute error relative to that of the same hour one day before; null if there is none.
	OfNaive *float64 `json:"of_naive"`
}

// Forecast is the forecast of one figure.
type Forecast struct {
	Subject     string         `json:"subject"` // site, node, owner, workload or filesystem
	Site        string         `json:"site,omitempty"`
	Name        string         `json:"name,omitempty"`
	Figure      string         `json:"figure"` // cores, memory_bytes, watts, gpus, disk_bytes_per_second, network_bytes_per_second, free_bytes
	Made        time.Time      `json:"made"`
	Kept        bool           `json:"kept"` // false: computed for this query
	Old         bool           `json:"old"`  // a newer one is overdue
	StepSeconds float64        `json:"step_seconds"`
	Steps       []ForecastStep `json:"steps"`
	Methods     []string       `json:"methods"` // methods whose median it is, the best first
	Flags       []string       `json:"flags"`   // limitations of the history: short, gaps, stale, level-shift, ...
	// Backtest is the mean absolute error on the last days before it was made, Naive that of the same time one day before;
	// null without enough history.
	Backtest *float64       `json:"backtest"`
	Naive    *float64       `json:"naive"`
	Error    *ForecastError `json:"error"` // null until the first forecasts have passed
}

// NextFigure is the forecast of one figure of the next run: the median, the interval of nine in ten runs, and the median
// relative error of the same forecast for earlier runs; null for fewer than four runs.
type NextFigure struct {
	Figure string   `json:"figure"` // wall_seconds, cores_mean, memory_needed_peak_bytes, memory_peak_bytes, energy_joules
	Median float64  `json:"median"`
	Low    float64  `json:"low"`
	High   float64  `json:"high"`
	Runs   int      `json:"runs"`
	Error  *float64 `json:"error"`
}

// ForecastList is the response of GET /api/reckon/v1/forecast.
type ForecastList struct {
	Forecasts []Forecast   `json:"forecasts"`
	Next      []NextFigure `json:"next"` // for batch work: its next run
	Missing   []string     `json:"missing,omitempty"`
}

// Forecast returns forecasts of demand.
func (c *Client) Forecast(ctx context.Context, f ForecastQuery) (ForecastList, error) {
	var list ForecastList
	err := c.get(ctx, "/api/reckon/v1/forecast", f.Query(), &list)
	return list, err
}
