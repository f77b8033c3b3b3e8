package findings

import (
	"fmt"
	"strings"

	"reckon/analysis/misuse"
	"reckon/store"
)

// Query is a PromQL query that shows the data behind a finding, over its time.
type Query struct{ Text, Query string }

// Queries returns the queries that show the data of a finding.
func Queries(f *store.Finding) (out []Query) {
	work := matchers("site", f.Site, "workload", f.Workload)
	if f.Workload == "" {
		work = matchers("site", f.Site, "owner", f.Owner)
	}
	fill := strings.NewReplacer("{$work", "{"+work, "{$node", "{"+matchers("site", f.Site, "node", f.Node),
		"{$owner", "{"+matchers("site", f.Site, "owner", f.Owner), "{$zombies",
		"{"+matchers("site", f.Site, "node", f.Node, "owner", f.Owner))
	for _, s := range misuse.DataQueries(f.Rule, f.Part) {
		out = append(out, Query{s.Text, strings.ReplaceAll(fill.Replace(s.Query), "{,", "{")})
	}
	return out
}

// matchers formats matchers of labels, without those that have no value.
func matchers(pairs ...string) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, fmt.Sprintf("%s=%q", pairs[i], pairs[i+1]))
		}
	}
	return strings.Join(out, ",")
}
