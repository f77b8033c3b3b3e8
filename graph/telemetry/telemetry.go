// Package telemetry builds the references to metrics and logs of workloads, nodes and sites: series with their PromQL,
// a page, and the query of a log store. Functions are pure.
package telemetry

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"reckon/graph/object"
)

// Links are the addresses of the servers.
type Links struct {
	URL string // of the server with PromQL, for programs; empty if unknown
	// Pages is the public address of the server if it differs, such as behind a proxy or an Ingress.
	Pages string
	Loki  string // of the log store; empty: there is none
	// LogSelector is the template of LogQL for it, with {{.Namespace}} and {{.Pods}}; empty for the labels namespace and pod.
	LogSelector string
}

// label matches the label that a template compares with a value.
var label = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)\s*=~?\s*"\{\{\s*\.(Namespace|Pods)\s*\}\}"`)

// figure is a series with its query for a label selector.
type figure struct{ name, title, unit, kind, query string }

// telemetryFigures returns the figures of a workload, a node or a site. With a label they belong to that
// object, without one they are sums.
func telemetryFigures() []figure {
	return []figure{
		{"reckon_workload_cpu_seconds_total", "Cores in use", "1", "counter", "sum(rate(reckon_workload_cpu_seconds_total{%s}[5m]))"},
		{"reckon_workload_memory_bytes", "Resident memory", "By", "gauge", "sum(reckon_workload_memory_bytes{%s})"},
		{"reckon_workload_io_bytes_total", "Storage traffic", "By/s", "counter", "sum(rate(reckon_workload_io_bytes_total{%s}[5m]))"},
		{"reckon_container_storage_bytes", "Disk space", "By", "gauge", "sum(reckon_container_storage_bytes{%s})"},
		{"reckon_workload_network_bytes_total", "Network traffic", "By/s", "counter",
			"sum(rate(reckon_workload_network_bytes_total{%s}[5m]))"},
		{"reckon_workload_gpu_seconds_total", "GPUs in use", "1", "counter", "sum(rate(reckon_workload_gpu_seconds_total{%s}[5m]))"},
		{"reckon_workload_energy_joules_total", "Power", "W", "counter", "sum(rate(reckon_workload_energy_joules_total{%s}[5m]))"},
	}
}

// Of returns the telemetry of the objects that a label selector matches. page is the path of the objects' page on the
// server, or empty if they have none.
func (l Links) Of(selector, page string) *object.Telemetry {
	m := &object.Metrics{Source: object.Source{Type: "prometheus", URL: l.URL}}
	if people := cmp.Or(l.Pages, l.URL); people != "" && page != "" {
		m.Dashboard = strings.TrimSuffix(people, "/") + page
	}
	for _, f := range telemetryFigures() {
		m.Series = append(m.Series, object.Series{Name: f.name, Title: f.title, Unit: f.unit, Type: f.kind,
			Query: fmt.Sprintf(f.query, selector)})
	}
	return &object.Telemetry{Metrics: m}
}

// Forecast adds to t the queries for the forecast of the next day. subject is the value of the label subject of
// reckon_forecast: node, site or workload.
func Forecast(t *object.Telemetry, subject, selector string) *object.Telemetry {
	figures := map[string]string{
		"reckon_workload_cpu_seconds_total": "cores", "reckon_workload_memory_bytes": "memory_bytes",
		"reckon_workload_io_bytes_total":      "disk_bytes_per_second",
		"reckon_workload_network_bytes_total": "network_bytes_per_second", "reckon_workload_gpu_seconds_total": "gpus",
		"reckon_workload_energy_joules_total": "watts",
	}
	if selector != "" {
		selector = "," + selector
	}
	for i := range t.Metrics.Series {
		s := &t.Metrics.Series[i]
		if figures[s.Name] == "" {
			continue
		}
		s.Forecast = fmt.Sprintf("reckon_forecast{subject=%q,figure=%q,quantile=\"0.5\",horizon=\"24h\"%s}", subject, figures[s.Name],
			selector)
	}
	return t
}

// Logs returns the logs that a Loki selector matches; nil if there is no Loki.
func (l Links) Logs(selector string) *object.Logs {
	if l.Loki == "" {
		return nil
	}
	for _, m := range label.FindAllStringSubmatch(l.LogSelector, -1) {
		if m[2] == "Namespace" {
			selector = strings.Replace(selector, "namespace=", m[1]+"=", 1)
		} else {
			selector = strings.Replace(selector, ",pod=", ","+m[1]+"=", 1)
		}
	}
	return &object.Logs{Source: object.Source{Type: "loki", URL: l.Loki}, Query: "{" + selector + "}"}
}

// Label returns the condition that a label has a value.
func Label(name, value string) string { return name + "=" + strconv.Quote(value) }

// LabelBegins returns the condition that the value of a label has a prefix.
func LabelBegins(name, begin string) string {
	return name + "=~" + strconv.Quote(regexp.QuoteMeta(begin)+".*")
}

// Selector joins label conditions, given as alternating names and values. It omits those with an empty value.
func Selector(pairs ...string) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, Label(pairs[i], pairs[i+1]))
		}
	}
	return strings.Join(out, ",")
}
