package misuse

import "slices"

// covered are the findings that say nothing new beside another one of the same workload, by rule
// and part: what to do about the one is what to do about the other, or they contradict each other.
var covered = map[[2]string][][2]string{
	// No process runs: what it used of its cores, memory and GPUs follows.
	{IdleAllocation, "allocation"}: {{GPUUnused, "gpu"}, {GPUUnused, "cpu"}, {OverRequested, "cpu"}, {OverRequested, "memory"}, {IdleAllocation, "gpu"}, {Imbalance, "nodes"}, {Imbalance, "tasks"}, {Imbalance, "gpus"}},
	// It holds a GPU now and does not compute on it.
	{IdleAllocation, "gpu"}: {{GPUUnused, "gpu"}, {Imbalance, "gpus"}},
	{GPUUnused, "gpu"}:      {{Imbalance, "gpus"}},
	// The cores that it did not use are those of the nodes or tasks that are idle.
	{Imbalance, "nodes"}: {{OverRequested, "cpu"}, {Imbalance, "tasks"}},
	{Imbalance, "tasks"}: {{OverRequested, "cpu"}},
	// Who thrashes does not have too much memory.
	{MemoryThrashing, "faults"}: {{OverRequested, "memory"}},
	{MemoryThrashing, "swap"}:   {{OverRequested, "memory"}},
}

// once leaves out of the findings of one workload those that another one of them covers.
func once(found []Finding) []Finding {
	var drop [][2]string
	for i := range found {
		drop = append(drop, covered[[2]string{found[i].Rule, found[i].Part}]...)
	}
	return slices.DeleteFunc(found, func(f Finding) bool { return slices.Contains(drop, [2]string{f.Rule, f.Part}) })
}
