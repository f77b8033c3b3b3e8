package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/server"
	"reckon/web/client"
)

// siteJobs is how many jobs have series: their pages are asked for.
const siteJobs = 4000

// simulated writes a day of a site with its series, beside which the other jobs are made up as rows alone.
func simulated(ctx context.Context, dir string, out io.Writer) error {
	if _, err := os.Stat(filepath.Join(dir, "series")); err == nil {
		return nil
	}
	from := time.Now().Add(-26 * time.Hour).Truncate(time.Hour)
	s, err := simulate.New(simulate.Config{Nodes: 40, Jobs: siteJobs, GPUNodes: 5, From: from, For: 24 * time.Hour, Seed: 1})
	if err != nil {
		return err
	}
	fleet := simulation.New(simulation.Config{Site: s, Version: "bench"})
	done, err := simulation.Fill(ctx, fleet, dir, "made-up", slog.New(slog.DiscardHandler), simulation.Stretch{Until: s.End(), Tick: 15 * time.Second, Export: time.Minute})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "| a day of %d nodes with its series | %d samples of %d workloads |\n", s.Nodes, done.Samples, done.Workloads)
	return nil
}

// nobody is the name of no job.
const nobody = "nosuchjob"

// asked is a question of a page, or of `reckon job`, about one job.
type asked struct {
	name string
	ask  func(ctx context.Context, c *client.Client, w *client.Workload) error
}

// questionsOfPage are what the page of a job and `reckon job` ask for. Several jobs may have a name: it is then
// an answer that says which.
func questionsOfPage() []asked {
	about := func(w *client.Workload, by string) client.Range {
		return client.Range{Start: w.Start, Site: w.Site, By: by}
	}
	detail := func(by string) func(context.Context, *client.Client, *client.Workload) error {
		return func(ctx context.Context, c *client.Client, w *client.Workload) error {
			d, err := c.Workload(ctx, w.ID, about(w, by))
			if err == nil && (len(d.Profile) == 0 || d.CPUSeconds == nil) {
				err = fmt.Errorf("%s has no profile", w.ID)
			}
			return err
		}
	}
	bare := func(text func(w *client.Workload) string) func(context.Context, *client.Client, *client.Workload) error {
		return func(ctx context.Context, c *client.Client, w *client.Workload) error {
			_, err := c.Workload(ctx, text(w), client.Range{By: "total"})
			if e := (*client.APIError)(nil); errors.As(err, &e) && (e.Status == 409 || e.Status == 404 && text(w) == nobody) {
				return nil
			}
			return err
		}
	}
	return []asked{
		{"a job, in total", detail("total")},
		{"a job, by node", detail("node")},
		{"a job, by command", detail("command")},
		{"a job by its number", bare(func(w *client.Workload) string { return strings.TrimPrefix(w.ID, "slurm/") })},
		{"a job by its name", bare(func(w *client.Workload) string { return w.Name })},
		{"a job that is not there", bare(func(*client.Workload) string { return nobody })},
		{"how it scales", func(ctx context.Context, c *client.Client, w *client.Workload) error {
			_, err := c.Scale(ctx, w.ID, client.Range{Start: w.Start, Site: w.Site})
			return err
		}},
		{"what was found about it", func(ctx context.Context, c *client.Client, w *client.Workload) error {
			_, err := c.Findings(ctx, client.FindingFilter{Workload: w.ID})
			return err
		}},
		{"a year of usage by owner and month", func(ctx context.Context, c *client.Client, _ *client.Workload) error {
			from := time.Date(2025, 1, 1, 5, 0, 0, 0, time.UTC)
			_, err := c.Usage(ctx, client.UsageQuery{Since: from, Until: from.AddDate(1, 0, 0), Span: "month", By: []string{"owner"}})
			return err
		}},
		{"the jobs of its owner", func(ctx context.Context, c *client.Client, w *client.Workload) error {
			_, err := c.Workloads(ctx, client.Filter{Owners: []string{w.Owner}, Sort: "-start", Limit: 100})
			return err
		}},
	}
}

// pages asks a server over the whole catalogue for the pages of jobs that have series.
func pages(ctx context.Context, c config, out io.Writer) error {
	s, err := server.Open(ctx, server.Config{Listen: "127.0.0.1:0", Data: c.dir, Retention: 10 * 365 * 24 * time.Hour, OutOfOrder: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	defer func() { stop(); <-ended }()
	cl, err := client.New("http://" + s.Addr())
	if err != nil {
		return err
	}
	list, err := cl.Workloads(ctx, client.Filter{Kinds: []string{"slurm"}, Since: time.Now().Add(-48 * time.Hour), Sort: "-cpu_seconds", Limit: siteJobs})
	if err != nil {
		return err
	}
	jobs := slices.DeleteFunc(list.Workloads, func(w client.Workload) bool {
		return w.Site != "made-up" || w.CPUSeconds == nil || w.WallSeconds < 60
	})
	if len(jobs) == 0 {
		return errors.New("no job has series; use another -dir")
	}
	fmt.Fprintf(out, "\n| %d pages of jobs with series, over HTTP, %d jobs in the catalogue | median, 95th percentile, slowest, CPU time | by the clock, %s of load |\n|---|---|---|\n", c.pages, c.jobs, load())
	for _, q := range questionsOfPage() {
		var took, clock []time.Duration
		for i := range c.pages {
			w := &jobs[i*len(jobs)/c.pages]
			begin, at := now(), time.Now()
			if err := q.ask(ctx, cl, w); err != nil {
				return fmt.Errorf("%s, %s: %w", q.name, w.ID, err)
			}
			took, clock = append(took, now()-begin), append(clock, time.Since(at))
		}
		slices.Sort(took)
		slices.Sort(clock)
		n := len(took)
		fmt.Fprintf(out, "| %s | %.1f, %.1f, %.1f ms | %.1f, %.1f, %.1f ms |\n", q.name, ms(took[n/2]), ms(took[n*95/100]), ms(took[n-1]), ms(clock[n/2]), ms(clock[n*95/100]), ms(clock[n-1]))
	}
	return nil
}
