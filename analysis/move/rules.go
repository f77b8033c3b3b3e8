package move

import (
	"math"
	"slices"
)

// suggestWithoutGPUs suggests a shape without GPUs for work that has GPUs, or a node with GPUs, and hardly uses them.
func (j *judge) suggestWithoutGPUs() error {
	s := j.source
	if !j.holdsForMost(func(r *Run) bool {
		return (r.GPUs > 0 || satisfies(s.GPUs, greaterThan(0))) && satisfies(r.GPUBusy,
			func(v float64) bool { return v < idleGPU*max(r.GPUs, 1) })
	}) {
		return nil
	}
	if j.work.Bursts != nil {
		if days, err := j.work.Bursts(); err != nil || days >= burstDays {
			return err
		}
	}
	busy := weightedQuantile(j.here, 0.95, func(r *Run) *float64 { return perNode(r.GPUBusy, max(r.GPUs, 1)) })
	j.chooseTarget(GPUOff, *busy, false, func(t *Shape) bool { return satisfies(t.GPUs, func(v float64) bool { return v == 0 }) })
	return nil
}

// suggestMoreGPUs proposes a shape with more GPUs or GPU memory. The workload's GPUs must be busy while work waited for them, or
// their memory must be full. The condition on waiting does not apply to nodes without a batch system.
func (j *judge) suggestMoreGPUs() error {
	s := j.source
	if !satisfies(s.GPUs, greaterThan(0)) {
		return nil
	}
	full := j.holdsForMost(func(r *Run) bool {
		return s.GPUMemory != nil && satisfies(r.GPUMemory, func(v float64) bool { return v >= nearlyAll**s.GPUMemory*max(r.GPUs, 1) })
	})
	if !full && !j.holdsForMost(func(r *Run) bool {
		return satisfies(r.GPUBusy, func(v float64) bool { return v >= busyGPU**s.GPUs*r.Nodes }) &&
			(s.Bare || satisfies(r.Wait, func(v float64) bool { return v >= waitedLong }))
	}) {
		return nil
	}
	larger := func(t *Shape) bool {
		memory := s.GPUMemory != nil && satisfies(t.GPUMemory, greaterThan(*s.GPUMemory))
		return memory || !full && satisfies(t.GPUs, greaterThan(*s.GPUs))
	}
	value := 0.0
	if busy := weightedQuantile(j.here, 0.5, func(r *Run) *float64 { return r.GPUBusy }); busy != nil {
		value = *busy
	}
	if s.Bare {
		j.Need.GPUs, j.Need.SizeGPUs = s.GPUs, *s.GPUs*j.Need.Nodes // a job must request as much as it used
	}
	j.chooseTarget(GPUUp, value, true, func(t *Shape) bool { return larger(t) && t.Vendor != "" && t.Vendor == s.Vendor })
	for i := range j.shapes {
		if t := &j.shapes[i]; larger(t) && t.Vendor != s.Vendor {
			j.OtherVendor = append(j.OtherVendor, i)
		}
	}
	return nil
}

// suggestMoreCores suggests a shape with more cores for work that uses all cores of its node or allocation, if more cores would
// help or other owners want these.
func (j *judge) suggestMoreCores() error {
	s := j.source
	if s.Cores == nil || !j.holdsForMost(func(r *Run) bool {
		limit := *s.Cores * r.Nodes
		if r.Given != nil {
			limit = min(limit, *r.Given)
		}
		return r.GPUs == 0 && satisfies(r.Cores, func(v float64) bool { return v >= nearlyAll*limit })
	}) || !j.work.Contended && !j.work.Scales(j.here) {
		return nil
	}
	j.chooseTarget(CPUUp, *j.Need.Cores, true, func(t *Shape) bool {
		return satisfies(t.Cores, greaterThan(*s.Cores)) && !satisfies(t.GPUs, greaterThan(0))
	})
	return nil
}

// suggestMemory suggests another shape for work that needs nearly all memory of a node, or little memory of a large one.
func (j *judge) suggestMemory() error {
	s := j.source
	if s.Memory == nil || satisfies(s.GPUs, greaterThan(0)) {
		return nil
	}
	need := func() float64 {
		return *weightedQuantile(j.here, 0.95, func(r *Run) *float64 { return r.Memory }) / *s.Memory
	}
	if j.holdsForMost(func(r *Run) bool { return satisfies(r.Memory, greaterThan(nearlyAll**s.Memory)) }) {
		j.chooseTarget(Memory, need(), true, func(t *Shape) bool {
			return satisfies(t.Memory, greaterThan(*s.Memory)) && !satisfies(t.GPUs, greaterThan(0))
		})
		return nil
	}
	if s.Large && j.holdsForMost(func(r *Run) bool { return satisfies(r.Memory, func(v float64) bool { return v < fewOf**s.Memory }) }) {
		j.chooseTarget(Memory, need(), true, func(t *Shape) bool {
			return satisfies(t.Memory, func(v float64) bool { return v < *s.Memory }) && !t.Large && !satisfies(t.GPUs, greaterThan(0))
		})
	}
	return nil
}

// suggestNetwork suggests a shape with a fast network for work on several nodes with a slow one.
func (j *judge) suggestNetwork() error {
	s := j.source
	if s.FastNetwork == nil || *s.FastNetwork || !j.holdsForMost(func(r *Run) bool { return r.Nodes > 1 }) {
		return nil
	}
	gpus := satisfies(j.Need.GPUs, greaterThan(0))
	j.chooseTarget(Nodes, j.Need.Nodes, gpus, func(t *Shape) bool {
		return t.FastNetwork != nil && *t.FastNetwork && (gpus || !satisfies(t.GPUs, greaterThan(0)))
	})
	return nil
}

// suggestForLength suggests another partition if runs end at the time limit, or are short and would wait less elsewhere.
func (j *judge) suggestForLength() error {
	s := j.source
	if s.MaxTime == nil || j.Need.Seconds == nil {
		return nil
	}
	ended, cut := 0, 0
	for i := range j.here {
		r := &j.here[i]
		if r.Ended {
			ended++
		}
		if satisfies(r.CutAt, func(v float64) bool { return v >= nearlyAll**s.MaxTime }) {
			cut++
		}
	}
	gpus := satisfies(j.Need.GPUs, greaterThan(0))
	alike := func(t *Shape) bool { return gpus || !satisfies(t.GPUs, greaterThan(0)) }
	if j.holdsForMost(func(*Run) bool { return true }) && float64(cut) > cutShare*float64(ended) {
		j.chooseTarget(Length, float64(cut)/float64(ended), gpus, func(t *Shape) bool {
			return satisfies(t.MaxTime, greaterThan(*s.MaxTime)) && alike(t)
		})
		return nil
	}
	if j.Here == nil || !j.holdsForMost(func(r *Run) bool { return r.Seconds < *s.MaxTime/10 }) || *j.Need.Seconds >= *s.MaxTime/10 {
		return nil
	}
	size := j.Need.SizeGPUs
	was := j.Result
	j.chooseTarget(Length, *j.Need.Seconds, gpus, func(t *Shape) bool {
		there := j.targetWait(slices.IndexFunc(j.shapes, func(s Shape) bool { return s.Site == t.Site && s.Partition == t.Partition }),
			size)
		return satisfies(t.MaxTime, func(v float64) bool { return v < *s.MaxTime }) && alike(t) && there != nil &&
			there.Seconds <= Most*j.Here.Seconds && j.Here.Seconds-there.Seconds >= waitedLong
	})
	if j.To < 0 { // no queue is shorter
		j.Result = was
	}
	return nil
}

// suggestForSmall suggests shared nodes for little work on nodes that are allocated as a whole.
func (j *judge) suggestForSmall() error {
	s := j.source
	if !s.Whole || s.Cores == nil || s.Memory == nil || satisfies(s.GPUs, greaterThan(0)) || !j.holdsForMost(func(r *Run) bool {
		return r.Given != nil && *r.Given >= 0.95**s.Cores*r.Nodes &&
			satisfies(r.Cores, func(v float64) bool { return v/r.Nodes <= fewOf**s.Cores }) &&
			satisfies(r.Memory, func(v float64) bool { return v <= fewOf**s.Memory })
	}) {
		return nil
	}
	j.Need.SizeCores = math.Ceil(*j.Need.Cores * j.Need.Nodes) // it would request its use
	j.chooseTarget(Small, *j.Need.Cores, true, func(t *Shape) bool { return !t.Whole && !satisfies(t.GPUs, greaterThan(0)) })
	return nil
}
