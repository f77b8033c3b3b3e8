package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"reckon/cmd/settings"
	"reckon/internal/buildinfo"
	"reckon/interop/loki"
	"reckon/server"
	"reckon/store"
	"reckon/web/client"
)

// serverOptions is the stage that stores and answers: the options that up and serve have in common.
type serverOptions struct {
	server.Config
	verbose   bool
	footprint footprintFlags
	scheduler schedulerFlags
	policy    string
	projects  string
	shapes    string
}

func (o *serverOptions) register(s *settings.Set, stores *storeFlags) {
	f, k := s.Flags, s.Keys
	f.StringVar(&o.Listen, "listen", "127.0.0.1:9870", "address of the API; any but a loopback address needs users, see reckon user --help")
	f.StringVar(&o.Data, "data", "data", "directory in which the numbers are kept")
	f.DurationVar(&o.Retention, "retention", store.DefaultRetention, "for how long the series are kept")
	f.StringVar(&o.Site, "site", "",
		"name of the site: a label on every series of up, and for serve on Slurm's jobs; the same as on the agents")
	f.AddFlagSet(stores.flags)
	k.DurationVar(&o.Hourly, "retention-hourly", store.DefaultHourlyRetention,
		"for how long one figure an hour of every series is kept; 0 keeps none")
	k.DurationVar(&o.History, "history", 0,
		"for how long workloads that ended and hourly usage are kept, longer than retention; 0 is for ever")
	k.Int64Var(&o.MaxBytes, "max-bytes", 0, "maximum size of the series database in bytes; 0 is no limit")
	k.DurationVar(&o.OutOfOrder, "out-of-order", 0, "maximum age of late samples that are accepted (default: 24h for up, 168h for serve)")
	k.StringVar(&o.ScrapeConfig, "scrape-config", "",
		"file in the form of Prometheus (scrape_configs) that names targets to scrape; read again when it changes")
	k.StringVar(&o.policy, "policy", "",
		"file with the thresholds for findings of misuse (default: those that reckon findings policy prints)")
	k.StringVar(&o.projects, "projects", "",
		"file with a line USER: PROJECT for each owner without accounts: usage by account takes it from there")
	k.StringVar(&o.shapes, "shapes", "", "file that describes partitions and clusters, for reckon move; see reckon docs file of shapes")
	o.footprint.register(k)
	o.scheduler.register(s)
	registerGraph(s, &o.Graph)
	registerAccess(s, &o.Access)
	registerAlerts(s, &o.Alerts)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
}

// serverConfig completes the configuration of the server; late is the default of out-of-order.
func (o *serverOptions) serverConfig(g *globals, late time.Duration) (server.Config, error) {
	c := o.Config
	c.Logger, c.Version = g.logger(o.verbose), buildinfo.Get().Version
	if !g.serving.Given("out-of-order") {
		c.OutOfOrder = late
	}
	c.Store, c.Catalogue = g.stores.store, g.stores.catalogue
	err := g.stores.check()
	if err != nil {
		return c, err
	}
	if c.Footprint, err = o.footprint.open(c.Logger); err != nil {
		return c, err
	}
	if c.Policy, err = readPolicy(o.policy); err != nil {
		return c, err
	}
	if c.Projects, err = readProjects(o.projects); err != nil {
		return c, err
	}
	if c.Shapes, err = readShapes(o.shapes); err != nil {
		return c, err
	}
	c.APISocket, c.APISocketWanted = chooseSocket(c.Access.Socket, g.getenv)
	c.Scheduler, err = o.scheduler.open()
	return c, err
}

// readProjects reads a file of lines USER: PROJECT.
func readProjects(file string) (projects map[string]string, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, &projects)
	}
	if err != nil {
		return nil, fmt.Errorf("projects %s: %w; write a line USER: PROJECT for each user", file, err)
	}
	return projects, nil
}

// logger logs to standard error: warnings, or everything.
func (g *globals) logger(verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(g.stderr, &slog.HandlerOptions{Level: level}))
}

func registerGraph(s *settings.Set, g *server.Graph) {
	k := s.Keys
	k.BoolVar(&g.Off, "no-graph", false, "keep no knowledge graph; see reckon graph --help")
	k.BoolVar(&g.Compatible, "graph-compatible", false,
		"answer clients of the GLACIATION metadata service at /api/v0/graph, and make its timestamp: graphs")
	k.StringVar(&g.Base, "graph-base", "", "prefix of the ids in the knowledge graph (default urn:reckon:)")
	k.StringVar(&g.URL, "graph-url", "", "`URL` under which others reach this server, for links in the graph (default: its address)")
	k.StringVar(&g.Store, "graph-store", "", "`URL` of the Graph Store Protocol of another store for the knowledge graph: "+
		"http://USER@HOST:3030/reckon/data?password_file=FILE")
	k.StringVar(&g.Query, "graph-sparql", "", "`URL` of SPARQL of that store, for administrators: http://HOST:3030/reckon/sparql")
	k.StringVar(&g.Loki, "graph-loki", "", "`URL` of the Loki that has the logs, for links in the graph")
}

func registerAccess(s *settings.Set, a *server.Access) {
	k := s.Keys
	s.Flags.StringVar(&a.WebConfig, "web-config", "",
		"file with TLS certificates and the like, in the form of Prometheus's web configuration; read again while the server runs")
	k.StringVar(&a.OIDC, "oidc-config", "", "configuration file for sign-in by OpenID Connect")
	k.StringVar(&a.Kubernetes, "kubernetes-config", "",
		"file that names the service accounts of a Kubernetes cluster that are let in, see reckon docs access")
	k.StringVar(&a.Limits, "limits", "", "file with limits of senders, sites and viewers, see reckon docs access")
	k.StringSliceVar(&a.Proxies, "trusted-proxy", nil,
		"address or network of a reverse proxy that is believed about whom a request comes from "+
			"(X-Forwarded-For, X-Forwarded-Proto); can be given again")
	k.StringSliceVar(&a.Origins, "widget-origins", nil, "origin of a page elsewhere that shows users the efficiency of their jobs, "+
		"such as https://ondemand.example; can be given again, see reckon docs access")
	k.BoolVar(&a.TrustLoopback, "trust-loopback", false, "treat local connections as administrator while there are no users (insecure)")
	k.BoolVar(&a.Public, "public", false, "show totals, without names, to those who are not signed in")
	k.StringVar(&a.Socket, "api-socket", "auto", "Unix socket on which each user of this machine sees their own work without a token: "+
		"a path, auto ("+client.Sockets("")[0]+" where it can be made, else one of the user) or none")
	s.Flags.BoolVar(&a.Insecure, "insecure", false, "let everybody who reaches the address see and change everything")
}

func registerAlerts(s *settings.Set, a *server.Alerts) {
	k := s.Keys
	k.StringSliceVar(&a.Rules, "rules", nil,
		"files with recording and alerting rules in the form of Prometheus, \"default\" for those shipped "+
			"with reckon, \"none\" for none; reloaded on SIGHUP (default: default)")
	k.StringSliceVar(&a.Alertmanagers, "alertmanager", nil, "address of an Alertmanager that alerts go to, such as http://HOST:9093")
	k.StringVar(&a.Config, "alertmanager-config", "",
		"notify people without another Alertmanager: file with routes and receivers in the form of Alertmanager")
	k.BoolVar(&a.Loopback, "alert-loopback", false, "receivers that are set up on the page Alerts may be on this machine or its link")
	k.Var(&digestFlag{&choice{value: "none", words: []string{"none", "weekly"}}, &a.Digest}, "digest", "weekly: on Mondays each owner "+
		"whose jobs were allocated something gets the report on their own week, sent along the route of the alert WeeklyDigest")
	k.StringVar(&a.External, "external-url", "", "address of this server in links of alerts (default: the one of --listen)")
}

// siteOptions are the options of serve alone.
type siteOptions struct {
	forecasts, waggle, member string
	logs                      server.Logs
}

func (o *siteOptions) register(s *settings.Set) {
	k := s.Keys
	k.StringVar(&o.forecasts, "forecasts-to", "", "`URL` of an InfluxDB that the forecasts of each day are written to: "+
		"http://HOST:8086/api/v2/write?org=ORG&bucket=BUCKET, &token_file=FILE behind it")
	k.StringVar(&o.waggle, "waggle", "", "`URL` of the message queue of a Waggle node that figures are published to every minute: "+
		"amqp://USER@HOST:5672?password_file=FILE")
	k.StringVar(&o.member, "member", "", "`URL` by which other servers over the same store and catalogue reach this one, "+
		"such as https://HOST:9870: all answer, one leads, and another takes its place")
	k.StringVar(&o.logs.Loki, "loki", "",
		"`URL` of the Loki that has the logs of pods, such as http://loki:3100; viewers get those of workloads that they may see")
	k.StringVar(&o.logs.Selector, "loki-selector", "",
		"LogQL for them, with {{.Namespace}}, {{.Pods}}, {{.Unit}} and {{.Nodes}} (default '"+loki.DefaultSelector+"')")
	k.BoolVar(&o.logs.Pods, "pod-logs", false,
		"show logs of pods that Loki does not have from the API server of the cluster that the server "+
			"runs in; its account needs get on pods/log")
}

// newCheck returns `reckon check`.
func newCheck(g *globals) *cobra.Command {
	list := false
	var o siteOptions
	set := settings.New()
	set.Add(g.serving)
	set.Add(g.measuring)
	o.register(set)
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the settings of a server",
		Long: `check reads the file of --config as serve and up do, names unknown settings, and reads
the files that they name as those do: rules, receivers, prices. It asks no store and
starts nothing. With --list it lists all settings, as a file in which each is a comment.`,
		Example: `  reckon check --config /etc/reckon/reckon.yaml
  reckon check --list > reckon.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				return set.List(g.stdout)
			}
			c, err := o.siteConfig(g)
			if err != nil {
				return err
			}
			g.measuring.Visit(func(f *pflag.Flag) {
				if f.Changed {
					c.Agent = &g.agent.Config
				}
			})
			if err := server.Check(cmd.Context(), c); err != nil {
				return err
			}
			_, err = fmt.Fprintf(g.stdout, "ok: %s; a running server was not asked\n", describeChecked(cmd))
			return err
		},
	}
	set.Attach(cmd, toUsageError)
	cmd.Flags().BoolVar(&list, "list", false, "list the settings of the file and their meaning")
	return cmd
}

// describeChecked says which settings check has checked.
func describeChecked(cmd *cobra.Command) string {
	line := false
	cmd.Flags().Visit(func(f *pflag.Flag) { line = line || f.Name != "config" })
	file := cmd.Flag("config").Value.String()
	switch {
	case file != "" && line:
		return file + ", the command line and the files that they name were checked"
	case file != "":
		return file + " and the files that it names were checked"
	case line:
		return "the command line and the files that it names were checked"
	}
	return "no --config was given, so the default settings were checked"
}

func toUsageError(err error) error { return &usageError{err} }
