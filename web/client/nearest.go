package client

import (
	"cmp"
	"slices"
	"strings"
)

// Nearest returns up to n of words that are similar to text, the most similar first. Words that contain text come
// first, then words that differ by a few letters. It is safe for concurrent use.
func Nearest(text string, words []string, n int) []string {
	type match struct {
		word string
		cost int
	}
	text = strings.ToLower(text)
	var found []match
	for _, w := range words {
		low := strings.ToLower(w)
		cost := 0
		switch {
		case strings.HasPrefix(low, text) && text != "":
			cost = 0
		case strings.Contains(low, text) && text != "":
			cost = 1
		default:
			d := distance(text, low)
			if d > max(min(2, len(text)/2), len(text)/4) {
				continue
			}
			cost = 1 + d
		}
		found = append(found, match{w, cost})
	}
	slices.SortStableFunc(found, func(a, b match) int { return cmp.Compare(a.cost, b.cost) })
	out := make([]string, 0, n)
	for _, m := range found {
		if len(out) < n && !slices.Contains(out, m.word) {
			out = append(out, m.word)
		}
	}
	return out
}

// distance returns the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
