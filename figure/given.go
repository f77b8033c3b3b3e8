package figure

// What a run was given is what the scheduler allocated; where no allocation is known, what was asked
// for stands for it, and the second value is false.

// GivenCores are the cores that the run was given; nil when nothing is known of them.
func (r *Row) GivenCores() (cores *float64, allocated bool) {
	return given(r.AllocatedCores, r.RequestCores)
}

// GivenMemory is the memory that the run was given, bytes.
func (r *Row) GivenMemory() (bytes *float64, allocated bool) {
	return given(r.AllocatedMemoryBytes, r.RequestMemoryBytes)
}

// GivenGPUs are the GPUs that the run was given.
func (r *Row) GivenGPUs() (gpus *float64, allocated bool) {
	return given(r.AllocatedGPUs, r.RequestGPUs)
}

func given(allocated, requested *float64) (*float64, bool) {
	if allocated != nil {
		return allocated, true
	}
	return requested, false
}
