package slurmtext

import "strings"

// Causes of a job's end. A job that ended by itself or for an unknown cause has none of these.
const (
	EndedByUser        = "user"          // scancel, by its owner, an operator or an administrator
	EndedByTimeLimit   = "time_limit"    // it reached its time limit
	EndedByDeadline    = "deadline"      // it could not end before its --deadline
	EndedByMemory      = "out_of_memory" // the kernel killed a process for lack of memory
	EndedByNodeFailure = "node_failure"  // a node went down, or did not boot
	EndedByPreemption  = "preempted"     // for a job of higher priority
	EndedByScheduler   = "scheduler"     // it was withdrawn, such as a sibling that started in another cluster
)

// EndedBy returns the cause of a job's end. state and rest are the results of [State], so rest is "by 1001" for
// "CANCELLED by 1001". user is the id of the user who cancelled the job, or empty.
func EndedBy(state, rest string) (by, user string) {
	switch state {
	case "cancelled":
		user, said := strings.CutPrefix(rest, "by ")
		if user = strings.TrimSpace(user); said && digits(user) {
			return EndedByUser, user
		}
	case "timeout":
		return EndedByTimeLimit, ""
	case "deadline":
		return EndedByDeadline, ""
	case "out_of_memory":
		return EndedByMemory, ""
	case "node_fail", "boot_fail", "launch_failed", "reconfig_fail":
		return EndedByNodeFailure, ""
	case "preempted":
		return EndedByPreemption, ""
	case "revoked":
		return EndedByScheduler, ""
	}
	return "", ""
}
