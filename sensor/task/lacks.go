package task

import "reckon/sensor"

// Lacks appends the figures that the task sources cannot count. live and exits are the names of
// the sources of living and of ended processes. If a figure is missing for single processes only,
// the process itself marks that (Partial, Have).
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
