package findings

import (
	"math"

	"reckon/store"
	"reckon/workload"
)

// Metrics of a batch system's allocation and request for a job on a node. In older data, the request metrics hold the
// allocation.
const (
	allocatedCores  = "reckon_workload_allocated_cores"
	allocatedMemory = "reckon_workload_allocated_memory_bytes"
	allocatedGPUs   = "reckon_workload_allocated_gpus"
	requestedCores  = "reckon_workload_request_cores"
	requestedMemory = "reckon_workload_request_memory_bytes"
	requestedGPUs   = "reckon_workload_request_gpus"
	scheduledNode   = "reckon_slurm_node_cores"
)

// allocatedResource returns the resource of an allocation metric; empty for other metrics.
func allocatedResource(name string) string {
	switch name {
	case allocatedCores, requestedCores:
		return "cpu"
	case allocatedMemory, requestedMemory:
		return "memory"
	case allocatedGPUs, requestedGPUs:
		return "gpu"
	}
	return ""
}

// allocation identifies the allocation of a resource to one job of an owner on a node.
type allocation struct {
	workload, owner, resource string
}

// raiseTo sets a step of a line to v if v is larger than its value. The parts of a job on a node share one allocation,
// and several series report it.
func (l *line) raiseTo(steps, i int, v float64) {
	if *l == nil || math.IsNaN((*l)[i]) {
		l.add(steps, i, v)
	} else if v > (*l)[i] {
		(*l)[i] = v
	}
}

// sumAllocations adds up the allocations of an owner on the node, step by step; nil for none.
func (m *machine) sumAllocations(owner, resource string, steps int) (sum line) {
	for k, l := range m.allocations {
		if k.owner != owner || k.resource != resource {
			continue
		}
		for i, v := range l {
			if !math.IsNaN(v) {
				sum.add(steps, i, v)
			}
		}
	}
	return sum
}

// rowAllocations returns the allocations of jobs from their catalogue rows, split evenly over the nodes of each job. It
// is used for nodes with agents that do not report allocations.
func rowAllocations(r *rangeReading, rows []store.Workload) map[nodeKey]map[allocation]line {
	out := map[nodeKey]map[allocation]line{}
	steps := r.stepCount()
	for i := range rows {
		w := &rows[i]
		if !workload.Kind(w.Kind).Scheduled() || w.Waits() || len(w.Nodes) == 0 {
			continue
		}
		end := w.End
		if end.IsZero() {
			end = r.to
		}
		first, last := int(math.Floor(w.Start.Sub(r.from).Seconds()/r.step.Seconds())), int(end.Sub(r.from)/r.step)
		for resource, of := range map[string]func() (*float64, bool){"cpu": w.GivenCores, "memory": w.GivenMemory, "gpu": w.GivenGPUs} {
			given, _ := of()
			if given == nil {
				continue
			}
			for _, n := range w.Nodes {
				p, k := nodeKey{w.Site, n}, allocation{w.ID, w.Owner, resource}
				if out[p] == nil {
					out[p] = map[allocation]line{}
				}
				l := out[p][k]
				for s := max(first, 0); s <= min(last, steps-1); s++ {
					l.raiseTo(steps, s, *given/float64(len(w.Nodes)))
				}
				out[p][k] = l
			}
		}
	}
	return out
}

// addAllocations adds allocations from catalogue rows to those that the node reports.
func (m *machine) addAllocations(by map[allocation]line, steps int) {
	for k, l := range by {
		mine := m.allocations[k]
		for i, v := range l {
			if !math.IsNaN(v) {
				mine.raiseTo(steps, i, v)
			}
		}
		if mine != nil {
			m.allocations[k] = mine
		}
	}
	m.scheduled = m.scheduled || len(m.allocations) > 0
}
