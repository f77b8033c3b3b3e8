package client

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// ForecastQuery asks what will be needed: of a workload, a node or an owner, and without one of them of the site.
type ForecastQuery struct {
	Workload, Node, Owner string
	Site                  string
	// Now forecasts from what there is at this moment instead of reading what was kept; so do Hours, how far ahead (0 is 48).
	Now   bool
	Hours int
}

// Query writes the question as parameters of GET /api/reckon/v1/forecast.
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

// ForecastStep is what is expected of one hour: the mean over it, and the band that should hold 95 %.
type ForecastStep struct {
	At   time.Time `json:"at"` // its begin
	Mean float64   `json:"mean"`
	Low  float64   `json:"low"`
	High float64   `json:"high"`
}

// ForecastError is how forecasts of two days compare with what came, over those made in the last 14 days whose time has passed.
type ForecastError struct {
	Forecasts int     `json:"forecasts"`
	Hours     int     `json:"hours"`    // that were measured
	Mean      float64 `json:"mean"`     // mean absolute error, in the unit of the figure
	Coverage  float64 `json:"coverage"` // share of the hours that lay in the band
	// OfNaive is the mean absolute error over that of the same time one day before; null where that had none.
	OfNaive *float64 `json:"of_naive"`
}

// Forecast is what is expected of one figure.
type Forecast struct {
	Subject     string         `json:"subject"` // site, node, owner, workload or filesystem
	Site        string         `json:"site,omitempty"`
	Name        string         `json:"name,omitempty"`
	Figure      string         `json:"figure"` // cores, memory_bytes, watts, gpus, disk_bytes_per_second, network_bytes_per_second, free_bytes
	Made        time.Time      `json:"made"`
	Kept        bool           `json:"kept"` // false: made for this question
	Old         bool           `json:"old"`  // a newer one should have been made
	StepSeconds float64        `json:"step_seconds"`
	Steps       []ForecastStep `json:"steps"`
	Methods     []string       `json:"methods"` // whose median it is, the best first
	Flags       []string       `json:"flags"`   // what to know of the history: short, gaps, stale, level-shift, ...
	// Backtest is the mean absolute error on the last days before it was made, Naive that of the same time one day before;
	// null without enough history.
	Backtest *float64       `json:"backtest"`
	Naive    *float64       `json:"naive"`
	Error    *ForecastError `json:"error"` // null until the first ones have passed
}

// NextFigure is what the next run will take of one figure: the median, between which nine in ten runs lay, and the median
// relative error of the same forecast on the runs before; null for fewer than four runs.
type NextFigure struct {
	Figure string   `json:"figure"` // wall_seconds, cores_mean, memory_needed_peak_bytes, memory_peak_bytes, energy_joules
	Median float64  `json:"median"`
	Low    float64  `json:"low"`
	High   float64  `json:"high"`
	Runs   int      `json:"runs"`
	Error  *float64 `json:"error"`
}

// ForecastList is the answer of GET /api/reckon/v1/forecast.
type ForecastList struct {
	Forecasts []Forecast   `json:"forecasts"`
	Next      []NextFigure `json:"next"` // of batch work: its next run
	Missing   []string     `json:"missing,omitempty"`
}

// Forecast asks what will be needed.
func (c *Client) Forecast(ctx context.Context, f ForecastQuery) (ForecastList, error) {
	var list ForecastList
	err := c.get(ctx, "/api/reckon/v1/forecast", f.Query(), &list)
	return list, err
}
