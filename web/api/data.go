package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/access"
	"reckon/web/client"
)

// Data returns series joined by time. It must return only series that the viewer (package access) may see. From, To and
// Step are always set, and Select is not empty. For an invalid selector or a query that is too large, it returns a
// [Refuse] with status 400.
type Data interface {
	Data(ctx context.Context, q client.DataQuery) (client.DataTable, error)
	// WriteData writes the table as a file, csv or parquet.
	WriteData(ctx context.Context, q client.DataQuery, format string, w io.Writer) error
	Correlate(ctx context.Context, q client.DataQuery) (client.Correlation, error)
}

// Power fits the power of a node to its work. From and To are always set. If Node is empty, it uses the only node with
// a meter. If nothing can be fitted, it returns a [Refuse].
type Power interface {
	PowerFit(ctx context.Context, q client.PowerFitQuery) (client.PowerFit, error)
}

func (s *server) dataRoutes() []route {
	when := schema{"type": "string", "examples": []string{"2h", "2026-11-21T10:00:00Z"}}
	from, to := param{name: "from", doc: "Start; default: an hour before the end: " + client.TimeForms + ".", schema: when},
		param{name: "to", doc: "End; without it now.", schema: when}
	common := []param{
		{name: "select", doc: "PromQL selector of series; may be repeated, commas belong to it.",
			schema: schema{"type": "array", "items": schema{"type": "string", "examples": []string{`node_load1{node="n1"}`}}}, many: true},
		from, to,
		{name: "step", doc: "Time between rows, 1s or more; without it one that gives a few hundred rows.",
			schema: schema{"type": "string", "examples": []string{"15s", "5m"}}},
	}
	fitFrom := from
	fitFrom.doc = "Start; default: 6 hours before the end: " + client.TimeForms + "."
	return []route{
		{
			path: "/api/reckon/v1/data", summary: "Series joined by time",
			doc: "One row for each step of time, one column for each series. Counters are rates per second, gauges means of the step; a " +
				"gap is null, an empty field in CSV, a null in Parquet.",
			params: append(slices.Clone(common),
				param{name: "by", doc: "Labels that become columns and distinguish rows; without it each series is a column.",
					schema: schema{"type": "string"}, many: true},
				param{name: "format", doc: "Form of the answer.", schema: enumSchema("json", "csv", "parquet")}),
			answer: client.DataTable{}, csv: true, fails: []int{400, 401, 404, 503}, role: access.Public, handle: s.serveData,
		},
		{
			path: "/api/reckon/v1/data/correlate", summary: "Which series go together",
			doc: "Pearson's and Spearman's coefficient of every pair, the lag at which they agree best, and the points behind each " +
				"figure, the strongest first.",
			params: append(slices.Clone(common),
				param{name: "max_lag", doc: "Longest lag that is tried, in rows; 0 tries none.",
					schema: schema{"type": "integer", "minimum": 0, "maximum": 1000, "default": 60}}, formatParam),
			answer: client.Correlation{}, csv: true, fails: []int{400, 401, 404, 503}, role: access.Public, handle: s.serveCorrelate,
		},
		{
			path: "/api/reckon/v1/power/fit", summary: "How power follows work",
			doc: "A model fitted to the measured power of a node, judged on stretches of time that it had not seen, with what each " +
				"feature adds.",
			params: []param{{name: "node", doc: "The node; without it the only one that has a meter.", schema: schema{"type": "string"}},
				fitFrom, to},
			answer: client.PowerFit{}, fails: []int{400, 401, 404, 503}, role: access.Public, handle: s.servePowerFit,
		},
	}
}

// maxSelectors and maxDataRows limit one table.
const (
	maxSelectors = 50
	maxDataRows  = 200_000
	// dataRows is the approximate default number of rows.
	dataRows = 400
)

func parseDataQuery(q *query) client.DataQuery {
	d := client.DataQuery{From: q.time("from"), To: q.time("to"), Step: q.duration("step"), By: q.list("by")}
	for _, v := range q.values["select"] {
		if v = strings.TrimSpace(v); v == "" {
			q.reject("select", v, `give a selector such as node_load1{node="n1"}`)
		} else {
			d.Select = append(d.Select, v)
		}
	}
	if d.To.IsZero() {
		d.To = q.now
	}
	if d.From.IsZero() {
		d.From = d.To.Add(-time.Hour)
	}
	span := d.To.Sub(d.From)
	switch {
	case q.err != nil:
	case len(d.Select) == 0:
		q.err = newError(http.StatusBadRequest, `give select, such as select=node_load1{node="n1"}`, "no series are selected")
	case len(d.Select) > maxSelectors:
		q.reject("select", strconv.Itoa(len(d.Select))+" selectors",
			fmt.Sprintf("give at most %d; one selector can find many series", maxSelectors))
	case span <= 0:
		q.reject("to", q.values.Get("to"), "give a time after from")
	case d.Step == 0:
		d.Step = roundStep(span)
	case d.Step < time.Second || span/d.Step > maxDataRows:
		q.reject("step", q.values.Get("step"), fmt.Sprintf("give 1s or more, and at most %d rows", maxDataRows))
	}
	return d
}

// roundStep returns a customary step that gives about dataRows rows.
func roundStep(span time.Duration) time.Duration {
	for _, step := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour} {
		if span/step <= dataRows {
			return step
		}
	}
	return max(24*time.Hour, (span / dataRows).Truncate(24*time.Hour))
}

func (s *server) serveData(w http.ResponseWriter, r *http.Request, q *query) error {
	d := parseDataQuery(q)
	format := q.oneOf("format", []string{"json", "csv", "parquet"})
	if format == "" && strings.HasPrefix(r.Header.Get("Accept"), "text/csv") {
		format = "csv"
	}
	if q.err != nil {
		return q.err
	}
	if s.Data == nil {
		return noDataError()
	}
	s.recordAccess(r, "data", strings.Join(d.Select, ", "), "")
	if format == "" || format == "json" {
		t, err := s.Data.Data(r.Context(), d)
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, t)
		return nil
	}
	var body bytes.Buffer
	if err := s.Data.WriteData(r.Context(), d, format, &body); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", map[string]string{"csv": "text/csv; charset=utf-8; header=present",
		"parquet": "application/vnd.apache.parquet"}[format])
	h.Set("Content-Disposition", `attachment; filename="reckon-data.`+format+`"`)
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	_, _ = w.Write(body.Bytes()) // the client has disconnected
	return nil
}

func noDataError() error {
	return newError(http.StatusNotFound, "ask a server that keeps series", "this server keeps no series")
}

func (s *server) serveCorrelate(w http.ResponseWriter, r *http.Request, q *query) error {
	d := parseDataQuery(q)
	lag, format := q.integer("max_lag", 60, 0, 1000), q.format(r)
	d.MaxLag = &lag
	if q.err != nil {
		return q.err
	}
	if s.Data == nil {
		return noDataError()
	}
	s.recordAccess(r, "data", strings.Join(d.Select, ", "), "")
	c, err := s.Data.Correlate(r.Context(), d)
	if err != nil {
		return err
	}
	if c.Pairs == nil {
		c.Pairs = []client.CorrelationPair{}
	}
	if format == "csv" {
		return writeCSV(w, "correlation", c.Pairs, nil)
	}
	writeJSON(w, http.StatusOK, c)
	return nil
}

func (s *server) servePowerFit(w http.ResponseWriter, r *http.Request, q *query) error {
	f := client.PowerFitQuery{From: q.time("from"), To: q.time("to")}
	f.Node, _ = q.get("node")
	if f.To.IsZero() {
		f.To = q.now
	}
	if f.From.IsZero() {
		f.From = f.To.Add(-6 * time.Hour)
	}
	if q.err == nil && !f.From.Before(f.To) {
		q.reject("to", q.values.Get("to"), "give a time after from")
	}
	if q.err != nil {
		return q.err
	}
	if s.Power == nil {
		return newError(http.StatusNotFound, "ask a server that keeps series", "this server does not know what draws power")
	}
	fit, err := s.Power.PowerFit(r.Context(), f)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, fit)
	return nil
}
