package format

import (
	"strings"

	"reckon/figure"
)

// Qualifier returns the words to write before an inexact figure in a sentence, such as "at least ". It returns an empty
// string for an exact figure.
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

// Mark returns the mark of a figure in tables: ">=" for a lower bound, "<=" for an upper bound, "~"
// for an estimate or a model.
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

// Marked returns the text of a figure with its mark before it. A text that is already a bound, such as "< 0.001", gets
// no mark. An upper bound of 0 gets none, because it is exact. A lower bound that rounds to 0 is shown as unknown.
func Marked(e figure.Exactness, text string) string {
	none, tiny := text == "0" || strings.HasPrefix(text, "0 "), strings.HasPrefix(text, "<")
	switch {
	case e == figure.AtLeast && (none || tiny):
		return "-"
	case e == figure.AtMost && none, tiny:
		return text
	}
	return Mark(e) + text
}

// Marks returns a sentence that explains the marks of the degrees in met. It is empty if met is empty.
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
