package catalogue

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkAdvance is one round of the catalogue's builder, 15 s after the last one, on
// a node with 200 workloads of eight series each.
func BenchmarkAdvance(b *testing.B) {
	x := newSite(b, b.TempDir(), time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC))
	defer x.close()
	for i := range 200 {
		x.begin(fmt.Sprintf("group/n1/%d-7", i), partPlace{Node: "n1"})
	}
	step := func() {
		x.work(func(*piece) (float64, float64, float64) { return 1, 1, 1 })
		x.exportAll()
	}
	for range 20 {
		step()
	}
	bl := x.builder()
	if _, err := bl.Advance(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		step()
		b.StartTimer()
		if n, err := bl.Advance(b.Context()); err != nil || n != 200 {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkAdvanceEnded is one round on a node with 100 workloads that live, after so many others
// have ended within a quarter of an hour.
func BenchmarkAdvanceEnded(b *testing.B) {
	for _, n := range []int{500, 5_000, 50_000} {
		b.Run(fmt.Sprint("ended=", n), func(b *testing.B) {
			x := newSite(b, b.TempDir(), simBegin)
			defer x.close()
			bl := x.builder()
			for i := range 100 {
				x.begin(fmt.Sprintf("group/n1/%d-7", i), partPlace{Node: "n1"})
			}
			round := func() {
				x.work(steady)
				x.exportAll()
				bl.roll.next = x.now.Add(time.Hour)
				if _, err := bl.Advance(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			const together = 500
			x.step = 15 * time.Minute / time.Duration(n/together)
			for i := range n / together {
				for k := range together {
					x.begin(fmt.Sprintf("group/n1/%d-8", i*together+k), partPlace{Node: "n1"})
				}
				ends := x.truth[len(x.truth)-together:]
				round()
				for _, p := range x.live {
					if p.id[len(p.id)-1] == '8' {
						p.end = x.now
						x.export(p, true)
					}
				}
				x.live = x.live[:len(x.live)-len(ends)]
				x.send()
				if i%4 == 3 || i == n/together-1 {
					if err := x.s.Evict(); err != nil {
						b.Fatal(err)
					}
				}
			}
			x.step = 15 * time.Second
			round()
			b.ReportAllocs()
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				x.work(steady)
				x.exportAll()
				b.StartTimer()
				before := cpuTime()
				if n, err := bl.Advance(b.Context()); err != nil || n != 100 {
					b.Fatal(n, err)
				}
				used += cpuTime() - before
			}
			b.ReportMetric(used.Seconds()*1000/float64(b.N), "CPU-ms/op")
		})
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRebuild reads a day of 200 workloads from nothing.
func BenchmarkRebuild(b *testing.B) {
	x := newSite(b, b.TempDir(), time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC))
	defer x.close()
	x.step = time.Minute
	for i := range 200 {
		x.begin(fmt.Sprintf("group/n1/%d-7", i), partPlace{Node: "n1"})
	}
	for range 24 * 60 {
		x.work(func(*piece) (float64, float64, float64) { return 1, 1, 1 })
		x.exportAll()
	}
	for b.Loop() {
		if n, err := NewBuilder(x.s, x.c, BuilderOptions{Clock: func() time.Time { return x.now }}).Rebuild(b.Context(), nil); err != nil || n == 0 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(200*8*24*60*b.N)/b.Elapsed().Seconds(), "samples/s")
}
