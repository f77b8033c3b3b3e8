// Package api answers reckon's HTTP API: workloads, nodes and the live stream under
// /api/reckon/v1, the OpenAPI 3.1 document that describes them, health, and the
// landing page. The wire types are those of package client.
//
// Times are RFC 3339 in UTC and figures are in SI base units; what was not measured
// is null or absent. Every answer with a status of 400 and above is a client.Error
// that names the parameter, its value and what to write instead. Parameters are
// strict: an unknown one is an error, because a misspelt filter that selects
// everything is worse than none.
//
// The package reads no store: a [Backend] gives the answers, and a [Hub] the ticks. Errors
// of package answer become statuses here, and nowhere else.
// Handlers are safe for concurrent use. Timeouts of connections are the server's.
package api

import (
	"log/slog"
	"net/http"
	"time"

	"reckon/access"
)

// Backend answers about workloads and nodes; what a viewer may not see is left out here
// (access.Authorized).
type Backend = access.Backend

// Options are what the API is made of.
type Options struct {
	Backend Backend
	// Hub gives the ticks of /api/reckon/v1/live; nil when no agent runs in this
	// process, and the stream then says so.
	Hub *Hub
	// Ready says why the server can not answer yet, or nil when it can; a nil func is
	// always ready. Until it is, everything under /api/reckon/v1 answers 503.
	Ready func() error
	// Usage answers history; nil: this server keeps none.
	Usage Usage
	// Fit answers where a job would fit; nil: this server does not know.
	Fit Fit
	// Forecasts answers what will be needed; nil: this server does not know.
	Forecasts Forecasts
	// Ranks answers where work should go; nil: this server does not know.
	Ranks Ranks
	// Devices answers what disks, network file systems and interconnects of nodes do; nil: this server does not know.
	Devices Devices
	// Inconsistent lists figures that were held back; nil: this server checks none.
	Inconsistent Inconsistent
	// Proof holds usage against the counters; nil: this server keeps none.
	Proof Proof
	// Replace lets another machine send by the name of a node, and reports whether one did; nil:
	// this server takes no samples.
	Replace func(site, node string) bool
	// Scale answers how a workload scales; nil: this server does not know.
	Scale Scale
	// Logs answers with the logs of workloads; nil: no place of logs is configured.
	Logs Logs
	// Prometheus is mounted at /api/v1/, Metrics at /metrics; either may be nil.
	Prometheus http.Handler
	Metrics    http.Handler
	// Alerts sends tests of alerts; nil: this server sends none. Alertmanager is mounted at
	// /alertmanager/ and may be nil.
	Alerts       Alerts
	Alertmanager http.Handler
	// Findings answers what was found of misuse; nil: the server does not look.
	Findings Findings
	// Data answers with series joined by time, Power how power follows work; nil: this
	// server keeps no series.
	Data  Data
	Power Power
	// Numbers knows jobs by another number; nil: they are found by their ids alone.
	Numbers Numbers
	// Import takes history; nil: this server does not.
	Import Import
	// MetricRuns keeps and answers runs of MetricSets; nil: this server keeps none.
	MetricRuns MetricRuns
	// Backup copies what the server keeps; nil: it does not.
	Backup Backup
	// Graph answers the API of the knowledge graph at GraphPaths; nil: this server keeps none.
	Graph      http.Handler
	GraphPaths []string
	// Write takes samples at /api/v1/write from viewers who may send, Auth lets people
	// sign in and out at /auth/; either may be nil.
	Write http.Handler
	// OTLP takes OpenTelemetry metrics at /api/v1/otlp/v1/metrics and /v1/metrics; may be nil.
	OTLP http.Handler
	Auth http.Handler
	// Audit is told when somebody who sees all looks at the work of somebody else: what
	// was asked for, and whose it is, empty for several owners. nil tells nobody.
	Audit func(r *http.Request, action, object, owner string)
	// Viewer says who sent a request; an error is answered with its status (see
	// access.Refuse), or 401. nil is for a server that only its own machine reaches:
	// everybody is admin. Handlers find the viewer in the context (access.From).
	Viewer func(*http.Request) (access.Viewer, error)
	// Within is the time in which a viewer's question is answered or given up; nil or 0:
	// no bound. Streams and imports have none.
	Within func(access.Viewer) time.Duration
	// Pages are served at / and below; nil: a small page that lists the addresses.
	Pages *Pages
	// MadeUp says that figures were not measured: the server shows a site that is made up.
	MadeUp bool
	// Version is shown in the OpenAPI document and on the landing page.
	Version string
	// Logger takes one line for each request at level debug, and errors of the
	// server at level error; nil discards them.
	Logger *slog.Logger
}

type server struct {
	Options
	document []byte // the OpenAPI document
}

// New returns the handler of everything that the server answers.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Backend != nil {
		o.Backend = access.Authorize(o.Backend, noWorkload)
	}
	s := &server{Options: o}
	routes := s.routes()
	s.document = document(routes, o.Version, s.others()...)
	return s.outer(s.mux(routes))
}
