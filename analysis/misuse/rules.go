package misuse

import (
	_ "embed"
	"slices"
	"strings"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

//go:embed texts.txt
var textFile string

var texts = phrase.MustParse(textFile)

// Names of the rules.
const (
	OverShare       = "over-share"
	GPUUnused       = "gpu-unused"
	OverRequested   = "over-requested"
	IdleAllocation  = "idle-allocation"
	ManySmallJobs   = "many-small-jobs"
	MemoryThrashing = "memory-thrashing"
	Imbalance       = "imbalance"
	CannotStart     = "cannot-start"
	ManyConnections = "many-connections"
	StoragePattern  = "storage-pattern"
	Anomaly         = "anomaly"
)

// nicknames are the former names of rules. Existing policies, parameters and rows with
// them are still read, and the id of a finding hashes the nickname for ever.
var nicknames = map[string]string{
	"hog": OverShare, "misfit": GPUUnused, "greedy": OverRequested, "deadweight": IdleAllocation, "vampire": ManySmallJobs, "thrash": MemoryThrashing,
}

// Rules returns the names of all rules.
func Rules() []string {
	return []string{OverShare, GPUUnused, OverRequested, IdleAllocation, ManySmallJobs, MemoryThrashing, Imbalance, ManyConnections, StoragePattern, CannotStart, Anomaly}
}

// RuleOf returns the rule for a name or a nickname, and false for any other word.
func RuleOf(name string) (string, bool) {
	if rule, ok := nicknames[name]; ok {
		return rule, true
	}
	return name, slices.Contains(Rules(), name)
}

// Key returns what the id of a finding hashes for its rule: the rule's first name.
func Key(rule string) string {
	for nick, name := range nicknames {
		if name == rule {
			return nick
		}
	}
	return rule
}

// Meaning returns a sentence on what a rule finds; empty if there is no such rule.
func Meaning(rule string) string {
	if key := "rule." + rule; texts.Has(key) {
		return texts.Say(key, nil)
	}
	return ""
}

// OverShareText describes the use of an owner above a fair share: the mean share of the CPUs, memory,
// GPUs or storage traffic of a node over the seconds in which others wanted them, and how long
// threads of others waited meanwhile, in seconds, if that is a minute or more.
func OverShareText(share float64, what, where string, seconds, waited float64) string {
	pronoun := "them"
	if what == "memory" || what == "storage traffic" {
		pronoun = "it"
	}
	key := "over-share"
	if waited >= leastWait {
		key = "over-share.waited"
	}
	return texts.Say(key, phrase.Words{"share": format.Percent(share), "what": what, "where": where, "them": pronoun, "span": Span(seconds), "waited": Span(waited)})
}

// leastWait is the waiting time of others that is worth mentioning, in seconds.
const leastWait = 60

// its formats a number after the word "its": "GPU", "4 GPUs".
func its(n float64, noun string) string {
	if n == 1 {
		return noun
	}
	return format.Count(n) + " " + noun + "s"
}

// counted formats a number with its noun: "1 job", "20 jobs".
func counted(n float64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strings.TrimSpace(format.Count(n) + " " + noun + "s")
}
