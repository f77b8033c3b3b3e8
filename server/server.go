// Package server composes a store, the catalogue, the queries, the HTTP API and, if wanted, the
// agent of this node into one process.
//
// Opening starts with the parts that fail most often, so that their errors are reported first: the
// address, the data directory, the store, the sensors. Closing is in the reverse order.
package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"reckon/access/auth"
	"reckon/agent"
	"reckon/answer"
	"reckon/answer/findings"
	"reckon/answer/forecast"
	"reckon/answer/invariant"
	"reckon/catalogue"
	"reckon/internal/series/courtesy"
	"reckon/interop/scheduler"
	"reckon/interop/waggle"
	"reckon/metric"
	"reckon/query"
	"reckon/server/alerting"
	"reckon/store"
	"reckon/store/hourly"
	"reckon/transport/limits"
	"reckon/transport/scraping"
	"reckon/transport/senders"
	"reckon/web/api"
)

// Config configures a server.
type Config struct {
	Listen string // address of HTTP
	// Listener replaces Listen if it is set. The server closes it.
	Listener net.Listener
	// APISocket is the path of a Unix socket that serves the API to each local user as identified by the kernel; empty
	// for none. If it was not requested explicitly, a failure to create it is ignored.
	APISocket       string
	APISocketWanted bool
	Data            string // directory of everything that is kept
	Site            string // external label of all series of this server's own agent

	Retention  time.Duration // for how long series are kept
	MaxBytes   int64         // maximum size of the stored series; 0 for no limit
	OutOfOrder time.Duration // maximum age of late samples that are accepted

	// Hourly is for how long one figure an hour of every series is kept; 0 keeps none.
	Hourly time.Duration

	// History is for how long workloads that ended and hourly usage are kept; 0 is for ever.
	History time.Duration

	// Store is the address of another series store (see remote.ParseURL), Catalogue the address of
	// a PostgreSQL catalogue. Empty means the data directory.
	Store, Catalogue string

	// Member is the address at which other servers with the same Store and Catalogue reach this one
	// (see [Serve]); empty if it is the only one.
	Member string
	member *membership // set by Serve

	// Agent measures this node too; nil for a server without sensors.
	Agent *agent.Config
	// Play simulates a site in place of an agent; nil for none.
	Play Play
	// Socket is the path that local `reckon push` sends to, or empty. Unless SocketWanted is set,
	// an unusable path is not an error.
	Socket       string
	SocketWanted bool
	// Footprint returns the emissions and costs of energy; nil if they are unknown.
	Footprint *Footprint
	// Access configures who may reach the server. The zero value suits the loopback address.
	Access Access
	// Alerts configures the evaluated rules and the recipients of notifications.
	Alerts Alerts
	// Policy holds the thresholds for findings of misuse, YAML; empty is the default.
	Policy []byte
	// Projects are the accounts of owners with work that has no reported account, by owner.
	Projects map[string]string
	// Shapes describes partitions and clusters that the batch system does not, YAML.
	Shapes []byte
	// Forecasts takes the forecasts of each day; nil for none.
	Forecasts forecast.Output
	// Waggle takes the figures of the present every minute; nil for none.
	Waggle *waggle.Publisher
	// Logs configures the location of the logs of workloads.
	Logs Logs
	// Scheduler asks the controller of a batch system; nil for none.
	Scheduler *Scheduler
	// Series is the number of live series that are expected; see [tsdb.Options].
	Series int
	// Receive takes samples of others at /api/v1/write (Prometheus remote write).
	Receive bool
	// Graph reports how the knowledge graph is kept and fed.
	Graph Graph
	// ScrapeConfig is a file in Prometheus's format with scrape targets, or empty.
	ScrapeConfig string

	Version string
	Logger  *slog.Logger
}

// Server is a running composition of stores, catalogue, agent and API. Run closes it.
type Server struct {
	config Config
	log    *slog.Logger
	ln     net.Listener
	local  net.Listener // the Unix socket of the API; nil for none
	tls    bool         // as the web configuration had it at the start
	// series is the store used for queries. samples is the same without the hourly store, which may be nil.
	series, samples store.Series
	hourly          *hourly.Store
	catalogue       store.Facts
	engine          *query.Engine
	answers         atomic.Pointer[query.Engine] // engine, for the store, which is opened before
	courtesy        courtesy.Gate                // background work gives way to questions
	builder         *catalogue.Builder
	agent           *agent.Agent
	socket          *agent.Socket
	authn           *auth.Authenticator
	peers           peers
	alerts          *alerting.Service
	scheduler       *scheduler.Poller
	findings        *findings.Keeper
	forecasts       *forecast.Keeper
	views           *query.Views
	ranks           *answer.Ranks
	metricRuns      *answer.MetricRuns
	scraper         *scraping.Service // nil without targets
	limits          *limits.Limiter
	senders         *senders.Registry
	proofs          *proofs
	graph           *knowledgeGraph // nil if none is kept
	self            selfMetrics
	inconsistent    invariant.Ledger // figures that were held back from answers
	// limitsText is the file of limits as it was read at the start.
	limitsText []byte

	notes []agent.Note
	hub   api.Hub
	http  *http.Server

	updated chan struct{} // an export was stored
	asked   chan struct{} // a request needs the catalogue
	built   atomic.Bool   // the catalogue was built at least once
	history bool          // it held something when it was opened
	remade  bool          // it held nothing, but there were series
	first   chan struct{} // closed when the catalogue holds the current workloads
	behind  catalogueLag  // why the catalogue is not up to date

	caughtUp atomic.Bool // the catalogue has been up to date since the start
}

// Open opens everything. Errors name the remedy.
func Open(ctx context.Context, c Config) (*Server, error) {
	s, err := openServer(ctx, c)
	return s, c.explain(err)
}

// Check opens a server with these settings and closes it, in a temporary data directory, on an address of its own and without the
// stores elsewhere. It returns the errors of the settings and of the files that they name.
func Check(ctx context.Context, c Config) (err error) {
	if _, err := net.ResolveTCPAddr("tcp", c.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	if c.Data, err = os.MkdirTemp("", "reckon-check"); err != nil {
		return fmt.Errorf("make a temporary data directory: %w", err)
	}
	defer os.RemoveAll(c.Data)
	c.Listen, c.Store, c.Catalogue, c.Member, c.APISocket = "127.0.0.1:0", "", "", "", ""
	s, err := Open(ctx, c)
	if err != nil {
		return err
	}
	return s.close()
}

func openServer(ctx context.Context, c Config) (*Server, error) {
	c.Graph.pages = c.Alerts.External
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{config: c, log: c.Logger, updated: make(chan struct{}, 1), asked: make(chan struct{}, 1), first: make(chan struct{}),
		self: selfMetrics{started: time.Now()}}
	bounds, text, err := readLimits(c.Access.Limits)
	if err != nil {
		return nil, err
	}
	s.limits, s.limitsText = limits.New(bounds, nil, s.log), text
	if err := s.checkFileLimit(); err != nil {
		return nil, err
	}
	if s.ln, err = c.openListener(); err != nil {
		return nil, err
	}
	if err := s.openStores(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.senders = senders.New(senders.Options{File: filepath.Join(c.Data, "senders.json"), Logger: s.log})
	if c.member != nil {
		s.shareSenders(ctx)
	}
	if err := s.openAccess(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.openAPISocket(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.openScheduler(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.openGraph(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.openScraper(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if c.Agent != nil {
		ac := *c.Agent
		ac.State = filepath.Join(c.Data, "agent.state")
		ac.Expose, ac.Version, ac.Logger = true, c.Version, c.Logger
		_, accounts := os.Stat(ac.State)
		if s.agent, s.notes, err = agent.Open(ac); err != nil {
			return nil, errors.Join(err, s.close())
		}
		if errors.Is(accounts, fs.ErrNotExist) {
			s.noteLostAccounts(ac.State)
		}
		if err := s.openSocket(); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	handler, err := s.rootHandler(ctx)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.http = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.http.Handler = s.self.requests.countHandler(s.markInteractive(s.forwardToLeader(handler)))
	if s.authn.Peer != nil {
		s.http.ConnContext = s.peers.recordPeer
	}
	return s, nil
}

// openListener opens the address, uses the socket of this member, or the given listener.
func (c *Config) openListener() (net.Listener, error) {
	if c.Listener != nil {
		return c.Listener, nil
	}
	if c.member != nil {
		return net.FileListener(c.member.socket)
	}
	return listenTCP(c.Listen)
}

// listenTCP opens the listening address. An address in use is the most common mistake.
func listenTCP(addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the address %s is taken; stop what listens there or choose another one with --listen", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --listen", addr, err)
	}
	return ln, nil
}

func (s *Server) openStores(ctx context.Context) error {
	c := &s.config
	if err := os.MkdirAll(c.Data, 0o750); err != nil {
		return fmt.Errorf("make the data directory: %w; choose another one with --data", err)
	}
	if err := CheckStores(c.Store, c.Catalogue); err != nil {
		return err
	}
	if c.History > 0 && c.History < c.Retention {
		return fmt.Errorf(
			"the setting history %s is shorter than --retention %s: what is forgotten would be built again from the series; give a "+
				"longer one, or 0 to keep it for ever", c.History, c.Retention)
	}
	if err := s.openSeries(ctx); err != nil {
		return err
	}
	if err := s.limitNewSeries(); err != nil {
		return err
	}
	return s.openCatalogue(ctx)
}

// misuseInterval is the interval at which the server looks for misuse, unless that takes long.
const misuseInterval = 5 * time.Minute

// powerCheckInterval is the interval of checks of the age of the nodes' power curves.
const powerCheckInterval = 10 * time.Minute

// Addr returns the address that the server listens on.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// URL returns the address at which other machines reach the server. It has the name of this machine if the server listens on
// all addresses.
func (s *Server) URL() string {
	scheme := "http"
	if s.tls {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(s.Addr())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return scheme + "://" + net.JoinHostPort(name, port)
		}
	}
	return scheme + "://" + s.Addr()
}

// Agent returns the agent of this node, or nil.
func (s *Server) Agent() *agent.Agent { return s.agent }

// Notes returns the sensors that are not available.
func (s *Server) Notes() []agent.Note { return s.notes }

// First returns a channel that is closed when the catalogue contains the first workloads that were measured since the
// start of the server. Workloads of an earlier start do not count.
func (s *Server) First() <-chan struct{} { return s.first }

// Run serves until ctx ends or an essential part fails, and then closes the server.
func (s *Server) Run(ctx context.Context) error {
	g, run := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := s.serveHTTP(); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP: %w", err)
		}
		return nil
	})
	g.Go(func() error { return s.runSelf(run) })
	if s.hourly != nil {
		g.Go(func() error { return s.hourly.Run(run) })
	}
	g.Go(func() error { return s.runLimits(run) })
	if s.config.member != nil {
		g.Go(func() error { return s.watchRole(run) })
		g.Go(func() error { return s.runSenders(run) })
	}
	if s.leads() {
		s.runLeaderWork(run, g)
	} else {
		g.Go(func() error { return s.watchLeader(run) })
	}
	g.Go(func() error {
		s.views.RefreshNodes(s.courtesy.Question(run), time.Now)
		return nil
	})
	g.Go(func() error {
		s.ranks.Run(run, powerCheckInterval, func(err error) { s.log.Warn("fit the power of nodes", "err", err) })
		return nil
	})
	if s.agent != nil {
		g.Go(func() error { return s.agent.Run(run, &s.hub, s.storeBatch) })
	}
	if s.config.Alerts.Digest == "weekly" && s.alerts != nil {
		g.Go(func() error { return s.runDigests(run) })
	}
	if s.local != nil {
		g.Go(func() error { return s.serveLocal(run) })
	}
	if s.config.Play != nil {
		g.Go(func() error { return s.runSimulation(run) })
	}
	g.Go(func() error {
		<-run.Done()
		s.hub.Close()
		stop, cancel := context.WithTimeout(context.Background(), s.config.stopTimeout())
		defer cancel()
		if err := s.http.Shutdown(stop); err != nil {
			return s.http.Close()
		}
		return nil
	})
	err := g.Wait()
	if s.leads() && s.mayWrite() == nil {
		s.catchUp()
	}
	return errors.Join(err, s.close())
}

// stopTimeout returns the time that a stop waits for running requests.
func (c *Config) stopTimeout() time.Duration {
	if c.member != nil {
		return 2 * time.Second // another server answers, or this one in a moment
	}
	return 5 * time.Second
}

// runLeaderWork starts the work that only one server does. If there are several servers, that is the leader.
func (s *Server) runLeaderWork(run context.Context, g *errgroup.Group) {
	run = s.courtesy.Background(run)
	g.Go(func() error { return s.buildCatalogue(run) })
	g.Go(func() error { return s.deleteExpired(run) })
	g.Go(func() error { return s.proofs.Run(run) })
	g.Go(func() error { return s.settleRuns(run) })
	if s.graph != nil {
		g.Go(func() error { return s.runGraph(run) })
	}
	g.Go(func() error { return s.runAlerts(run) })
	first := time.Minute // so that the catalogue catches up
	if s.config.Play != nil {
		first = 5 * time.Second // a demonstration begins with its catalogue
	}
	g.Go(func() error {
		return store.Repeat(run, first, misuseInterval, 20, s.findings.Look, func(err error) { s.log.Error("look for misuse", "err", err) })
	})
	g.Go(func() error {
		forecast := func(ctx context.Context) error { _, err := s.forecasts.Look(ctx); return err }
		return store.Repeat(run, first, misuseInterval, 20, forecast, func(err error) { s.log.Error("forecast", "err", err) })
	})
	if s.config.Waggle != nil {
		g.Go(func() error { return s.runWaggle(run) })
	}
	if s.scheduler != nil {
		g.Go(func() error { return s.scheduler.Run(run) })
	}
	if s.scraper != nil {
		g.Go(func() error { return s.scraper.Run(run) })
	}
}

// storeBatch is the sink of the agent of this node.
func (s *Server) storeBatch(ctx context.Context, b *metric.Batch) error {
	external := map[string]string{"node": s.agent.Node()}
	if s.config.Site != "" {
		external["site"] = s.config.Site
	}
	err := s.series.Append(ctx, external, b)
	s.notifyStored()
	return err
}

// close frees resources in reverse order of opening.
func (s *Server) close() error {
	var errs []error
	if s.alerts != nil {
		s.alerts.Close()
	}
	if s.scraper != nil {
		s.scraper.Close()
	}
	if s.socket != nil {
		errs = append(errs, s.socket.Close())
	}
	if s.agent != nil {
		errs = append(errs, s.agent.Close())
	}
	if s.graph != nil {
		errs = append(errs, s.graph.close())
	}
	if s.catalogue != nil {
		errs = append(errs, s.catalogue.Close())
	}
	if s.series != nil {
		errs = append(errs, s.series.Close())
	}
	if s.peers.names != nil {
		errs = append(errs, s.peers.names.Close())
	}
	if s.authn != nil {
		errs = append(errs, s.authn.Users.Close())
	}
	if s.local != nil {
		_ = s.local.Close() // likewise
	}
	_ = s.ln.Close() // closed already when HTTP was served
	return errors.Join(errs...)
}
