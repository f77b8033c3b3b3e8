// Package object holds what the knowledge graph describes: workloads, pods, nodes, sites, where their figures and logs are, and
// measurements of others. It knows neither where they come from nor how they are written.
//
// Figures are in SI base units: cores, bytes, watts. A resource that is not in a map was not stated. A zero time is unknown.
package object

import "time"

// Resource is something that is requested, limited or there.
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

// Resources lists them in the order in which they are written.
func Resources() []Resource { return []Resource{CPU, Memory, Storage, GPU, Network, Energy} }

// Amounts are quantities of resources.
type Amounts map[Resource]float64

// Ref names another object. UID may be empty.
type Ref struct{ Kind, Namespace, Name, UID string }

// Workload is work as its controller describes it: a Deployment, a Slurm job, a unit.
type Workload struct {
	// Kind is as its system writes it: Deployment, slurm, unit.
	Kind, Namespace, Name, UID string
	// ID is the workload as reckon names it (kind/name), the value of the label of its series; empty if unknown.
	ID string
	// Owner answers for it: a user or a namespace.
	Owner string
	// Owners are the objects that it belongs to.
	Owners    []Ref
	Scheduler string
	// Annotated are resources that the template states by annotation; they have no containers.
	AnnotatedRequests, AnnotatedLimits Amounts
	Containers                         []Requirements
	// State, Start and End are of the run; RunsOn are names of nodes.
	State      string
	Start, End time.Time
	RunsOn     []string
	Reads      []Data
	Telemetry  *Telemetry
}

// Requirements are what a container asks for.
type Requirements struct {
	Init             bool // it ends before the others begin
	Sidecar          bool // an init container that goes on
	Requests, Limits Amounts
}

// Requests is what the whole workload asks for at once, as the scheduler of Kubernetes adds it: the containers together, or the
// largest init container with the sidecars before it, whichever is more.
func (w *Workload) Requests() Amounts {
	return w.effective(func(r Requirements) Amounts { return r.Requests }, w.AnnotatedRequests)
}

// Limits is the most that the whole workload may use. A resource that one of its containers has no limit of is not in it.
func (w *Workload) Limits() Amounts {
	out := w.effective(func(r Requirements) Amounts { return r.Limits }, w.AnnotatedLimits)
	for r := range out {
		for _, c := range w.Containers {
			if _, ok := c.Limits[r]; !ok && r != GPU { // without a limit of GPUs a container gets none
				delete(out, r)
			}
		}
	}
	return out
}

func (w *Workload) effective(of func(Requirements) Amounts, annotated Amounts) Amounts {
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
	Workload             string // as reckon names what it is a part of: deployment/shop/cart; empty if unknown
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

// Container is a container of a pod as it is.
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
	// EnergyIndex is what its annotation ranks it by; nil if there is none.
	EnergyIndex *float64
	Telemetry   *Telemetry
}

// Site is a set of nodes seen as one: a cluster, a GNode of GLACIATION.
type Site struct {
	Name      string
	URL       string // of this service; empty if unknown
	Nodes     []string
	Telemetry *Telemetry
}

// Data is something that a workload reads or writes: a volume, a data set.
type Data struct {
	// Kind says what Name names: persistentVolumeClaim, configMap, dataset.
	Kind, Namespace, Name string
}

// Telemetry says where the figures and the logs of something are.
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

// Series is one figure and the query that gives it.
type Series struct {
	Name  string // the metric
	Title string
	Unit  string // UCUM code
	Type  string // counter or gauge
	Query string // PromQL
	// Forecast is the PromQL that gives what is expected of it; empty where nothing is.
	Forecast string
}

// Logs are lines of text.
type Logs struct {
	Source    Source // loki, kubernetes, journald
	Query     string
	Dashboard string
}

// Query is how somebody else's exporter finds measurements: what it measures, where and in what unit.
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
