package feature

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// errUnsupported describes the expressions that an agent can compute.
var errUnsupported = errors.New(
	"can not be read live; give products and quotients of sum(rate(SERIES{label=\"value\"}[5m])), avg(SERIES) and the like, or a " +
		"feature of the list")

var (
	metricNamePattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	})
	labelNamePattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	})
)

// Parse parses an expression into factors. The syntax is a subset of PromQL: factors joined by *
// and /, where each is a rate(NAME{matchers}[window]) or a NAME{matchers}, optionally in sum or
// avg. A bare name that ends in _total stands for its rate. A regular expression may be a list of
// words joined by |, each with an optional final .*.
func Parse(expr string) ([]Factor, error) {
	var out []Factor
	rest, op := strings.TrimSpace(expr), byte('*')
	for {
		piece, next, tail := cutFactor(rest)
		f, err := parseFactor(strings.TrimSpace(piece))
		if err != nil {
			return nil, fmt.Errorf("%s %w", expr, err)
		}
		f.Divide = op == '/'
		out = append(out, f)
		if next == 0 {
			break
		}
		op, rest = next, tail
	}
	return out, nil
}

// cutFactor splits at the first * or / outside brackets and quotes.
func cutFactor(s string) (piece string, op byte, tail string) {
	depth, quoted := 0, false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' && (i == 0 || s[i-1] != '\\'):
			quoted = !quoted
		case quoted:
		case strings.IndexByte("({[", c) >= 0:
			depth++
		case strings.IndexByte(")}]", c) >= 0:
			depth--
		case (c == '*' || c == '/') && depth == 0:
			return s[:i], c, s[i+1:]
		}
	}
	return s, 0, ""
}

func parseFactor(s string) (Factor, error) {
	var f Factor
	aggregated := false
	if in, ok := callArgument(s, "scalar"); ok {
		s = in
	}
	if in, ok := callArgument(s, "sum"); ok {
		s, aggregated = in, true
	} else if in, ok := callArgument(s, "avg"); ok {
		s, f.Mean, aggregated = in, true, true
	}
	if in, ok := callArgument(s, "rate"); ok {
		i := strings.LastIndexByte(in, '[')
		if i < 0 || !strings.HasSuffix(in, "]") {
			return f, errUnsupported
		}
		s, f.Rate = in[:i], true
	}
	name, match, ok := strings.Cut(s, "{")
	if ok {
		if match, ok = strings.CutSuffix(strings.TrimSpace(match), "}"); !ok {
			return f, errUnsupported
		}
		if err := f.parseMatchers(match); err != nil {
			return f, err
		}
	}
	if name = strings.TrimSpace(name); name != "" {
		f.Series = append(f.Series, name)
	}
	if len(f.Series) == 0 || slices.ContainsFunc(f.Series, func(n string) bool { return !metricNamePattern().MatchString(n) }) {
		return f, errUnsupported
	}
	if !aggregated && !f.Rate && strings.HasSuffix(name, "_total") {
		f.Rate = true
	}
	return f, nil
}

// callArgument returns the text within the parentheses of s = word(...).
func callArgument(s, word string) (argument string, ok bool) {
	s = strings.TrimSpace(s)
	rest, ok := strings.CutPrefix(s, word)
	if !ok {
		return "", false
	}
	rest = strings.TrimSpace(rest)
	if !strings.HasPrefix(rest, "(") || !strings.HasSuffix(rest, ")") {
		return "", false
	}
	return strings.TrimSpace(rest[1 : len(rest)-1]), true
}

var matcherPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")\s*(?:,|$)`)
})

// parseMatchers parses s, the label conditions between braces. It drops the node matcher, because the agent reads only its
// own node and its samples have no node label.
func (f *Factor) parseMatchers(s string) error {
	for s = strings.TrimSpace(s); s != ""; {
		if rest, ok := strings.CutPrefix(s, "NODE"); ok {
			s = strings.TrimLeft(rest, ", ")
			continue
		}
		m := matcherPattern().FindStringSubmatch(s)
		if m == nil {
			return errUnsupported
		}
		s = strings.TrimSpace(s[len(m[0]):])
		value, err := strconv.Unquote(m[3])
		if err != nil {
			return errUnsupported
		}
		c := Match{Label: m[1], Values: []string{value}, Not: m[2][0] == '!'}
		if strings.HasSuffix(m[2], "~") {
			if c.Values, err = alternatives(value); err != nil {
				return err
			}
		}
		switch {
		case c.Label == "__name__" && !c.Not:
			f.Series = append(f.Series, c.Values...)
		case c.Label == "node" || c.Label == "instance" || c.Label == "job":
		case !labelNamePattern().MatchString(c.Label):
			return errUnsupported
		default:
			f.Match = append(f.Match, c)
		}
	}
	return nil
}

// alternatives splits a regular expression that consists of alternatives only.
func alternatives(s string) ([]string, error) {
	out := strings.Split(s, "|")
	for i, w := range out {
		w, any := strings.CutSuffix(w, ".*")
		if regexp.QuoteMeta(w) != w {
			return nil, errUnsupported
		}
		if any {
			w += "*"
		}
		out[i] = w
	}
	return out, nil
}
