package api

import (
	"context"
	"net/http"

	"reckon/access"
	"reckon/web/client"
)

// Proof compares usage with the counters of the series.
type Proof interface {
	// Last returns the latest proof, and Prove makes one.
	Last(ctx context.Context) (client.Proof, error)
	Prove(ctx context.Context, q client.ProofQuery) (client.Proof, error)
}

func (s *server) proofRoutes() []route {
	when := schema{"type": "string", "examples": []string{"30d", "2026-01-01", "2026-11-21T10:00:00Z"}}
	doc := "Usage is compared with the counters of the series, per node and hour, over the complete hours with all samples. Differences " +
		"are listed."
	return []route{
		{
			path: "/api/reckon/v1/proof", summary: "Whether usage is all that was measured",
			doc: doc + " This is the last proof; one is made each night.", answer: client.Proof{},
			fails: []int{401, 403, 404, 503}, role: access.Support, handle: s.lastProof,
		},
		{
			path: "/api/reckon/v1/prove", method: http.MethodPost, summary: "Hold usage against the counters now",
			doc: doc + " It takes as long as reading the counters of that time.",
			params: []param{
				{name: "since", doc: "Start; default: the first hour with all samples: " + client.TimeForms + ".", schema: when},
				{name: "until", doc: "End; without it the last hour that is over.", schema: when},
				{name: "mend", doc: "Make hours again that differ.", schema: schema{"type": "boolean"}},
			},
			answer: client.Proof{}, stream: true, fails: []int{400, 401, 403, 404, 409, 503}, role: access.Admin, handle: s.serveProof,
		},
	}
}

func (s *server) lastProof(w http.ResponseWriter, r *http.Request, q *query) error {
	if q.err != nil {
		return q.err
	}
	if s.Proof == nil {
		return noProof()
	}
	p, err := s.Proof.Last(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, p)
	return nil
}

func (s *server) serveProof(w http.ResponseWriter, r *http.Request, q *query) error {
	o := client.ProofQuery{Since: q.time("since"), Until: q.time("until")}
	if v, ok := q.get("mend"); ok {
		if o.Mend = v == "true"; !o.Mend && v != "false" {
			q.reject("mend", v, "give true or false")
		}
	}
	if q.err != nil {
		return q.err
	}
	if s.Proof == nil {
		return noProof()
	}
	p, err := s.Proof.Prove(r.Context(), o)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, p)
	return nil
}

func noProof() error {
	return newError(http.StatusNotFound, "ask a server that keeps a catalogue", "this server keeps no usage")
}
