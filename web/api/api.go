// Package api serves reckon's HTTP API: workloads, nodes and the live stream under
// /api/reckon/v1, the OpenAPI 3.1 document that describes them, health, and the
// landing page. The wire types are in package client.
//
// Times are RFC 3339 in UTC and figures are in SI base units; unmeasured figures
// are null or absent. Every response with a status of 400 and above is a client.Error
// that names the parameter, its value and the remedy. Parameters are
// strict: an unknown one is an error, because a misspelt filter that selects
// everything is worse than none.
//
// The package reads no store: a [Backend] provides the answers, and a [Hub] the ticks. Errors
// of package answer are mapped to statuses here, and nowhere else.
// Handlers are safe for concurrent use. The server sets the timeouts of connections.
package api

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"reckon/access"
)

// Backend answers queries about workloads and nodes. Each answer contains only what the viewer may see
// (access.Authorized).
type Backend = access.Backend

// Options are the components of the API.
type Options struct {
	Backend Backend
	// Hub provides the ticks of /api/reckon/v1/live. It is nil if no agent runs in this process;
	// the stream then returns an error.
	Hub *Hub
	// Ready returns the reason why the server is not ready, or nil; a nil func means always ready.
	// Until then, everything under /api/reckon/v1 returns 503.
	Ready func() error
	// Usage returns history; nil: the server has none.
	Usage Usage
	// Fit returns where a job would fit; nil: not supported.
	Fit Fit
	// Moves returns the owners who should move work; nil if not supported.
	Moves Moves
	// Forecasts returns forecasts of demand; nil: not supported.
	Forecasts Forecasts
	// Ranks returns where work should be placed; nil: not supported.
	Ranks Ranks
	// Devices returns the activity of disks, network file systems and interconnects of nodes; nil: not supported.
	Devices Devices
	// Inconsistent lists withheld figures; nil: figures are not checked.
	Inconsistent Inconsistent
	// Proof compares usage with the counters; nil: the server has no proofs.
	Proof Proof
	// Replace allows another machine to send under the name of a node, and reports whether one had
	// tried. It is nil if the server accepts no samples.
	Replace func(site, node string) bool
	// Scale returns the scaling of a workload; nil: not supported.
	Scale Scale
	// Logs returns the logs of workloads; nil: no source of logs is configured.
	Logs Logs
	// Prometheus is mounted at /api/v1/, Metrics at /metrics; either may be nil.
	Prometheus http.Handler
	Metrics    http.Handler
	// Alerts sends test alerts, or is nil. Alertmanager is mounted at /alertmanager/ and may be nil.
	Alerts       Alerts
	Alertmanager http.Handler
	// Findings returns findings of misuse; nil: the server does not evaluate the rules.
	Findings Findings
	// Data returns series joined by time, Power the relation of power and work. They are nil if the
	// server has no series.
	Data  Data
	Power Power
	// Numbers finds jobs by their job number; nil: jobs are found only by id.
	Numbers Numbers
	// Import imports history; nil: not supported.
	Import Import
	// MetricRuns stores and returns runs of MetricSets; nil: not supported.
	MetricRuns MetricRuns
	// Backup copies the server's data; nil: not supported.
	Backup Backup
	// Graph serves the API of the knowledge graph at GraphPaths; nil: the server has none.
	Graph      http.Handler
	GraphPaths []string
	// Write accepts samples at /api/v1/write from viewers who may send. Auth handles sign-in and
	// sign-out at /auth/. Either may be nil.
	Write http.Handler
	// OTLP accepts OpenTelemetry metrics at /api/v1/otlp/v1/metrics and /v1/metrics; may be nil.
	OTLP http.Handler
	Auth http.Handler
	// Audit is called when a viewer with access to all looks at another user's work, with the
	// object and its owner, empty for several owners. It may be nil.
	Audit func(r *http.Request, action, object, owner string)
	// Viewer identifies the sender of a request. An error is returned with its status (see access.Refuse), or 401.
	// nil is for a server that only its own machine can reach, so that every sender is admin. Handlers find the
	// viewer in the context (access.From).
	Viewer func(*http.Request) (access.Viewer, error)
	// Origins are the origins of other sites with pages that may read workloads with a user's short-lived token.
	Origins []string
	// Within is the time limit for a viewer's request; nil or 0 means none. Streams and imports have no limit.
	Within func(access.Viewer) time.Duration
	// Pages are served at / and below; nil: a small page that lists the addresses.
	Pages *Pages
	// MadeUp is true if the figures are simulated.
	MadeUp bool
	// Version is shown in the OpenAPI document and on the landing page.
	Version string
	// Logger gets one line per request at level debug and server errors at level error; nil discards them.
	Logger *slog.Logger
}

type server struct {
	Options
	document func() []byte // the OpenAPI document, made when it is first asked for: it takes 20 MB
}

// New returns the handler for all requests to the server.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Backend != nil {
		o.Backend = access.Authorize(o.Backend, noWorkloadError)
	}
	s := &server{Options: o}
	routes := s.routes()
	s.document = sync.OnceValue(func() []byte { return openAPIDocument(routes, o.Version, s.otherRoutes()...) })
	return s.wrapAll(s.newMux(routes))
}
