package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"reckon/answer/forecast"
	"reckon/cmd/resident"
	"reckon/internal/buildinfo"
	"reckon/interop/influx"
	"reckon/interop/loki"
	"reckon/interop/waggle"
	"reckon/server"
	"reckon/store"
)

type serveOptions struct {
	listen    string
	data      string
	retention time.Duration
	maxBytes  int64
	history   time.Duration
	hourly    time.Duration
	late      time.Duration
	footprint footprintFlags
	slurm     slurmFlags
	stores    storeFlags
	site      string
	verbose   bool
	access    server.Access
	policy    string
	alerts    server.Alerts
	scrape    string
	graph     graphFlags
	forecasts string // destination of the daily forecasts
	waggle    string // message queue of a Waggle node
	member    string
	logs      server.Logs
}

func newServe(g *globals) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Store what agents on other machines send, and answer queries",
		Long: `serve is the server of a site: it takes what agents push, keeps it, and answers the
same questions as up does for one machine. It measures nothing itself; run reckon-agent
beside it for that.

It takes Prometheus remote write 2.0 and 1.0 at /api/v1/write, from reckon-agent or from
any other sender, with native histograms and samples that come late; and metrics of
OpenTelemetry at /api/v1/otlp/v1/metrics or /v1/metrics, whose sums and histograms must
be cumulative. With --scrape-config it asks exporters itself, as Prometheus does.`,
		Example: `  reckon serve --listen 0.0.0.0:9870 --data /var/lib/reckon
  reckon-agent --push http://SERVER:9870        # on each node`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), g, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:9870", "address of the API; any but a loopback address needs users, see reckon user --help")
	f.StringVar(&o.data, "data", "data", "directory in which the numbers are kept")
	f.DurationVar(&o.retention, "retention", store.DefaultRetention, "for how long the series are kept")
	f.DurationVar(&o.hourly, "retention-hourly", store.DefaultHourlyRetention, "for how long one figure an hour of every series is kept; 0 keeps none")
	f.DurationVar(&o.history, "history", 0, "for how long workloads that ended and hourly usage are kept, longer than --retention; 0 is for ever")
	f.Int64Var(&o.maxBytes, "max-bytes", 0, "how many bytes of them are kept at most, 0 for no limit")
	f.DurationVar(&o.late, "out-of-order", 7*24*time.Hour, "by how much a sample may be late and is still taken; agents keep a week")
	scrapeFlag(f, &o.scrape)
	o.footprint.register(f)
	o.slurm.register(f)
	o.stores.register(cmd)
	o.graph.register(cmd)
	f.StringVar(&o.site, "site", "", "name of the site that the jobs of Slurm belong to, as set on the agents of its nodes")
	accessFlags(cmd, &o.access)
	alertFlags(cmd, &o.alerts)
	f.StringVar(&o.policy, "policy", "", "file with the thresholds for findings of misuse (default: those that reckon findings policy prints)")
	f.StringVar(&o.forecasts, "forecasts-to", "", "`URL` of an InfluxDB that the forecasts of each day are written to: http://HOST:8086/api/v2/write?org=ORG&bucket=BUCKET, &token_file=FILE behind it")
	f.StringVar(&o.waggle, "waggle", "", "`URL` of the message queue of a Waggle node that figures are published to every minute: amqp://USER@HOST:5672?password_file=FILE")
	f.StringVar(&o.member, "member", "", "`URL` by which other servers over the same --store and --catalogue reach this one, such as https://HOST:9870: all answer, one leads, and another takes its place")
	f.StringVar(&o.logs.Loki, "loki", "", "`URL` of the Loki that has the logs of pods, such as http://loki:3100; viewers get those of workloads that they may see")
	f.StringVar(&o.logs.Selector, "loki-selector", "", "LogQL for them, with {{.Namespace}}, {{.Pods}}, {{.Unit}} and {{.Nodes}} (default '"+loki.DefaultSelector+"')")
	f.BoolVar(&o.logs.Pods, "pod-logs", false, "show logs of pods that Loki does not have from the API server of the cluster that the server runs in; its account needs get on pods/log")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
	configFlag(cmd)
	return cmd
}

// aSite is how many live series the tables of the store are made for at the first start: those of a thousand nodes, in 10 MB.
const aSite = 300_000

func runServe(ctx context.Context, g *globals, o serveOptions) error {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(g.stderr, &slog.HandlerOptions{Level: level}))
	resident.LimitMemory()
	if err := o.stores.check(); err != nil {
		return err
	}
	prices, err := o.footprint.open(log)
	if err != nil {
		return err
	}
	policy, err := readPolicy(o.policy)
	if err != nil {
		return err
	}
	slurm, err := o.slurm.open()
	if err != nil {
		return err
	}
	forecasts, err := forecastsTo(o.forecasts)
	if err != nil {
		return err
	}
	publisher, err := waggleTo(o.waggle)
	if err != nil {
		return err
	}
	socket, wanted := apiSocket(o.access.Socket, g.getenv)
	err = server.Serve(ctx, server.Config{
		APISocket: socket, APISocketWanted: wanted,
		Forecasts: forecasts, Waggle: publisher, Logs: o.logs, Slurm: slurm, Site: o.site, Member: o.member,
		Listen: o.listen, Data: o.data, Retention: o.retention, MaxBytes: o.maxBytes, OutOfOrder: o.late,
		Hourly: o.hourly, History: o.history, Store: o.stores.store, Catalogue: o.stores.catalogue,
		Access: o.access, Policy: policy, Alerts: o.alerts, Receive: true, Series: aSite, ScrapeConfig: o.scrape, Version: buildinfo.Get().Version,
		Footprint: prices, Graph: o.graph.Graph, Logger: log,
	}, func(s *server.Server) {
		fmt.Fprintf(g.stdout, "reckon %s at %s (%s)\n\nOn each node:\n  reckon-agent --push %s\n\nCtrl-C stops.\n",
			buildinfo.Get().Version, s.URL(), o.stores.place(o.data), s.URL())
		resident.Settle(ctx, settled)
		resident.HugePages(ctx)
	})
	if err == nil {
		fmt.Fprintln(g.stdout, "\nStopped. The numbers are in "+o.data+"; `reckon serve` resumes from here.")
	}
	return err
}

// waggleTo opens the publisher to a Waggle node; nil without an address.
func waggleTo(address string) (*waggle.Publisher, error) {
	if address == "" {
		return nil, nil
	}
	p, err := waggle.NewPublisher(address)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--waggle: %w", err)}
	}
	return p, nil
}

// forecastsTo opens the destination of the daily forecasts; nil without an address.
func forecastsTo(address string) (forecast.Output, error) {
	if address == "" {
		return nil, nil
	}
	w, err := influx.New(address, forecast.PastHours)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--forecasts-to: %w", err)}
	}
	return w, nil
}
