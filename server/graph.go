package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"reckon/catalogue/database"
	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/graph/feed"
	"reckon/graph/remote"
	"reckon/query"
	"reckon/store"
	"reckon/web/graphapi"
	"reckon/web/promapi"
	"reckon/workload"
)

// Graph configures the storage and the sources of the knowledge graph.
type Graph struct {
	Off bool
	// Compatible adds the API and the timestamp: graphs of the metadata service of GLACIATION.
	Compatible bool
	Base       string // of ids; empty is urn:reckon:
	URL        string // under which programs reach this server; empty is its address
	pages      string // public address of the pages, if configured
	Loki       string // URL of the store of logs; empty for none
	// Store is the address of another store's Graph Store Protocol, Query its SPARQL endpoint; see remote.Options. If
	// empty, the graph is in the catalogue database.
	Store, Query string
}

// graphLocationFile is the file that holds the address of the database with the graph.
const graphLocationFile = "graph.state"

// timestampRetention is the retention of the graphs that clients write at every tick.
const timestampRetention = 6 * time.Hour

// knowledgeGraph is the knowledge graph of a server.
type knowledgeGraph struct {
	store *embedded.Store // local graph; with a remote one, it only holds versions
	away  *remote.Store   // nil if the graph is here
	feed  *feed.Feed
	rows  *database.Catalogue
	due   chan struct{}
	// snapshots are nil unless clients of GLACIATION ask.
	snapshots *snapshots
	latest    latestValues
	stamps    *stamps // nil unless they ask a remote store
}

// markChanged records that the catalogue has changes for the graph.
func (k *knowledgeGraph) markChanged() {
	if k == nil {
		return
	}
	select {
	case k.due <- struct{}{}:
	default:
	}
}

func (k *knowledgeGraph) close() error { return k.store.Close() }

func (s *Server) openGraph(ctx context.Context) error {
	c := &s.config.Graph
	local, ok := s.catalogue.(*database.Catalogue)
	if c.Off || !ok {
		return nil
	}
	shared := local.Shared()
	k := &knowledgeGraph{rows: local, due: make(chan struct{}, 1)}
	o := embedded.Options{
		DB: shared.DB, Write: shared.Write, Postgres: shared.Postgres, Explain: graphUnavailable(shared),
		State: filepath.Join(s.config.Data, graphLocationFile), Logger: s.log, Latest: &k.latest,
	}
	if c.Compatible {
		k.snapshots = &snapshots{}
		o.Snapshots = k.snapshots
	}
	var err error
	if k.store, err = embedded.Open(ctx, o); err != nil {
		return err
	}
	s.graph = k
	if c.Store != "" {
		if k.away, err = remote.Open(remote.Options{Store: c.Store, Query: c.Query, Registry: k.store}); err != nil {
			return fmt.Errorf("graph-store: %w", err)
		}
	}
	return nil
}

// graphStore returns the store of the graph.
func (k *knowledgeGraph) graphStore() graph.Store {
	if k.away != nil {
		return k.away
	}
	return k.store
}

// graphUnavailable returns a function that translates the error of an unavailable database into the graph's error.
func graphUnavailable(d database.Shared) func(context.Context, error) error {
	return func(ctx context.Context, err error) error {
		if err = d.Explain(ctx, err); errors.Is(err, store.ErrUnavailable) {
			return errors.Join(graph.ErrUnavailable, err)
		}
		return err
	}
}

// graphURL returns the address of this server for other programs.
func (s *Server) graphURL() string {
	if s.config.Graph.URL != "" {
		return s.config.Graph.URL
	}
	return s.URL()
}

// graphHandler returns the API of the graph and where it is mounted.
func (s *Server) graphHandler(views *query.Views) (http.Handler, []string) {
	if s.graph == nil {
		return nil, nil
	}
	site := s.config.Site
	s.graph.feed = feed.New(feed.Options{
		Store: s.graph.graphStore(), Workloads: s.graph.rows, Nodes: views, Base: s.config.Graph.Base, Site: site,
		Links: feed.Links{URL: s.graphURL(), Pages: s.config.Graph.pages, Loki: s.config.Graph.Loki,
			LogSelector: s.config.Logs.Selector},
		Forecast: func(kind string) bool { return workload.Kind(kind).Service() }, Clock: time.Now,
	})
	if s.graph.snapshots != nil {
		*s.graph.snapshots = snapshots{catalogue: s.catalogue, nodes: views, engine: s.engine, series: s.series, now: time.Now}
	}
	if s.graph.away == nil {
		s.ranks.Data = &dataPlaces{s.graph.store, cmp.Or(site, "default")}
	}
	s.graph.latest = latestValues{engine: s.engine.Within(5_000_000, 10*time.Second), series: promapi.Restricted(s.series), url: s.graphURL,
		now: time.Now}
	o := graphapi.Options{Latest: &s.graph.latest, Store: s.graph.graphStore(), Watcher: s.graph.store, Origin: cmp.Or(site, "default"),
		Compatible: s.config.Graph.Compatible, Logger: s.log}
	if s.graph.away != nil {
		o.Forwarder = s.graph.away
		if s.graph.snapshots != nil {
			s.graph.stamps = &stamps{to: s.graph.away, from: s.graph.snapshots}
		}
	} else {
		o.Querier, o.Updater = s.graph.store, s.graph.store
	}
	return graphapi.New(o)
}

// runGraph writes changes of the catalogue to the graph until ctx ends.
func (s *Server) runGraph(ctx context.Context) error {
	minutes := time.NewTicker(time.Minute)
	defer minutes.Stop()
	hours := time.NewTicker(time.Hour)
	defer hours.Stop()
	var behind, unstamped catalogueLag
	for {
		changed, err := s.graph.feed.Update(ctx)
		s.graph.stamps.add(changed)
		if ctx.Err() == nil && behind.recordUpdate(err, time.Now()) {
			s.log.Error("the knowledge graph could not be brought up to date", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.graph.due:
		case <-minutes.C:
			if _, err := embedded.DropTimestamps(ctx, s.graph.graphStore(), time.Now().Add(-timestampRetention)); err != nil &&
				ctx.Err() == nil {
				s.log.Warn("old timestamp: graphs could not be dropped", "err", err)
			}
			if err := s.graph.stamps.write(ctx, time.Now()); ctx.Err() == nil && unstamped.recordUpdate(err, time.Now()) {
				s.log.Error("the graph of this minute could not be written", "err", err)
			}
		case <-hours.C:
			if err := s.graph.store.Compact(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("the knowledge graph could not be compacted", "err", err)
			}
		}
	}
}
