// Package object holds the objects that the knowledge graph describes: workloads, pods, nodes, sites, the locations of
// their metrics and logs, and measurements by others. It is independent of their sources and of their serialization.
//
// Figures are in SI base units: cores, bytes, watts. A resource that is not in a map is unspecified. A zero time is
// unknown.
package object

import "time"

// Resource is a resource that is requested, limited or available.
type Resource string

// The resources.
const (
	CPU     Resource = "CPU"     // cores
	Memory  Resource = "RAM"     // bytes
	Storage Resource = "Storage" // bytes of ephemeral storage
	GPU     Resource = "GPU"     // devices
	Network Resource = "Network" // bytes per second, by annotation
	Energy  Resource = "Energy"  // as annotated
)

// Resources lists them in the order of output.
func Resources() []Resource { return []Resource{CPU, Memory, Storage, GPU, Network, Energy} }

// Amounts are quantities of resources.
type Amounts map[Resource]float64

// Ref is a reference to another object. UID may be empty.
type Ref struct{ Kind, Namespace, Name, UID string }

// Workload is work as described by its controller: a Deployment, a Slurm job, a unit.
type Workload struct {
	// Kind is in its system's terms: Deployment, slurm, unit.
	Kind, Namespace, Name, UID string
	// ID is the workload id of reckon (kind/name), the value of the label of its series; empty if unknown.
	ID string
	// Owner is the owner: a user or a namespace.
	Owner string
	// Owners are the objects that it belongs to.
	Owners    []Ref
	Scheduler string
	// Annotated resources are those that the template specifies by annotation; they have no containers.
	AnnotatedRequests, AnnotatedLimits Amounts
	Containers                         []Requirements
	// State, Start and End are the run's; RunsOn are names of nodes.
	State      string
	Start, End time.Time
	RunsOn     []string
	Reads      []Data
	Telemetry  *Telemetry
}

// Requirements are the requests and limits of a container.
type Requirements struct {
	Init             bool // it ends before the others start
	Sidecar          bool // an init container that keeps running
	Requests, Limits Amounts
}

// Requests returns the effective request of the whole workload, as the Kubernetes scheduler computes it: the
// sum of the containers, or the largest init container with the sidecars before it, whichever is larger.
func (w *Workload) Requests() Amounts {
	return w.effectiveAmounts(func(r Requirements) Amounts { return r.Requests }, w.AnnotatedRequests)
}

// Limits returns the maximum use of the whole workload. A resource without a limit in one of its containers is absent.
func (w *Workload) Limits() Amounts {
	out := w.effectiveAmounts(func(r Requirements) Amounts { return r.Limits }, w.AnnotatedLimits)
	for r := range out {
		for _, c := range w.Containers {
			if _, ok := c.Limits[r]; !ok && r != GPU { // without a GPU limit a container gets no GPU
				delete(out, r)
			}
		}
	}
	return out
}

func (w *Workload) effectiveAmounts(of func(Requirements) Amounts, annotated Amounts) Amounts {
	out, initial, sidecars := Amounts{}, Amounts{}, Amounts{}
	for _, c := range w.Containers {
		for r, v := range of(c) {
			switch {
			case c.Init && !c.Sidecar:
				initial[r] = max(initial[r], v+sidecars[r])
			case c.Sidecar:
				sidecars[r] += v
				initial[r] = max(initial[r], sidecars[r])
				out[r] += v
			default:
				out[r] += v
			}
		}
	}
	for r, v := range initial {
		out[r] = max(out[r], v)
	}
	for r, v := range annotated {
		out[r] = v
	}
	return out
}

// Pod is a pod of Kubernetes.
type Pod struct {
	Namespace, Name, UID string
	Workload             string // workload id of reckon: deployment/shop/cart; empty if unknown
	Owners               []Ref
	Scheduler            string
	Node                 string // empty before it is placed
	Phase                string // Pending, Running, Succeeded, Failed, Unknown; empty if unknown
	Start, End           time.Time
	Containers           []Container
	Volumes              []Data
	Requirements         []Requirements
	Telemetry            *Telemetry
}

// Container is the present state of a container of a pod.
type Container struct {
	Name, ID   string
	State      string // waiting, running, terminated; empty if unknown
	Start, End time.Time
}

// Node is a machine.
type Node struct {
	Name, UID string
	// Status is Ready, NotReady or Unknown, since Since.
	Status      string
	Since       time.Time
	Allocatable Amounts
	// EnergyIndex is the rank in its annotation; nil if there is none.
	EnergyIndex *float64
	Telemetry   *Telemetry
}

// Site is a set of nodes treated as one: a cluster, a GNode of GLACIATION.
type Site struct {
	Name      string
	URL       string // of this service; empty if unknown
	Nodes     []string
	Telemetry *Telemetry
}

// Data is input or output of a workload: a volume, a data set.
type Data struct {
	// Kind is the kind of the object Name: persistentVolumeClaim, configMap, dataset.
	Kind, Namespace, Name string
}

// Telemetry is the location of the metrics and the logs of an object.
type Telemetry struct {
	Metrics *Metrics
	Logs    *Logs
}

// Source is a store that answers queries.
type Source struct{ Type, URL string }

// Metrics are time series.
type Metrics struct {
	Source    Source // prometheus
	Series    []Series
	Dashboard string // URL; empty for none
}

// Series is one figure and its query.
type Series struct {
	Name  string // the metric
	Title string
	Unit  string // UCUM code
	Type  string // counter or gauge
	Query string // PromQL
	// Forecast is the PromQL of its forecast; empty if there is none.
	Forecast string
}

// Logs are lines of text.
type Logs struct {
	Source    Source // loki, kubernetes, journald
	Query     string
	Dashboard string
}

// Query is a third-party exporter's query for measurements: the quantity, the place and the unit.
type Query struct {
	Measurement string // Usage, Energy.Usage
	Subresource string // CPU; empty for the resource itself
	Source      string
	Unit        string
	Property    string
	Aggregation string        // average; empty for none
	Period      time.Duration // of the aggregation
}

// Measurement is one result of a Query.
type Measurement struct {
	Query    Query
	Resource string // node, or namespace.pod
	Time     int64  // Unix milliseconds
	Value    float64
}
