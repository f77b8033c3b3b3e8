package format

import (
	"strings"

	"reckon/figure"
)

// Qualifier is what stands before a figure in a sentence to say how exact it is: "at least ";
// empty for one that is exact.
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

// Mark is the same in tables, where there is no room for words: ">=" for at least, "<=" for at
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

// Marked puts the mark of a degree before the text of a figure. A text that is itself a bound,
// such as "< 0.001", takes none: of a figure that is at least that it says "> 0".
func Marked(e figure.Exactness, text string) string {
	if e == figure.Exact || !strings.HasPrefix(text, "<") {
		return Mark(e) + text
	}
	if e == figure.AtLeast {
		return "> 0"
	}
	return text
}

// Marks explains the marks of the degrees that were met, one after the other; empty for none.
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
