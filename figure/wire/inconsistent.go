package wire

import "time"

// InconsistentList is the figures withheld from answers: the response of GET /api/reckon/v1/inconsistent.
type InconsistentList struct {
	Figures []InconsistentFigure `json:"figures"` // By figure and rule.
}

// InconsistentFigure is a figure that exceeded its bound and was withheld from answers, with the
// number of cases and the latest example.
type InconsistentFigure struct {
	Figure string `json:"figure"` // Name of the figure in answers.
	// The violated rule: peak_within_limit, peak_within_machine, use_within_allocation,
	// cpu_within_wall, speedup_within_concurrency, share_within_whole or sum_within_whole.
	Rule string `json:"rule"`
	// Number of workloads, nodes or groups for which it was withheld since the server started.
	Count   int       `json:"count"`
	Subject string    `json:"subject"` // Subject of the latest example.
	Value   float64   `json:"value"`   // The figure of the example.
	Bound   float64   `json:"bound"`   // The bound.
	Of      string    `json:"of"`      // Description of the bound.
	Time    time.Time `json:"time"`    // Time when it was found.
}
