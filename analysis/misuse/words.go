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

// Excess is the use of an owner above a fair share: means over the seconds in which others wanted it.
type Excess struct {
	// Share of the capacity that the owner used, Fair that would have been fair, Held what jobs held.
	Share, Fair, Held float64
	What, Where       string  // CPUs, memory, GPUs or storage traffic, and of which node
	Seconds, Waited   float64 // threads of others waited meanwhile; mentioned if that is a minute or more
}

// OverShareText describes the use of an owner above a fair share.
func OverShareText(x Excess) string {
	pronoun := "them"
	if x.What == "memory" || x.What == "storage traffic" {
		pronoun = "it"
	}
	key := "over-share"
	if x.Waited >= leastWait {
		key = "over-share.waited"
	}
	return say(key, phrase.Words{"share": format.Percent(x.Share), "what": x.What, "where": x.Where, "them": pronoun,
		"span":   Span(x.Seconds),
		"waited": Span(x.Waited), "fair": format.Percent(x.Fair), "by": FairBy(x.Held)})
}

// FairBy reports what a fair share is, where jobs held a share of the capacity.
func FairBy(held float64) string {
	if held > 0 {
		return say("over-share.beside-jobs", phrase.Words{"held": format.Percent(held)})
	}
	return say("over-share.even", nil)
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
