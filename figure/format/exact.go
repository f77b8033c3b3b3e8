package format

import (
	"strings"

	"reckon/figure"
)

// Qualifier returns the words that precede an inexact figure in a sentence, such as "at least "; it is
// empty for an exact figure.
func Qualifier(e figure.Exactness) string {
	switch e {
	case figure.Exact:
		return ""
	case figure.AtLeast:
		return "at least "
	case figure.AtMost:
		return "at most "
	case figure.Modelled:
		return "by a model "
	}
	return "about "
}

// Mark returns the symbol for tables, where there is no room for words: ">=" for at least, "<=" for at
// most, "~" for an estimate or a model.
func Mark(e figure.Exactness) string {
	switch e {
	case figure.Exact:
		return ""
	case figure.AtLeast:
		return ">="
	case figure.AtMost:
		return "<="
	}
	return "~"
}

// Marked prefixes the text of a figure with its mark. A text that is already a bound, such as
// "< 0.001", gets no mark; for a lower bound it becomes "> 0". At least none shows nothing, and is unknown.
func Marked(e figure.Exactness, text string) string {
	if e == figure.AtLeast && (text == "0" || strings.HasPrefix(text, "0 ")) {
		return "-"
	}
	if e == figure.Exact || !strings.HasPrefix(text, "<") {
		return Mark(e) + text
	}
	if e == figure.AtLeast {
		return "> 0"
	}
	return text
}

// Marks explains the marks of the degrees in met; it is empty when met is.
func Marks(met map[figure.Exactness]bool) string {
	text := ""
	for _, m := range []struct {
		of   []figure.Exactness
		text string
	}{
		{[]figure.Exactness{figure.AtLeast}, ">= at least: something of it could not be seen"},
		{[]figure.Exactness{figure.AtMost}, "<= at most"},
		{[]figure.Exactness{figure.Estimated, figure.Modelled}, "~ estimated or modelled"},
	} {
		for _, e := range m.of {
			if met[e] {
				if text != "" {
					text += "; "
				}
				text += m.text
				break
			}
		}
	}
	return text
}
