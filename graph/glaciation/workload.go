package glaciation

import (
	"strconv"

	"reckon/graph"
	"reckon/graph/object"
)

// Workload describes a workload with its requests and limits.
func (d *Document) Workload(workload object.Workload) {
	id := d.objectID(workload.Name)
	d.describe(id, taskClass, workload.Kind)
	d.addOwners(id, workload.Kind, workload.Owners)
	for _, r := range object.Resources() {
		d.addConstraint(id, string(r)+".Allocated", "SoftConstraint", r,
			sumResource(workload, workload.AnnotatedRequests, r, func(c object.Requirements) object.Amounts { return c.Requests }))
	}
	for _, r := range object.Resources() {
		d.addConstraint(id, string(r)+".Capacity", "HardConstraint", r,
			sumResource(workload, workload.AnnotatedLimits, r, func(c object.Requirements) object.Amounts {
				if c.Init && r == object.GPU { // the exporter does not read it
					return nil
				}
				return c.Limits
			}))
	}
	d.addScheduler(workload.Scheduler, "assigns", id)
}

// sumResource adds one resource over all containers and init containers, as the exporter does. The Kubernetes scheduler would use the
// larger of the two sums. Containers are added first, because the order affects the rounding of floating-point sums.
func sumResource(w object.Workload, annotated object.Amounts, r object.Resource, of func(object.Requirements) object.Amounts) float64 {
	total := annotated[r]
	for _, initial := range []bool{false, true} {
		for _, c := range w.Containers {
			if c.Init == initial {
				total += of(c)[r]
			}
		}
	}
	return total
}

func (d *Document) addConstraint(workload graph.Term, name, class string, r object.Resource, v float64) {
	if v <= 0 {
		return
	}
	unit, aspect := "Bytes", "Performance"
	switch r {
	case object.CPU, object.GPU:
		unit = "Core"
	case object.Energy:
		unit, aspect = "Milliwatt", "Power"
	}
	d.describe(glcNode(unit), "MeasurementUnit", "")
	d.describe(glcNode(aspect), "Aspect", "")
	id := childNode(workload, name)
	d.describe(id, class, name)
	d.addStatement(id, "maxValue", graph.Number(v))
	d.addStatement(id, "measuredIn", glcNode(unit))
	d.addStatement(id, "hasAspect", glcNode(aspect))
	d.addStatement(workload, "hasConstraint", id)
}

var sourceDescriptions = map[string]string{
	"Kepler":                "Kepler metrics https://sustainable-computing.io/",
	"NodeExporter":          "NodeExporter",
	"ResourceSpecification": "ResourceSpecification",
	"cAdvisor":              "cAdvisor metrics https://github.com/google/cadvisor/blob/master/docs/storage/prometheus.md",
	"EnergyBenchmark":       "EnergyBenchmark",
	"NVidiaPlugin":          "NVidia Plugin https://github.com/NVIDIA/k8s-device-plugin",
}

type aggregation struct {
	function   string
	start, end int64
}

func (d *Document) addObservation(id graph.Term, description string, v float64, at int64, a *aggregation, unit, property, source string) {
	if a != nil {
		d.describe(id, "AggregatedMeasurement", description)
		d.addStatement(id, "hasAggregatedFunction", graph.Text(a.function))
		d.addStatement(id, "startingInterval", graph.Integer(a.start))
		d.addStatement(id, "endingInterval", graph.Integer(a.end))
	} else {
		d.describe(id, "Measurement", description)
	}
	d.describe(glcNode(unit), "MeasurementUnit", "")
	d.describe(glcNode(property), "MeasurementProperty", "")
	d.describe(glcNode(source), "MeasuringResource", sourceDescriptions[source])
	d.addStatement(id, "hasValue", graph.Number(v))
	d.addStatement(id, "hasTimestamp", graph.Integer(at))
	d.addStatement(id, "relatesToMeasurementProperty", glcNode(property))
	d.addStatement(id, "measuredIn", glcNode(unit))
	d.addStatement(glcNode(source), "makes", id)
}

// NodeMeasurement adds a measurement of a node, or of a part if the query names one.
func (d *Document) NodeMeasurement(measurement object.Measurement, now int64) {
	d.addMeasurement(measurement, now, true)
}

// PodMeasurement adds a measurement of a pod.
func (d *Document) PodMeasurement(measurement object.Measurement, now int64) {
	d.addMeasurement(measurement, now, false)
}

func (d *Document) addMeasurement(m object.Measurement, now int64, onPart bool) {
	resource := d.objectID(m.Resource)
	parent, description := resource, m.Query.Measurement
	if m.Query.Subresource != "" {
		parent, description = childNode(resource, m.Query.Subresource), m.Query.Subresource+"."+m.Query.Measurement
	}
	at := m.Time
	var a *aggregation
	if m.Query.Aggregation != "" {
		at = now
		a = &aggregation{m.Query.Aggregation, now - m.Query.Period.Milliseconds(), now}
	}
	owner := parent
	if !onPart {
		owner = resource
	}
	d.describe(owner, resourceClass, "")
	id := childNode(parent, m.Query.Measurement, strconv.FormatInt(at, 10))
	d.addObservation(id, description, m.Value, at, a, m.Query.Unit, m.Query.Property, m.Query.Source)
	d.addStatement(owner, "hasMeasurement", id)
}
