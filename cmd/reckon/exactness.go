package main

import (
	"strings"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/term"
)

// marked formats figures with marks for inexact ones, and remembers the marks that were used.
type marked map[figure.Exactness]bool

// figure prefixes the text of a figure with its mark; an unknown figure has none.
func (m marked) figure(of figure.Degrees, key, text string) string {
	return m.degree(of[key], text)
}

// degree prefixes the text of a figure with the mark of a degree.
func (m marked) degree(e figure.Exactness, text string) string {
	if e == figure.Exact || text == term.Unknown {
		return text
	}
	text = format.Marked(e, text)
	m[e] = m[e] || strings.HasPrefix(text, format.Mark(e)) // a bound that shows nothing has none
	return text
}

// legend explains the used marks; empty if there are none.
func (m marked) legend() string { return format.Marks(m) }
