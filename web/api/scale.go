package api

import (
	"context"
	"net/http"
	"strings"

	"reckon/access"
	"reckon/web/client"
)

// Scale returns how the run time of a workload depends on its number of cores. It is called only for workloads that the
// viewer may see. It may read only runs with the same owner.
type Scale interface {
	Scale(ctx context.Context, w client.Workload) (client.Scale, error)
}

func (s *server) scaleRoutes() []route {
	var params []param
	for _, p := range detailParams() {
		if p.inPath || p.name == "start" || p.name == "site" {
			params = append(params, p)
		}
	}
	return []route{{
		path: "/api/reckon/v1/scale/{id...}", summary: "How one workload scales",
		doc: "The workload's use of its allocation, and the serial share and speed-up limit that runs of the same name and owner " +
			"with other numbers of cores show. Only what the runs support is reported: a law without an error was fitted to no more " +
			"sizes than it has parameters.",
		params: params, answer: client.Scale{},
		fails: []int{400, 401, 403, 404, 409, 503}, role: access.Public, handle: s.serveScale,
	}}
}

func (s *server) serveScale(w http.ResponseWriter, r *http.Request, q *query) error {
	rng := client.Range{Start: q.time("start")}
	rng.Site, _ = q.get("site")
	if q.err != nil {
		return q.err
	}
	asked := strings.Trim(r.PathValue("id"), "/")
	switch {
	case asked == "":
		return newError(http.StatusBadRequest, "give kind/name, such as slurm/4711", "the id is empty")
	case s.Scale == nil:
		return newError(http.StatusNotFound, "ask a server that keeps a catalogue", "this server does not know how workloads scale")
	}
	one, _, err := s.findRun(r.Context(), asked, rng)
	if err != nil {
		return err
	}
	s.recordAccess(r, "scale", one.ID, one.Owner)
	answer, err := s.Scale.Scale(r.Context(), *one)
	if err != nil {
		return err
	}
	fillEmptyLists(&answer.Workload)
	if answer.Resources == nil {
		answer.Resources = []client.ScaleResource{}
	}
	if answer.Runs == nil {
		answer.Runs = []client.ScaleRun{}
	}
	if answer.Verdicts == nil {
		answer.Verdicts = []client.Verdict{}
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}
