package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"reckon/server"
	"reckon/test/bench/measure"
	"reckon/web/client"
)

// nobody is the name of no job.
const nobody = "nosuchjob"

// benchQuery is a request of the page of a job, or of `reckon job`.
type benchQuery struct {
	name string
	ask  func(ctx context.Context, c *client.Client, w *client.Workload) error
}

// jobPageQueries returns the requests of the page of a job and of `reckon job`. Several jobs may have a name: the answer lists them then.
func jobPageQueries() (list []benchQuery) {
	for _, by := range []string{"total", "node", "command"} {
		list = append(list, benchQuery{"a job, by " + by, func(ctx context.Context, c *client.Client, w *client.Workload) error {
			d, err := c.Workload(ctx, w.ID, client.Range{Start: w.Start, Site: w.Site, By: by})
			if err == nil && (len(d.Profile) == 0 || d.CPUSeconds == nil) {
				err = fmt.Errorf("%s has no profile", w.ID)
			}
			return err
		}})
	}
	for name, text := range map[string]func(w *client.Workload) string{
		"a job by its number":     func(w *client.Workload) string { return strings.TrimPrefix(w.ID, "slurm/") },
		"a job by its name":       func(w *client.Workload) string { return w.Name },
		"a job that is not there": func(*client.Workload) string { return nobody },
	} {
		list = append(list, benchQuery{name, func(ctx context.Context, c *client.Client, w *client.Workload) error {
			_, err := c.Workload(ctx, text(w), client.Range{By: "total"})
			if e := (*client.APIError)(nil); errors.As(err, &e) && (e.Status == 409 || e.Status == 404 && text(w) == nobody) {
				return nil
			}
			return err
		}})
	}
	return append(list,
		benchQuery{"how it scales", func(ctx context.Context, c *client.Client, w *client.Workload) error {
			_, err := c.Scale(ctx, w.ID, client.Range{Start: w.Start, Site: w.Site})
			return err
		}},
		benchQuery{"what was found about it", func(ctx context.Context, c *client.Client, w *client.Workload) error {
			_, err := c.Findings(ctx, client.FindingFilter{Workload: w.ID})
			return err
		}},
		benchQuery{"a year of usage by owner and month", func(ctx context.Context, c *client.Client, _ *client.Workload) error {
			from := time.Date(2025, 1, 1, 5, 0, 0, 0, time.UTC)
			_, err := c.Usage(ctx, client.UsageQuery{Since: from, Until: from.AddDate(1, 0, 0), Span: "month", By: []string{"owner"}})
			return err
		}},
		benchQuery{"the jobs of its owner", func(ctx context.Context, c *client.Client, w *client.Workload) error {
			_, err := c.Workloads(ctx, client.Filter{Owners: []string{w.Owner}, Sort: "-start", Limit: 100})
			return err
		}},
	)
}

// measurePages requests the pages of jobs with series from a server over the whole catalogue.
func (l *benchCatalogue) measurePages(ctx context.Context) error {
	s, err := server.Open(ctx, server.Config{Listen: "127.0.0.1:0", Data: l.dir, Retention: 10 * 365 * 24 * time.Hour,
		OutOfOrder: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	defer func() { stop(); <-ended }()
	c, err := client.New("http://" + s.Addr())
	if err != nil {
		return err
	}
	list, err := c.Workloads(ctx, client.Filter{Kinds: []string{"slurm"}, Since: time.Now().Add(-48 * time.Hour), Sort: "-cpu_seconds",
		Limit: siteJobs})
	if err != nil {
		return err
	}
	jobs := slices.DeleteFunc(list.Workloads, func(w client.Workload) bool {
		return w.Site != "made-up" || w.CPUSeconds == nil || w.WallSeconds < 60
	})
	if len(jobs) == 0 {
		return errors.New("no job has series; use another -dir")
	}
	row := l.e.Table(fmt.Sprintf("%d pages of jobs with series, over HTTP, %d jobs in the catalogue, load %s", l.pages, l.jobs,
		measure.Load()),
		"question", "CPU time: median", "95th percentile", "slowest", "by the clock: median", "95th percentile", "slowest")
	for _, q := range jobPageQueries() {
		var cpus, clocks []time.Duration
		for i := range l.pages {
			w := &jobs[i*len(jobs)/l.pages]
			cpu, clock, err := measure.CPUTime(func() error { return q.ask(ctx, c, w) })
			if err != nil {
				return fmt.Errorf("%s, %s: %w", q.name, w.ID, err)
			}
			cpus, clocks = append(cpus, cpu), append(clocks, clock)
		}
		var cells []string
		for _, d := range [][]time.Duration{cpus, clocks} {
			cells = append(cells, measure.Quantile(d, 0.5), measure.Quantile(d, 0.95), measure.Quantile(d, 1))
		}
		row("%s | %s", q.name, strings.Join(cells, " | "))
	}
	return nil
}
