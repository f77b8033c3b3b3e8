package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"reckon/answer/forecast"
	"reckon/cmd/resident"
	"reckon/cmd/settings"
	"reckon/internal/buildinfo"
	"reckon/interop/influx"
	"reckon/interop/waggle"
	"reckon/server"
)

func newServe(g *globals) *cobra.Command {
	var o siteOptions
	set := settings.New()
	set.Add(g.serving)
	o.register(set)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Store what agents on other machines send, and answer queries",
		Long: `serve is the server of a site: it takes what agents push, keeps it, and answers the
same questions as up does for one machine. It measures nothing itself; run reckon-agent
beside it for that.

It takes Prometheus remote write 2.0 and 1.0 at /api/v1/write, from reckon-agent or any
other sender, with native histograms and late samples. Metrics of OpenTelemetry go to
/api/v1/otlp/v1/metrics or /v1/metrics; their sums and histograms must be cumulative.
With the setting scrape-config it scrapes exporters itself, like Prometheus.`,
		Example: `  reckon serve --listen 0.0.0.0:9870 --data /var/lib/reckon
  reckon-agent --push http://SERVER:9870 --push-token-file FILE    # on each node`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), g, o) },
	}
	set.Attach(cmd, toUsageError)
	return cmd
}

// defaultSeries is the number of live series for which the store allocates its tables at the first start. A thousand nodes have
// that many, and the tables take 10 MB.
const defaultSeries = 300_000

func runServe(ctx context.Context, g *globals, o siteOptions) error {
	resident.LimitMemory()
	c, err := o.siteConfig(g)
	if err != nil {
		return err
	}
	c.Receive, c.Series = true, defaultSeries
	err = server.Serve(ctx, c, func(s *server.Server) {
		fmt.Fprintf(g.stdout, "reckon %s at %s (%s)\n\nOn each node:\n  reckon-agent --push %s\n\nCtrl-C stops.\n",
			buildinfo.Get().Version, s.URL(), g.stores.describe(c.Data), s.URL())
		resident.HugePages(ctx)
	})
	if err == nil {
		fmt.Fprintln(g.stdout, "\nStopped. The numbers are in "+c.Data+"; `reckon serve` resumes from here.")
	}
	return err
}

// siteConfig completes the configuration of serve.
func (o *siteOptions) siteConfig(g *globals) (server.Config, error) {
	c, err := g.serverOptions.serverConfig(g, 7*24*time.Hour) // agents keep a week
	if err != nil {
		return c, err
	}
	if c.Forecasts, err = openForecasts(o.forecasts); err != nil {
		return c, err
	}
	c.Logs, c.Member = o.logs, o.member
	c.Waggle, err = openWaggle(o.waggle)
	return c, err
}

// openWaggle opens the publisher to a Waggle node; nil without an address.
func openWaggle(address string) (*waggle.Publisher, error) {
	if address == "" {
		return nil, nil
	}
	p, err := waggle.NewPublisher(address)
	if err != nil {
		return nil, &usageError{fmt.Errorf("waggle: %w", err)}
	}
	return p, nil
}

// openForecasts opens the destination of the daily forecasts; nil without an address.
func openForecasts(address string) (forecast.Output, error) {
	if address == "" {
		return nil, nil
	}
	w, err := influx.New(address, forecast.PastHours)
	if err != nil {
		return nil, &usageError{fmt.Errorf("forecasts-to: %w", err)}
	}
	return w, nil
}
