package answer

import (
	_ "embed"

	"reckon/figure/wire"
	"reckon/internal/phrase"
)

//go:embed sentences.txt
var sentenceFile string

var sentences = phrase.MustParse(sentenceFile)

// sentenceOf returns a sentence about a run with what it is made of.
func sentenceOf(s phrase.Sentence, w *wire.Workload) *wire.Sentence {
	out := &wire.Sentence{Key: s.Key, Template: s.Template, Values: []wire.Value{}, Run: w.ID, From: w.Start.UTC(), To: until(w).UTC(),
		Over: w.End != nil}
	for _, v := range s.Values {
		out.Values = append(out.Values, wire.Value{Name: v.Name, Text: v.Text, Value: encodable(v.Number), Unit: v.Unit, Run: v.Run})
	}
	return out
}

// tell adds a sentence to advice.
func tell(a *wire.Advice, s phrase.Sentence, d *wire.WorkloadDetail) {
	a.Why, a.Sentences = append(a.Why, s.String()), append(a.Sentences, *sentenceOf(s, &d.Workload))
}
