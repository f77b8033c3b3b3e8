// Package own writes objects in the vocabulary of reckon, which builds on SAREF (https://saref.etsi.org/core/), SOSA
// (https://www.w3.org/TR/vocab-ssn/) and QUDT (https://qudt.org). Series and logs are referenced, never copied: each
// comes with its query.
//
// Ids are stable and unambiguous: they include site, namespace, kind and UID. Functions are pure.
package own

import (
	"cmp"
	"strings"
	"time"

	"reckon/graph"
	"reckon/graph/object"
)

// DefaultBase is the default prefix of ids.
const DefaultBase = "urn:reckon:"

// Vocabulary writes objects of one site.
type Vocabulary struct {
	Base string // prefix of ids; empty is DefaultBase
	Site string // name of the site or cluster; empty is "default"
}

func (v Vocabulary) objectID(kind string, parts ...string) graph.Term {
	base := cmp.Or(v.Base, DefaultBase)
	site := cmp.Or(v.Site, "default")
	var b strings.Builder
	b.WriteString(base + kind + "/" + graph.EscapeIRI(site))
	for _, p := range parts {
		b.WriteString("/" + graph.EscapeIRI(p))
	}
	return graph.Node(b.String())
}

// NodeID returns the id of a node.
func (v Vocabulary) NodeID(name string) graph.Term { return v.objectID("node", name) }

// SiteID returns the id of the site.
func (v Vocabulary) SiteID() graph.Term { return v.objectID("site") }

// WorkloadID returns the id of a workload or pod.
func (v Vocabulary) WorkloadID(kind, namespace, name, uid string) graph.Term {
	parts := []string{strings.ToLower(kind)}
	if namespace != "" {
		parts = append(parts, namespace)
	}
	parts = append(parts, name)
	if uid != "" {
		parts = append(parts, uid)
	}
	return v.objectID("workload", parts...)
}

type writer struct{ quads []graph.Quad }

// addTimes adds the start and end of a subject, unless they are zero.
func (w *writer) addTimes(s graph.Term, start, end time.Time) {
	if !start.IsZero() {
		w.addStatement(s, "startTime", graph.DateTime(start))
	}
	if !end.IsZero() {
		w.addStatement(s, "endTime", graph.DateTime(end))
	}
}

func (w *writer) addStatement(s graph.Term, p string, o graph.Term) {
	if !strings.Contains(p, ":") {
		p = Namespace + p
	}
	w.quads = append(w.quads, graph.Quad{S: s, P: graph.Node(p), O: o})
}

func (w *writer) addText(s graph.Term, p, value string) {
	if value != "" {
		w.addStatement(s, p, graph.Text(value))
	}
}

func (w *writer) addTypes(s graph.Term, classes ...string) {
	for _, c := range classes {
		if !strings.Contains(c, ":") {
			c = Namespace + c
		}
		w.addStatement(s, graph.RDFType, graph.Node(c))
	}
}

func partNode(s graph.Term, name string) graph.Term { return graph.Node(s.Value + "#" + name) }

// Workload describes a workload.
func (v Vocabulary) Workload(workload object.Workload) []graph.Quad {
	w := &writer{}
	v.addWorkload(w, &workload)
	return graph.Sorted(w.quads)
}

// addWorkload describes a running workload, and returns its id.
func (v Vocabulary) addWorkload(w *writer, o *object.Workload) graph.Term {
	id := v.WorkloadID(o.Kind, o.Namespace, o.Name, o.UID)
	w.addTypes(id, "Workload", sosa+"FeatureOfInterest")
	w.addText(id, "name", o.Name)
	w.addText(id, "kind", o.Kind)
	w.addText(id, "namespace", o.Namespace)
	w.addText(id, "uid", o.UID)
	w.addText(id, "workload", o.ID)
	w.addText(id, "owner", o.Owner)
	w.addText(id, "state", o.State)
	w.addText(id, "scheduler", o.Scheduler)
	w.addTimes(id, o.Start, o.End)
	v.addOwners(w, id, o.Owners)
	for _, n := range o.RunsOn {
		w.addStatement(id, "runsOn", v.NodeID(n))
	}
	w.addAmounts(id, "request", o.Requests())
	w.addAmounts(id, "limit", o.Limits())
	v.addData(w, id, o.Reads)
	w.addTelemetry(id, o.Telemetry, "WorkloadTelemetry")
	return id
}

// Pod describes a pod and its containers.
func (v Vocabulary) Pod(pod object.Pod) []graph.Quad {
	w := &writer{}
	what := object.Workload{
		Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ID: pod.Workload, Owner: pod.Namespace, Owners: pod.Owners,
		Scheduler:  pod.Scheduler,
		Containers: pod.Requirements, State: pod.Phase, Start: pod.Start, End: pod.End, Reads: pod.Volumes, Telemetry: pod.Telemetry,
	}
	if pod.Node != "" {
		what.RunsOn = []string{pod.Node}
	}
	id := v.addWorkload(w, &what)
	w.addTypes(id, "Pod")
	for _, c := range pod.Containers {
		at := partNode(id, "container-"+graph.EscapeIRI(c.Name))
		w.addTypes(at, "Container")
		w.addText(at, "name", c.Name)
		w.addText(at, "uid", c.ID)
		w.addText(at, "state", c.State)
		w.addStatement(at, "partOf", id)
	}
	return graph.Sorted(w.quads)
}

// Node describes a node and links it to its site.
func (v Vocabulary) Node(node object.Node) []graph.Quad {
	w := &writer{}
	id := v.NodeID(node.Name)
	w.addTypes(id, "Node", sosa+"Platform", saref+"Device")
	w.addText(id, "name", node.Name)
	w.addText(id, "uid", node.UID)
	w.addText(id, "state", node.Status)
	if !node.Since.IsZero() {
		w.addStatement(id, "readySince", graph.DateTime(node.Since))
	}
	if node.EnergyIndex != nil {
		w.addStatement(id, "energyIndex", graph.Number(*node.EnergyIndex))
	}
	w.addStatement(id, "partOf", v.SiteID())
	w.addAmounts(id, "allocatable", node.Allocatable)
	w.addTelemetry(id, node.Telemetry, "Telemetry")
	return graph.Sorted(w.quads)
}

// Describe describes the site: its name, its address, the series of sums over its nodes.
func (v Vocabulary) Describe(site object.Site) []graph.Quad {
	w := &writer{}
	id := v.SiteID()
	w.addTypes(id, "Site", sosa+"Platform")
	w.addText(id, "name", site.Name)
	w.addText(id, "kind", "GNode")
	w.addText(id, "url", site.URL)
	for _, n := range site.Nodes {
		w.addStatement(id, "hasNode", v.NodeID(n))
	}
	w.addTelemetry(id, site.Telemetry, "Telemetry")
	return graph.Sorted(w.quads)
}

func (v Vocabulary) addOwners(w *writer, id graph.Term, owners []object.Ref) {
	for _, o := range owners {
		w.addStatement(id, "partOf", v.WorkloadID(o.Kind, o.Namespace, o.Name, o.UID))
	}
}

func (v Vocabulary) addData(w *writer, id graph.Term, list []object.Data) {
	for _, d := range list {
		at := v.objectID("data", d.Kind, d.Namespace, d.Name)
		w.addTypes(at, "Data")
		w.addText(at, "name", d.Name)
		w.addText(at, "namespace", d.Namespace)
		w.addText(at, "dataType", d.Kind)
		w.addStatement(id, "reads", at)
	}
}

// unitCodes returns the units of amounts: QUDT's name and the UCUM code. Annotated network and energy have no defined unit.
func unitCodes(r object.Resource) (name, code string) {
	switch r {
	case object.Memory, object.Storage:
		return "BYTE", "By"
	case object.CPU, object.GPU:
		return "NUM", "1"
	}
	return "", ""
}

func (w *writer) addAmounts(id graph.Term, property string, amounts object.Amounts) {
	for _, r := range object.Resources() {
		v, ok := amounts[r]
		if !ok {
			continue
		}
		at := partNode(id, property+"-"+string(r))
		w.addTypes(at, "Amount", qudt+"QuantityValue")
		w.addText(at, "resource", string(r))
		w.addStatement(at, qudt+"numericValue", graph.Number(v))
		if name, code := unitCodes(r); name != "" {
			w.addStatement(at, qudt+"unit", graph.Node(unit+name))
			w.addText(at, qudt+"ucumCode", code)
		}
		w.addStatement(id, property, at)
	}
}

func (w *writer) addTelemetry(id graph.Term, t *object.Telemetry, class string) {
	if t == nil || t.Metrics == nil && t.Logs == nil {
		return
	}
	at := partNode(id, "telemetry")
	w.addTypes(at, class)
	w.addStatement(id, "telemetry", at)
	if m := t.Metrics; m != nil {
		data := partNode(id, "metrics")
		w.addStatement(at, "hasMetrics", data)
		w.addTypes(data, "Data")
		w.addText(data, "dataType", "timeseries")
		w.addText(data, "dataType", m.Source.Type)
		w.addSource(data, m.Source, m.Dashboard)
		for _, s := range m.Series {
			one := partNode(id, "series-"+graph.EscapeIRI(s.Name))
			w.addStatement(data, "series", one)
			w.addTypes(one, "Series", sosa+"ObservableProperty", saref+"Property")
			w.addText(one, "metricName", s.Name)
			w.addText(one, graph.RDFS+"label", s.Title)
			w.addText(one, "metricType", s.Type)
			w.addText(one, qudt+"ucumCode", s.Unit)
			w.addText(one, "query", s.Query)
			w.addText(one, "forecastQuery", s.Forecast)
		}
	}
	if l := t.Logs; l != nil {
		data := partNode(id, "logs")
		w.addStatement(at, "hasLogs", data)
		w.addTypes(data, "Data")
		w.addText(data, "dataType", "logs")
		w.addText(data, "dataType", l.Source.Type)
		w.addText(data, "query", l.Query)
		w.addSource(data, l.Source, l.Dashboard)
	}
}

func (w *writer) addSource(data graph.Term, s object.Source, dashboard string) {
	at := partNode(graph.Node(strings.SplitN(data.Value, "#", 2)[0]), "source-"+graph.EscapeIRI(s.Type))
	w.addTypes(at, "DataSource")
	w.addText(at, "sourceType", s.Type)
	w.addText(at, "url", s.URL)
	w.addStatement(data, "source", at)
	if dashboard != "" {
		page := graph.Node(data.Value + "-dashboard")
		w.addTypes(page, "Dashboard")
		kind := "reckon"
		if strings.Contains(dashboard, "grafana") || strings.Contains(dashboard, "/d/") {
			kind = "grafana"
		}
		w.addText(page, "dashboardType", kind)
		w.addText(page, "url", dashboard)
		w.addStatement(data, "dashboard", page)
	}
}
