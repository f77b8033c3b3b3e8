package wire

import (
	"net/url"
	"time"
)

// PowerFit is the response of GET /api/reckon/v1/power/fit: a model fitted to the measured power of
// a node, with its reliability.
type PowerFit struct {
	Node         string     `json:"node"`          // The node.
	From         time.Time  `json:"from"`          // Start.
	To           time.Time  `json:"to"`            // End.
	StepSeconds  float64    `json:"step_seconds"`  // Time between points, seconds.
	Family       string     `json:"family"`        // Family of the model with the lowest error on held-out data.
	Protocol     string     `json:"protocol"`      // Validation protocol.
	Score        PowerScore `json:"score"`         // Error of the model on unseen data.
	Baseline     PowerScore `json:"baseline"`      // Error of the mean power on the same data.
	BandCoverage float64    `json:"band_coverage"` // Share of measurements inside the band.
	BandLow      float64    `json:"band_low"`      // Lower end of the band, over modelled power.
	BandHigh     float64    `json:"band_high"`     // Upper end of the band, over modelled power.
	BaseWatts    float64    `json:"base_watts"`    // Base power (intercept), watts.
	// Mean contribution of each feature; with the base they sum to the mean modelled power.
	Contributions []PowerContribution `json:"contributions"`
	Points        []PowerPoint        `json:"points"`     // Measured and modelled power of each step.
	Candidates    []PowerCandidate    `json:"candidates"` // The families that were tried.
	Warnings      []string            `json:"warnings"`   // Dropped features and other caveats.
}

// PowerScore is the error of modelled against measured power; ratios are 0 to 1.
type PowerScore struct {
	MAPE  float64 `json:"mape"`       // Mean of the absolute error over measured power, 0 to 1.
	RMSE  float64 `json:"rmse_watts"` // Root of the mean square error, watts.
	R2    float64 `json:"r2"`         // Share of the variance that is explained.
	Worst float64 `json:"worst_mape"` // Mean error of the worst stretch left out.
}

// PowerContribution is the mean contribution of one feature.
type PowerContribution struct {
	Feature string  `json:"feature"`    // The feature.
	Watts   float64 `json:"watts"`      // On average, watts.
	Low     float64 `json:"low_watts"`  // Least over the time, watts.
	High    float64 `json:"high_watts"` // Most over the time, watts.
}

// PowerPoint is one step.
type PowerPoint struct {
	Time     time.Time `json:"time"`           // End of the step.
	Measured float64   `json:"measured_watts"` // Measured, watts.
	Modelled float64   `json:"modelled_watts"` // Predicted, watts.
}

// PowerCandidate is a candidate family of models.
type PowerCandidate struct {
	Family  string   `json:"family"`  // Name of the family.
	MAPE    *float64 `json:"mape"`    // Mean error; null if it was not tried.
	Skipped string   `json:"skipped"` // Reason why it was not tried.
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
			q.Set(key, FormatTime(t))
		}
	}
	return q
}
