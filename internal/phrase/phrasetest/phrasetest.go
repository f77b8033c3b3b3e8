// Package phrasetest holds sentences against what they are made of.
package phrasetest

import (
	"fmt"
	"regexp"
	"slices"

	"reckon/internal/phrase"
)

// Loose returns what is wrong with a sentence: a number of its template that is not among those that templates may have, or a value
// without a name; empty if nothing is.
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
