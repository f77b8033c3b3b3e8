package database

import (
	"strings"
	"unicode/utf8"
)

// glob is a shell pattern in the syntax of SQLite (https://sqlite.org/lang_expr.html#glob): *
// matches any text, ? any character, [a-c] one of a set, [^a] any other. An unclosed set matches
// nothing.
type glob struct{ steps []globStep }

// globStep matches one character; many matches any text.
type globStep struct {
	many, any, not, never bool
	letter                rune
	set                   []rune // pairs: from, to
}

func parseGlob(pattern string) glob {
	pattern, _, _ = strings.Cut(pattern, "\x00") // SQLite ends a text there
	var g glob
	for p := splitCharacters(pattern); len(p) > 0; {
		switch p[0] {
		case '*':
			g.steps = append(g.steps, globStep{many: true})
		case '?':
			g.steps = append(g.steps, globStep{any: true})
		case '[':
			s, n := parseSet(p)
			g.steps = append(g.steps, s)
			p = p[n:]
			continue
		default:
			g.steps = append(g.steps, globStep{letter: p[0]})
		}
		p = p[1:]
	}
	return g
}

// splitCharacters returns the characters of a text. Each invalid byte is a separate character.
func splitCharacters(s string) []rune {
	out := make([]rune, 0, len(s))
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			r = utf8.MaxRune + 1 + rune(s[0])
		}
		out, s = append(out, r), s[n:]
	}
	return out
}

// parseSet parses the set in brackets at the beginning of p, and returns its length.
func parseSet(p []rune) (globStep, int) {
	s, i := globStep{}, 1
	if i < len(p) && p[i] == '^' {
		s.not = true
		i++
	}
	before := rune(0) // possible start of a range
	if i < len(p) && p[i] == ']' {
		s.set = append(s.set, ']', ']')
		i++
	}
	for ; i < len(p) && p[i] != ']'; i++ {
		if p[i] == '-' && i+1 < len(p) && p[i+1] != ']' && before > 0 {
			i++
			s.set = append(s.set, before, p[i])
			before = 0
			continue
		}
		s.set = append(s.set, p[i], p[i])
		before = p[i]
	}
	if i >= len(p) {
		return globStep{never: true}, len(p)
	}
	return s, i + 1
}

func (s *globStep) accepts(r rune) bool {
	switch {
	case s.never:
		return false
	case s.any:
		return true
	case s.letter != 0:
		return s.letter == r
	}
	for i := 0; i < len(s.set); i += 2 {
		if r >= s.set[i] && r <= s.set[i+1] {
			return !s.not
		}
	}
	return s.not
}

// matches reports whether all of a text matches.
func (g glob) matches(text string) bool {
	if cut := strings.IndexByte(text, 0); cut >= 0 {
		text = text[:cut]
	}
	at, star, again := 0, -1, "" // position of the last *, and the text that it has not matched yet
	for {
		if at < len(g.steps) && g.steps[at].many {
			star, again = at, text
			at++
			continue
		}
		if text == "" && at == len(g.steps) {
			return true
		}
		if text != "" && at < len(g.steps) {
			r, n := utf8.DecodeRuneInString(text)
			if r == utf8.RuneError && n == 1 {
				r = utf8.MaxRune + 1 + rune(text[0])
			}
			if g.steps[at].accepts(r) {
				at, text = at+1, text[n:]
				continue
			}
		}
		if star < 0 || again == "" {
			return false
		}
		_, n := utf8.DecodeRuneInString(again)
		again = again[n:]
		at, text = star+1, again
	}
}
