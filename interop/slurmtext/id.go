package slurmtext

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// ID is a job id as shown by the commands.
type ID struct {
	Job   string // 4711, 4711_3 for a task of an array, 4711+1 for a component of a heterogeneous job
	Step  string // after the dot: batch, extern, 0; empty for the job itself
	Tasks int    // number of waiting array tasks that it represents; 0 for one job
}

// ReadID parses 4711, 4711_3, 4711_[0-9%2], 4711+1, each optionally with a step after a dot.
func ReadID(s string) (ID, error) {
	var id ID
	id.Job, id.Step, _ = strings.Cut(s, ".")
	if first, rest, ok := strings.Cut(id.Job, "_["); ok {
		id.Job, id.Tasks = first, CountTasks(rest)
	}
	job, part := id.Job, ""
	if i := strings.IndexAny(job, "_+"); i >= 0 {
		job, part = job[:i], job[i+1:]
		if !digits(part) {
			return ID{}, fmt.Errorf("job %q has no number", Clip(s))
		}
	}
	if !digits(job) || strings.Trim(job, "0") == "" {
		return ID{}, fmt.Errorf("job %q has no number", Clip(s))
	}
	return id, nil
}

func digits(s string) bool {
	if s == "" || len(s) > 20 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// CountTasks counts the tasks in 0-9999%1, 1,3,7-9:2 and 0x1f. It returns at least 1, because there is a record of them.
func CountTasks(s string) int {
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	s, _, _ = strings.Cut(s, "%")
	total := 0
	if set, ok := strings.CutPrefix(s, "0x"); ok { // a bit set
		for _, d := range []byte(set) {
			if n, err := strconv.ParseUint(string(d), 16, 8); err == nil {
				total += bits.OnesCount64(n)
			}
		}
		return max(total, 1)
	}
	for item := range strings.SplitSeq(s, ",") {
		span, step, _ := strings.Cut(strings.TrimSuffix(item, "]"), ":")
		low, high, isRange := strings.Cut(span, "-")
		a, err := strconv.ParseUint(low, 10, 32)
		if err != nil {
			continue // Slurm writes "..." for a shortened list
		}
		n := uint64(1)
		if b, err := strconv.ParseUint(high, 10, 32); isRange && err == nil && b > a {
			n = b - a + 1
			if by, err := strconv.ParseUint(step, 10, 32); err == nil && by > 1 {
				n = (b-a)/by + 1
			}
		}
		total += int(min(n, 1<<24))
	}
	return max(total, 1)
}
