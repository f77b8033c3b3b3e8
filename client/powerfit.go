package client

import (
	"context"
	"net/url"
	"time"
)

// PowerFit is the answer of GET /api/reckon/v1/power/fit: a model fitted to the measured
// power of a node, and how far it can be trusted.
type PowerFit struct {
	Node        string    `json:"node"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	StepSeconds float64   `json:"step_seconds"`
	Family      string    `json:"family"`   // of the model that did best on what it had not seen
	Protocol    string    `json:"protocol"` // how that was judged
	// Score is the error of the model on data that it had not seen, Baseline that of the
	// mean power.
	Score    PowerScore `json:"score"`
	Baseline PowerScore `json:"baseline"`
	// BandLow and BandHigh times modelled power hold BandCoverage of what was measured.
	BandCoverage float64 `json:"band_coverage"`
	BandLow      float64 `json:"band_low"`
	BandHigh     float64 `json:"band_high"`
	// BaseWatts is drawn without any feature; it and the contributions add up to the mean
	// of modelled power.
	BaseWatts     float64             `json:"base_watts"`
	Contributions []PowerContribution `json:"contributions"`
	Points        []PowerPoint        `json:"points"`
	Candidates    []PowerCandidate    `json:"candidates"`
	Warnings      []string            `json:"warnings"`
}

// PowerScore is how far modelled power was from measured power; ratios are 0 to 1.
type PowerScore struct {
	MAPE  float64 `json:"mape"`
	RMSE  float64 `json:"rmse_watts"`
	R2    float64 `json:"r2"`
	Worst float64 `json:"worst_mape"` // of the worst stretch that was left out
}

// PowerContribution is what one feature adds on average.
type PowerContribution struct {
	Feature string  `json:"feature"`
	Watts   float64 `json:"watts"`
	Low     float64 `json:"low_watts"` // least and most over the time
	High    float64 `json:"high_watts"`
}

// PowerPoint is one step.
type PowerPoint struct {
	Time     time.Time `json:"time"`
	Measured float64   `json:"measured_watts"`
	Modelled float64   `json:"modelled_watts"`
}

// PowerCandidate is a family of models that was tried.
type PowerCandidate struct {
	Family  string   `json:"family"`
	MAPE    *float64 `json:"mape"`    // null when it was not tried
	Skipped string   `json:"skipped"` // why not
}

// PowerFitQuery asks for a fit. Zero fields: the only node with a meter, the last 6 hours.
type PowerFitQuery struct {
	Node     string
	From, To time.Time
}

// Query writes the question as parameters.
func (p PowerFitQuery) Query() url.Values {
	q := url.Values{}
	if p.Node != "" {
		q.Set("node", p.Node)
	}
	for key, t := range map[string]time.Time{"from": p.From, "to": p.To} {
		if !t.IsZero() {
			q.Set(key, formatTime(t))
		}
	}
	return q
}

// PowerFit asks how well a model explains the measured power of a node.
func (c *Client) PowerFit(ctx context.Context, p PowerFitQuery) (PowerFit, error) {
	var f PowerFit
	err := c.get(ctx, "/api/reckon/v1/power/fit", p.Query(), &f)
	return f, err
}
