package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"reckon/lab/simulation"
	"reckon/metric"
)

// disk sends eight hours of a small site, which is long enough that the servers write
// blocks, and measures what each sample takes.
func disk(ctx context.Context, o options, dir string, w io.Writer) error {
	o.nodes, o.span = min(o.nodes, 12), max(o.span, 8*time.Hour)
	b, err := set(ctx, o, dir, w, o.span, 0)
	if err != nil {
		return err
	}
	defer b.stop()
	b.out.Strict = true // what comes hours late is another matter
	rows, p, err := b.measure(ctx, o.span, 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d nodes at 15 s, %v of simulated time in %v: %.1f M samples.\n\n", o.nodes, o.span, p.Took.Round(time.Second), float64(p.Samples)/1e6)
	fmt.Fprintln(w, "| server | CPU per million samples | resident | everything on disk | bytes a sample, in blocks |")
	fmt.Fprintln(w, "|---|---|---|---|---|")
	for i, s := range b.all {
		s.stop() // what is in memory goes to the log, and nothing is half written
		size, err := bytesOf(s.data)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %s | %.2f s | %.0f MB | %.1f MB | %s |\n", s.name, rows[i].cpu.Seconds()/(float64(rows[i].samples)/1e6),
			float64(rows[i].memory)/1e6, float64(size)/1e6, s.inBlocks(rows[i].samples, size))
	}
	return nil
}

// inBlocks is what a sample takes where it stays: in the blocks of the Prometheus
// database, whose files say how many samples they hold; VictoriaMetrics keeps all in
// parts, so there it is everything.
func (s *server) inBlocks(samples uint64, all int64) string {
	dir := s.data
	if s.name == "reckon" {
		dir = filepath.Join(dir, "series")
	}
	metas, _ := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	if s.name == "VictoriaMetrics" {
		return fmt.Sprintf("%.2f", float64(all)/float64(samples))
	}
	var bytes int64
	var held uint64
	for _, m := range metas {
		raw, err := os.ReadFile(m)
		var meta struct {
			Stats struct{ NumSamples uint64 }
		}
		if err != nil || json.Unmarshal(raw, &meta) != nil {
			continue
		}
		n, err := bytesOf(filepath.Dir(m))
		if err != nil {
			continue
		}
		bytes, held = bytes+n, held+meta.Stats.NumSamples
	}
	if held == 0 {
		return "no block was written"
	}
	return fmt.Sprintf("%.2f (%.1f M samples in %d blocks)", float64(bytes)/float64(held), float64(held)/1e6, len(metas))
}

// growth doubles one thing after the other and measures reckon alone.
func growth(ctx context.Context, o options, dir string, w io.Writer) error {
	o.only = "reckon"
	fmt.Fprintln(w, "\n| site | jobs that run | series | samples/s in real time | CPU in real time | resident | query p95 |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|")
	for i, c := range []struct {
		what        string
		nodes, jobs int
		after       time.Duration // how long the site has worked before: then it is full of jobs
	}{
		{"125 nodes", 125, 1250, 0}, {"250 nodes", 250, 2500, 0}, {"500 nodes", 500, 5000, 0}, {"1,000 nodes", 1000, 10000, 0},
		{"200 nodes, few jobs", 200, 1000, full}, {"200 nodes, four times the jobs", 200, 4000, full}, {"200 nodes, 16 times the jobs", 200, 16000, full},
	} {
		o.nodes, o.jobs = c.nodes, c.jobs
		r, p, err := one(ctx, o, filepath.Join(dir, fmt.Sprint(i)), w, c.after)
		if err != nil {
			return err
		}
		each := float64(p.Samples) / float64(max(p.Batches, 1)) * float64(c.nodes)
		fmt.Fprintf(w, "| %s | %d | %.0f k | %.0f | %.1f %% of a core | %.0f MB | %s |\n", c.what, p.Live, each/1e3, float64(p.Samples)/p.Passed.Seconds(),
			100*r.cpu.Seconds()/p.Passed.Seconds(), float64(r.memory)/1e6, quantile(r.queries, 0.95))
	}
	return nil
}

// full is after how long a site is as full of jobs as it gets.
const full = 50 * time.Minute

// nowhere is a sink that keeps nothing.
type nowhere struct{}

func (nowhere) Put(context.Context, string, *metric.Batch) error { return nil }

// one measures one site for four simulated minutes, as fast as can be.
func one(ctx context.Context, o options, dir string, w io.Writer, after time.Duration) (row, simulation.Progress, error) {
	defer os.RemoveAll(dir)
	b, err := set(ctx, o, dir, w, after+5*time.Minute, 0)
	if err != nil {
		return row{}, simulation.Progress{}, err
	}
	defer b.stop()
	if after > 0 {
		if _, err := b.goOn(ctx, after, 0, nowhere{}); err != nil {
			return row{}, simulation.Progress{}, err
		}
	}
	if _, err := b.goOn(ctx, time.Minute, 0, nil); err != nil {
		return row{}, simulation.Progress{}, err
	}
	b.out.Drain(ctx, 2*time.Minute)
	rows, p, err := b.measure(ctx, 4*time.Minute, 0)
	if err != nil {
		return row{}, p, err
	}
	return rows[0], p, nil
}
