package main

import (
	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/term"
)

// marked writes figures with a mark where they are not exact, and remembers which marks
// were met.
type marked map[figure.Exactness]bool

// figure puts the mark of a figure before its text; what is unknown has none.
func (m marked) figure(of figure.Degrees, key, text string) string {
	return m.degree(of[key], text)
}

// degree puts the mark of a degree before the text of a figure.
func (m marked) degree(e figure.Exactness, text string) string {
	if e == figure.Exact || text == term.Unknown {
		return text
	}
	m[e] = true
	return format.Marked(e, text)
}

// legend explains the marks that were met; empty for none.
func (m marked) legend() string { return format.Marks(m) }
