package client

import (
	"slices"
	"strings"
)

// States returns the batch system states that [Filter.States] accepts, the most frequent first. An array has the state
// "started" if at least one of its tasks has started.
func States() []string {
	return []string{
		"pending", "running", "completed", "failed", "cancelled", "timeout", "out_of_memory", "node_fail", "preempted", "suspended",
		"boot_fail", "completing", "configuring", "deadline", "launch_failed", "reconfig_fail", "requeue_fed", "requeue_hold", "requeued",
		"resizing", "resv_del_hold", "revoked", "signaling", "special_exit", "stage_out", "started", "stopped",
	}
}

// ParseState parses a batch system state, by name or by its abbreviation in Slurm's squeue (PD, R, OOM), in upper or
// lower case. It returns false if there is no such state.
func ParseState(text string) (state string, ok bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if long := map[string]string{
		"bf": "boot_fail", "ca": "cancelled", "canceled": "cancelled", "cd": "completed", "cf": "configuring", "cg": "completing",
		"dl": "deadline", "f": "failed", "nf": "node_fail", "oom": "out_of_memory", "pd": "pending", "pr": "preempted", "r": "running",
		"rd": "resv_del_hold", "rf": "requeue_fed", "rh": "requeue_hold", "rq": "requeued", "rs": "resizing", "rv": "revoked",
		"s": "suspended", "se": "special_exit", "si": "signaling", "so": "stage_out", "st": "stopped", "to": "timeout",
	}[text]; long != "" {
		return long, true
	}
	return text, slices.Contains(States(), text)
}
