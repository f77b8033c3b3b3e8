package golden

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// intent is a difference that was made on purpose.
type intent struct {
	// Where it is, as the message of the test names it: the name of a question and the keys
	// down to the figure, such as job-*/advice/cores. Patterns are those of path.Match; one
	// that ends in /** holds for everything below.
	Where string
	Why   string
	// Holds says which change it is; nil is for any. A side that has nothing is missing{}.
	Holds func(d difference) bool
}

// intended lists all of them. What is listed and does not occur fails, too.
//
// Words that are recreated from figures at each answer are not compared at all: see spoken.
var intended = []intent{
	{
		Where: "*/rule", Why: "rules have the names of the field (changelog 011-rule-names)",
		Holds: func(d difference) bool { return ruleName(d.Was) == d.Is },
	},
	{
		Where: "look/over-share/state", Why: "on nodes of a batch system the fair share is what was allocated (decision 0306)",
		Holds: func(d difference) bool { return d.Was == "open" && d.Is == "gone" },
	},
	{
		Where: "rebuilt-jobs/cores_p95", Why: "of several nodes at a time it is an upper bound, not a sum (decision 0516)",
		Holds: func(d difference) bool {
			was, err1 := strconv.ParseFloat(fmt.Sprint(d.Was), 64)
			is, err2 := strconv.ParseFloat(fmt.Sprint(d.Is), 64)
			return err1 == nil && err2 == nil && is > was && is < 1.5*was
		},
	},
	{
		Where: "rebuilt-jobs/memory_mean_bytes", Why: "what was integrated before the first sample is no longer divided by the time after it",
		Holds: func(d difference) bool { return grew(d) < 0 },
	},
	{Where: "rebuilt-jobs/cores_mean", Why: sinceFirstReading, Holds: func(d difference) bool { return grew(d) < 0 }},
	{Where: "grown-jobs/cores_mean", Why: sinceFirstReading, Holds: func(d difference) bool { return grew(d) < 0 }},
	{
		Where: "cut-jobs/memory_peak_bytes", Why: "memory of steps that ran at the same time is added up (changelog 011-odd-accounting)",
		Holds: func(d difference) bool { return grew(d) > 0 || d.Is == nil && fmt.Sprint(d.Was) == "0" },
	},
	{
		Where: "cut-jobs", Why: "components of heterogeneous jobs have the names that people know (changelog 011-odd-accounting)",
		Holds: func(d difference) bool {
			return d.Is == missing{} && strings.Contains(fmt.Sprint(d.Was), "hetjob") || d.Was == missing{} && strings.Contains(fmt.Sprint(d.Is), "hetjob")
		},
	},
	{
		Where: "*usage-*/rows/memory_byte_seconds", Why: "memory that was read once was measured over no time: it is unknown, not 0 (changelog 011-odd-accounting)",
		Holds: func(d difference) bool { return d.Is == nil && fmt.Sprint(d.Was) == "0" },
	},
	{Where: "*jobs*/end", Why: lostRuns, Holds: func(d difference) bool { return d.Is == nil }},
	{Where: "job-*/end", Why: lostRuns, Holds: func(d difference) bool { return d.Is == nil }},
	{Where: "finding-*/steps/**", Why: "steps are counted anew, and by the allocation (decision 0306)"},
	{Where: "*usage-*/*/held_core_seconds", Why: hoursByFacts},
	{Where: "*usage-*/held_core_seconds", Why: hoursByFacts},
	{Where: "report/*/held_core_seconds", Why: hoursByFacts},
	{Where: "job-*/cores_histogram*", Why: "of a job on several nodes it is of the whole job, taken of its steps (changelog 020-steady-pages)"},
	{
		Where: "*usage-*/*/capacity_share", Why: "use is divided by capacity over the hours of which it is known only",
		Holds: func(d difference) bool { is, number := d.Is.(float64); return !number || is <= 1 },
	},
}

// grew is by how much a figure is greater than it was; 0 where one of them is none.
func grew(d difference) float64 {
	was, err1 := strconv.ParseFloat(fmt.Sprint(d.Was), 64)
	is, err2 := strconv.ParseFloat(fmt.Sprint(d.Is), 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return is - was
}

const sinceFirstReading = "CPU time that a job had used at its first reading is not of the time since (changelog 011-odd-accounting)"

const lostRuns = "of a job that was last heard of as running it is not known when it ended (changelog 011-ended-by)"

const hoursByFacts = "core-hours allocated are facts times the time from start to end, no longer a sum over samples"

// ruleName is the name of today of a rule of findings.
func ruleName(was any) any {
	if is, ok := map[any]string{
		"hog": "over-share", "misfit": "gpu-unused", "greedy": "over-requested", "deadweight": "idle-allocation",
		"vampire": "many-small-jobs", "thrash": "memory-thrashing",
	}[was]; ok {
		return is
	}
	return was
}

// spoken are answers in words, which may be put better at any time: verdicts, advice, and
// the queries that a finding names.
var spoken = []string{"job-*/verdicts", "job-*/advice", "findings*/queries", "rebuilt-findings*/queries", "finding-*/queries"}

// moving are figures of the present, which go on with the clock.
var moving = []string{"*usage-*/pending", "report/pending"}

// withoutPresent drops what moves with the clock of a single row: a job that waited when the
// site fell silent counts as ended once it has been silent for days.
func withoutPresent(v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			withoutPresent(one)
		}
	case map[string]any:
		if v["state"] == "pending" {
			delete(v, "end")
			delete(v, "wall_seconds")
		}
	}
}

var (
	usedMu sync.Mutex
	used   = map[string]bool{}
)

// isIntended looks a difference up.
func isIntended(d difference) bool {
	for _, pattern := range slices.Concat(spoken, moving) {
		if below(pattern+"/**", d.Where) {
			return true
		}
	}
	for _, i := range intended {
		if below(i.Where, d.Where) && (i.Holds == nil || i.Holds(d)) {
			usedMu.Lock()
			used[i.Where] = true
			usedMu.Unlock()
			return true
		}
	}
	return false
}

// below is path.Match, where a pattern that ends in /** is of a place and all below it.
func below(pattern, where string) bool {
	const all = "/**"
	if len(pattern) < len(all) || pattern[len(pattern)-len(all):] != all {
		ok, err := path.Match(pattern, where)
		return ok && err == nil
	}
	pattern = pattern[:len(pattern)-len(all)]
	for at := where; at != "." && at != "/"; at = path.Dir(at) {
		if ok, err := path.Match(pattern, at); ok && err == nil {
			return true
		}
	}
	return false
}

// unused are the intents that were not met.
func unused() (out []string) {
	usedMu.Lock()
	defer usedMu.Unlock()
	for _, i := range intended {
		if !used[i.Where] {
			out = append(out, i.Where)
		}
	}
	return out
}
