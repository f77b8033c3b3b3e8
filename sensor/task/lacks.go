package task

import "reckon/sensor"

// Lacks appends to all the figures that the task sources cannot count. live and exits are the names of the sources of
// live and of ended processes. A figure that is missing only for some processes is marked in their records (Partial,
// Have).
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
