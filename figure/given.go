package figure

// A given resource is the scheduler's allocation. Where no allocation is known, the request is
// returned instead, and the second value is false.

// GivenCores returns the cores allocated to the run, or requested; nil when both are unknown.
func (r *Row) GivenCores() (cores *float64, allocated bool) {
	return given(r.AllocatedCores, r.RequestCores)
}

// GivenMemory returns the memory allocated to the run, or requested, bytes; nil when both are unknown.
func (r *Row) GivenMemory() (bytes *float64, allocated bool) {
	return given(r.AllocatedMemoryBytes, r.RequestMemoryBytes)
}

// GivenGPUs returns the GPUs allocated to the run, or requested; nil when both are unknown.
func (r *Row) GivenGPUs() (gpus *float64, allocated bool) {
	return given(r.AllocatedGPUs, r.RequestGPUs)
}

func given(allocated, requested *float64) (*float64, bool) {
	if allocated != nil {
		return allocated, true
	}
	return requested, false
}
