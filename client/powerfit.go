package client

import (
	"context"
	"net/url"
	"time"
)

// PowerFit is the response of GET /api/reckon/v1/power/fit: a model fitted to the measured
// power of a node, and how far it can be trusted.
type PowerFit struct {
	Node        string    `json:"node"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	StepSeconds float64   `json:"step_seconds"`
	Family      string    `json:"family"`   // family with the smallest error on unseen data
	Protocol    string    `json:"protocol"` // validation protocol
	// Score is the error of the model on unseen data, Baseline that of the
	// mean power.
	Score    PowerScore `json:"score"`
	Baseline PowerScore `json:"baseline"`
	// The range from BandLow to BandHigh times the modelled power contains a share BandCoverage of the measurements.
	BandCoverage float64 `json:"band_coverage"`
	BandLow      float64 `json:"band_low"`
	BandHigh     float64 `json:"band_high"`
	// BaseWatts is drawn without any feature; together with the contributions it adds up to the mean
	// modelled power.
	BaseWatts     float64             `json:"base_watts"`
	Contributions []PowerContribution `json:"contributions"`
	Points        []PowerPoint        `json:"points"`
	Candidates    []PowerCandidate    `json:"candidates"`
	Warnings      []string            `json:"warnings"`
}

// PowerScore is the error of modelled against measured power; ratios are 0 to 1.
type PowerScore struct {
	MAPE  float64 `json:"mape"`
	RMSE  float64 `json:"rmse_watts"`
	R2    float64 `json:"r2"`
	Worst float64 `json:"worst_mape"` // of the worst fold
}

// PowerContribution is the mean contribution of one feature.
type PowerContribution struct {
	Feature string  `json:"feature"`
	Watts   float64 `json:"watts"`
	Low     float64 `json:"low_watts"` // minimum and maximum over time
	High    float64 `json:"high_watts"`
}

// PowerPoint is one step.
type PowerPoint struct {
	Time     time.Time `json:"time"`
	Measured float64   `json:"measured_watts"`
	Modelled float64   `json:"modelled_watts"`
}

// PowerCandidate is a candidate family of models.
type PowerCandidate struct {
	Family  string   `json:"family"`
	MAPE    *float64 `json:"mape"`    // null if it was not tried
	Skipped string   `json:"skipped"` // why not
}

// PowerFitQuery selects a fit. Zero fields: the only node with a meter, the last 6 hours.
type PowerFitQuery struct {
	Node     string
	From, To time.Time
}

// Query encodes the query as URL parameters.
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

// PowerFit returns how well a model explains the measured power of a node.
func (c *Client) PowerFit(ctx context.Context, p PowerFitQuery) (PowerFit, error) {
	var f PowerFit
	err := c.get(ctx, "/api/reckon/v1/power/fit", p.Query(), &f)
	return f, err
}
