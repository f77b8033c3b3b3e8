package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"reckon/access"
	"reckon/answer"
	"reckon/answer/findings"
	"reckon/answer/forecast"
	"reckon/catalogue"
	"reckon/internal/buildinfo"
	"reckon/interop/importer"
	"reckon/metric/expose"
	"reckon/query"
	"reckon/store"
	"reckon/store/tsdb"
	"reckon/transport/ingest"
	"reckon/transport/limits"
	"reckon/web/api"
	"reckon/web/client"
	"reckon/web/promapi"
	"reckon/web/ui"
)

// silenceLimit returns how long a workload or node may be silent before it counts as ended or down.
func (c *Config) silenceLimit() time.Duration {
	if c.Agent == nil && (c.Receive || c.Play != nil) {
		return 5 * time.Minute // others may export once a minute, over a bad network; a made-up past is as coarse
	}
	export := 15 * time.Second
	if c.Agent != nil && c.Agent.Export > 0 {
		export = c.Agent.Export
	}
	if c.Receive {
		export = max(export, time.Minute) // and so may those that send to this one
	}
	return max(4*export, time.Minute)
}

// forecastHour is the local time of the daily forecast. The day before is complete then, and few users are active.
const forecastHour = 2

func (s *Server) openCatalogue(ctx context.Context) error {
	if s.catalogue == nil {
		if err := s.openDatabase(ctx); err != nil {
			return err
		}
	}
	mark, err := s.catalogue.Watermark(ctx)
	if err != nil && !errors.Is(err, store.ErrUnavailable) {
		return err
	}
	s.history = !mark.IsZero()
	if local, ok := s.samples.(*tsdb.Store); ok && !s.history && err == nil {
		_, s.remade = local.Oldest()
	}
	s.builder = catalogue.NewBuilder(s.samples, s.catalogue, catalogue.BuilderOptions{
		Gone: s.config.silenceLimit(), History: s.config.Retention, Logger: s.log,
	})
	s.proofs = &proofs{builder: s.builder, states: s.catalogue, log: s.log, shared: !s.leads()}
	return nil
}

// buildCatalogue updates the catalogue after every export of this node, and at intervals for data from other senders.
// [roundInterval] and [builderRest] limit the frequency.
func (s *Server) buildCatalogue(ctx context.Context) error {
	every := 30 * time.Second
	if s.config.Receive || s.scraper != nil {
		every = 10 * time.Second // pushed samples give no notification, so poll
	}
	noted, now := false, s.agent == nil // now: the workloads on this machine were measured since the start
	for {
		began := time.Now()
		n, err := s.builder.Advance(ctx)
		switch {
		case ctx.Err() != nil:
		case s.behind.recordUpdate(err, time.Now()):
			s.log.Error("catalogue could not be brought up to date", "err", err)
		case err == nil && n > 0:
			s.built.Store(true)
			if now && !noted {
				noted = true
				close(s.first)
			}
		}
		if err == nil {
			s.caughtUp.Store(true)
			if n > 0 {
				s.graph.markChanged()
			}
		}
		round, least := time.Since(began), time.Duration(0)
		if noted && s.agent != nil { // until then, do not delay the first workloads of this machine
			least = builderRest(n)
		}
		if waitOrRequest(ctx, least, shortenedPause(least, round), s.asked) != nil {
			return nil
		}
		next := time.NewTimer(max(0, roundInterval(every, round)-least))
		select {
		case <-ctx.Done():
		case <-s.updated:
			now = true
		case <-next.C:
		}
		if next.Stop(); ctx.Err() != nil {
			return nil
		}
	}
}

// countedUntil returns the time up to which usage was counted by any member of the site, or zero if unknown.
func (s *Server) countedUntil(ctx context.Context) time.Time {
	at, err := s.builder.Counted(ctx)
	if err != nil {
		return time.Time{}
	}
	return at
}

// roundInterval returns the interval between two rounds of the catalogue builder. every is the shortest interval, and
// round the duration of the last round. A round takes time for each live series, even if few of them are new. On a
// large site, rounds are less frequent, so that they take one percent of a core, but there is one per minute.
func roundInterval(every, round time.Duration) time.Duration {
	const share, longest = 100, time.Minute
	return max(every, min(share*round, longest))
}

// builderRest returns the minimum pause of the catalogue builder after a round that wrote the given number of rows,
// even if this node has exported since. Each live workload is a row in every round. With more than 200 workloads, one
// round therefore covers several exports.
func builderRest(rows int) time.Duration {
	const row, longest = 75 * time.Millisecond, time.Minute
	return min(time.Duration(rows)*row, longest)
}

// shortenedPause returns the minimum pause after a round if a request waits for the next one. least is the usual minimum, and
// round the duration of the last round. Rounds then take no more than a twentieth of the time, and begin no more than every 15
// seconds.
func shortenedPause(least, round time.Duration) time.Duration {
	return min(least, max(15*time.Second, 20*round))
}

// waitOrRequest waits for a time, or for a shorter one if a request arrived since the last round or arrives now.
func waitOrRequest(ctx context.Context, least, shorter time.Duration, asked <-chan struct{}) error {
	if err := sleepFor(ctx, shorter); err != nil || least <= shorter {
		return err
	}
	rest := time.NewTimer(least - shorter)
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-asked:
	case <-rest.C:
	}
	return nil
}

// catchUp adds the last export to the catalogue when the server stops.
func (s *Server) catchUp() {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	_, err := s.builder.Advance(ctx)
	if err = errors.Join(err, s.builder.Save(ctx)); err != nil {
		s.log.Warn("catalogue is behind the series; the next start brings it up to date", "err", err)
	}
}

// rootHandler mounts everything that is served.
func (s *Server) rootHandler(ctx context.Context) (http.Handler, error) {
	memory := limits.NewMemory(0)
	s.engine = query.NewEngine(query.EngineOptions{Logger: s.log, Memory: limits.ProgramMemory() / 8, Large: memory.Large})
	s.answers.Store(s.engine)
	ready := func() error {
		if err := s.series.Ready(); err != nil {
			return err
		}
		if s.agent != nil && !s.built.Load() && !s.history && !s.remade && s.behind.reason() == nil {
			return errors.New("the first workloads are being measured")
		}
		return nil
	}
	info := buildinfo.Get()
	if err := s.openAlerts(ctx); err != nil {
		return nil, err
	}
	prometheus := promapi.Options{
		Engine: roleEngines{s.engine, s.limitedEngines(), s.lookback()}, Parser: s.engine.Parser(),
		AtOnce:    func(v access.Viewer) int { return s.limits.Config().QueryLimits(v.Role.String()).AtOnce },
		Queryable: forecast.View{SampleAndChunkQueryable: s.series, Store: s.catalogue}, Exemplars: s.series,
		Metadata: s.series.Metadata, Ready: s.series.Ready,
		Version: info.Version, Revision: info.Revision,
		Retention: s.config.Retention.String(), Targets: s.targets(), Listen: s.Addr(), Logger: s.log,
	}
	prometheus.DB, _ = s.samples.(v1.TSDBAdminStats)
	prometheus.Gatherer, _ = s.samples.(prom.Gatherer)
	outage := &answer.Outage{Catalogue: s.catalogue, Behind: s.notUpToDate}
	outage.Store, _ = s.samples.(store.Reachable)
	if damaged, ok := s.series.(interface {
		Gaps(from, to time.Time) []store.Gap
	}); ok {
		outage.Gaps = damaged.Gaps
	}
	views := query.New(s.series, query.Options{Gone: s.config.silenceLimit(), KeepNodes: true})
	s.views = views
	rates := s.config.Footprint.currentRates()
	bounds := &answer.Bounds{Rollups: s.catalogue, Views: views, Ledger: &s.inconsistent, Clock: time.Now}
	o := api.Options{
		Backend: backend{
			Jobs: &answer.Jobs{Catalogue: s.catalogue, Steps: s.catalogue, Views: views, Rates: rates, Outage: outage, Bounds: bounds,
				Series: s.series, Engine: s.engine, Clock: time.Now},
			nodes: &answer.Nodes{Views: views, Rates: rates, Outage: outage, Bounds: bounds, Clock: time.Now, Sender: s.sender,
				Refused: s.refusedOwners,
				Past:    &answer.NodeHistory{Rollups: s.catalogue, Waits: s.catalogue, Views: views, Bounds: bounds, Clock: time.Now}},
		},
		Ready:   ready,
		Version: s.config.Version, Origins: s.config.Access.Origins, Logger: s.log,
	}
	_, o.MadeUp = ReadSimulated(s.config.Data)
	o.MadeUp = o.MadeUp || s.config.Play != nil
	s.mountAlerts(&o, &prometheus)
	o.Prometheus = promapi.Handler(prometheus)
	o.Fit = &answer.Fit{Views: views, Waits: s.catalogue, Rollups: s.catalogue, GPUs: views, Outage: outage, Clock: time.Now}
	s.forecasts = &forecast.Keeper{
		Rollups: s.catalogue, Catalogue: s.catalogue, Store: s.catalogue, Series: s.series, Engine: s.engine.Within(5_000_000, time.Minute),
		Hour: forecastHour, Location: time.Local, Clock: time.Now, Output: s.config.Forecasts,
	}
	o.Forecasts = &answer.Forecasts{Keeper: s.forecasts, Catalogue: s.catalogue, Outage: outage}
	s.ranks = &answer.Ranks{Views: views, Rollups: s.catalogue, Forecasts: s.catalogue, Outage: outage, Gone: s.config.silenceLimit(),
		Findings: s.catalogue, Clock: time.Now}
	o.Ranks = s.ranks
	var err error
	if o.Logs, err = s.config.Logs.open(); err != nil {
		return nil, err
	}
	o.Devices = &answer.Devices{Views: views, Outage: outage, Clock: time.Now}
	o.Scale = &answer.Scale{Catalogue: s.catalogue, Views: views, Outage: outage, Bounds: bounds}
	o.Inconsistent, o.Proof, o.Replace = bounds, s.proofs, s.replaceNode
	if _, err := findings.ReadPolicy(s.config.Policy); err != nil {
		return nil, fmt.Errorf("the policy: %w; `reckon findings policy` prints one that is right", err)
	}
	s.findings = &findings.Keeper{
		Evaluator: &findings.Evaluator{Series: s.series, Facts: s.catalogue, Hold: bounds.Runs, Inconsistent: &s.inconsistent},
		Store:     s.catalogue, Policy: s.config.Policy, Clock: time.Now,
	}
	s.findings.Odd = s.forecasts.Anomalies
	if rates != nil {
		s.findings.Evaluator.Tariff = rates.Tariff
	}
	o.Findings = &answer.Findings{Keeper: s.findings}
	o.Data = &answer.Data{Series: promapi.Restricted(s.series), Parser: s.engine.Parser(), Metadata: s.series.Metadata,
		Slots: make(chan struct{}, 2)}
	o.Power = &answer.Power{Series: promapi.Restricted(s.series), Engine: s.engine, Slots: make(chan struct{}, 1)}
	o.Moves = &answer.Moves{Catalogue: s.catalogue, Rollups: s.catalogue, Partitions: &answer.Partitions{Views: views, Clock: time.Now},
		Views: views, Findings: s.catalogue, Policy: s.config.Policy, Shapes: s.config.Shapes, Outage: outage, Bounds: bounds,
		Clock: time.Now}
	o.Usage = &answer.Usage{Rollups: s.catalogue, Catalogue: s.catalogue, Runs: s.catalogue,
		Partitions: &answer.Partitions{Views: views, Clock: time.Now},
		Outage:     outage, Bounds: bounds, Proof: s.proofs.Summary, Counted: s.countedUntil, Projects: s.config.Projects, Clock: time.Now}
	o.Pages = &api.Pages{Files: ui.Files(), Paths: ui.Paths()}
	numbers := answer.Numbers{Series: s.samples, Clock: time.Now}
	if outage.Store != nil {
		numbers.Back = s.config.Retention
	}
	o.Numbers = numbers
	if to, ok := s.samples.(importer.Store); ok {
		o.Import = &importQueue{series: to, builder: s.builder, dir: filepath.Join(s.config.Data, "imports"), site: s.config.Site}
	}
	s.metricRuns = &answer.MetricRuns{Store: s.catalogue, Agent: views, Parse: benchmarkLog, Clock: time.Now}
	o.MetricRuns = s.metricRuns
	o.Backup = s.newDataCopier()
	o.Within = func(v access.Viewer) time.Duration { return s.limits.Config().QueryLimits(v.Role.String()).Time }
	o.Viewer, o.Auth = s.authn.Viewer, s.authn.Handler()
	o.Audit = s.authn.AuditLook
	o.Graph, o.GraphPaths = s.graphHandler(views)
	if s.config.Receive {
		in := ingest.Options{Store: s.series, Describe: s.series.Describe, Allow: access.Allow, Own: s.localSender, Begin: s.beginLimits,
			Sizes: s.maxSizes,
			Admit: s.senders.Admit, Stats: &s.self.stats, Sender: senderName, Memory: memory, Logger: s.log}
		o.Write, o.OTLP = ingest.Handler(in), ingest.OTLP(in)
	}
	labels := map[string]string{}
	if s.config.Site != "" {
		labels["site"] = s.config.Site
	}
	if s.agent != nil {
		o.Hub = &s.hub
		labels["node"] = s.agent.Node()
	}
	o.Metrics = expose.Handler(s.gatherMetrics, expose.Options{Labels: labels})
	all := api.New(o)
	mux := http.NewServeMux()
	mux.Handle("GET "+reportPath, reportHandler{all})
	mux.Handle("/", all)
	return mux, nil
}

// backend answers the requests that have passed the access checks of the API. Lists come from the catalogue, and
// details come from the series.
type backend struct {
	*answer.Jobs
	nodes *answer.Nodes
}

// Nodes implements api.Backend.
func (b backend) Nodes(ctx context.Context) (client.NodeList, error) { return b.nodes.Nodes(ctx) }

// notUpToDate returns the reason why the catalogue lacks recent data, or nil.
func (s *Server) notUpToDate() error {
	if err := s.behind.reason(); err != nil || s.caughtUp.Load() {
		return err
	}
	if s.remade {
		return rebuildingError{}
	}
	return errors.New("the server has just started; the last minutes appear soon")
}

// rebuildingError is the reason why answers are incomplete while a lost catalogue is rebuilt.
type rebuildingError struct{}

func (rebuildingError) Error() string {
	return "the catalogue was lost and is being made from the series; this may take minutes"
}

// All reports that older data may be missing as well.
func (rebuildingError) All() bool { return true }
