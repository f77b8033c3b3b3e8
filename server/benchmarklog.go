package server

import (
	"strings"

	"reckon/interop/metricsetlog"
	"reckon/web/client"
)

// benchmarkLog parses the log of a metric that is a program of its own. A log of an unknown kind stays unchanged.
func benchmarkLog(text string) (figures []client.MetricRunReport, rest, note string) {
	l, err := metricsetlog.Read(strings.NewReader(text))
	if err != nil {
		return nil, text, ""
	}
	for _, f := range l.Figures {
		figures = append(figures, client.MetricRunReport{Name: f.Name, Unit: f.Unit, Values: f.Values, Times: f.Times})
	}
	if len(figures) == 0 {
		return nil, text, ""
	}
	return figures, l.Text, strings.Join(l.Notes, "; ")
}
