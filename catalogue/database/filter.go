package database

import (
	"maps"
	"math"
	"slices"
	"strings"

	"reckon/catalogue/database/columns"
	"reckon/figure"
	"reckon/store"
)

// The in-memory columns of a row, besides its key, id and nodes.
var (
	heldWords   = []string{"site", "kind", "name", ownersSQL, "account", "partition_name", "command", "state", "qos", "exactness"}
	heldTimes   = []string{"start_ms", "seen_ms", "until_ms", wallSQL, "submit_ms", "exit_code"}
	heldNumbers = slices.Concat(heldTimes, runColumns)
	numberCPU   = len(heldTimes) + figure.Index(figure.Runs, "cpu_seconds")
)

// Indices of the words and numbers that filters use.
const (
	wordSite      = 0
	wordKind      = 1
	wordName      = 2
	wordOwner     = 3
	wordAccount   = 4
	wordPartition = 5
	wordCommand   = 6
	wordState     = 7
	wordQOS       = 8
	wordExactness = 9
	numberStart   = 0
	numberSeen    = 1
	numberUntil   = 2
	numberSubmit  = 4 // the first one that may be unknown
)

// ownersSQL selects the owner of a row. For a process group of several users, it selects each user on a separate line,
// so that a filter matches any of them.
const ownersSQL = "CASE shares WHEN '' THEN owner ELSE owner || (SELECT group_concat(char(10) || key, '') FROM json_each(shares)) END"

// ownerList returns the owners of a row in the form of ownersSQL.
func ownerList(w *store.Workload) string {
	out := w.Owner
	for _, o := range slices.Sorted(maps.Keys(w.Shares)) {
		out += "\n" + o
	}
	return out
}

// mayBeUnknown reports whether the sort key is unknown for some rows.
func mayBeUnknown(order string) bool { return slices.Index(heldNumbers, order) >= numberSubmit }

// toColumnRow converts a row for the columns.
func toColumnRow(key int64, w *store.Workload, until int64) columns.Row {
	start, wall := w.Start.UnixMilli(), until
	switch until {
	case running:
		wall = w.Seen.UnixMilli()
	case waiting:
		wall = start
	}
	r := columns.Row{
		Key: key, ID: w.ID, Names: w.Nodes,
		Words:   []string{w.Site, w.Kind, w.Name, ownerList(w), w.Account, w.Partition, w.Command, w.State, w.QOS, exactText(w.Exactness)},
		Numbers: make([]float64, 0, len(heldNumbers)),
	}
	submit, code := math.NaN(), math.NaN()
	if !w.Submit.IsZero() {
		submit = float64(w.Submit.UnixMilli())
	}
	if w.ExitCode != nil {
		code = float64(*w.ExitCode)
	}
	r.Numbers = append(r.Numbers, float64(start), float64(w.Seen.UnixMilli()), float64(until), float64(wall-start), submit, code)
	for i := range figures {
		v := math.NaN()
		if p := *w.Row.At(i); p != nil {
			v = *p
		}
		r.Numbers = append(r.Numbers, v)
	}
	return r
}

// toColumnsQuery converts a filter, an order and a page for the columns.
func toColumnsQuery(filter store.Filter, order string, down bool) *columns.Query {
	q := &columns.Query{Names: filter.Nodes, Down: down, Then: -1, Offset: max(filter.Offset, 0), Limit: max(filter.Limit, 0)}
	words := func(column int, values []string) {
		if len(values) > 0 {
			q.Words = append(q.Words, columns.Words{Column: column, Values: values})
		}
	}
	if len(filter.Owners) > 0 {
		q.Words = append(q.Words, columns.Words{Column: wordOwner, Values: filter.Owners, Match: func(s string) bool {
			for o := range strings.SplitSeq(s, "\n") {
				if slices.Contains(filter.Owners, o) {
					return true
				}
			}
			return false
		}})
	}
	words(wordKind, filter.Kinds)
	words(wordAccount, filter.Accounts)
	words(wordPartition, filter.Partitions)
	words(wordState, filter.States)
	words(wordSite, filter.Sites)
	pattern := func(column int, p string) {
		if name, one := exactName(p); one {
			words(column, []string{name})
		} else {
			q.Words = append(q.Words, columns.Words{Column: column, Match: parseGlob(p).matches})
		}
	}
	if filter.Command != "" {
		pattern(wordCommand, filter.Command)
	}
	if filter.Name != "" {
		pattern(wordName, filter.Name)
	}
	within := func(column int, low, high float64) {
		q.Ranges = append(q.Ranges, columns.Range{Column: column, Low: low, High: high})
	}
	if filter.Running != nil && *filter.Running {
		within(numberUntil, running, running)
	} else if filter.Running != nil {
		within(numberUntil, math.Inf(-1), running-1)
	}
	if !filter.Until.IsZero() {
		within(numberStart, math.Inf(-1), float64(filter.Until.UnixMilli()-1))
	}
	if !filter.Since.IsZero() {
		within(numberUntil, float64(filter.Since.UnixMilli()), math.Inf(1))
	}
	if filter.Within {
		within(numberStart, float64(filter.Since.UnixMilli()), math.Inf(1))
		within(numberUntil, math.Inf(-1), float64(filter.Until.UnixMilli()-1))
	}
	if filter.MinCPU > 0 {
		within(numberCPU, filter.MinCPU, math.Inf(1))
	}
	switch {
	case order == "id":
		q.By = columns.ByID
	case order == "nodes":
		q.By = columns.ByNames
	case order == "owner":
		q.By, q.Column = columns.ByWord, wordOwner
	case slices.Contains(heldWords, order):
		q.By, q.Column = columns.ByWord, slices.Index(heldWords, order)
	default:
		q.By, q.Column = columns.ByNumber, slices.Index(heldNumbers, order)
	}
	if slices.Contains(thenByStart, order) {
		q.Then = numberStart
	}
	return q
}

// stillSelects reports whether a filter still selects a row that the columns returned, which may have changed meanwhile.
func stillSelects(q *columns.Query, r *columns.Row) bool {
	for _, w := range q.Words {
		if s := r.Words[w.Column]; !slices.Contains(w.Values, s) && (w.Match == nil || !w.Match(s)) {
			return false
		}
	}
	for _, x := range q.Ranges {
		if v := r.Numbers[x.Column]; !(v >= x.Low && v <= x.High) {
			return false
		}
	}
	return len(q.Names) == 0 || slices.ContainsFunc(r.Names, func(n string) bool { return slices.Contains(q.Names, n) })
}
