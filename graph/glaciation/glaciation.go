// Package glaciation writes objects in the vocabulary of the GLACIATION project as its published exporter does
// (https://github.com/glaciation-heu/kg_exporter, MIT licence), so that queries written for it return the same results.
//
// That includes its oddities. The prefix glc of its context does not end in a delimiter, so a JSON-LD 1.1 processor
// does not expand glc:hasStatus, which is therefore stored and queried as the IRI. A workload is named without its
// namespace, so two workloads with the same name are one. Fractions of a core are cut off in the capacity of a node.
// Times are plain text.
package glaciation

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"reckon/graph"
	"reckon/graph/object"
)

// DefaultCluster is the namespace of a cluster with an unknown API server address.
const DefaultCluster = "https://kubernetes.local/#"

// K8s is the namespace of names of pods and containers.
const K8s = "http://glaciation-project.eu/model/k8s/#"

// Vocabulary writes objects of one cluster.
type Vocabulary struct {
	Cluster string // namespace of its ids
	K8s     string
}

// New returns the vocabulary of the cluster with this API server; an address with a scheme is used unchanged.
func New(server string) Vocabulary {
	switch {
	case server == "":
		server = DefaultCluster
	case !strings.Contains(server, "://"):
		server = "https://" + server + "/#"
	}
	return Vocabulary{Cluster: server, K8s: K8s}
}

// Context returns the JSON-LD context of the exporter.
func (v Vocabulary) Context() map[string]any {
	return map[string]any{
		"k8s": v.K8s, "glc": "https://glaciation-heu.github.io/models/reference_model.turtle",
		"cluster": v.Cluster, "rdf": graph.RDF,
	}
}

func glcNode(name string) graph.Term { return graph.Node("glc:" + name) }

// Document collects statements about several objects; each object is described once.
type Document struct {
	v     Vocabulary
	types map[graph.Term]graph.Term
	there map[graph.Term]bool // subjects
	seen  map[graph.Quad]bool
	quads []graph.Quad
}

// Document starts a document.
func (v Vocabulary) Document() *Document {
	return &Document{v: v, types: map[graph.Term]graph.Term{}, there: map[graph.Term]bool{}, seen: map[graph.Quad]bool{}}
}

// Quads returns the collected statements.
func (d *Document) Quads() []graph.Quad {
	out := make([]graph.Quad, 0, len(d.quads)+len(d.types))
	out = append(out, d.quads...)
	for s, t := range d.types {
		out = append(out, graph.Quad{S: s, P: graph.Node(graph.RDFType), O: t})
	}
	return graph.Sorted(out)
}

func (d *Document) objectID(name string) graph.Term {
	return graph.Node(d.v.Cluster + escapeName(name))
}

// escapeName keeps an IRI an IRI. Names of Kubernetes need none.
func escapeName(name string) string {
	if graph.CheckIRI("x:"+name) == nil {
		return name
	}
	return graph.EscapeIRI(name)
}

func childNode(t graph.Term, parts ...string) graph.Term {
	return graph.Node(t.Value + "." + strings.Join(parts, "."))
}

func (d *Document) addStatement(s graph.Term, predicate string, o graph.Term) {
	d.addIRI(s, glcNode(predicate), o)
}

func (d *Document) addIRI(s, p, o graph.Term) {
	q := graph.Quad{S: s, P: p, O: o}
	if !d.seen[q] {
		d.seen[q] = true
		d.quads = append(d.quads, q)
	}
	d.there[s] = true
}

// describe adds the class and description of an object, unless it has statements already.
func (d *Document) describe(s graph.Term, class, description string) {
	if d.there[s] {
		return
	}
	d.types[s] = glcNode(class)
	d.addStatement(s, "hasID", s)
	if description != "" {
		d.addStatement(s, "hasDescription", graph.Text(description))
	}
}

// The classes.
const (
	resourceClass = "WorkProducingResource"
	taskClass     = "AssignedTask"
)

// Cluster describes a cluster and names its nodes. An unknown name is "Unknown".
func (d *Document) Cluster(name string, nodes []string) {
	name = cmp.Or(name, "Unknown")
	id := d.objectID(name)
	d.describe(id, resourceClass, "KubernetesCluster")
	for _, n := range nodes {
		node := d.objectID(n)
		d.describe(node, resourceClass, "KubernetesWorkerNode")
		d.addStatement(id, "hasSubResource", node)
	}
}

// Node describes a node at a time, Unix milliseconds.
func (d *Document) Node(node object.Node, now int64) {
	id := d.objectID(node.Name)
	d.describe(id, resourceClass, "KubernetesWorkerNode")
	for _, part := range []struct {
		name, description, unit, source string
		resource                        object.Resource
	}{
		{"CPU", "CPU", "Core", "ResourceSpecification", object.CPU},
		{"RAM", "RAM", "Bytes", "ResourceSpecification", object.Memory},
		{"Storage", "EphemeralStorage", "Bytes", "ResourceSpecification", object.Storage},
		{"Network", "Network", "", "", ""},
		{"GPU", "GPU", "Core", "NVidiaPlugin", object.GPU},
	} {
		p := childNode(id, part.name)
		d.describe(p, resourceClass, part.description)
		d.addStatement(id, "hasSubResource", p)
		if v := math.Trunc(node.Allocatable[part.resource]); v != 0 {
			m := d.addCapacity(p, part.name+".Capacity", part.name+".Capacity", "Capacity", v, part.unit, part.source, now)
			d.addStatement(p, "hasMeasurement", m)
		}
	}
	if node.EnergyIndex != nil && math.Trunc(*node.EnergyIndex) != 0 {
		m := d.addCapacity(id, "Energy.Index", "Energy.Index", "Energy.Index", math.Trunc(*node.EnergyIndex), "Milliwatt",
			"ResourceSpecification", now)
		d.addStatement(id, "hasMeasurement", m)
	}
	since := cmp.Or(formatTime(node.Since), "0")
	d.addStatus(id, node.Status, since, "")
}

func (d *Document) addCapacity(parent graph.Term, description, property, suffix string, v float64, unit, source string,
	now int64) graph.Term {
	id := childNode(parent, suffix, strconv.FormatInt(now, 10))
	d.addObservation(id, description, v, now, nil, unit, property, source)
	return id
}

func (d *Document) addStatus(id graph.Term, status, start, end string) {
	s := childNode(id, "Status")
	d.describe(s, "Status", status)
	if start != "" {
		d.addStatement(s, "startTime", graph.Text(start))
	}
	if end != "" {
		d.addStatement(s, "endTime", graph.Text(end))
	}
	d.addStatement(id, "hasStatus", s)
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// addOwners adds the owner references of an object.
func (d *Document) addOwners(id graph.Term, kind string, owners []object.Ref) {
	for _, o := range owners {
		owner := d.objectID(o.Name)
		class, relation := taskClass, "makes"
		switch {
		case o.Kind == "Pod" || o.Kind == "Container":
			class = resourceClass
			if o.Kind == "Pod" && kind == "Container" {
				relation = "hasSubResource"
			}
		case o.Kind == "Deployment" && kind == "ReplicaSet":
			relation = "hasSubTask"
		}
		d.addStatement(owner, relation, id)
		d.types[owner] = glcNode(class)
		d.addStatement(owner, "hasID", owner)
		d.addStatement(owner, "hasDescription", graph.Text(o.Kind))
	}
}

// Pod describes a pod and its containers.
func (d *Document) Pod(pod object.Pod) {
	id := d.objectID(pod.Namespace + "." + pod.Name)
	d.describe(id, resourceClass, "Pod")
	d.addOwners(id, "Pod", pod.Owners)
	d.addIRI(id, graph.Node(d.v.K8s+"hasName"), graph.Text(pod.Name))
	d.addScheduler(pod.Scheduler, "manages", id)
	if pod.Node != "" {
		node := d.objectID(pod.Node)
		d.describe(node, resourceClass, "KubernetesWorkerNode")
		d.addStatement(id, "consumes", node)
	}
	if pod.Phase != "" {
		d.addStatus(id, pod.Phase, formatTime(pod.Start), formatTime(pod.End))
	}
	for _, c := range pod.Containers {
		name, cid := orUndefined(c.Name), orUndefined(c.ID)
		at := childNode(id, escapeName(name))
		d.describe(at, resourceClass, "Container")
		d.addScheduler(pod.Scheduler, "manages", at)
		d.addIRI(at, graph.Node(d.v.K8s+"hasContainerID"), graph.Text(cid))
		d.addIRI(at, graph.Node(d.v.K8s+"hasContainerName"), graph.Text(name))
		if c.State != "" {
			d.addStatus(at, c.State, formatTime(c.Start), formatTime(c.End))
		}
		d.addStatement(id, "hasSubResource", at)
	}
}

func orUndefined(s string) string {
	if s == "" {
		return "undefined"
	}
	return s
}

func (d *Document) addScheduler(name, relation string, of graph.Term) {
	name = cmp.Or(name, "default-scheduler")
	s := glcNode(escapeName(name))
	d.describe(s, "Scheduler", "")
	d.addStatement(s, relation, of)
}
