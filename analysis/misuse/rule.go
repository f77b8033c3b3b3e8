package misuse

import (
	"cmp"
	"embed"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"sync"

	"reckon/internal/phrase"
)

// A rule is a type with thresholds, such as [ManyConnectionsRule], in a Go file, and a text in rules/NUMBER-NAME.txt.
// The text has three sections: sentences, queries, and the section of the policy file with the default thresholds.
// [Policy] and the list of rules are generated from the names of the texts.

//go:generate go test -run TestRuleFiles . -update

//go:embed rules/*.txt
var ruleFiles embed.FS

// DataQuery is a PromQL query for the data behind part of a finding. These placeholders stand for matchers: $work for the
// workload (or its owner if there is none), $node for the node, $owner for the owner, and $zombies for the owner on the node.
type DataQuery struct{ Part, Text, Query string }

// ruleTexts are the texts of all rules.
type ruleTexts struct {
	sentences *phrase.Book
	defaults  map[string]string
	shows     map[string][]DataQuery
}

// readRules parses the texts once. An error panics, because they are part of the program.
var readRules = sync.OnceValue(func() ruleTexts {
	t := ruleTexts{defaults: map[string]string{}, shows: map[string][]DataQuery{}}
	var sentences strings.Builder
	names, err := fs.Glob(ruleFiles, "rules/*.txt")
	if err != nil {
		panic(err)
	}
	for _, file := range names {
		text, err := ruleFiles.ReadFile(file)
		if err != nil {
			panic(err)
		}
		sections := strings.SplitN(string(text), "\n---\n", 3)
		sentences.WriteString(sections[0] + "\n")
		_, rule, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".txt"), "-")
		for line := range strings.Lines(sections[1]) {
			if part, rest, ok := strings.Cut(strings.TrimSpace(line), " | "); ok {
				text, query, _ := strings.Cut(rest, " | ")
				t.shows[rule] = append(t.shows[rule], DataQuery{part, text, query})
			}
		}
		t.defaults[rule] = sections[2]
	}
	t.sentences = phrase.MustParse(sentences.String())
	return t
})

// ruleSentence returns a sentence of a rule with its words filled in.
func ruleSentence(key string, words phrase.Words) phrase.Sentence {
	return readRules().sentences.Sentence(key, words)
}

// ruleText returns a text about a rule by the first word of its key, or "".
func ruleText(what, rule string) string {
	if key := what + "." + rule; readRules().sentences.Has(key) {
		return readRules().sentences.Say(key, nil)
	}
	return ""
}

// Meaning returns a sentence about the findings of a rule, or "" if there is no such rule.
func Meaning(rule string) string { return ruleText("rule", rule) }

// Help returns a line for lists: the misuse that a rule finds.
func Help(rule string) string { return ruleText("help", rule) }

// Defaults returns the section of the policy file of a rule: comments and default thresholds, YAML.
func Defaults(rule string) string { return readRules().defaults[rule] }

// DataQueries returns the queries for the data behind a part of a finding.
func DataQueries(rule, part string) (out []DataQuery) {
	for _, s := range readRules().shows[rule] {
		if s.Part == part {
			out = append(out, s)
		}
	}
	return out
}

// Needs selects the runs that a rule judges.
type Needs struct {
	Ran     Duration // a shorter run is not judged
	Running bool     // only running work is judged
	Waiting bool     // jobs that can never start are judged, and nothing else
}

// matches reports whether the rule judges a run.
func (n *Needs) matches(w *Workload) bool {
	if n.Waiting {
		return len(w.Stuck) > 0
	}
	if len(w.Stuck) > 0 && !w.Running {
		return false
	}
	if n.Running {
		return w.Running
	}
	return w.Wall() >= n.Ran.Seconds()
}

// runRule is a rule about single runs.
type runRule interface {
	// needs returns the data that the rule needs, and false while it is off.
	needs() (Needs, bool)
	// judge returns the findings about a run that fulfils the needs.
	judge(w *Workload, p *Policy) []Finding
}

// overTimeRule is a rule about figures over time. A counter becomes a rate, and a peak of memory becomes a share of the memory of
// the run.
type overTimeRule interface {
	// lines returns the figures that are read over time, by key, with the minimum total of a run,
	// and whether they are also read for sums of short work.
	lines() (least map[string]float64, folded bool)
}

// eachRule calls f with each enabled rule about single runs.
func (p *Policy) eachRule(f func(j runRule, n Needs)) {
	for _, r := range p.rules() {
		if j, ok := r.(runRule); ok {
			if n, on := j.needs(); on {
				f(j, n)
			}
		}
	}
}

// shortest returns the run time of the shortest run that a rule with matching needs judges, limited to most.
func (p *Policy) shortest(most Duration, match func(Needs) bool) Duration {
	p.eachRule(func(_ runRule, n Needs) {
		if !n.Waiting && match(n) {
			most = min(most, n.Ran)
		}
	})
	return most
}

// Followed is a figure that rules read over time.
type Followed struct {
	Key    string
	Least  float64 // total of a run from which on it is read
	Folded bool    // it is read of sums of short work, too
}

// Lines returns the figures that rules read over time, by key.
func Lines() (out []Followed) {
	for _, r := range new(Policy).rules() {
		if s, ok := r.(overTimeRule); ok {
			least, folded := s.lines()
			for key, v := range least {
				out = append(out, Followed{key, v, folded})
			}
		}
	}
	slices.SortFunc(out, func(a, b Followed) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// originalNames are the first names of rules: the id of a finding hashes them, so that ids outlive names.
var originalNames = map[string]string{
	OverShare: "hog", GPUUnused: "misfit", OverRequested: "greedy", IdleAllocation: "deadweight", ManySmallJobs: "vampire",
	MemoryThrashing: "thrash",
}

// Key returns the part of a finding's id that identifies its rule.
func Key(rule string) string { return cmp.Or(originalNames[rule], rule) }

// perSecond returns a total divided by seconds, or NaN if the total is unknown.
func perSecond(total *float64, seconds float64) float64 {
	if !isKnown(total) {
		return math.NaN()
	}
	return *total / seconds
}
