package api

import (
	"context"
	"net/http"

	"reckon/access"
	"reckon/web/client"
)

// Ranks ranks nodes for work to be placed. Its answers are about nodes, not about other work.
type Ranks interface {
	Rank(ctx context.Context, q client.RankQuery) (client.Ranking, error)
	// Placed records that work was placed on a node and is not measured yet, or that it was removed.
	Placed(ctx context.Context, site, node string, removed bool, q client.RankQuery) error
}

func (s *server) rankRoutes() []route {
	amount, text := schema{"type": "number", "minimum": 0}, schema{"type": "string"}
	work := []param{
		{name: "cores", doc: "Cores requested.", schema: amount}, {name: "memory_bytes", doc: "Memory requested, bytes.", schema: amount},
		{name: "gpus", doc: "GPUs requested.", schema: amount},
		{name: "use_cores", doc: "Cores that it is expected to use; without it those requested.", schema: amount},
		{name: "work", doc: "An id of the work, such as the UID of a pod: its current use is not counted in addition.", schema: text},
	}
	return []route{{
		path: "/api/reckon/v1/rank", method: http.MethodPost, summary: "Where work should go",
		doc: "Nodes for one workload, best first: those with room and recent data by the watts that it adds, from each node's own curve " +
			"of power; then those that its forecast band or pressure makes tight; then those without recent data; last those that it " +
			"does not fit on.",
		params: append(work,
			param{name: "gpu_watts", doc: "Watts of each GPU that it keeps busy; by default what a busy GPU adds on the node.",
				schema: amount},
			param{name: "hours", doc: "How long it stays; without it a day.", schema: amount},
			param{name: "site", doc: "On this site.", schema: text},
			param{name: "node", doc: "Among these nodes.", schema: text, many: true},
			param{
				name: "data", doc: "Data that it reads: an IRI of the knowledge graph, or KIND/NAMESPACE/NAME, such as " +
					"persistentVolumeClaim/shop/carts. Among equally sure places those with more of it come first.", schema: text,
				many: true},
			param{name: "watts_only", schema: schema{"type": "boolean"},
				doc: "The watts alone decide: nodes with GPUs or large memory that it leaves unused do not come last."},
			param{name: "limit", doc: "At most this many.", schema: schema{"type": "integer", "minimum": 1, "maximum": maxLimit}}),
		answer: client.Ranking{}, fails: []int{400, 401, 404, 503}, role: access.Public, handle: s.serveRank,
	}, {
		path: "/api/reckon/v1/rank/placed", method: http.MethodPost, summary: "Report a placement",
		doc: "For schedulers: until the work is measured on the node it counts there for the next rankings. It is kept in memory, for a " +
			"few minutes.",
		params: append(work, param{name: "site", doc: "Site of the node.", schema: text},
			param{name: "node", doc: "The node.", schema: text},
			param{name: "removed", doc: "The work with this id is not there any more.", schema: schema{"type": "boolean"}}),
		answer: client.Ranking{}, fails: []int{400, 401, 403, 404, 503}, role: access.Admin, handle: s.serveRankPlaced,
	}, {
		path: "/api/reckon/v1/rank/prioritize", method: http.MethodPost, raw: true, summary: "Scores for an extender of kube-scheduler",
		doc: "Takes the body that kube-scheduler sends to an extender and answers with a score of 0 to 10 for each node, by the same " +
			"ranking. Where an administrator asks, the pod counts on the best node until it is measured, for an extender does not hear " +
			"where it went.",
		params: []param{{name: "site", doc: "Of this site.", schema: text}},
		answer: []client.HostPriority{}, fails: []int{400, 401, 404, 503}, role: access.Public, handle: s.servePriorities,
	}}
}

func parseRankQuery(q *query) client.RankQuery {
	work, _ := q.get("work")
	return client.RankQuery{Cores: q.number("cores"), MemoryBytes: q.number("memory_bytes"), GPUs: q.number("gpus"),
		UseCores: q.number("use_cores"), Work: work}
}

func (s *server) requireRanks() error {
	if s.Ranks == nil {
		return newError(http.StatusNotFound, "ask a server that keeps a catalogue", "this server ranks no nodes")
	}
	return nil
}

func (s *server) serveRank(w http.ResponseWriter, r *http.Request, q *query) error {
	f := parseRankQuery(q)
	f.GPUWatts, f.Hours, f.Nodes, f.Limit = q.number("gpu_watts"), q.number("hours"), q.list("node"), q.integer("limit", 0, 1, maxLimit)
	f.Data, f.WattsOnly = q.list("data"), q.isTrue("watts_only")
	f.Site, _ = q.get("site")
	if q.err != nil {
		return q.err
	}
	if err := s.requireRanks(); err != nil {
		return err
	}
	out, err := s.Ranks.Rank(r.Context(), f)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func (s *server) serveRankPlaced(w http.ResponseWriter, r *http.Request, q *query) error {
	f := parseRankQuery(q)
	site, _ := q.get("site")
	node, _ := q.get("node")
	removed := q.isTrue("removed")
	if q.err != nil {
		return q.err
	}
	if err := s.requireRanks(); err != nil {
		return err
	}
	if err := s.Ranks.Placed(r.Context(), site, node, removed, f); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, client.Ranking{Nodes: []client.RankedNode{}})
	return nil
}
