package api

import (
	"context"
	"net/http"
	"slices"

	"reckon/access"
	"reckon/web/client"
)

// Fit returns the places where a job would fit. Other jobs appear only in totals, without names.
type Fit interface {
	Fit(ctx context.Context, q client.FitQuery) (client.FitList, error)
}

// fitRoutes returns the routes for placement and forecasts.
func (s *server) fitRoutes() []route {
	amount := schema{"type": "number", "minimum": 0}
	return slices.Concat(s.forecastRoutes(), s.rankRoutes(), s.deviceRoutes(), []route{{
		path: "/api/reckon/v1/fit", summary: "Where a job would fit",
		doc: "Classes of identical nodes, whether such a node is big enough, which have room now, and how long comparable jobs of the " +
			"last 30 days waited there.",
		params: []param{
			{name: "cores", doc: "Cores on one node.", schema: amount},
			{name: "memory_bytes", doc: "Memory on one node, bytes.", schema: amount},
			{name: "gpus", doc: "GPUs on one node; below 1 the share of one: the answer then lists GPUs to share.", schema: amount},
			{name: "gpu_memory_bytes", doc: "Memory of one GPU, bytes: the answer lists the GPUs that can be shared.", schema: amount},
			{name: "time", doc: "How long it runs: comparable jobs are those that ran for up to twice as long.",
				schema: schema{"type": "string", "examples": []string{"2h", "1d"}}},
			formatParam,
		},
		answer: client.FitList{}, csv: true, fails: []int{400, 401, 404, 503}, role: access.Public, handle: s.serveFit,
	}})
}

func (s *server) serveFit(w http.ResponseWriter, r *http.Request, q *query) error {
	f := client.FitQuery{Cores: q.number("cores"), MemoryBytes: q.number("memory_bytes"), GPUs: q.number("gpus"),
		GPUMemoryBytes: q.number("gpu_memory_bytes"), Time: q.duration("time")}
	format := q.format(r)
	if q.err != nil {
		return q.err
	}
	if s.Fit == nil {
		return newError(http.StatusNotFound, "ask a server that keeps a catalogue", "this server has no data on job wait times")
	}
	list, err := s.Fit.Fit(r.Context(), f)
	if err != nil {
		return err
	}
	if list.Places == nil {
		list.Places = []client.Place{}
	}
	if format == "csv" {
		return writeCSV(w, "fit", list.Places, list.Missing)
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}
