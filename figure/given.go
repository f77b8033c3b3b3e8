package figure

// A given resource is the scheduler's allocation. If no allocation is known, the request is
// returned instead and the second value is false.

// GivenCores returns the cores allocated to the run, or requested; nil when both are unknown.
func (r *Row) GivenCores() (cores *float64, allocated bool) {
	return allocatedOr(r.AllocatedCores, r.RequestCores)
}

// GivenMemory returns the memory allocated to the run, or requested, bytes; nil when both are unknown.
func (r *Row) GivenMemory() (bytes *float64, allocated bool) {
	return allocatedOr(r.AllocatedMemoryBytes, r.RequestMemoryBytes)
}

// GivenGPUs returns the GPUs allocated to the run, or requested; nil when both are unknown.
func (r *Row) GivenGPUs() (gpus *float64, allocated bool) {
	return allocatedOr(r.AllocatedGPUs, r.RequestGPUs)
}

// WaitShare returns the share of the runnable time of its threads that they waited for a core; 0 if unknown.
func (r *Row) WaitShare() float64 {
	if r.CPUSeconds == nil || r.CPUWaitSeconds == nil || *r.CPUSeconds+*r.CPUWaitSeconds <= 0 {
		return 0
	}
	return *r.CPUWaitSeconds / (*r.CPUSeconds + *r.CPUWaitSeconds)
}

func allocatedOr(allocated, requested *float64) (*float64, bool) {
	if allocated != nil {
		return allocated, true
	}
	return requested, false
}
