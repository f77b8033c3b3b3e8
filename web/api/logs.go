package api

import (
	"context"
	"net/http"
	"strings"

	"reckon/access"
	"reckon/web/client"
)

// Logs returns lines of the logs of a workload. It is called only for workloads that the viewer may see.
type Logs interface {
	Logs(ctx context.Context, d *client.WorkloadDetail, r client.LogRange) (client.Logs, error)
}

// Default and maximum number of log lines.
const (
	logLines    = 500
	maxLogLines = 5000
)

func (s *server) logRoutes() []route {
	var params []param
	for _, p := range detailParams() {
		if p.inPath || p.name == "start" || p.name == "site" {
			params = append(params, p)
		}
	}
	moment := schema{"type": "string", "format": "date-time"}
	return []route{{
		path: "/api/reckon/v1/logs/{id...}", summary: "Lines of the logs of one workload",
		doc: "Fetched from Loki or the API server of the cluster; reckon stores no logs. They are of the pods of the run, from shortly " +
			"before its start to shortly after its end.",
		params: append(params,
			param{name: "from", doc: "The earliest time; default: that of the run.", schema: moment},
			param{name: "to", doc: "The latest time; default: that of the run.", schema: moment},
			param{name: "order", doc: "The first lines of the time, or the last.",
				schema: schema{"type": "string", "enum": []string{"first", "last"}, "default": "last"}},
			param{name: "limit", doc: "How many lines.",
				schema: schema{"type": "integer", "minimum": 1, "maximum": maxLogLines, "default": logLines}},
		),
		answer: client.Logs{}, fails: []int{400, 401, 403, 404, 409, 503}, role: access.User, handle: s.serveLogs,
	}}
}

func (s *server) serveLogs(w http.ResponseWriter, r *http.Request, q *query) error {
	rng := client.Range{Start: q.time("start")}
	rng.Site, _ = q.get("site")
	want := client.LogRange{Start: q.time("from"), End: q.time("to"), Limit: q.integer("limit", logLines, 1, maxLogLines)}
	want.First = q.oneOf("order", []string{"last", "first"}) == "first"
	if q.err != nil {
		return q.err
	}
	asked := strings.Trim(r.PathValue("id"), "/")
	switch {
	case asked == "":
		return newError(http.StatusBadRequest, "give kind/name, such as deployment/shop/cart", "the id is empty")
	case s.Logs == nil:
		return newError(http.StatusNotFound, "start it with the setting loki, or with pod-logs in a cluster",
			"this server has no log source configured")
	}
	one, _, err := s.findRun(r.Context(), asked, rng)
	if err != nil {
		return err
	}
	d, err := s.Backend.Workload(r.Context(), *one, rng)
	if err != nil {
		return err
	}
	s.recordAccess(r, "logs", d.ID, d.Owner)
	logs, err := s.Logs.Logs(r.Context(), &d, want)
	if err != nil {
		return err
	}
	if logs.Lines == nil {
		logs.Lines = []client.LogLine{}
	}
	writeJSON(w, http.StatusOK, logs)
	return nil
}
