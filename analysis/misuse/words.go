package misuse

import (
	"strings"
	"time"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

// Span formats seconds as people write them, to the minute: 5h, 1h20m, 12m.
func Span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Minute)
	if d < time.Minute {
		return "less than a minute"
	}
	text := strings.TrimSuffix(d.String(), "0s")
	if d >= time.Hour {
		text = strings.TrimSuffix(text, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(text, "h0m")]
	}
	return text
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
	return say(key, phrase.Words{"share": format.Percent(share), "what": what, "where": where, "them": pronoun, "span": Span(seconds),
		"waited": Span(waited)})
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
