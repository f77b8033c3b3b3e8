package misuse

import "slices"

// redundantFindings lists the findings that are redundant beside another finding of the same workload, by the rule and part of
// that other one. Their remedy is the same, or contradicts it.
var redundantFindings = map[[2]string][][2]string{
	// No process runs: unused cores, memory and GPUs are a consequence.
	{IdleAllocation, "allocation"}: {{GPUUnused, "gpu"}, {GPUUnused, "cpu"}, {OverRequested, "cpu"}, {OverRequested, "memory"},
		{IdleAllocation, "gpu"}, {Imbalance, "nodes"}, {Imbalance, "tasks"}, {Imbalance, "gpus"}},
	// It currently holds a GPU without computing on it.
	{IdleAllocation, "gpu"}: {{GPUUnused, "gpu"}, {Imbalance, "gpus"}},
	{GPUUnused, "gpu"}:      {{Imbalance, "gpus"}},
	// The unused cores are the idle nodes' or tasks'.
	{Imbalance, "nodes"}: {{OverRequested, "cpu"}, {Imbalance, "tasks"}},
	{Imbalance, "tasks"}: {{OverRequested, "cpu"}},
	// A thrashing workload does not have too much memory.
	{MemoryThrashing, "faults"}: {{OverRequested, "memory"}},
	{MemoryThrashing, "swap"}:   {{OverRequested, "memory"}},
}

// dropCovered returns the findings without those that another finding of the same workload makes redundant.
func dropCovered(found []Finding) []Finding {
	var drop [][2]string
	for i := range found {
		drop = append(drop, redundantFindings[[2]string{found[i].Rule, found[i].Part}]...)
	}
	return slices.DeleteFunc(found, func(f Finding) bool { return slices.Contains(drop, [2]string{f.Rule, f.Part}) })
}
