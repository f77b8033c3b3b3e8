package stores

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"reckon/answer/findings"
	"reckon/catalogue/database"
	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/store/tsdb"
	"reckon/test/bench/measure"
)

// Findings measures the evaluation of the misuse rules over a day of a busy simulated site, without the time to fill
// the stores. On two cores it should take no more than 10 s for 100,000 jobs.
func Findings(ctx context.Context, e *measure.Env, args []string) error {
	f := flag.NewFlagSet("findings", flag.ContinueOnError)
	jobs := f.Int("jobs", 100_000, "jobs of the day")
	nodes := f.Int("nodes", 200, "nodes, one of ten with GPUs")
	export := f.Duration("export", time.Minute, "time between two exports of a node")
	cores := f.Int("cores", 2, "processors to use")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *jobs < 1 || *jobs > 2_000_000 || *nodes < 1 || *nodes > 10_000 || *export < time.Second || *export > 5*time.Minute || *cores < 1 {
		return errors.New("give -jobs 1 to 2000000, -nodes 1 to 10000, -export 1s to 5m and -cores 1 or more")
	}
	runtime.GOMAXPROCS(*cores)
	to := time.Now().Add(-time.Hour).Truncate(time.Minute)
	from := to.Add(-24 * time.Hour)
	made, err := simulate.New(simulate.Config{Nodes: *nodes, GPUNodes: *nodes / 10, Jobs: *jobs, Seed: 7, From: from, For: 24 * time.Hour})
	if err != nil {
		return err
	}
	done, err := simulation.WriteHistory(ctx, simulation.New(simulation.Config{Site: made, Version: "bench"}), e.Dir, "bench",
		slog.New(slog.DiscardHandler),
		simulation.Stretch{Until: made.End(), Tick: *export, Export: *export})
	if err != nil {
		return err
	}
	series, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(e.Dir, "series"), Retention: -1})
	if err != nil {
		return err
	}
	defer series.Close()
	facts, err := database.Open(filepath.Join(e.Dir, "catalogue.db"), nil)
	if err != nil {
		return err
	}
	defer facts.Close()
	debug.FreeOSMemory()
	policy, err := findings.ReadPolicy(nil)
	if err != nil {
		return err
	}
	look := &findings.Evaluator{Series: series, Facts: facts}
	row := e.Table(fmt.Sprintf("%d workloads on %d nodes in a day, %.1f million samples; budget 10 s for 100,000 jobs on two cores",
		done.Workloads, *nodes, float64(done.Samples)/1e6), "look", "time", "CPU time", "allocated", "findings")
	found := map[string]int{}
	for i := range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		clear(found)
		cpu, clock, err := measure.CPUTime(func() error {
			list, err := look.Evaluate(ctx, policy, from, to)
			for j := range list {
				found[list[j].Rule]++
			}
			return err
		})
		if err != nil {
			return err
		}
		runtime.ReadMemStats(&after)
		var rules []string
		for _, r := range slices.Sorted(maps.Keys(found)) {
			rules = append(rules, fmt.Sprintf("%s %d", r, found[r]))
		}
		row("%d | %.2f s | %.2f s | %.0f MB | %s", i+1, clock.Seconds(), cpu.Seconds(), float64(after.TotalAlloc-before.TotalAlloc)/1e6,
			strings.Join(rules, ", "))
	}
	if len(found) == 0 {
		return errors.New("nothing was found on a site that has misuse in it")
	}
	return nil
}
