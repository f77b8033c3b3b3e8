package phrase

import "strings"

// OneLine returns the beginning of a text of a third party for display: at most 300 bytes on one line, without control characters.
func OneLine(raw []byte) string {
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			return ' '
		}
		return r
	}, string(raw[:min(len(raw), 600)]))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	return s
}
