package wire

import (
	"net/url"
	"strconv"
	"time"
)

// DataQuery selects measured series, joined by time into one table.
type DataQuery struct {
	Select   []string // PromQL selectors; a series matched by several counts once
	By       []string // labels that distinguish rows; the others become part of column names
	From, To time.Time
	Step     time.Duration // zero: a step that gives a few hundred rows
	// MaxLag is the longest lag that [Client.Correlate] tries, in rows; nil means 60.
	MaxLag *int
}

// Query encodes the query as URL parameters.
func (d DataQuery) Query() url.Values {
	q := url.Values{"select": d.Select}
	if len(d.By) > 0 {
		q["by"] = d.By
	}
	for key, t := range map[string]time.Time{"from": d.From, "to": d.To} {
		if !t.IsZero() {
			q.Set(key, FormatTime(t))
		}
	}
	if d.Step > 0 {
		q.Set("step", d.Step.String())
	}
	if d.MaxLag != nil {
		q.Set("max_lag", strconv.Itoa(*d.MaxLag))
	}
	return q
}

// DataTable is series joined by time, a row for each step and set of labels: the response of GET /api/reckon/v1/data.
type DataTable struct {
	From        time.Time    `json:"from"`         // Start of the first step.
	To          time.Time    `json:"to"`           // End of the last step.
	StepSeconds float64      `json:"step_seconds"` // Time between rows, seconds.
	Times       []time.Time  `json:"times"`        // The end of the step of each row.
	Labels      []DataLabels `json:"labels"`       // Columns of words, as asked for by `by`.
	Columns     []DataColumn `json:"columns"`      // Columns of figures, by name.
	Warnings    []string     `json:"warnings"`     // Inputs that could not be used, with the reasons.
}

// DataLabels is a column of strings.
type DataLabels struct {
	Name   string   `json:"name"`   // Name of the label.
	Values []string `json:"values"` // One value per row.
}

// DataColumn is a column of figures; null is a gap.
type DataColumn struct {
	Name   string     `json:"name"`   // Name of the series with its distinguishing labels.
	Unit   string     `json:"unit"`   // Unit of the figures.
	Help   string     `json:"help"`   // Description of the measurement.
	Source string     `json:"source"` // Series that it was derived from.
	Rate   bool       `json:"rate"`   // Whether it is the rate of a counter, per second.
	Values []*float64 `json:"values"` // One value per row; null is a gap.
}

// Correlation is the correlation of series: the response of GET /api/reckon/v1/data/correlate.
type Correlation struct {
	From        time.Time         `json:"from"`         // Start of the first step.
	To          time.Time         `json:"to"`           // End of the last step.
	StepSeconds float64           `json:"step_seconds"` // Time between rows, seconds.
	Rows        int               `json:"rows"`         // Number of rows.
	Columns     []string          `json:"columns"`      // The columns that were compared.
	Pairs       []CorrelationPair `json:"pairs"`        // Every pair, the strongest first.
	Warnings    []string          `json:"warnings"`     // Inputs that could not be used, with the reasons.
}

// CorrelationPair is the correlation of two columns. Figures are null if there are too few common
// points or a column is constant.
type CorrelationPair struct {
	A         string   `json:"a"`         // First column.
	B         string   `json:"b"`         // The other.
	Points    int      `json:"points"`    // Rows in which both have a value.
	Effective *float64 `json:"effective"` // Effective number of independent points.
	Pearson   *float64 `json:"pearson"`   // Pearson's coefficient without a lag.
	Low       *float64 `json:"low"`       // Lower end of the 95 % band.
	High      *float64 `json:"high"`      // Upper end of the 95 % band.
	Spearman  *float64 `json:"spearman"`  // Spearman's coefficient.
	// Lag of b behind a at the strongest correlation, seconds; negative: a follows b.
	LagSeconds float64  `json:"lag_seconds"`
	LagPearson *float64 `json:"lag_pearson"` // Pearson's coefficient at that lag.
	LagPoints  int      `json:"lag_points"`  // Points at that lag.
}
