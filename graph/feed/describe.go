package feed

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"reckon/figure/wire"
	"reckon/graph/object"
	"reckon/graph/telemetry"
	"reckon/store"
	"reckon/workload"
)

// Links are the addresses of metrics and logs.
type Links telemetry.Links

// Workload describes a run of a workload from its catalogue row. Its uid is the start time, because
// batch systems reuse job ids.
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
	o.Telemetry = telemetry.Links(l).Of(telemetry.Selector("workload", w.ID, "site", w.Site), "/workload?id="+url.QueryEscape(w.ID))
	o.Telemetry.Logs = l.workloadLogs(w, namespace, name)
	return o
}

// Amounts returns the quantities that are not nil.
func Amounts(cores, memory, gpus *float64) object.Amounts {
	out := object.Amounts{}
	for r, v := range map[object.Resource]*float64{object.CPU: cores, object.Memory: memory, object.GPU: gpus} {
		if v != nil {
			out[r] = *v
		}
	}
	return out
}

// workloadLogs returns the logs of a workload; nil if no log store has any.
func (l Links) workloadLogs(w *store.Workload, namespace, name string) *object.Logs {
	kind := workload.Kind(w.Kind)
	if kind.Unit() && l.Loki == "" {
		return &object.Logs{Source: object.Source{Type: "journald"}, Query: "_SYSTEMD_UNIT=" + name}
	}
	selector := telemetry.Label("workload", w.ID)
	switch {
	case kind.Unit():
		selector = telemetry.Label("unit", name)
	case kind.BarePod() && namespace != "":
		selector = telemetry.Selector("namespace", namespace, "pod", name)
	case kind.Pod() && namespace != "":
		selector = telemetry.Label("namespace", namespace) + "," + telemetry.LabelBegins("pod", name+"-")
	}
	return telemetry.Links(l).Logs(selector)
}

// Node describes the present state of a node.
func (l Links) Node(n *wire.Node) object.Node {
	o := object.Node{Name: n.Node, Status: "NotReady", Allocatable: Amounts(n.Cores, n.MemoryBytes, nil)}
	if n.Up {
		o.Status = "Ready"
	}
	if n.Boot != nil {
		o.Since = *n.Boot
	}
	selector := telemetry.Selector("node", n.Node, "site", n.Site)
	o.Telemetry = telemetry.Forecast(telemetry.Links(l).Of(selector, "/node?name="+url.QueryEscape(n.Node)), "node", selector)
	return o
}

// Site describes all nodes together.
func (l Links) Site(name string, nodes []string) object.Site {
	return object.Site{Name: name, URL: cmp.Or(l.Pages, l.URL), Nodes: nodes,
		Telemetry: telemetry.Forecast(telemetry.Links(l).Of("", "/"), "site", "")}
}
