package api

import (
	"net/http"

	"reckon/access"
	"reckon/web/client"
)

// Inconsistent lists the figures that exceeded their bounds and were withheld from answers.
type Inconsistent interface {
	Inconsistent() []client.InconsistentFigure
}

func (s *server) inconsistentRoutes() []route {
	return []route{{
		path: "/api/reckon/v1/inconsistent", summary: "Withheld figures",
		doc: "Figures that violated a bound, such as CPU time above wall time by cores: they are null in answers, and stand here " +
			"with how often and the latest example since the server was started. Normally the list is empty.",
		answer: client.InconsistentList{}, fails: []int{401, 403, 404}, role: access.Support, handle: s.inconsistent,
	}}
}

func (s *server) inconsistent(w http.ResponseWriter, _ *http.Request, q *query) error {
	if q.err != nil {
		return q.err
	}
	if s.Inconsistent == nil {
		return newError(http.StatusNotFound, "ask a server that keeps a catalogue", "this server does not hold figures against each other")
	}
	list := client.InconsistentList{Figures: s.Inconsistent.Inconsistent()}
	if list.Figures == nil {
		list.Figures = []client.InconsistentFigure{}
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}
