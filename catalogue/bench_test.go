package catalogue

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkAdvance is one round of the catalogue's builder, 15 s after the last one, on
// a node with 200 workloads of eight series each.
func BenchmarkAdvance(b *testing.B) {
	x := newSite(b, b.TempDir(), time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC))
	defer x.close()
	for i := range 200 {
		x.begin(fmt.Sprintf("group/n1/%d-7", i), place{"n1", ""})
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

// BenchmarkRebuild reads a day of 200 workloads from nothing.
func BenchmarkRebuild(b *testing.B) {
	x := newSite(b, b.TempDir(), time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC))
	defer x.close()
	x.step = time.Minute
	for i := range 200 {
		x.begin(fmt.Sprintf("group/n1/%d-7", i), place{"n1", ""})
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
