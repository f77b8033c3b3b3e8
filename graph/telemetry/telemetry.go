// Package telemetry says where the figures and the logs of workloads, nodes and sites are: series with the PromQL that gives them, a page,
// and the query of a store of logs. Functions are pure.
package telemetry

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"reckon/graph/object"
)

// Links are the places.
type Links struct {
	URL  string // of the server, which answers PromQL and has the pages; empty if unknown
	Loki string // of the store of logs; empty: there is none
}

// figure is a series that things have, and the query of it with a selector of labels.
type figure struct{ name, title, unit, kind, query string }

// figures are the same for a workload, a node and a site: with the label of one they are its own, without a label they are sums.
func figures() []figure {
	return []figure{
		{"reckon_workload_cpu_seconds_total", "Cores in use", "1", "counter", "sum(rate(reckon_workload_cpu_seconds_total{%s}[5m]))"},
		{"reckon_workload_memory_bytes", "Resident memory", "By", "gauge", "sum(reckon_workload_memory_bytes{%s})"},
		{"reckon_workload_io_bytes_total", "Storage traffic", "By/s", "counter", "sum(rate(reckon_workload_io_bytes_total{%s}[5m]))"},
		{"reckon_workload_network_bytes_total", "Network traffic", "By/s", "counter", "sum(rate(reckon_workload_network_bytes_total{%s}[5m]))"},
		{"reckon_workload_gpu_seconds_total", "GPUs in use", "1", "counter", "sum(rate(reckon_workload_gpu_seconds_total{%s}[5m]))"},
		{"reckon_workload_energy_joules_total", "Power", "W", "counter", "sum(rate(reckon_workload_energy_joules_total{%s}[5m]))"},
	}
}

// Of is the telemetry of what a selector of labels selects. page is its path on the server; empty for none.
func (l Links) Of(selector, page string) *object.Telemetry {
	m := &object.Metrics{Source: object.Source{Type: "prometheus", URL: l.URL}}
	if l.URL != "" && page != "" {
		m.Dashboard = strings.TrimSuffix(l.URL, "/") + page
	}
	for _, f := range figures() {
		m.Series = append(m.Series, object.Series{Name: f.name, Title: f.title, Unit: f.unit, Type: f.kind, Query: fmt.Sprintf(f.query, selector)})
	}
	return &object.Telemetry{Metrics: m}
}

// Forecast adds to telemetry the queries of what is expected in a day, of a subject of reckon_forecast: node, site or workload.
func Forecast(t *object.Telemetry, subject, selector string) *object.Telemetry {
	figures := map[string]string{
		"reckon_workload_cpu_seconds_total": "cores", "reckon_workload_memory_bytes": "memory_bytes", "reckon_workload_io_bytes_total": "disk_bytes_per_second",
		"reckon_workload_network_bytes_total": "network_bytes_per_second", "reckon_workload_gpu_seconds_total": "gpus", "reckon_workload_energy_joules_total": "watts",
	}
	if selector != "" {
		selector = "," + selector
	}
	for i := range t.Metrics.Series {
		s := &t.Metrics.Series[i]
		s.Forecast = fmt.Sprintf("reckon_forecast{subject=%q,figure=%q,quantile=\"0.5\",horizon=\"24h\"%s}", subject, figures[s.Name], selector)
	}
	return t
}

// Logs are those that a selector of Loki selects; nil where there is no Loki.
func (l Links) Logs(selector string) *object.Logs {
	if l.Loki == "" {
		return nil
	}
	return &object.Logs{Source: object.Source{Type: "loki", URL: l.Loki}, Query: "{" + selector + "}"}
}

// Label is the condition that a label has a value.
func Label(name, value string) string { return name + "=" + strconv.Quote(value) }

// LabelBegins is the condition that the value of a label begins so.
func LabelBegins(name, begin string) string {
	return name + "=~" + strconv.Quote(regexp.QuoteMeta(begin)+".*")
}

// Selector joins conditions on labels, name and value in turn; those on what is empty are left out.
func Selector(pairs ...string) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, Label(pairs[i], pairs[i+1]))
		}
	}
	return strings.Join(out, ",")
}
