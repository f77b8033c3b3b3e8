package task

import "reckon/sensor"

// Lacks appends the contract of the sources of processes: what they cannot count, by the names of the source of living processes and of
// that of
// ends. A process with something missing that a source has of others marks it itself (Partial, Have).
func Lacks(all []sensor.Lack, live, exits string) []sensor.Lack {
	switch live {
	case EBPF, Procfs: // threads that ended before the agent began, for which there was no room, or that no reading saw
		all = append(all, sensor.LackEndedThreads)
	}
	switch exits {
	case "":
		all = append(all, sensor.LackEndedProcesses)
	case Taskstats:
		all = append(all, sensor.LackLastMoments)
	}
	return all
}
