package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"reckon/access"
	"reckon/answer"
	"reckon/web/client"
)

// MetricRuns stores and returns runs of MetricSets. The handlers of this package check access: a run
// belongs to its namespace.
type MetricRuns interface {
	Keep(ctx context.Context, namespace, name string, u client.MetricRunUpdate) (client.MetricRunKept, error)
	List(ctx context.Context, f client.MetricRunFilter) (client.MetricRunList, error)
	Run(ctx context.Context, namespace, name string) (client.MetricRun, error)
	Samples(ctx context.Context, namespace, name string) (client.MetricRunSamples, error)
	Compare(ctx context.Context, a, b []string) (client.MetricRunComparison, error)
}

// maxUpdate limits one update of a run in bytes, and maxCompared the number of runs compared at once.
const (
	maxUpdate   = 64 << 20
	maxCompared = 50
)

func (s *server) metricRunRoutes() []route {
	text, when := schema{"type": "string"}, schema{"type": "string", "examples": []string{"2h", "2026-11-21"}}
	one := []param{{name: "namespace", doc: "Namespace of the run.", schema: text, inPath: true},
		{name: "name", doc: "Name of the run.", schema: text, inPath: true}}
	return []route{{
		path: "/api/reckon/v1/runs", summary: "List runs of MetricSets",
		doc: "On-demand measurements, latest first, without the pods. A run belongs to its namespace, and its MetricSet may be gone.",
		params: []param{
			{name: "namespace", doc: "Of these namespaces.", schema: text, many: true},
			{name: "name", doc: "Of these names.", schema: text, many: true},
			{name: "set", doc: "Of MetricSets of these names.", schema: text, many: true},
			{name: "site", doc: "Of these sites.", schema: text, many: true},
			{name: "since", doc: "Started after this time: " + client.TimeForms + ".", schema: when},
			{name: "until", doc: "Started before this time.", schema: when},
			{name: "limit", doc: "At most this many runs.",
				schema: schema{"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit}},
			{name: "offset", doc: "Leave out this many first.", schema: schema{"type": "integer", "minimum": 0, "default": 0}},
		},
		answer: client.MetricRunList{}, fails: []int{400, 401, 403, 404, 503}, role: access.User,
		may: func(v access.Viewer) bool { return v.Runs }, handle: s.serveMetricRuns,
	}, {
		path: "/api/reckon/v1/runs/{namespace}/{name}", summary: "One run of a MetricSet", doc: "With its pods and what each used in all.",
		params: one, answer: client.MetricRun{}, fails: []int{400, 401, 403, 404, 503}, role: access.User, handle: s.serveMetricRun,
	}, {
		path: "/api/reckon/v1/runs/{namespace}/{name}/samples", summary: "The samples of a run",
		doc: "What each pod used between two readings, with both times. Of pods that the agent of their node measures they are read " +
			"from its series until they are kept.",
		params: one, answer: client.MetricRunSamples{}, fails: []int{400, 401, 403, 404, 503}, role: access.User,
		handle: s.serveRunSamples,
	}, {
		path: "/api/reckon/v1/runs/{namespace}/{name}/keep", method: http.MethodPost, raw: true, summary: "Store a measurement",
		doc: "Takes a MetricRunUpdate as JSON: for the operator (under runs in the configuration of service accounts), " +
			"administrators, and users whose namespace it is. The request is idempotent.",
		params: one, answer: client.MetricRunKept{}, fails: []int{400, 401, 403, 404, 503}, role: access.User,
		may: func(v access.Viewer) bool { return v.Runs }, handle: s.storeMetricRun,
	}, {
		path: "/api/reckon/v1/compare/runs", summary: "Hold runs against each other",
		doc: "Every figure that both sides have, with the difference, its interval, the test and whether the difference is more than " +
			"noise. Intervals and verdicts of all figures hold together.",
		params: []param{
			{name: "a", doc: "Run or runs to compare with, each NAMESPACE/NAME.", schema: text, many: true},
			{name: "b", doc: "Run or runs that are compared.", schema: text, many: true},
		},
		answer: client.MetricRunComparison{}, fails: []int{400, 401, 403, 404, 503}, role: access.User, handle: s.serveRunComparison,
	}}
}

func noMetricRunsError() error {
	return newError(http.StatusNotFound, "ask a server that keeps a catalogue", "this server keeps no runs of MetricSets")
}

func (s *server) serveMetricRuns(w http.ResponseWriter, r *http.Request, q *query) error {
	f := client.MetricRunFilter{Namespaces: q.list("namespace"), Names: q.list("name"), Sets: q.list("set"), Sites: q.list("site"),
		Since: q.time("since"), Until: q.time("until")}
	f.Limit, f.Offset = q.integer("limit", defaultLimit, 1, maxLimit), q.integer("offset", 0, 0, 1<<31-1)
	if q.err != nil {
		return q.err
	}
	if s.MetricRuns == nil {
		return noMetricRunsError()
	}
	if v := access.From(r.Context()); !v.All() && !v.Runs {
		if f.Namespaces = v.OwnAmong(f.Namespaces); len(f.Namespaces) == 0 {
			writeJSON(w, http.StatusOK, client.MetricRunList{Runs: []client.MetricRun{}})
			return nil
		}
	}
	list, err := s.MetricRuns.List(r.Context(), f)
	if err != nil {
		return err
	}
	linkNext(w, r, f.Offset, len(list.Runs), list.Total)
	writeJSON(w, http.StatusOK, list)
	return nil
}

// requireOwnRun returns the error for a run that does not exist if the viewer may not see the namespace of the run.
func (s *server) requireOwnRun(r *http.Request, namespace, name string) error {
	if s.MetricRuns == nil {
		return noMetricRunsError()
	}
	if !access.From(r.Context()).Sees(namespace) {
		return answer.NoMetricRun(namespace, name)
	}
	s.recordAccess(r, "run", namespace+"/"+name, namespace)
	return nil
}

func (s *server) serveMetricRun(w http.ResponseWriter, r *http.Request, _ *query) error {
	return serveFromRun(s, w, r, s.MetricRuns.Run)
}

func (s *server) serveRunSamples(w http.ResponseWriter, r *http.Request, _ *query) error {
	return serveFromRun(s, w, r, s.MetricRuns.Samples)
}

// serveFromRun answers with the result of read for the run in the path of the request, if the viewer may see the run.
func serveFromRun[T any](s *server, w http.ResponseWriter, r *http.Request,
	read func(ctx context.Context, namespace, name string) (T, error)) error {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	if err := s.requireOwnRun(r, namespace, name); err != nil {
		return err
	}
	v, err := read(r.Context(), namespace, name)
	if err == nil {
		writeJSON(w, http.StatusOK, v)
	}
	return err
}

func (s *server) storeMetricRun(w http.ResponseWriter, r *http.Request, _ *query) error {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	v := access.From(r.Context())
	switch {
	case s.MetricRuns == nil:
		return noMetricRunsError()
	case !v.MayKeepRuns(namespace):
		return newError(http.StatusForbidden, "name the service account of the operator under runs, or ask an administrator",
			"%s may not keep runs of the namespace %s", viewerName(v), namespace)
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdate))
	if err != nil {
		return newError(http.StatusBadRequest, "send at most "+strconv.Itoa(maxUpdate>>20)+" MiB at once", "cannot read the update: %v",
			err)
	}
	var u client.MetricRunUpdate
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&u); err != nil {
		return newError(http.StatusBadRequest, "send a MetricRunUpdate as JSON", "the update is not JSON: %v", err)
	}
	kept, err := s.MetricRuns.Keep(r.Context(), namespace, name, u)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, kept)
	return nil
}

func viewerName(v access.Viewer) string {
	return cmp.Or(v.Called(), "a viewer of role "+v.Role.String())
}

func (s *server) serveRunComparison(w http.ResponseWriter, r *http.Request, q *query) error {
	a, b := q.list("a"), q.list("b")
	switch {
	case q.err != nil:
		return q.err
	case len(a) == 0 || len(b) == 0:
		return newError(http.StatusBadRequest, "give a=NAMESPACE/NAME and b=NAMESPACE/NAME", "there are no two sides")
	case len(a)+len(b) > maxCompared:
		return newError(http.StatusBadRequest, "give fewer", "at most %d runs are compared at once", maxCompared)
	}
	for _, name := range append(append([]string{}, a...), b...) {
		namespace, short, _ := strings.Cut(name, "/")
		if err := s.requireOwnRun(r, namespace, short); err != nil {
			return err
		}
	}
	c, err := s.MetricRuns.Compare(r.Context(), a, b)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, c)
	return nil
}
