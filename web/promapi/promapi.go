// Package promapi serves the Prometheus HTTP API
// (https://prometheus.io/docs/prometheus/latest/querying/api/) by Prometheus's own handlers, so
// that Grafana, promtool and every other client of Prometheus work against reckon.
//
// No other package uses github.com/prometheus/prometheus/web/api/v1, because its constructor
// changes from version to version. Times are Unix seconds or RFC 3339, as in that API. The handler
// is safe for concurrent use.
package promapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grafana/regexp"
	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/route"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/notifications"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	remoteapi "github.com/prometheus/client_golang/exp/api/remote"

	"reckon/access"
)

// Options are the parts of the API. Engine and Queryable are needed.
type Options struct {
	Engine    promql.QueryEngine
	Queryable storage.SampleAndChunkQueryable
	Exemplars storage.ExemplarQueryable // nil: there are none
	DB        v1.TSDBAdminStats         // for status pages; nil: they state that there are none. Deleting by HTTP is never enabled
	// Metadata gives type, unit and help of each metric by its full name.
	Metadata func() map[string]metadata.Metadata
	// Ready explains why queries cannot be answered yet; nil is always ready.
	Ready func() error

	// Rules and Alertmanagers are reported at /api/v1/rules, alerts and alertmanagers to viewers
	// who see all; they may be nil.
	Rules         v1.RulesRetriever
	Alertmanagers v1.AlertmanagerRetriever

	// Listen is the address of the server, HOST:PORT, for the addresses of targets on it.
	Listen string
	// Targets are shown at /api/v1/targets; nil: the server scrapes nothing.
	Targets Targets

	// RemoteWrite switches the receiver at /api/v1/write on; it stores in Appendable.
	RemoteWrite bool
	Appendable  storage.Appendable
	Appendable2 storage.AppendableV2

	// MaxConcurrent limits the requests that read the store at the same time (default 20). A
	// request that waited for MaxWait (default 30 s) is refused with 503.
	MaxConcurrent int
	MaxWait       time.Duration
	// AtOnce returns the maximum number of concurrent queries of a viewer; nil sets no limit.
	AtOnce        func(access.Viewer) int
	LookbackDelta time.Duration // default 5 minutes, as the engine's
	Parser        parser.Parser // as the engine's

	Version, Revision string
	Gatherer          prometheus.Gatherer // for status/self_metrics
	Retention         string              // shown in status/runtimeinfo
	Logger            *slog.Logger
}

// Handler returns the handler of everything below /api/v1.
func Handler(o Options) http.Handler {
	o.setDefaults()
	started := time.Now()
	made := sync.OnceValue(func() http.Handler { return newRouter(o, started) })
	first := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { made().ServeHTTP(w, r) })
	return restrictPaths(limitRequests(limitRead(limitSelectors(rejectAdmin(compressAnswers(first)))), o.MaxConcurrent, o.MaxWait,
		o.AtOnce))
}

// newRouter is created at the first request, because Prometheus's API describes itself at once, which takes 80 MB and 0.3 s.
func newRouter(o Options, started time.Time) http.Handler {
	target := newMetadataTarget(o.Metadata, o.Listen)
	api := v1.NewAPI(
		o.Engine,
		restrictedStore{o.Queryable},
		o.Appendable, o.Appendable2,
		restrictedExemplars{o.Exemplars},
		func(context.Context) v1.ScrapePoolsRetriever { return pools{o.Targets} },
		func(context.Context) v1.TargetRetriever { return targets{target, o.Targets} },
		func(context.Context) v1.AlertmanagerRetriever { return o.Alertmanagers },
		func() config.Config { return config.DefaultConfig },
		map[string]string{},
		v1.GlobalURLOptions{ListenAddress: o.Listen, Host: o.Listen, Scheme: "http"},
		requireOpen(o.Ready),
		o.DB, "", false, // no administration by HTTP
		false, 0, // no search
		o.Logger,
		func(context.Context) v1.RulesRetriever { return o.Rules },
		5e7, 10, 1<<20, // remote read: samples, requests at one time, bytes in a frame (Prometheus's defaults)
		false,
		regexp.MustCompile(`^$`), // no other origin may read from a browser
		func() (v1.RuntimeInfo, error) { return runtimeInfo(o, started), nil },
		&v1.PrometheusVersion{Version: o.Version, Revision: o.Revision, GoVersion: runtime.Version()},
		func() []notifications.Notification { return []notifications.Notification{} },
		func() (<-chan notifications.Notification, func(), bool) { return nil, nil, false },
		o.Gatherer,
		nil, nil,
		o.RemoteWrite,
		remoteapi.MessageTypes{remoteapi.WriteV1MessageType, remoteapi.WriteV2MessageType},
		false, false, false, // no OTLP
		false,
		o.LookbackDelta,
		false, o.RemoteWrite,
		nil, nil,
		v1.OpenAPIOptions{},
		o.Parser,
	)
	router := route.New().WithPrefix("/api/v1")
	api.Register(router)
	return router
}

// compressAnswers compresses answers with reused gzip writers, because Prometheus's own handler allocates one of a megabyte for each
// answer.
func compressAnswers(next http.Handler) http.Handler {
	return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept-Encoding")
		next.ServeHTTP(w, r)
	}))
}

// rejectAdmin rejects requests to the administrative API. Prometheus's own handler would return an internal error while
// that API is disabled.
func rejectAdmin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/admin/") {
			writeForbidden(
				w, "the administrative API is switched off; use `reckon backup`, and `reckon help` for what else an administrator can do")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (o *Options) setDefaults() {
	if o.Exemplars == nil {
		o.Exemplars = noExemplars{}
	}
	if o.Rules == nil {
		o.Rules = noRules{}
	}
	if o.Alertmanagers == nil {
		o.Alertmanagers = noRules{}
	}
	if o.DB == nil {
		o.DB = noDB{}
	}
	if o.Metadata == nil {
		o.Metadata = func() map[string]metadata.Metadata { return nil }
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Gatherer == nil {
		o.Gatherer = prometheus.NewRegistry()
	}
	if o.Parser == nil {
		o.Parser = parser.NewParser(parser.Options{})
	}
	o.Listen = cmp.Or(o.Listen, "localhost:9870")
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 20)
	o.MaxWait = cmp.Or(o.MaxWait, 30*time.Second)
	o.LookbackDelta = cmp.Or(o.LookbackDelta, 5*time.Minute)
}

// requireOpen answers 503 in the form of the API until the store is open.
func requireOpen(reason func() error) func(http.HandlerFunc) http.HandlerFunc {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := reason(); err != nil {
				writeUnavailable(w, "the server is not ready: "+err.Error())
				return
			}
			next(w, r)
		}
	}
}

func runtimeInfo(o Options, started time.Time) v1.RuntimeInfo {
	host, _ := os.Hostname() // an error leaves the name empty, and an empty one is shown
	return v1.RuntimeInfo{
		StartTime: started, Hostname: host, ServerTime: time.Now(), ReloadConfigSuccess: true, LastConfigTime: started,
		GoroutineCount: runtime.NumGoroutine(), GOMAXPROCS: runtime.GOMAXPROCS(0), StorageRetention: o.Retention,
	}
}

// metadataStore returns our descriptions of metrics as a scrape target's, because Prometheus's handler of
// /api/v1/metadata reads them from targets.
type metadataStore func() map[string]metadata.Metadata

func (m metadataStore) ListMetadata() []scrape.MetricMetadata {
	all := m()
	out := make([]scrape.MetricMetadata, 0, len(all))
	for name, md := range all {
		out = append(out, scrape.MetricMetadata{MetricFamily: name, Type: md.Type, Help: md.Help, Unit: md.Unit})
	}
	return out
}

func (m metadataStore) GetMetadata(name string) (scrape.MetricMetadata, bool) {
	md, ok := m()[name]
	return scrape.MetricMetadata{MetricFamily: name, Type: md.Type, Help: md.Help, Unit: md.Unit}, ok
}

func (m metadataStore) LengthMetadata() int { return len(m()) }
func (m metadataStore) SizeMetadata() int {
	n := 0
	for name, md := range m() {
		n += len(name) + len(md.Help) + len(md.Unit) + len(md.Type)
	}
	return n
}

func newMetadataTarget(md func() map[string]metadata.Metadata, listen string) *scrape.Target {
	ls := model.LabelSet{"job": "reckon", model.AddressLabel: model.LabelValue(listen), model.SchemeLabel: "http",
		model.MetricsPathLabel: "/metrics"}
	t := scrape.NewTarget(
		labels.FromStrings("job", "reckon", "instance", listen, model.AddressLabel, listen, model.SchemeLabel, "http",
			model.MetricsPathLabel, "/metrics"),
		&config.ScrapeConfig{JobName: "reckon", ScrapeInterval: model.Duration(15 * time.Second),
			ScrapeTimeout: model.Duration(10 * time.Second)}, ls, nil)
	t.SetMetadataStore(metadataStore(md))
	return t
}

// Targets are the scraped targets of a server.
type Targets interface {
	v1.ScrapePoolsRetriever
	v1.TargetRetriever
}

// targets holds the target that carries the metadata, and the scraped targets.
type targets struct {
	own     *scrape.Target
	scraped Targets
}

// ownPool is the name of the pool of our own target.
const ownPool = "reckon"

func (t targets) TargetsActive() map[string][]*scrape.Target {
	all := map[string][]*scrape.Target{}
	if t.scraped != nil {
		maps.Copy(all, t.scraped.TargetsActive())
	}
	all[ownPool] = append([]*scrape.Target{t.own}, all[ownPool]...)
	return all
}

func (t targets) TargetsDropped() map[string][]*scrape.Target {
	if t.scraped == nil {
		return nil
	}
	return t.scraped.TargetsDropped()
}

func (t targets) TargetsDroppedCounts() map[string]int {
	if t.scraped == nil {
		return nil
	}
	return t.scraped.TargetsDroppedCounts()
}

func (t targets) ScrapePoolConfig(name string) (*config.ScrapeConfig, error) {
	if t.scraped == nil {
		return nil, errors.New("scrape pool " + name + " does not exist: this server scrapes nothing, see the setting scrape-config")
	}
	return t.scraped.ScrapePoolConfig(name)
}

type pools struct{ scraped Targets }

func (p pools) ScrapePools() []string {
	if p.scraped == nil {
		return []string{ownPool}
	}
	return append([]string{ownPool}, slices.DeleteFunc(p.scraped.ScrapePools(), func(s string) bool { return s == ownPool })...)
}

// noRules implements a Prometheus server without rules and without an Alertmanager.
type noRules struct{}

func (noRules) Alertmanagers() []*url.URL            { return nil }
func (noRules) DroppedAlertmanagers() []*url.URL     { return nil }
func (noRules) RuleGroups() []*rules.Group           { return nil }
func (noRules) AlertingRules() []*rules.AlertingRule { return nil }

type noExemplars struct{}

func (noExemplars) ExemplarQuerier(context.Context) (storage.ExemplarQuerier, error) {
	return nil, errors.New("exemplars are not stored")
}

// noDB is a store without blocks of its own, such as a remote one.
type noDB struct{}

var errNoDB = errors.New("this store has no blocks of its own")

func (noDB) CleanTombstones() error                                         { return errNoDB }
func (noDB) Delete(context.Context, int64, int64, ...*labels.Matcher) error { return errNoDB }
func (noDB) Snapshot(string, bool) error                                    { return errNoDB }
func (noDB) Stats(string, int) (*tsdb.Stats, error)                         { return nil, errNoDB }
func (noDB) WALReplayStatus() (tsdb.WALReplayStatus, error)                 { return tsdb.WALReplayStatus{}, errNoDB }
func (noDB) BlockMetas() ([]tsdb.BlockMeta, error)                          { return nil, errNoDB }
