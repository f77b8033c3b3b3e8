// Package sorting sorts slices of structs by code that is compiled once. [slices.SortFunc] and
// [slices.SortStableFunc] are compiled anew for each type of struct, 7 to 11 KB with their tables: for
// a hundred types that is more than a megabyte of the server's program.
//
// Where many thousand elements are sorted often, and where nothing may be allocated, package slices
// is the right one: it takes about half the time. Pointers and strings share its code already.
package sorting

import (
	"iter"
	"slices"
	"sort"
)

// Func sorts x in ascending order of cmp, as [slices.SortFunc] does: equal elements may change places.
func Func[E any](x []E, cmp func(a, b E) int) {
	sort.Slice(x, func(i, j int) bool { return cmp(x[i], x[j]) < 0 })
}

// Stable sorts x in ascending order of cmp and leaves equal elements in their order, as
// [slices.SortStableFunc] does.
func Stable[E any](x []E, cmp func(a, b E) int) {
	sort.SliceStable(x, func(i, j int) bool { return cmp(x[i], x[j]) < 0 })
}

// Collect returns what seq yields, sorted by [Func].
func Collect[E any](seq iter.Seq[E], cmp func(a, b E) int) []E {
	x := slices.Collect(seq)
	Func(x, cmp)
	return x
}
