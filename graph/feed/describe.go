package feed

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"reckon/client"
	"reckon/graph/object"
	"reckon/store"
)

// Links say where the figures and logs of things are.
type Links struct {
	URL  string // of this server, which answers PromQL and has the pages
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

func (l Links) telemetry(selector, page string) *object.Telemetry {
	m := &object.Metrics{Source: object.Source{Type: "prometheus", URL: l.URL}}
	if l.URL != "" && page != "" {
		m.Dashboard = strings.TrimSuffix(l.URL, "/") + page
	}
	for _, f := range figures() {
		m.Series = append(m.Series, object.Series{Name: f.name, Title: f.title, Unit: f.unit, Type: f.kind, Query: fmt.Sprintf(f.query, selector)})
	}
	return &object.Telemetry{Metrics: m}
}

// label writes a condition on a label.
func label(name, value string) string { return name + "=" + strconv.Quote(value) }

// selectors joins conditions; those on what is empty are left out.
func selectors(pairs ...string) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, label(pairs[i], pairs[i+1]))
		}
	}
	return strings.Join(out, ",")
}

// Workload describes a run of a workload from its row in the catalogue. Its uid is the time of its start: a batch system counts anew.
func (l Links) Workload(w *store.Workload) object.Workload {
	rest := strings.TrimPrefix(w.ID, w.Kind+"/")
	namespace, name := "", rest
	if at := strings.LastIndex(rest, "/"); at >= 0 {
		namespace, name = rest[:at], rest[at+1:]
	}
	o := object.Workload{
		Kind: w.Kind, Namespace: namespace, Name: name, UID: strconv.FormatInt(w.Start.UnixMilli(), 10), ID: w.ID, Owner: w.Owner,
		State: w.State, Start: w.Start, End: w.End, RunsOn: w.Nodes,
	}
	if o.State == "" {
		o.State = "running"
		if !w.End.IsZero() {
			o.State = "ended"
		}
	}
	if w.Waits() {
		o.Start = w.Submit
	}
	o.Containers = []object.Requirements{{
		Requests: Amounts(w.RequestCores, w.RequestMemoryBytes, w.RequestGPUs),
		Limits:   Amounts(w.LimitCores, w.LimitMemoryBytes, nil),
	}}
	o.Telemetry = l.telemetry(selectors("workload", w.ID, "site", w.Site), "/workload?id="+url.QueryEscape(w.ID))
	o.Telemetry.Logs = l.logs(w, namespace, name)
	return o
}

// Amounts are those quantities that are known.
func Amounts(cores, memory, gpus *float64) object.Amounts {
	out := object.Amounts{}
	for r, v := range map[object.Resource]*float64{object.CPU: cores, object.Memory: memory, object.GPU: gpus} {
		if v != nil {
			out[r] = *v
		}
	}
	return out
}

// logs is nil where nobody collects any.
func (l Links) logs(w *store.Workload, namespace, name string) *object.Logs {
	if l.Loki == "" {
		if w.Kind == "unit" {
			return &object.Logs{Source: object.Source{Type: "journald"}, Query: "_SYSTEMD_UNIT=" + name}
		}
		return nil
	}
	query := "{" + selectors("workload", w.ID) + "}"
	switch {
	case w.Kind == "unit":
		query = "{" + selectors("unit", name) + "}"
	case w.Kind == "pod" && namespace != "":
		query = "{" + selectors("namespace", namespace, "pod", name) + "}"
	case namespace != "" && (w.Kind == "deployment" || w.Kind == "statefulset" || w.Kind == "daemonset" || w.Kind == "job" || w.Kind == "cronjob"):
		query = "{" + label("namespace", namespace) + `,pod=~` + strconv.Quote(name+"-.*") + "}"
	}
	return &object.Logs{Source: object.Source{Type: "loki", URL: l.Loki}, Query: query}
}

// Node describes a node as it is.
func (l Links) Node(n *client.Node) object.Node {
	o := object.Node{Name: n.Node, Status: "NotReady", Allocatable: Amounts(n.Cores, n.MemoryBytes, nil)}
	if n.Up {
		o.Status = "Ready"
	}
	if n.Boot != nil {
		o.Since = *n.Boot
	}
	o.Telemetry = l.telemetry(selectors("node", n.Node, "site", n.Site), "/node?name="+url.QueryEscape(n.Node))
	return o
}

// Site describes all nodes together.
func (l Links) Site(name string, nodes []string) object.Site {
	return object.Site{Name: name, URL: l.URL, Nodes: nodes, Telemetry: l.telemetry("", "/")}
}
