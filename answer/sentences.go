package answer

import (
	_ "embed"

	"reckon/answer/findings"
	"reckon/figure/wire"
	"reckon/internal/phrase"
)

//go:embed sentences.txt
var sentenceFile string

var sentences = phrase.MustParse(sentenceFile)

// sentenceOf returns a sentence about a run with its template and values.
func sentenceOf(s phrase.Sentence, w *wire.Workload) *wire.Sentence {
	return &wire.Sentence{Key: s.Key, Template: s.Template, Values: findings.Values(s.Values), Run: w.ID, From: w.Start.UTC(),
		To: runEnd(w).UTC(), Over: w.End != nil}
}

// addSentence adds a sentence to advice.
func addSentence(a *wire.Advice, s phrase.Sentence, d *wire.WorkloadDetail) {
	a.Why, a.Sentences = append(a.Why, s.String()), append(a.Sentences, *sentenceOf(s, &d.Workload))
}
