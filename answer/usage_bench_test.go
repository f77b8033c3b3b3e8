package answer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"reckon/catalogue/database"
	"reckon/figure/wire"
	"reckon/store"
)

// BenchmarkUsageYear reports a year of a million runs apart by two dimensions: 300 owners, 20 accounts, 6 partitions, 500 nodes. The
// script that makes it needs two minutes. cpu-s/op is the CPU time of one answer, of all threads.
func BenchmarkUsageYear(b *testing.B) {
	c, err := database.Open(filepath.Join(b.TempDir(), "c.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	begin := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	r := rand.New(rand.NewPCG(1, 1))
	const n = 1_000_000
	rows := make([]store.Workload, 0, 5000)
	hours := map[[4]int]*store.Use{} // by day: the hours of a site have no more groups
	for i := range n {
		start := begin.Add(time.Duration(float64(i) / n * 365 * 24 * float64(time.Hour)))
		wall := time.Duration(60+r.ExpFloat64()*7200) * time.Second
		owner, cores := int(r.ExpFloat64()*40)%300, float64(int(1)<<r.IntN(8))
		w := store.Workload{Site: "s", ID: fmt.Sprint("slurm/", i), Kind: "slurm", Name: fmt.Sprint("job", i%997), Owner: fmt.Sprint("u", owner),
			Account: fmt.Sprint("a", owner%20), Partition: fmt.Sprint("p", i%6), Command: fmt.Sprint("prog", owner%37), QOS: []string{"normal", "high", "low"}[i%3],
			State: "completed", Submit: start.Add(-time.Hour), Start: start, Seen: start.Add(wall), End: start.Add(wall), Nodes: []string{fmt.Sprint("n", i%500)}}
		cpu := cores * wall.Seconds() * r.Float64()
		w.CPUSeconds, w.AllocatedCores, w.RequestCores, w.GPUSeconds = &cpu, &cores, &cores, nil
		if rows = append(rows, w); len(rows) == cap(rows) || i == n-1 {
			if err := c.Upsert(context.Background(), rows); err != nil {
				b.Fatal(err)
			}
			rows = rows[:0]
		}
		k := [4]int{int(start.Sub(begin) / (24 * time.Hour)), owner, i % 6}
		u := hours[k]
		if u == nil {
			u = &store.Use{At: begin.AddDate(0, 0, k[0]), Site: "s", Kind: "slurm", Owner: w.Owner, Account: w.Account, Partition: w.Partition, Command: w.Command}
			u.CPUSeconds, u.HeldCoreSeconds, u.Started = new(float64), new(float64), new(float64)
			hours[k] = u
		}
		*u.CPUSeconds, *u.HeldCoreSeconds, *u.Started = *u.CPUSeconds+cpu, *u.HeldCoreSeconds+cores*wall.Seconds(), *u.Started+1
	}
	var use []store.Use
	for _, u := range hours {
		use = append(use, *u)
	}
	if err := c.ReplaceHours(context.Background(), begin, begin.AddDate(1, 0, 0), use, nil); err != nil {
		b.Fatal(err)
	}
	u := &Usage{Rollups: c, Catalogue: c, Runs: c, Clock: func() time.Time { return begin.AddDate(1, 0, 0) }}
	for _, by := range [][]string{{"qos", "size"}, {"owner", "length"}, {"account", "partition"}, {"gpus", "command"}, {"node", "owner"}} {
		q := wire.UsageQuery{Since: begin, Until: begin.AddDate(1, 0, 0), Span: "whole", By: by}
		if list, err := u.Usage(b.Context(), q); err != nil || len(list.Rows) < 4 { // reads the columns
			b.Fatal(by, err)
		}
		b.Run(fmt.Sprint(by), func(b *testing.B) {
			before := cpuTime()
			for b.Loop() {
				if _, err := u.Usage(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpuTime()-before).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
