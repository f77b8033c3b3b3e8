package term

import "strings"

// Fold breaks a line that is wider than the screen. It breaks between figures, which are separated by two or more
// spaces. If a single figure is too wide, it breaks after a comma where possible. Continuation lines start with indent
// spaces. Colours are kept. The result has no final newline.
func (s Screen) Fold(line string, indent int) string {
	if s.Width <= 0 || Width(Strip(line)) <= s.Width {
		return line
	}
	indent = min(indent, s.Width/2)
	var out strings.Builder
	at := 0         // columns of the current line
	started := true // it holds only its indent
	put := func(gap int, text string) {
		w := Width(Strip(text))
		if !started && at+gap+w > s.Width {
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at, started = indent, true
		}
		if started {
			gap = 0
		}
		out.WriteString(strings.Repeat(" ", gap) + text)
		at, started = at+gap+w, false
	}
	for rest, gap := line, 0; rest != ""; {
		figure := rest
		if i := strings.Index(rest, "  "); i >= 0 {
			figure = rest[:i]
		}
		rest = rest[len(figure):]
		if Width(Strip(figure)) <= s.Width-indent {
			put(gap, figure)
		} else {
			for part := range strings.SplitAfterSeq(figure, ", ") {
				if part = strings.TrimSuffix(part, " "); Width(Strip(part)) <= s.Width-indent {
					put(max(gap, 1), part)
					gap = 1
					continue
				}
				for word := range strings.SplitSeq(part, " ") {
					put(max(gap, 1), word)
					gap = 1
				}
			}
		}
		trimmed := strings.TrimLeft(rest, " ")
		gap, rest = len(rest)-len(trimmed), trimmed
	}
	return out.String()
}
