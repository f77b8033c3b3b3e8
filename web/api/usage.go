package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"reckon/access"
	"reckon/web/client"
)

// Usage returns usage over long periods, from roll-ups.
type Usage interface {
	// Usage adds up the selected usage. Since, Until and Span are always set.
	Usage(ctx context.Context, q client.UsageQuery) (client.UsageList, error)
}

func (s *server) usageRoutes() []route {
	text, when := schema{"type": "string"}, schema{"type": "string", "examples": []string{"30d", "2026-01-01", "2026-11-21T10:00:00Z"}}
	return []route{{
		path: "/api/reckon/v1/usage", summary: "Usage by owner and time",
		doc: "History from hourly roll-ups, added up over spans of time and grouped by what `by` names. Times are UTC, whole hours, " +
			"weeks from Monday. Users see themselves and the others together.",
		params: []param{
			{name: "since", doc: "Start; default: 30 days before the end: " + client.TimeForms + ".", schema: when},
			{name: "until", doc: "End, not included; without it now.", schema: when},
			{
				name: "span", doc: "Length of the stretches of time that are added up; hour-of-week adds up the same hours of all " +
					"weeks, dated in the week from 1970-01-05 on.", schema: enumSchema(client.UsageSpans()...)},
			{name: "by", doc: "What rows are grouped by, any of these together. QOS, size, GPUs, length and nodes with " +
				"other dimensions are known of runs: what was used is divided among these by what each used in all, and marked as " +
				"estimated where runs reach beyond the time.", schema: enumSchema(client.UsageDimensions()...), many: true},
			{name: "site", doc: "Of these sites.", schema: text, many: true},
			{name: "owner", doc: "Of these owners.", schema: text, many: true},
			{name: "account", doc: "Charged to these accounts.", schema: text, many: true},
			{name: "partition", doc: "Of these partitions.", schema: text, many: true},
			{name: "kind", doc: "Of these kinds.", schema: text, many: true},
			{name: "node", doc: "On these nodes.", schema: text, many: true},
			{name: "command", doc: "Shell pattern on the program's name.", schema: text},
			formatParam,
		},
		answer: client.UsageList{}, csv: true, shares: true, fails: []int{400, 401, 403, 404, 503}, role: access.Public,
		handle: s.serveUsage,
	}}
}

func parseUsageQuery(q *query) client.UsageQuery {
	u := client.UsageQuery{
		Since: q.time("since"), Until: q.time("until"), By: q.list("by"), Sites: q.list("site"), Owners: q.list("owner"),
		Accounts:   q.list("account"),
		Partitions: q.list("partition"), Kinds: q.kinds(), Nodes: q.list("node"), Command: q.pattern("command"), Span: "whole",
	}
	if v, ok := q.get("span"); ok {
		if u.Span = v; !slices.Contains(client.UsageSpans(), v) {
			q.reject("span", v, "give whole, hour, day, week, month or hour-of-week")
		}
	}
	for _, by := range u.By {
		if !slices.Contains(client.UsageDimensions(), by) {
			q.reject("by", by, "give some of "+strings.Join(client.UsageDimensions(), ", "))
		}
	}
	if len(u.Nodes) > 0 && len(u.By) == 0 {
		u.By = []string{"node"}
	}
	slices.Sort(u.By)
	u.By = slices.Compact(u.By)
	if u.Until.IsZero() {
		u.Until = q.now
	}
	if u.Since.IsZero() {
		u.Since = u.Until.AddDate(0, 0, -30)
	}
	if q.err == nil && !u.Since.Before(u.Until) {
		q.reject("until", q.values.Get("until"), "give a time after since")
	}
	if q.err == nil && u.Span == "hour" && u.Until.Sub(u.Since) > maxPoints*time.Hour {
		q.reject("span", "hour", "give a coarser span, such as day, for so long a time")
	}
	return u
}

func (s *server) serveUsage(w http.ResponseWriter, r *http.Request, q *query) error {
	u, format := parseUsageQuery(q), q.format(r)
	if q.err != nil {
		return q.err
	}
	if s.Usage == nil {
		return newError(http.StatusNotFound, "ask a server that keeps a catalogue", "this server keeps no history of usage")
	}
	list, err := access.AuthorizeUsage(s.Usage).Usage(r.Context(), u)
	if err != nil {
		return err
	}
	if list.Rows == nil {
		list.Rows = []client.Usage{}
	}
	if list.By == nil {
		list.By = []string{}
	}
	if format == "csv" {
		return writeCSV(w, "usage", list.Rows, list.Missing)
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}
