package term

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe replaces characters that could move the cursor, change colours or reorder text by '?'. These are control
// characters, escape sequences, bidirectional overrides and invalid UTF-8. User-chosen names thus cannot manipulate the
// terminal.
func Safe(s string) string {
	clean := true
	for _, r := range s {
		if isUnsafe(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if isUnsafe(r) {
			b.WriteByte('?')
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func isUnsafe(r rune) bool {
	switch {
	case r >= ' ' && r < 0x7f:
		return false
	case r == utf8.RuneError, r == '\u2028', r == '\u2029':
		return true
	case r >= '\u200b' && r <= '\u200f', r >= '\u202a' && r <= '\u202e', r >= '\u2060' && r <= '\u2069', r == '\ufeff':
		return r != '\u200d' // a joiner is part of some emoji
	}
	return unicode.IsControl(r)
}
