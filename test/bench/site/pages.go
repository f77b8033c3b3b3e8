package site

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/server"
	"reckon/store/hourly"
	"reckon/store/tsdb"
	"reckon/test/bench/measure"
)

// Pages measures how long it takes to show a year of one node. It writes a simulated node with one export per minute to
// a data directory, and store/hourly computes the hours. `reckon serve` then answers the queries of the node's page for
// a year and for a month, with the hourly store and without it. If Node.js and Chromium are installed, Pages opens the
// page itself. It takes ten minutes and 600 MB of disk. -dir keeps the directory or measures an existing one.
func Pages(ctx context.Context, e *measure.Env, args []string) error {
	f := flag.NewFlagSet("pages", flag.ContinueOnError)
	dir := f.String("dir", "", "data directory, kept; one that is there is measured as it is (default: a temporary one)")
	span := f.Duration("for", 365*24*time.Hour, "how long the node has been measured")
	rounds := f.Int("rounds", 5, "how often each question is asked; the median counts")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *rounds < 1 || *span < 24*time.Hour || *span > 2*365*24*time.Hour {
		return errors.New("give -rounds 1 or more and -for between a day and two years")
	}
	if *dir == "" {
		*dir = filepath.Join(e.Dir, "data")
	}
	if _, err := os.Stat(filepath.Join(*dir, "series")); errors.Is(err, os.ErrNotExist) {
		made, err := simulate.New(simulate.Config{Nodes: 1, Cores: 16, Jobs: int(span.Hours() / 2), Seed: 1, From: time.Now().Add(-*span),
			For: *span})
		if err != nil {
			return err
		}
		done, err := simulation.WriteHistory(ctx, simulation.New(simulation.Config{Site: made, Version: "bench"}), *dir, "bench",
			slog.New(slog.DiscardHandler),
			simulation.Stretch{Until: made.End(), Tick: time.Minute, Export: time.Minute})
		if err != nil {
			return err
		}
		e.Printf("\n%.0f million samples of %d workloads in %.0f days of one node, written in %.0f s.\n",
			float64(done.Samples)/1e6, done.Workloads, span.Hours()/24, (done.Writing + done.Counting).Seconds())
	}
	if err := makeHours(ctx, e, *dir); err != nil {
		return err
	}
	for _, set := range [][]string{nil, {"--set", "retention-hourly=0"}} {
		if err := measureNodePage(ctx, e, *dir, *rounds, set); err != nil {
			return err
		}
	}
	return nil
}

// makeHours computes the hours that are still missing.
func makeHours(ctx context.Context, e *measure.Env, dir string) (err error) {
	samples, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(dir, "series"), Retention: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, samples.Close()) }()
	h, err := hourly.Open(hourly.Options{Dir: filepath.Join(dir, server.HourlyDir), Raw: samples})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	st, err := samples.Status()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := h.Pass(ctx); err != nil {
		return err
	}
	e.Printf("\nHours made in %.1f s: %.1f MB beside %.0f MB of samples at one a minute.\n",
		time.Since(began).Seconds(), float64(h.Bytes())/1e6, float64(st.Bytes)/1e6)
	return nil
}

// measureNodePage starts a server and sends the queries of the node page one at a time.
func measureNodePage(ctx context.Context, e *measure.Env, dir string, rounds int, set []string) error {
	s := measure.Process{Name: "reckon", Path: filepath.Join(e.Bin, "reckon"), Ready: "/readyz", Args: func(addr string) []string {
		return append([]string{"serve", "--data", dir, "--listen", addr}, set...)
	}}
	if err := s.Start(ctx); err != nil {
		return fmt.Errorf("%w; make build makes it", err)
	}
	defer s.Stop()
	base, what := "http://"+s.Addr, "the hours"
	if set != nil {
		what = "all samples"
	}
	var names struct{ Data []string }
	if _, err := measure.Get(ctx, base+"/api/v1/label/node/values?start=0&end="+strconv.FormatInt(time.Now().Unix(), 10),
		&names); err != nil {
		return err
	}
	if len(names.Data) == 0 {
		return errors.New("the store has no node")
	}
	for _, span := range []struct {
		name          string
		seconds, step int
	}{{"a year", 31536000, 86400}, {"30 days", 2592000, 14400}} {
		row := e.Table(fmt.Sprintf("%s of one node from %s", span.name, what), "question", "median", "CPU", "series")
		var total, cpu float64
		for _, q := range nodePageQueries(names.Data[0], span.seconds, span.step) {
			var took []time.Duration
			n, before := 0, s.CPU()
			for range rounds {
				var got struct {
					Data struct{ Result []json.RawMessage }
				}
				began := time.Now()
				if _, err := measure.Get(ctx, base+q.path, &got); err != nil {
					return fmt.Errorf("%s: %w", q.name, err)
				}
				took, n = append(took, time.Since(began)), len(got.Data.Result)
			}
			own := measure.MS(s.CPU()-before) / float64(rounds)
			for _, d := range took {
				total += measure.MS(d) / float64(rounds)
			}
			cpu += own
			row("%s | %s | %.1f ms | %d", q.name, measure.Quantile(took, 0.5), own, n)
		}
		row("together, on average | %.1f ms | %.1f ms | |", total, cpu)
	}
	return measureBrowser(ctx, e, base, names.Data[0], what, rounds)
}

// pageQuery is a request of a page.
type pageQuery struct{ name, path string }

// nodePageQueries returns the queries of web/ui/src/pages/node.tsx for a span and its step, in seconds.
func nodePageQueries(node string, span, step int) (list []pageQuery) {
	sel, end := fmt.Sprintf("node=%q", node), time.Now().Unix()/int64(step)*int64(step)
	whole := url.Values{"query": {fmt.Sprintf("topk(9, sum by (workload) (rate(reckon_workload_cpu_seconds_total{%s}[%ds])))", sel,
		span)}, "time": {strconv.FormatInt(end, 10)}}
	list = append(list, pageQuery{"who used most", "/api/v1/query?" + whole.Encode()})
	for _, q := range [][2]string{
		{"cores of all workloads", "sum(rate(reckon_workload_cpu_seconds_total{NODE}STEP))"},
		{"cores of the node", `sum(rate(node_cpu_seconds_total{NODE,mode!~"idle|iowait"}STEP))`},
		{"number of cores", `count(node_cpu_seconds_total{NODE,mode="idle"})`},
		{"pressure", "rate(node_pressure_cpu_waiting_seconds_total{NODE}STEP)"},
		{"disks", `rate(node_disk_read_bytes_total{NODE,device!~"loop.*|ram.*"}STEP) > 0`},
		{"network", `rate(node_network_receive_bytes_total{NODE,device!="lo"}STEP)`},
		{"power by meter", "rate(reckon_node_energy_joules_total{NODE}STEP)"},
	} {
		text := strings.NewReplacer("NODE", sel, "STEP", fmt.Sprintf("[%ds]", step)).Replace(q[1])
		v := url.Values{"query": {text}, "start": {strconv.FormatInt(end-int64(span), 10)}, "end": {strconv.FormatInt(end, 10)},
			"step": {strconv.Itoa(step)}}
		list = append(list, pageQuery{q[0], "/api/v1/query_range?" + v.Encode()})
	}
	if step == 86400 { // the page asks the roll-ups then
		stamp := func(t int64) string { return time.Unix(t, 0).UTC().Format(time.RFC3339) }
		v := url.Values{"by": {"node"}, "node": {node}, "span": {"day"}, "since": {stamp(end - int64(span) - 86400)}, "until": {stamp(end)}}
		list[1].path = "/api/reckon/v1/usage?" + v.Encode()
	}
	return list
}

// measureBrowser opens the page in Chromium, if Node and the packages of the pages are installed.
func measureBrowser(ctx context.Context, e *measure.Env, base, node, what string, rounds int) error {
	if _, err := os.Stat(filepath.Join("web", "ui", "node_modules", "playwright-core")); err != nil {
		e.Printf("\nThe page was not opened: script/ui build fetches what drives a browser.\n")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	e.Printf("\nThe page in Chromium, from %s:\n", what)
	cmd := exec.CommandContext(ctx, "node", filepath.Join("web", "ui", "e2e", "year.mjs"), base, node, strconv.Itoa(rounds))
	cmd.Stdout, cmd.Stderr = e.Out, os.Stderr
	return cmd.Run()
}
