package expose

import (
	"strings"
	"testing"
	"time"

	"reckon/metric"
)

// TestEndedSeriesAreNotShown: an end marker for the store is no sample for a scrape.
func TestEndedSeriesAreNotShown(t *testing.T) {
	d := &metric.Desc{Name: "x_info", Help: "X.", Kind: metric.Gauge, Labels: []string{"command"}}
	b := metric.Batch{Time: time.Unix(1, 0)}
	b.End(metric.NewSeries(d, "old"))
	b.Add(metric.NewSeries(d, "new"), 1)
	for _, f := range []Format{Text, OpenMetrics} {
		s := string(NewEncoder(Options{}).Append(nil, f, &b))
		if strings.Contains(s, "old") || !strings.Contains(s, `x_info{command="new"} 1`) {
			t.Errorf("shown:\n%s", s)
		}
	}
}
