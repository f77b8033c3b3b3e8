package graphfeed

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"reckon/graph"
	"reckon/graph/kubernetes"
	"reckon/graph/object"
	"reckon/graph/own"
	"reckon/graph/telemetry"
	"reckon/workload"
	workloads "reckon/workload/kubernetes"
)

// objectRecord holds the part of a cluster object that its subgraph is derived from. It omits status that changes by
// itself. Exactly one of workload, pod and node is set.
type objectRecord struct {
	metav1.ObjectMeta
	workload *object.Workload
	pod      *object.Pod
	node     *object.Node
	waits    unscheduled // of a pod that no node has
}

// nameOnly returns an object with only its name and identity, because the rest could not be read.
func nameOnly(kind string, o metav1.Object) *objectRecord {
	t := &objectRecord{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
			ResourceVersion: o.GetResourceVersion()}}
	switch uid := string(o.GetUID()); kind {
	case "Node":
		t.node = &object.Node{Name: t.Name, UID: uid, Status: "Unknown"}
	case "Pod":
		t.pod = &object.Pod{Namespace: t.Namespace, Name: t.Name, UID: uid, Workload: replicaWorkload(o)}
	default:
		t.workload = &object.Workload{Kind: kind, Namespace: t.Namespace, Name: t.Name, UID: uid, Owner: t.Namespace,
			ID: ownerWorkload(kind, o)}
	}
	return t
}

// GetObjectKind implements runtime.Object.
func (t *objectRecord) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. A thing is never modified.
func (t *objectRecord) DeepCopyObject() runtime.Object { return t }

// vocabulary describes the objects of a cluster.
type vocabulary struct {
	own.Vocabulary
	links telemetry.Links
	site  string // of series; empty if they have none
}

// reduceObject reduces an object to the data for its subgraph. kind is in Kubernetes notation.
func reduceObject(kind string, o metav1.Object) (*objectRecord, error) {
	o.SetManagedFields(nil)
	if typed, ok := o.(runtime.Object); ok { // objects of a list have no kind of their own
		typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Kind: kind})
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	t := nameOnly(kind, o)
	switch kind {
	case "Node":
		n, err := kubernetes.Node(raw)
		if err != nil {
			return nil, err
		}
		t.node = &n
	case "Pod":
		p, err := kubernetes.Pod(raw)
		if err != nil {
			return nil, err
		}
		p.Workload = replicaWorkload(o)
		t.pod, t.waits = &p, unscheduledSeries(o)
	default:
		w, err := kubernetes.Workload(raw)
		if err != nil {
			return nil, err
		}
		w.Kind, w.ID = kind, ownerWorkload(kind, o)
		if w.Start.IsZero() {
			w.Start = o.GetCreationTimestamp().Time
		}
		t.workload = &w
	}
	return t, nil
}

// replicaWorkload returns the workload that a pod is a part of, as the label of its series names it.
func replicaWorkload(pod metav1.Object) string {
	kind, name := "", pod.GetName()
	if c := metav1.GetControllerOf(pod); c != nil {
		kind, name = c.Kind, c.Name
	}
	return workloadID(pod, kind, name)
}

// ownerWorkload returns the workload that the pods of an object are parts of: a ReplicaSet belongs to its Deployment, a Job to its CronJob.
func ownerWorkload(kind string, o metav1.Object) string { return workloadID(o, kind, o.GetName()) }

func workloadID(o metav1.Object, kind, name string) string {
	return string(workloads.IdentityOf(&workloads.Pod{Namespace: o.GetNamespace(), Name: name, Labels: o.GetLabels(), OwnerKind: kind,
		OwnerName: name, Created: o.GetCreationTimestamp().Time}).Workload)
}

// podTelemetry returns the location of the figures of pods with a name prefix as parts of a workload; an empty prefix means all.
func (v *vocabulary) podTelemetry(workload, begin, logs string) *object.Telemetry {
	selector := telemetry.Selector("workload", workload, "site", v.site)
	if begin != "" {
		selector += "," + telemetry.LabelBegins("part", begin)
	}
	t := v.links.Of(selector, "/workload?id="+url.QueryEscape(workload))
	t.Logs = v.links.Logs(logs)
	return t
}

// subgraph is the description of an object.
type subgraph struct {
	id, owner string
	quads     []graph.Quad
	at        time.Time // zero: now
}

// everyone marks data that every viewer may read.
const everyone = "*"

func (v *vocabulary) subgraphOf(t *objectRecord) subgraph {
	switch {
	case t.node != nil:
		n := *t.node
		n.Telemetry = v.links.Of(telemetry.Selector("node", n.Name, "site", v.site), "/node?name="+url.QueryEscape(n.Name))
		return subgraph{id: v.subgraphID(t), owner: everyone, quads: v.Node(n), at: n.Since}
	case t.pod != nil:
		p, begin := *t.pod, t.Name+"/"
		if p.Workload == "pod/"+t.Namespace+"/"+t.Name {
			begin = ""
		}
		p.Telemetry = v.podTelemetry(p.Workload, begin, telemetry.Selector("namespace", t.Namespace, "pod", t.Name))
		return subgraph{id: v.subgraphID(t), owner: t.Namespace, quads: v.Pod(p), at: p.End}
	}
	w, begin := *t.workload, t.Name+"-"
	logs := telemetry.Label("namespace", t.Namespace) + "," + telemetry.LabelBegins("pod", begin)
	if w.ID == strings.ToLower(w.Kind)+"/"+t.Namespace+"/"+t.Name {
		begin = ""
	}
	w.Telemetry = v.podTelemetry(w.ID, begin, logs)
	if kind, _, _ := strings.Cut(w.ID, "/"); begin == "" && workload.Kind(kind).Service() {
		telemetry.Forecast(w.Telemetry, "workload", telemetry.Selector("workload", w.ID, "site", v.site))
	}
	return subgraph{id: v.subgraphID(t), owner: t.Namespace, quads: v.Workload(w), at: w.End}
}

// idPrefix returns the prefix of the ids of all subgraphs about this cluster. The server describes the same nodes from
// measurements of the agents, in other subgraphs. The prefix keeps the two apart, and queries see both.
func (v *vocabulary) idPrefix() string { return v.SiteID().Value + "/kubernetes/" }

// subgraphID returns the id of the subgraph of an object.
func (v *vocabulary) subgraphID(t *objectRecord) string {
	parts := []string{"node", t.Name}
	switch {
	case t.pod != nil:
		parts = []string{"pod", t.Namespace, t.Name, string(t.UID)}
	case t.workload != nil:
		parts = []string{strings.ToLower(t.workload.Kind), t.Namespace, t.Name, string(t.UID)}
	}
	for i := range parts {
		parts[i] = graph.EscapeIRI(parts[i])
	}
	return v.idPrefix() + strings.Join(parts, "/")
}
