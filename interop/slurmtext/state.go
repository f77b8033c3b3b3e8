package slurmtext

import "strings"

// State splits a job state into its lower-case word and the rest, which is "by 1001" for "CANCELLED by 1001". It
// completes words that sacct truncated to ten characters and marked with a plus sign.
func State(s string) (state, rest string) {
	state, rest, _ = strings.Cut(strings.TrimSpace(s), " ")
	state = strings.ToLower(state)
	cut, ok := strings.CutSuffix(state, "+")
	if !ok {
		return state, rest
	}
	for _, w := range []string{"boot_fail", "cancelled", "completed", "completing", "configuring", "node_fail", "out_of_memory",
		"preempted", "resv_del_hold", "requeue_fed", "requeue_hold", "special_exit", "launch_failed", "reconfig_fail"} {
		if strings.HasPrefix(w, cut) && cut != "" && (len(cut) >= 8 || w == cut) {
			return w, rest
		}
	}
	return cut, rest
}

// IsFinal reports whether a state is final. A requeued job continues as another run.
func IsFinal(state string) bool {
	switch state {
	case "boot_fail", "cancelled", "completed", "deadline", "failed", "node_fail", "out_of_memory", "preempted", "timeout", "revoked",
		"launch_failed", "reconfig_fail":
		return true
	}
	return false
}

// IsPending reports whether a job in this state has not started.
func IsPending(state string) bool {
	switch state {
	case "pending", "requeued", "requeue_hold", "requeue_fed", "special_exit", "resv_del_hold":
		return true
	}
	return false
}

// NodeState parses the state of a node and its flags: mixed+drain, [IDLE PLANNED], idle*.
func NodeState(words []string) (state string, flags []string) {
	for _, w := range words {
		for s := range strings.SplitSeq(strings.ToLower(w), "+") {
			if bare := strings.TrimRight(s, "*~#!%$@^-"); bare != s {
				if strings.Contains(s, "*") {
					flags = append(flags, "not_responding")
				}
				s = bare
			}
			switch {
			case s == "":
			case state == "":
				state = s
			case s != state:
				flags = append(flags, s)
			}
		}
	}
	switch state { // sinfo -T joins base and flag in one word
	case "draining", "drained", "maint", "reserved", "planned", "completing", "inval", "blocked":
		flags = append(flags, state)
	}
	return state, flags
}

// NodeOpen reports whether a node in this state accepts jobs.
func NodeOpen(state string, flags []string) bool {
	switch state {
	case "", "down", "drained", "draining", "fail", "failing", "unknown", "inval", "error", "future", "powered_down", "perfctrs":
		return false
	}
	for _, f := range flags {
		switch f {
		case "drain", "drained", "draining", "down", "fail", "maint", "maintenance", "not_responding", "invalid_reg":
			return false
		}
	}
	return true
}
