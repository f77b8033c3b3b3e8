package golden

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"sync"
)

// intent is a difference that was made on purpose.
type intent struct {
	// Where it is, as the message of the test names it: the name of a question and the keys
	// down to the figure, such as job-*/advice/cores. Patterns are as in path.Match; one
	// that ends in /** holds for everything below.
	Where string
	Why   string
	// Holds reports which change it is; nil is for any. A side that has nothing is missing{}.
	Holds func(d difference) bool
}

// intended lists all of them. What is listed and does not occur fails, too.
//
// Words that are recreated from figures at each answer are not compared at all: see spoken.
var intended = []intent{
	{"rebuilt-*/memory_needed_peak_bytes", "a job that was killed at its limit needed at least that (jobs.md, F2)", slightlyMore},
	{"grown-import/rows", "a row is written once for each slice of 18 hours of history that its run is in; it was 24",
		slightlyMore},
	{"jobs-csv", "a list of a time is ordered by what was used in it (pages.md, U17)", func(d difference) bool {
		return d.Was == missing{} || d.Is == missing{}
	}},
	{"rebuilt-jobs/end", "a service without samples is not over (foresight.md, F6)", func(d difference) bool { return d.Is == nil }},
	{"look/*/state", "a finding over days has those about single runs as its evidence, in their place (pages.md, U6)", func(d difference) bool {
		return d.Was == "open" && d.Is == "gone"
	}},
	{"job-*/profile/points/value", "the last step of a part is the mean until its end, and not of the time after it (newcomer 3, M2)",
		func(d difference) bool {
			was, err1 := strconv.ParseFloat(fmt.Sprint(d.Was), 64)
			is, err2 := strconv.ParseFloat(fmt.Sprint(d.Is), 64)
			return err1 == nil && (err2 == nil && is > was || was == 0 && d.Is == nil)
		}},
	{"job-*/profile", "a part that was sampled only after its end has no memory over time, where it was 0 (newcomer 3, M2)",
		func(d difference) bool { return d.Is == missing{} }},
}

func slightlyMore(d difference) bool {
	was, err1 := strconv.ParseFloat(fmt.Sprint(d.Was), 64)
	is, err2 := strconv.ParseFloat(fmt.Sprint(d.Is), 64)
	return err1 == nil && err2 == nil && is > was && is < 1.2*was
}

// spoken are answers in words, which may be put better at any time: verdicts, advice, what a rule means, and
// the queries that a finding names.
var spoken = []string{"job-*/verdicts", "job-*/advice", "findings*/means", "rebuilt-findings*/means", "finding-*/means", "findings*/queries", "rebuilt-findings*/queries", "finding-*/queries",
	"*usage*/proof"}

// moving are figures of the present, which go on with the clock.
var moving = []string{"*usage-*/pending", "report/pending", "*/as_of", "*/missing"}

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
