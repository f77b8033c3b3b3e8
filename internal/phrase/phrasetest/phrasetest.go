// Package phrasetest checks sentences against the figures that they are made of.
package phrasetest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"reckon/internal/phrase"
)

// Loose returns the first fault of a sentence, or "" if there is none. A fault is a number in the template that is not
// in fixed, a value without a name, or a number without a unit.
func Loose(s *phrase.Sentence, fixed ...string) string {
	plain := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(s.Template, "")
	for _, n := range regexp.MustCompile(`\d+`).FindAllString(plain, -1) {
		if !slices.Contains(fixed, n) {
			return fmt.Sprintf("%s: the number %s of %q is no value", s.Key, n, s.Template)
		}
	}
	for _, v := range s.Values {
		if v.Name == "" || v.Number != nil && v.Unit == "" {
			return fmt.Sprintf("%s: a value of %q has no name or no unit: %+v", s.Key, s.String(), v)
		}
	}
	return ""
}

// Figures returns the faults of a text, or "" if there are none. A fault is a number in the text that is not in values,
// or a value that has no number and is not in names.
func Figures(text string, values []phrase.Value, names ...string) string {
	rest := strings.ReplaceAll(text, "95 % of the time", "") // the percentile in a template
	for _, v := range values {
		before, after, found := strings.Cut(rest, v.Text)
		switch {
		case !found:
			return fmt.Sprintf("%q has no %s %q", text, v.Name, v.Text)
		case strings.ContainsFunc(before, unicode.IsDigit):
			return fmt.Sprintf("%q: a number of %q is no value", text, before)
		case v.Number == nil && !slices.Contains(names, strings.TrimRight(v.Name, "0123456789")):
			return fmt.Sprintf("%q: %s %q has no number", text, v.Name, v.Text)
		case v.Number != nil && v.Unit == "":
			return fmt.Sprintf("%q: %s has no unit", text, v.Name)
		}
		rest = after
	}
	if strings.ContainsFunc(rest, unicode.IsDigit) {
		return fmt.Sprintf("%q: a number of %q is no value", text, rest)
	}
	return ""
}
