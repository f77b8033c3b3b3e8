// Command findings measures how long it takes to look for misuse in a day of a busy site.
//
//	go run ./test/bench/findings [-jobs 100000] [-nodes 200] [-export 60s]
//
// The site is made up, with a fixed seed: jobs of many lengths by many owners, most of
// them well behaved, a few that break each rule. Its series and its catalogue are real
// stores on disk; only looking for misuse is measured, not filling them. The budget is
// 10 s on two cores for 100,000 jobs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"reckon/answer/findings"
	"reckon/catalogue/database"
	"reckon/store/tsdb"
)

// budget is the goal for 100,000 jobs.
const budget = 10 * time.Second

func main() {
	c := config{}
	flag.IntVar(&c.jobs, "jobs", 100_000, "jobs of the day")
	flag.IntVar(&c.nodes, "nodes", 200, "nodes")
	flag.DurationVar(&c.export, "export", time.Minute, "time between two exports of a node")
	flag.IntVar(&c.cores, "cores", 2, "processors to use")
	flag.StringVar(&c.profile, "cpuprofile", "", "file for a CPU profile of the looks")
	dir := flag.String("dir", "", "folder for the stores; empty: a temporary one that is removed")
	flag.Parse()
	if flag.NArg() > 0 || c.jobs < 1 || c.jobs > 2_000_000 || c.nodes < 1 || c.nodes > 10_000 || c.export < time.Second || c.export > 5*time.Minute || c.cores < 1 {
		fmt.Fprintln(os.Stderr, "findings: give -jobs 1 to 2000000, -nodes 1 to 10000, -export 1s to 5m, -cores 1 or more, and no other words")
		os.Exit(2)
	}
	if err := run(context.Background(), c, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "findings: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, c config, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "reckon-bench-findings-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	runtime.GOMAXPROCS(c.cores)
	s := newSite(c)
	series, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(dir, "series"), Clock: func() time.Time { return s.now }})
	if err != nil {
		return err
	}
	defer series.Close()
	facts, err := database.Open(filepath.Join(dir, "catalogue.db"), nil)
	if err != nil {
		return err
	}
	defer facts.Close()
	begin := time.Now()
	samples, err := s.fill(ctx, series, facts)
	if err != nil {
		return err
	}
	fmt.Printf("%d jobs of %d owners on %d nodes in a day, %.1f million samples of what the rules look at, filled in %.0f s\n\n",
		len(s.jobs), owners, c.nodes, float64(samples)/1e6, time.Since(begin).Seconds())
	debug.FreeOSMemory()

	policy, err := findings.ReadPolicy(nil)
	if err != nil {
		return err
	}
	e := &findings.Evaluator{Series: series, Facts: facts}
	if c.profile != "" {
		f, err := os.Create(c.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	fmt.Println("| look | time | CPU time | allocated | findings |\n|---|---|---|---|---|")
	worst := time.Duration(0)
	var found map[string]int
	for i := range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin, used := time.Now(), cpuTime()
		list, err := e.Evaluate(ctx, policy, s.from, s.to)
		if err != nil {
			return err
		}
		took := time.Since(begin)
		worst = max(worst, took)
		used = cpuTime() - used
		runtime.ReadMemStats(&after)
		found = map[string]int{}
		for j := range list {
			found[list[j].Rule]++
		}
		fmt.Printf("| %d | %.2f s | %.2f s | %.0f MB | %d |\n", i+1, took.Seconds(), used.Seconds(), float64(after.TotalAlloc-before.TotalAlloc)/1e6, len(list))
	}
	var rules []string
	for r, n := range found {
		rules = append(rules, fmt.Sprintf("%s %d", r, n))
	}
	slices.Sort(rules)
	fmt.Printf("\nFound: %s. The longest look took %.2f s; the budget for 100,000 jobs on two cores is %.0f s.\n", strings.Join(rules, ", "), worst.Seconds(), budget.Seconds())
	if len(found) == 0 {
		return fmt.Errorf("nothing was found on a site that was made with misuse in it")
	}
	return nil
}

// cpuTime is what this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
