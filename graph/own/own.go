// Package own writes objects in the vocabulary of reckon, which builds on SAREF (https://saref.etsi.org/core/), SOSA
// (https://www.w3.org/TR/vocab-ssn/) and QUDT (https://qudt.org). Series and logs are referenced, never copied: each
// comes with its query.
//
// Ids are stable and unambiguous: they include site, namespace, kind and UID. Functions are pure.
package own

import (
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

func (v Vocabulary) id(kind string, parts ...string) graph.Term {
	base := v.Base
	if base == "" {
		base = DefaultBase
	}
	site := v.Site
	if site == "" {
		site = "default"
	}
	var b strings.Builder
	b.WriteString(base + kind + "/" + graph.EscapeIRI(site))
	for _, p := range parts {
		b.WriteString("/" + graph.EscapeIRI(p))
	}
	return graph.Node(b.String())
}

// NodeID returns the id of a node.
func (v Vocabulary) NodeID(name string) graph.Term { return v.id("node", name) }

// SiteID returns the id of the site.
func (v Vocabulary) SiteID() graph.Term { return v.id("site") }

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
	return v.id("workload", parts...)
}

type writer struct{ quads []graph.Quad }

// times adds the start and end of a subject, unless they are zero.
func (w *writer) times(s graph.Term, start, end time.Time) {
	if !start.IsZero() {
		w.add(s, "startTime", graph.DateTime(start))
	}
	if !end.IsZero() {
		w.add(s, "endTime", graph.DateTime(end))
	}
}

func (w *writer) add(s graph.Term, p string, o graph.Term) {
	if !strings.Contains(p, ":") {
		p = Namespace + p
	}
	w.quads = append(w.quads, graph.Quad{S: s, P: graph.Node(p), O: o})
}

func (w *writer) text(s graph.Term, p, value string) {
	if value != "" {
		w.add(s, p, graph.Text(value))
	}
}

func (w *writer) addTypes(s graph.Term, classes ...string) {
	for _, c := range classes {
		if !strings.Contains(c, ":") {
			c = Namespace + c
		}
		w.add(s, graph.RDFType, graph.Node(c))
	}
}

func partNode(s graph.Term, name string) graph.Term { return graph.Node(s.Value + "#" + name) }

// Workload describes a workload.
func (v Vocabulary) Workload(o object.Workload) []graph.Quad {
	w := &writer{}
	v.workload(w, &o)
	return graph.Sorted(w.quads)
}

// workload describes a running workload, and returns its id.
func (v Vocabulary) workload(w *writer, o *object.Workload) graph.Term {
	id := v.WorkloadID(o.Kind, o.Namespace, o.Name, o.UID)
	w.addTypes(id, "Workload", sosa+"FeatureOfInterest")
	w.text(id, "name", o.Name)
	w.text(id, "kind", o.Kind)
	w.text(id, "namespace", o.Namespace)
	w.text(id, "uid", o.UID)
	w.text(id, "workload", o.ID)
	w.text(id, "owner", o.Owner)
	w.text(id, "state", o.State)
	w.text(id, "scheduler", o.Scheduler)
	w.times(id, o.Start, o.End)
	v.owners(w, id, o.Owners)
	for _, n := range o.RunsOn {
		w.add(id, "runsOn", v.NodeID(n))
	}
	w.amounts(id, "request", o.Requests())
	w.amounts(id, "limit", o.Limits())
	v.data(w, id, o.Reads)
	w.telemetry(id, o.Telemetry, "WorkloadTelemetry")
	return id
}

// Pod describes a pod and its containers.
func (v Vocabulary) Pod(o object.Pod) []graph.Quad {
	w := &writer{}
	what := object.Workload{
		Kind: "Pod", Namespace: o.Namespace, Name: o.Name, UID: o.UID, ID: o.Workload, Owner: o.Namespace, Owners: o.Owners,
		Scheduler:  o.Scheduler,
		Containers: o.Requirements, State: o.Phase, Start: o.Start, End: o.End, Reads: o.Volumes, Telemetry: o.Telemetry,
	}
	if o.Node != "" {
		what.RunsOn = []string{o.Node}
	}
	id := v.workload(w, &what)
	w.addTypes(id, "Pod")
	for _, c := range o.Containers {
		at := partNode(id, "container-"+graph.EscapeIRI(c.Name))
		w.addTypes(at, "Container")
		w.text(at, "name", c.Name)
		w.text(at, "uid", c.ID)
		w.text(at, "state", c.State)
		w.add(at, "partOf", id)
	}
	return graph.Sorted(w.quads)
}

// Node describes a node and links it to its site.
func (v Vocabulary) Node(o object.Node) []graph.Quad {
	w := &writer{}
	id := v.NodeID(o.Name)
	w.addTypes(id, "Node", sosa+"Platform", saref+"Device")
	w.text(id, "name", o.Name)
	w.text(id, "uid", o.UID)
	w.text(id, "state", o.Status)
	if !o.Since.IsZero() {
		w.add(id, "readySince", graph.DateTime(o.Since))
	}
	if o.EnergyIndex != nil {
		w.add(id, "energyIndex", graph.Number(*o.EnergyIndex))
	}
	w.add(id, "partOf", v.SiteID())
	w.amounts(id, "allocatable", o.Allocatable)
	w.telemetry(id, o.Telemetry, "Telemetry")
	return graph.Sorted(w.quads)
}

// Describe describes the site: its name, its address, the series of sums over its nodes.
func (v Vocabulary) Describe(o object.Site) []graph.Quad {
	w := &writer{}
	id := v.SiteID()
	w.addTypes(id, "Site", sosa+"Platform")
	w.text(id, "name", o.Name)
	w.text(id, "kind", "GNode")
	w.text(id, "url", o.URL)
	for _, n := range o.Nodes {
		w.add(id, "hasNode", v.NodeID(n))
	}
	w.telemetry(id, o.Telemetry, "Telemetry")
	return graph.Sorted(w.quads)
}

func (v Vocabulary) owners(w *writer, id graph.Term, owners []object.Ref) {
	for _, o := range owners {
		w.add(id, "partOf", v.WorkloadID(o.Kind, o.Namespace, o.Name, o.UID))
	}
}

func (v Vocabulary) data(w *writer, id graph.Term, list []object.Data) {
	for _, d := range list {
		at := v.id("data", d.Kind, d.Namespace, d.Name)
		w.addTypes(at, "Data")
		w.text(at, "name", d.Name)
		w.text(at, "namespace", d.Namespace)
		w.text(at, "dataType", d.Kind)
		w.add(id, "reads", at)
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

func (w *writer) amounts(id graph.Term, property string, amounts object.Amounts) {
	for _, r := range object.Resources() {
		v, ok := amounts[r]
		if !ok {
			continue
		}
		at := partNode(id, property+"-"+string(r))
		w.addTypes(at, "Amount", qudt+"QuantityValue")
		w.text(at, "resource", string(r))
		w.add(at, qudt+"numericValue", graph.Number(v))
		if name, code := unitCodes(r); name != "" {
			w.add(at, qudt+"unit", graph.Node(unit+name))
			w.text(at, qudt+"ucumCode", code)
		}
		w.add(id, property, at)
	}
}

func (w *writer) telemetry(id graph.Term, t *object.Telemetry, class string) {
	if t == nil || t.Metrics == nil && t.Logs == nil {
		return
	}
	at := partNode(id, "telemetry")
	w.addTypes(at, class)
	w.add(id, "telemetry", at)
	if m := t.Metrics; m != nil {
		data := partNode(id, "metrics")
		w.add(at, "hasMetrics", data)
		w.addTypes(data, "Data")
		w.text(data, "dataType", "timeseries")
		w.text(data, "dataType", m.Source.Type)
		w.source(data, m.Source, m.Dashboard)
		for _, s := range m.Series {
			one := partNode(id, "series-"+graph.EscapeIRI(s.Name))
			w.add(data, "series", one)
			w.addTypes(one, "Series", sosa+"ObservableProperty", saref+"Property")
			w.text(one, "metricName", s.Name)
			w.text(one, graph.RDFS+"label", s.Title)
			w.text(one, "metricType", s.Type)
			w.text(one, qudt+"ucumCode", s.Unit)
			w.text(one, "query", s.Query)
			w.text(one, "forecastQuery", s.Forecast)
		}
	}
	if l := t.Logs; l != nil {
		data := partNode(id, "logs")
		w.add(at, "hasLogs", data)
		w.addTypes(data, "Data")
		w.text(data, "dataType", "logs")
		w.text(data, "dataType", l.Source.Type)
		w.text(data, "query", l.Query)
		w.source(data, l.Source, l.Dashboard)
	}
}

func (w *writer) source(data graph.Term, s object.Source, dashboard string) {
	at := partNode(graph.Node(strings.SplitN(data.Value, "#", 2)[0]), "source-"+graph.EscapeIRI(s.Type))
	w.addTypes(at, "DataSource")
	w.text(at, "sourceType", s.Type)
	w.text(at, "url", s.URL)
	w.add(data, "source", at)
	if dashboard != "" {
		page := graph.Node(data.Value + "-dashboard")
		w.addTypes(page, "Dashboard")
		kind := "reckon"
		if strings.Contains(dashboard, "grafana") || strings.Contains(dashboard, "/d/") {
			kind = "grafana"
		}
		w.text(page, "dashboardType", kind)
		w.text(page, "url", dashboard)
		w.add(data, "dashboard", page)
	}
}
