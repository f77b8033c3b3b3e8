// Package hostlist expands the node lists of Slurm, such as "c1-[5,9,12-18],gpu-2".
//
// The syntax is scontrol(1)'s, "show hostnames": names separated by commas, in each
// any number of brackets with numbers and ranges, with their width preserved ("n[08-11]"
// is n08, n09, n10, n11). Functions have no state.
package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// Most is the maximum number of names in a list: a longer one is an error.
const Most = 1 << 16

// Expand returns the names of a list in their order. An empty list has none.
func Expand(list string) ([]string, error) {
	var out []string
	for rest := list; rest != ""; {
		var item string
		item, rest = cutFirst(rest)
		if item == "" {
			return nil, fmt.Errorf("node list %q has an empty name", abbreviate(list))
		}
		names, err := expandItem(item, Most-len(out))
		if err != nil {
			return nil, fmt.Errorf("node list %q: %w", abbreviate(list), err)
		}
		out = append(out, names...)
	}
	return out, nil
}

// cutFirst splits a list at the first comma outside of brackets.
func cutFirst(list string) (item, rest string) {
	depth := 0
	for i := range len(list) {
		switch list[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth <= 0 {
				return list[:i], list[i+1:]
			}
		}
	}
	return list, ""
}

// expandItem expands the brackets of one item, the leftmost varying slowest.
func expandItem(item string, room int) ([]string, error) {
	out := []string{""}
	for item != "" {
		before, behind, found := strings.Cut(item, "[")
		if strings.ContainsAny(before, "] \t\n") {
			return nil, fmt.Errorf("%q is no name of a node", abbreviate(before))
		}
		for i := range out {
			out[i] += before
		}
		if !found {
			break
		}
		inside, after, closed := strings.Cut(behind, "]")
		if !closed {
			return nil, fmt.Errorf("a bracket is not closed")
		}
		numbers, err := expandRanges(inside, room)
		if err != nil {
			return nil, err
		}
		if len(out)*len(numbers) > room {
			return nil, tooManyNames()
		}
		next := make([]string, 0, len(out)*len(numbers))
		for _, prefix := range out {
			for _, n := range numbers {
				next = append(next, prefix+n)
			}
		}
		out, item = next, after
	}
	if len(out) > room {
		return nil, tooManyNames()
	}
	return out, nil
}

func tooManyNames() error { return fmt.Errorf("more than %d names", Most) }

// expandRanges expands "1,3-5".
func expandRanges(s string, room int) ([]string, error) {
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(item, "-")
		if !isRange {
			high = low
		}
		a, errA := strconv.ParseUint(low, 10, 32)
		b, errB := strconv.ParseUint(high, 10, 32)
		switch {
		case errA != nil || errB != nil || b < a || low[0] == '+' || high[0] == '+':
			return nil, fmt.Errorf("%q is no range of numbers", abbreviate(item))
		case b-a >= uint64(max(room-len(out), 0)):
			return nil, tooManyNames()
		}
		for n := a; n <= b; n++ {
			out = append(out, fmt.Sprintf("%0*d", len(low), n))
		}
	}
	return out, nil
}

func abbreviate(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
