package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"reckon/access"
	"reckon/web/client"
	"reckon/web/docs"
)

// route is one address: the mux serves it and the OpenAPI document describes it.
type route struct {
	path    string // with {id...} for the rest of the path
	raw     bool   // the handler reads the body of a POST itself
	method  string // empty is GET; the parameters of a POST are a form
	summary string
	doc     string
	params  []param
	answer  any    // a value of the response type, nil for another media type
	media   string // media type if answer is nil
	csv     bool   // also as CSV
	always  bool   // responds even before the store is open
	stream  bool   // never compressed
	shares  bool   // not audited, because the answer is the same for all viewers who see everything
	fails   []int
	// role is the minimum role of a viewer. The zero value means support, so that a route without a
	// role is not exposed. free is for routes without data.
	role access.Role
	free bool
	// may admits viewers of lower roles.
	may    func(access.Viewer) bool
	handle func(http.ResponseWriter, *http.Request, *query) error
}

func (s *server) routes() []route {
	return slices.Concat([]route{
		{
			path: "/api/reckon/v1/workloads", summary: "List workloads",
			doc:    "Workloads that the filters select. Several values of one filter are alternatives; different filters must all hold.",
			params: append(listParams(), formatParam), answer: client.WorkloadList{}, csv: true,
			fails: []int{400, 401, 403, 503}, role: access.Public, handle: s.serveWorkloads,
		},
		{
			path: "/api/reckon/v1/workloads/{id...}", summary: "One workload with its profile over time",
			doc:    "The id is kind/name, with slashes as they are or escaped. A name alone is enough when it is unique.",
			params: detailParams(), answer: client.WorkloadDetail{},
			fails: []int{400, 401, 403, 404, 409, 503}, role: access.Public, handle: s.serveWorkload,
		},
		{
			path: "/api/reckon/v1/nodes", summary: "List nodes",
			doc:    "Every node of the site with its load and its sensors.",
			params: []param{formatParam}, answer: client.NodeList{}, csv: true, shares: true,
			fails: []int{400, 401, 503}, role: access.Public, handle: s.serveNodes,
		},
		{
			path: "/api/reckon/v1/live", summary: "Live stream",
			doc: "Server-sent events named live, one for each tick of the local agent; the data of each is a Live object. A slow " +
				"reader misses ticks and gets the newest.",
			media:  "text/event-stream",
			always: true, stream: true, fails: []int{400, 401, 404}, role: access.Public, handle: s.serveLive,
		},
		{
			path: "/api/reckon/openapi.json", summary: "This document",
			media: "application/json", always: true, free: true, handle: s.openapi,
		},
		{
			path: "/healthz", summary: "Whether the process is alive",
			media: "text/plain", always: true, free: true, handle: s.healthz,
		},
		{
			path: "/readyz", summary: "Whether the store is open and queries are answered",
			media: "text/plain", always: true, free: true, fails: []int{503}, handle: s.readyz,
		},
		{
			path: "/-/healthy", summary: "As /healthz, under the address that promtool asks",
			media: "text/plain", always: true, free: true, handle: s.healthz,
		},
		{
			path: "/-/ready", summary: "As /readyz, under the address that promtool asks",
			media: "text/plain", always: true, free: true, fails: []int{503}, handle: s.readyz,
		},
	}, s.usageRoutes(), s.reportRoutes(), s.fitRoutes(), s.moveRoutes(), s.inconsistentRoutes(), s.memberRoutes(), s.proofRoutes(),
		s.replaceRoutes(),
		s.scaleRoutes(), s.logRoutes(), s.alertRoutes(), s.findingRoutes(), s.dataRoutes(), s.importRoutes(), s.metricRunRoutes(),
		s.backupRoutes())
}

// newMux serves the routes. It answers any other request below /api/reckon/ with a JSON error.
func (s *server) newMux(routes []route) http.Handler {
	mux, shared := http.NewServeMux(), shareResponses()
	for _, r := range routes {
		h := s.routeHandler(r)
		if !r.stream {
			h = compressHandler(h)
		}
		if r.shares {
			h = shared(h)
		}
		mux.Handle(r.verb()+" "+r.path, h)
		mux.HandleFunc(r.path, methodNotAllowed(r.verb()))
	}
	mux.HandleFunc("/api/reckon/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, newError(http.StatusNotFound, "GET /api/reckon/openapi.json lists every address", "no such address: %s", r.URL.Path))
	})
	if s.Prometheus != nil {
		mux.Handle("/api/v1/", requireRole(access.Public, s.auditQueries(shared(s.limitTime(s.Prometheus)))))
	}
	for _, path := range s.GraphPaths {
		mux.Handle(path, s.auditQueries(s.Graph))
	}
	if s.Write != nil {
		mux.Handle("/api/v1/write", requireSender(s.Write))
	}
	if s.OTLP != nil {
		mux.Handle("/api/v1/otlp/v1/metrics", requireSender(s.OTLP))
		mux.Handle("/v1/metrics", requireSender(s.OTLP))
	}
	if s.Auth != nil {
		mux.Handle("/auth/", s.Auth)
	}
	if s.Metrics != nil {
		mux.Handle("/metrics", requireRole(access.Support, s.Metrics))
	}
	guides := compressHandler(docs.Handler())
	mux.Handle("GET "+docs.Path, guides)
	mux.Handle("GET "+docs.Path+"/", guides)
	s.mountAlertmanager(mux)
	s.mountPages(mux)
	return mux
}

func (r *route) verb() string { return cmp.Or(r.method, http.MethodGet) }

func methodNotAllowed(verb string) http.HandlerFunc {
	allow := verb
	if verb == http.MethodGet {
		allow = "GET, HEAD"
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		writeError(w, newError(http.StatusMethodNotAllowed, "use "+verb, "method %s is not allowed on %s", r.Method, r.URL.Path))
	}
}

// parseForm adds form parameters to the query's.
func parseForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	if err := r.ParseForm(); err != nil {
		return newError(http.StatusBadRequest, "send a form (application/x-www-form-urlencoded) of at most 1 MiB",
			"cannot parse the form: %v",
			err)
	}
	r.URL.RawQuery = r.Form.Encode()
	return nil
}

// routeHandler parses the parameters of the route and writes its errors.
func (s *server) routeHandler(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := rt.checkRole(access.From(r.Context()))
		var q *query
		if err == nil && rt.method == http.MethodPost && !rt.raw {
			err = parseForm(w, r)
		}
		if err == nil {
			q, err = parseQuery(r, rt.params)
		}
		if err == nil && !rt.always {
			if reason := s.Ready(); reason != nil {
				err = notReadyError(reason)
			}
		}
		if err == nil {
			if !rt.stream && !rt.raw {
				var cancel context.CancelFunc
				r, cancel = s.withTimeout(r)
				defer cancel()
			}
			answer := w
			if rt.verb() == http.MethodGet && !rt.stream && !rt.raw {
				answer = &conditional{w, r.Header.Get("If-None-Match")}
			}
			err = rt.handle(answer, r, q)
		}
		if err != nil {
			if status := writeError(w, err); status >= 500 && status != http.StatusServiceUnavailable {
				s.Logger.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "error", err)
			}
		}
	})
}

// withTimeout sets the time limit of the viewer on a request.
func (s *server) withTimeout(r *http.Request) (*http.Request, context.CancelFunc) {
	if s.Within != nil {
		if d := s.Within(access.From(r.Context())); d > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), d)
			return r.WithContext(ctx), cancel
		}
	}
	return r, func() {}
}

func (s *server) limitTime(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, cancel := s.withTimeout(r)
		defer cancel()
		h.ServeHTTP(w, r)
	})
}

// checkRole rejects viewers with too low a role.
func (r *route) checkRole(v access.Viewer) error {
	least := r.role
	if least == access.Nobody {
		least = access.Support
	}
	switch {
	case r.free || v.Role >= least || r.may != nil && r.may(v):
		return nil
	case v.Role == access.Nobody:
		return v.Unknown()
	}
	return newError(http.StatusForbidden, "ask an administrator", "a viewer of role %s may not see %s; it takes %s", v.Role, r.path, least)
}

// requireRole guards a handler that is not one of the routes.
func requireRole(least access.Role, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rt := route{path: r.URL.Path, role: least}
		if err := rt.checkRole(access.From(r.Context())); err != nil {
			writeError(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func notReadyError(reason error) error {
	return newError(http.StatusServiceUnavailable, "try again in a moment", "the server is not ready: %v", reason)
}

var formatParam = param{name: "format", doc: "Form of the answer; without it the Accept header decides.", schema: enumSchema("json", "csv")}

func listParams() []param {
	text, when := schema{"type": "string"},
		schema{"type": "string", "examples": []string{"2h", "2026-11-21", "2026-11-21T10:00:00Z", "1795255200"}}
	return []param{
		{name: "id", doc: "Workload by its full id.", schema: text, many: true},
		{name: "family", doc: "Id of an array or a heterogeneous job, such as slurm/4: itself, its tasks and its components.",
			schema: text},
		{name: "owner", doc: "Unix user, or namespace for pods.", schema: text, many: true},
		{name: "kind", doc: "Kind of workload, in lower case; any controller of pods is one.", schema: text, many: true},
		{name: "node", doc: "Node that it ran on.", schema: text, many: true},
		{name: "name", doc: "Shell pattern on the name, such as train*.", schema: text},
		{name: "command", doc: "Shell pattern on the program's name, such as python*.", schema: text},
		{name: "account", doc: "Project or account it is charged to.", schema: text, many: true},
		{name: "partition", doc: "Partition or queue.", schema: text, many: true},
		{name: "state", doc: "State in the batch system; in any case, and by the abbreviations of Slurm (PD, R, OOM), too.",
			schema: enumSchema(client.States()...), many: true},
		{name: "site", doc: "Site that it ran at.", schema: text, many: true},
		{name: "since", doc: "Workloads that existed after this time: " + client.TimeForms + ".", schema: when},
		{name: "until", doc: "Workloads that existed before this time, in the same forms.", schema: when},
		{name: "min_cpu", doc: "CPU seconds, at least.", schema: schema{"type": "number", "minimum": 0}},
		{name: "running", doc: "Only workloads that run (true) or that ended (false).", schema: schema{"type": "boolean"}},
		{name: "within", doc: "Adds what each used between since and until, and sorts by that.", schema: schema{"type": "boolean"}},
		{name: "sort", doc: "Field to sort by, with - in front for descending. Workloads of which it is unknown come last.",
			schema: enumSchema(withDescending(client.SortKeys())...)},
		{name: "limit", doc: "At most this many workloads.",
			schema: schema{"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit}},
		{name: "offset", doc: "Leave out this many first.", schema: schema{"type": "integer", "minimum": 0, "default": 0}},
	}
}

func detailParams() []param {
	text, when := schema{"type": "string"}, schema{"type": "string", "examples": []string{"2h", "2026-11-21T10:00:00Z"}}
	return []param{
		{name: "id", doc: "kind/name, such as slurm/4711; a unique name alone will do.", schema: schema{"type": "string"}, inPath: true},
		{name: "from", doc: "Start of the profile; default: the start of the workload. Forms as since.", schema: when},
		{name: "to", doc: "End of the profile; without it the end of the workload, or now.", schema: when},
		{name: "step", doc: "Length of a step of the profile, 1s or more; without it one that gives a few hundred points.",
			schema: schema{"type": "string", "examples": []string{"15s", "5m"}}},
		{
			name: "by", doc: "Grouping of the profile's lines: the whole workload, each node, each part on each node, or each program " +
				"(command_cores); without it as fine as it is measured.", schema: enumSchema(client.Splits()...)},
		{
			name: "start", doc: "Which run of an id that was given more than once: a moment in it, or its start; without it the latest. " +
				"Forms as since.", schema: when},
		{name: "site", doc: "Site, when several sites used the same id; without it an ambiguous id gets 409.", schema: text},
	}
}

func withDescending(keys []string) []string {
	out := make([]string, 0, 2*len(keys))
	for _, k := range keys {
		out = append(out, k, "-"+k)
	}
	return out
}
