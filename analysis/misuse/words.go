package misuse

import (
	"strings"
	"time"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

// Span formats seconds in the usual notation, to the minute: 5h, 1h20m, 12m.
func Span(seconds float64) phrase.Text {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Minute)
	if d < time.Minute {
		return phrase.Number(seconds, "seconds", "less than a minute")
	}
	text := strings.TrimSuffix(d.String(), "0s")
	if d >= time.Hour {
		text = strings.TrimSuffix(text, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(text, "h0m")]
	}
	return phrase.Number(seconds, "seconds", text)
}

// Excess is the use of an owner above a fair share. Its values are means over the seconds in which others wanted the resource.
type Excess struct {
	// Share of the capacity that the owner used, Fair the fair share, Held the allocation of jobs.
	Share, Fair, Held float64
	What              string // CPUs, memory, GPUs or storage traffic
	Where             phrase.Text
	Seconds, Waited   float64 // threads of others waited meanwhile; mentioned if that is a minute or more
}

// OverShareText describes the use of an owner above a fair share.
func OverShareText(x Excess) phrase.Sentence {
	pronoun := "them"
	if x.What == "memory" || x.What == "storage traffic" {
		pronoun = "it"
	}
	key := "over-share"
	if x.Waited >= leastWait {
		key = "over-share.waited"
	}
	return ruleSentence(key, phrase.Words{"share": phrase.Percent(x.Share), "what": x.What, "where": x.Where, "them": pronoun,
		"span":   Span(x.Seconds),
		"waited": Span(x.Waited), "fair": phrase.Percent(x.Fair), "by": FairBy(x.Held)})
}

// FairBy describes the fair share if jobs held a share of the capacity.
func FairBy(held float64) phrase.Sentence {
	if held > 0 {
		return ruleSentence("over-share.beside-jobs", phrase.Words{"held": phrase.Percent(held)})
	}
	return ruleSentence("over-share.even", nil)
}

// leastWait is the minimum waiting time of other owners worth mentioning, in seconds.
const leastWait = 60

// its formats a number after the word "its": "GPU", "4 GPUs".
func its(n float64, noun string) phrase.Text {
	if n == 1 {
		return phrase.Join(noun)
	}
	return quantity(n, noun)
}

// quantity formats a number with its noun: "1 job", "20 jobs".
func quantity(n float64, noun string) phrase.Text {
	if n == 1 {
		return phrase.Number(n, "count", "1 "+noun)
	}
	return phrase.Number(n, "count", format.Count(n)+" "+noun+"s")
}
