package api

import (
	"context"
	"net/http"

	"reckon/access"
	"reckon/web/client"
)

// Moves returns the owners with work for another partition or cluster; viewers who may not see all get their own.
type Moves interface {
	Move(ctx context.Context, q client.MoveQuery) (client.MoveList, error)
}

func (s *server) moveRoutes() []route {
	text, when := schema{"type": "string"}, schema{"type": "string", "examples": []string{"30d", "2026-01-01"}}
	return []route{{
		path: "/api/reckon/v1/move", summary: "Who should move",
		doc: "Work of owners that another partition or cluster would suit better, by seven ordered rules, with what it would have waited " +
			"there and the hours freed. Users see their own work.",
		params: []param{
			{name: "since", doc: "Start; default: 30 days before the end: " + client.TimeForms + ".", schema: when},
			{name: "until", doc: "End; without it now.", schema: when},
			{name: "owner", doc: "Of these owners.", schema: text, many: true},
			{name: "site", doc: "Of work there.", schema: text, many: true},
			{name: "all", doc: "Also the work that stays, and why.", schema: schema{"type": "boolean"}},
			{name: "shapes", doc: "Text of a file of shapes, instead of that of the server.", schema: text}, formatParam,
		},
		answer: client.MoveList{}, csv: true, fails: []int{400, 401, 403, 404, 503}, role: access.User, handle: s.serveMove,
	}}
}

func (s *server) serveMove(w http.ResponseWriter, r *http.Request, q *query) error {
	m := client.MoveQuery{Since: q.time("since"), Until: q.time("until"), Owners: q.list("owner"), Sites: q.list("site")}
	m.All = q.isTrue("all")
	m.Shapes, _ = q.get("shapes")
	format := q.format(r)
	if q.err == nil && !m.Since.IsZero() && !m.Until.IsZero() && !m.Since.Before(m.Until) {
		q.reject("until", q.values.Get("until"), "give a time after since")
	}
	if q.err != nil {
		return q.err
	}
	if s.Moves == nil {
		return newError(http.StatusNotFound, "ask a server that keeps a catalogue", "this server has no data on jobs and partitions")
	}
	list, err := s.Moves.Move(r.Context(), m)
	if err != nil {
		return err
	}
	if format == "csv" {
		return writeCSV(w, "move", list.Moves, list.Missing)
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}
