// Package graphapi serves the HTTP API of the knowledge graph: subgraphs with versions, the SPARQL 1.1 Graph Store HTTP
// Protocol (https://www.w3.org/TR/sparql11-http-rdf-update/) on the same graphs, the SPARQL 1.1 Protocol, changes as
// server-sent events, and optionally the API of the metadata service of GLACIATION.
//
// Documents are JSON-LD, Turtle, N-Triples or N-Quads by negotiation. access.Viewer and the owner of a subgraph decide
// who may read it; embedded SPARQL enforces that below the engine. Handlers are safe for concurrent use.
package graphapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"reckon/access"
	"reckon/graph"
	"reckon/graph/jsonld"
	"reckon/graph/own"
	"reckon/graph/sparql"
)

// Querier answers SPARQL over the subgraphs that visible accepts; nil accepts all.
type Querier interface {
	Query(ctx context.Context, text string, limits sparql.Limits, visible func(graph.Info) bool) (*sparql.Result, error)
}

// Updater runs SPARQL updates.
type Updater interface {
	Update(ctx context.Context, u sparql.Update, p graph.Put, may func(id string) error) error
	Compact(ctx context.Context) error
}

// Watcher publishes changes.
type Watcher interface {
	Watch() (changes <-chan graph.Info, stop func())
}

// Forwarder forwards a request of the SPARQL protocol to a remote store.
type Forwarder interface {
	Forward(w http.ResponseWriter, r *http.Request)
}

// Options configure the API.
type Options struct {
	Store graph.Store
	// Querier and Updater are nil if the store is remote. Forwarder then serves the queries of
	// administrators, and other viewers use subgraphs.
	Querier   Querier
	Updater   Updater
	Forwarder Forwarder
	Watcher   Watcher      // nil: there is no stream
	Latest    graph.Latest // nil: there are no latest values
	Origin    string       // origin of subgraphs that are written here without one
	// Compatible adds /api/v0/graph of the metadata service of GLACIATION.
	Compatible bool
	// Limits limit queries; the zero value means the defaults of package sparql.
	Limits sparql.Limits
	Now    func() time.Time
	Logger *slog.Logger
}

// Limits of a document.
const (
	maxBody    = 32 << 20
	maxQuads   = 200_000
	maxLiteral = 256 << 10
)

type server struct {
	Options
	contexts jsonld.Contexts
	openapi  []byte
}

// Everyone as owner marks a subgraph as readable by all: a node, a site.
const Everyone = "*"

// route is one address, with its handler and its description.
type route struct {
	method, path, summary string
	least                 access.Role
	sends                 bool // accepts the token of a sender too
	handle                func(http.ResponseWriter, *http.Request) error
}

func (s *server) routes() []route {
	list := []route{
		{
			"GET", "/subgraph/{id}", "One subgraph; the id is one percent-encoded segment. The ETag is its version. With values=latest " +
				"the series have their latest values.", access.Public, true, s.serveGraph},
		{"PUT", "/subgraph/{id}", "Replace a subgraph. If-Match or If-None-Match: * hold it to a version.", access.Admin, true, s.putGraph},
		{"POST", "/subgraph/{id}", "Add statements to a subgraph.", access.Admin, true, s.putGraph},
		{"DELETE", "/subgraph/{id}", "Delete a subgraph.", access.Admin, true, s.deleteGraph},
		{"GET", "/subgraph/{id}/metrics", "How often a subgraph was read and written.", access.Public, true, s.serveUsage},
		{"GET", "/subgraphs_versions", "The version of every subgraph that the viewer may see.", access.Public, true, s.serveVersions},
		{"GET", "/graphstore", "Graph Store Protocol: the graph named by the parameter graph.", access.Public, true, s.serveGraph},
		{"PUT", "/graphstore", "Graph Store Protocol: replace a graph.", access.Admin, true, s.putGraph},
		{"POST", "/graphstore", "Graph Store Protocol: add to a graph.", access.Admin, true, s.putGraph},
		{"DELETE", "/graphstore", "Graph Store Protocol: delete a graph.", access.Admin, true, s.deleteGraph},
		{"GET", "/sparql", "SPARQL query in the parameter query; the answer as JSON, CSV or TSV.", access.Public, true, s.serveSPARQL},
		{"POST", "/sparql", "SPARQL query or update, as a form or as application/sparql-query or application/sparql-update.", access.Public,
			true, s.serveSPARQL},
		{
			"GET", "/graph/links", "What a thing is connected to, in both directions, with the queries of its figures and logs. It is " +
				"named by its iri, or as a node or a workload of a site; of a workload start names the run, else it is the last.",
			access.Public, true, s.serveLinks},
		{"GET", "/graph/list", "The subgraphs that the viewer may see, with origin, time and version.", access.Public, true, s.serveGraphs},
		{"GET", "/graph/changes", "Changes of subgraphs as server-sent events.", access.Public, true, s.serveChanges},
		{"GET", "/graph/context", "The JSON-LD context of the vocabulary of reckon.", access.Public, true, s.serveContext},
		{"GET", "/graph/ontology", "The vocabulary of reckon.", access.Public, true, s.serveOntology},
		{"GET", "/graph/openapi.json", "This document.", access.Public, true, s.serveOpenAPI},
	}
	if s.Compatible {
		list = append(list, s.compatRoutes()...)
	}
	return list
}

// New returns the handler of all addresses of the graph, and the patterns to mount it under.
func New(o Options) (http.Handler, []string) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &server{Options: o, contexts: jsonld.Contexts{own.ContextIRI: map[string]any{"@context": own.Context()}}}
	mux := http.NewServeMux()
	routes := s.routes()
	for _, r := range routes {
		mux.Handle(r.method+" "+r.path, s.guard(r))
	}
	s.openapi = describe(routes)
	for _, below := range []string{"/subgraph/", "/graph/"} {
		mux.HandleFunc(below, func(w http.ResponseWriter, r *http.Request) {
			s.fail(w, r, newProblem(http.StatusNotFound,
				"write the id of a subgraph as one segment, with / as %2F; GET /graph/openapi.json lists every address",
				"there is nothing at %s %s", r.Method, r.URL.EscapedPath()))
		})
	}
	patterns := []string{"/subgraph/", "/subgraphs_versions", "/graphstore", "/sparql", "/graph/"}
	if o.Compatible {
		patterns = append(patterns, "/api/v0/")
	}
	return mux, patterns
}

func (s *server) guard(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := access.From(r.Context())
		if v.Role < rt.least && !(rt.sends && v.Writes != nil) {
			if v.Role == access.Nobody && v.Writes == nil {
				s.fail(w, r, v.Unknown())
				return
			}
			s.fail(w, r, newProblem(http.StatusForbidden, "ask an administrator", "a viewer of role %s may not do this; it requires %s",
				v.Role, rt.least))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := rt.handle(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// visibleFilter returns the filter for the subgraphs that a viewer may see; nil is all.
func visibleFilter(v access.Viewer) func(graph.Info) bool {
	if v.All() {
		return nil
	}
	return func(i graph.Info) bool {
		return i.Owner == Everyone || v.Sees(i.Owner) || v.Writes != nil && i.Origin == v.Name
	}
}

func maySee(v access.Viewer, i graph.Info) bool {
	f := visibleFilter(v)
	return f == nil || f(i)
}

// mayWrite returns an error with the reason if a viewer may not change a subgraph: a sender may change its own.
func (s *server) mayWrite(ctx context.Context, id string) error {
	v := access.From(ctx)
	if v.Changes() {
		return nil
	}
	if v.Writes == nil {
		return newProblem(http.StatusForbidden, "ask an administrator", "a viewer of role %s may not change the graph", v.Role)
	}
	info, _, err := s.Store.Get(ctx, id)
	if err == nil && info.Origin != v.Name {
		return newProblem(http.StatusForbidden, "a sender may change only what it wrote itself", "the subgraph %q was written by %q", id,
			info.Origin)
	}
	if err != nil && !isNotFound(err) {
		return err
	}
	return nil
}

func (s *server) origin(v access.Viewer) string {
	if v.Name != "" {
		return v.Name
	}
	return s.Origin
}

func (s *server) serveOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(s.openapi)
	return ignoreConnError(err)
}

// ignoreConnError drops errors of connections: there is no client left to report them to.
func ignoreConnError(error) error { return nil }

func writeJSON(w http.ResponseWriter, status int, v any) error {
	raw, err := encodeJSON(v)
	if err != nil {
		return err
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	w.WriteHeader(status)
	_, err = w.Write(append(raw, '\n'))
	return ignoreConnError(err)
}
