package api

import (
	"context"
	"errors"
	"net/http"

	"reckon/access"
	"reckon/web/client"
)

// Forecasts returns forecasts of demand. It is called only for workloads and owners that the viewer may see.
type Forecasts interface {
	// Forecast returns the forecast of w if the query names a workload; otherwise w is nil.
	Forecast(ctx context.Context, q client.ForecastQuery, w *client.Workload) (client.ForecastList, error)
}

func (s *server) forecastRoutes() []route {
	text := schema{"type": "string"}
	return []route{{
		path: "/api/reckon/v1/forecast", summary: "What will be needed",
		doc: "Hourly forecasts of cores, memory, power, GPUs, disk and network, and of the free space of a node's file systems, each " +
			"with a band that should hold 95 % and with the error of those made before. Of batch work it is the next run, from the runs " +
			"of its name. Kept forecasts are made once a day for 48 hours; those of the next hours are renewed every hour.",
		params: []param{
			{name: "workload", doc: "Of this workload: id, or less where that is unique.", schema: text},
			{name: "node", doc: "Of this node.", schema: text},
			{name: "owner", doc: "Of all work of this owner.", schema: text},
			{name: "site", doc: "Of this site; without any other subject of all its nodes together.", schema: text},
			{name: "now", doc: "Forecast from what there is at this moment; nothing is kept.", schema: schema{"type": "boolean"}},
			{name: "hours", doc: "How far ahead; the forecast is then made for the question, as with now.",
				schema: schema{"type": "integer", "minimum": 1, "maximum": 336, "default": 48}},
		},
		answer: client.ForecastList{}, fails: []int{400, 401, 403, 404, 409, 503}, role: access.Public, handle: s.serveForecast,
	}}
}

func (s *server) serveForecast(w http.ResponseWriter, r *http.Request, q *query) error {
	var f client.ForecastQuery
	f.Workload, _ = q.get("workload")
	f.Node, _ = q.get("node")
	f.Owner, _ = q.get("owner")
	f.Site, _ = q.get("site")
	f.Hours = q.integer("hours", 0, 1, 336)
	f.Now = q.isTrue("now") || f.Hours > 0
	if q.err != nil {
		return q.err
	}
	named := 0
	for _, v := range []string{f.Workload, f.Node, f.Owner} {
		if v != "" {
			named++
		}
	}
	switch {
	case named > 1:
		return newError(http.StatusBadRequest, "give one of workload, node and owner", "a forecast is of one subject")
	case s.Forecasts == nil:
		return newError(http.StatusNotFound, "ask a server that keeps a catalogue", "this server makes no forecasts")
	}
	var one *client.Workload
	if f.Workload != "" {
		var err error
		if one, _, err = s.findRun(r.Context(), f.Workload, client.Range{Site: f.Site}); err != nil {
			return err
		}
		s.recordAccess(r, "forecast", one.ID, one.Owner)
	}
	if v := access.From(r.Context()); f.Owner != "" && !v.Sees(f.Owner) {
		return access.Refuse(access.ErrForbidden, "sign in as the owner", errors.New("a forecast of an owner is shown to the owner only"))
	}
	if f.Owner != "" {
		s.recordAccess(r, "forecast", "owner "+f.Owner, f.Owner)
	}
	list, err := s.Forecasts.Forecast(r.Context(), f, one)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}
