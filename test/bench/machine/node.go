// Package machine measures programs on one machine: the cost of reckon on a node, short-lived
// processes beside it, and the accuracy of the loads of reckon stress.
package machine

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"reckon/test/bench/measure"
)

type nodeOptions struct {
	rest    time.Duration
	scrapes int
	only    string
}

// Node measures the cost of programs on a node with idle and busy processes. It measures the CPU time without requests,
// the additional CPU time per scrape, and the memory. Each program runs alone. The processes are in process groups,
// which reckon counts as workloads.
func Node(ctx context.Context, e *measure.Env, args []string) error {
	var o nodeOptions
	f := flag.NewFlagSet("node", flag.ContinueOnError)
	idle := f.String("idle", "0,1000,5000", "how many idle processes to add, one table for each")
	busy := f.Int("busy", 200, "processes that run a little in the last table; 0 leaves it out")
	group := f.Int("group", 20, "processes in a process group; 1 is the worst case")
	f.DurationVar(&o.rest, "rest", 15*time.Second, "how long each program is measured without a scrape")
	f.IntVar(&o.scrapes, "scrapes", 20, "how often each program is scraped")
	f.StringVar(&o.only, "only", "", "measure only programs whose name contains this")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *group < 1 {
		return fmt.Errorf("-group %d: a group has at least one process", *group)
	}
	var counts []int
	for s := range strings.SplitSeq(*idle, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 0 || n > 20000 {
			return fmt.Errorf("-idle %q: give numbers from 0 to 20000 with commas between them", *idle)
		}
		counts = append(counts, n)
	}
	programs, err := nodePrograms(e, o)
	if err != nil {
		return err
	}
	crowd := newCrowd(*group)
	defer crowd.killAll()
	for _, n := range counts {
		if err := crowd.addIdle(ctx, n); err != nil {
			return err
		}
		if err := measureAmong(ctx, e, o, programs, fmt.Sprintf("%d idle processes more, %d to a process group", n, *group)); err != nil {
			return err
		}
	}
	if *busy == 0 {
		return nil
	}
	crowd.killAll()
	if err := crowd.addBusy(ctx, *busy); err != nil {
		return err
	}
	return measureAmong(ctx, e, o, programs, fmt.Sprintf("%d busy processes more, %d to a process group", *busy, *group))
}

// nodePrograms returns the installed programs, and prints why others are missing.
func nodePrograms(e *measure.Env, o nodeOptions) (out []*measure.Process, err error) {
	// The exporter follows the processes that its configuration names: all of them.
	config := filepath.Join(e.Dir, "process-exporter.yml")
	if err := os.WriteFile(config, []byte("process_names:\n  - name: \"{{.Comm}}\"\n    cmdline: ['.+']\n"), 0o600); err != nil {
		return nil, err
	}
	data := filepath.Join(e.Dir, "data")
	agent := filepath.Join(e.Bin, "reckon-agent")
	for _, p := range []struct {
		name, path string
		args       []string // ADDR is the address
	}{
		{"reckon-agent, eBPF", agent, []string{"--listen", "ADDR", "--source", "ebpf"}},
		{"reckon-agent, procfs", agent, []string{"--listen", "ADDR", "--source", "procfs"}},
		{"reckon up", filepath.Join(e.Bin, "reckon"), []string{"up", "--listen", "ADDR", "--data", data}},
		{"node_exporter", "prometheus-node-exporter", []string{"--web.listen-address=ADDR"}},
		{"process_exporter", "prometheus-process-exporter", []string{"-web.listen-address=ADDR", "-config.path=" + config}},
	} {
		if !strings.Contains(p.name, o.only) {
			continue
		}
		one := &measure.Process{Name: p.name, Path: p.path, Ready: "/metrics", Is: func(page []byte) bool { return countSeries(page) > 10 },
			Args: func(addr string) []string {
				_ = os.RemoveAll(data) // data of the last run
				return strings.Split(strings.ReplaceAll(strings.Join(p.args, "\x00"), "ADDR", addr), "\x00")
			}}
		if err := one.CheckInstalled(); err != nil {
			e.Printf("\nNot measured: %s (%v).\n", p.name, err)
			continue
		}
		out = append(out, one)
	}
	return out, nil
}

// measureAmong measures every program in turn among the existing processes.
func measureAmong(ctx context.Context, e *measure.Env, o nodeOptions, programs []*measure.Process, title string) error {
	row := e.Table(fmt.Sprintf("%s (%d in all, kernel threads included)", title, countProcesses()),
		"program", "CPU at rest", "CPU per scrape", "CPU, scraped every 15 s", "resident", "page", "series")
	for _, p := range programs {
		if err := nodeRow(ctx, o, p, row); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			row("%s | not measured: %v | | | | |", p.Name, err) // one that fails does not hide the others
		}
	}
	return nil
}

func nodeRow(ctx context.Context, o nodeOptions, p *measure.Process, row func(string, ...any)) error {
	if err := p.Start(ctx); err != nil {
		return err
	}
	defer p.Stop()
	url := "http://" + p.Addr + "/metrics"
	for range 3 { // caches and buffers grow
		if _, err := measure.Get(ctx, url, nil); err != nil {
			return err
		}
		if err := measure.Pause(ctx, min(2*time.Second, o.rest)); err != nil {
			return err
		}
	}
	before, began := p.CPU(), time.Now()
	if err := measure.Pause(ctx, o.rest); err != nil {
		return err
	}
	rest := (p.CPU() - before).Seconds() / time.Since(began).Seconds() // of a core
	before, began = p.CPU(), time.Now()
	var page []byte
	for range o.scrapes {
		var err error
		if page, err = measure.Get(ctx, url, nil); err != nil {
			return err
		}
		if err := measure.Pause(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
	scrape := max(0, (p.CPU()-before).Seconds()-rest*time.Since(began).Seconds()) / float64(o.scrapes)
	row("%s | %.2f ms/s | %.2f ms | %.2f %% of a core | %.1f MB | %.0f kB | %d", p.Name, rest*1e3, scrape*1e3, (rest+scrape/15)*100,
		measure.Resident(p.PID())/1e6, float64(len(page))/1e3, countSeries(page))
	return nil
}

func countSeries(page []byte) (n int) {
	for line := range bytes.Lines(page) {
		if len(line) > 1 && line[0] != '#' {
			n++
		}
	}
	return n
}
