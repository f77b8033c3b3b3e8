package catalogue

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkAdvanceChurn is what the builder does in 15 s on a node with twenty new process groups a second; each lives for
// 20 s, once a quarter of an hour of them has passed: the round after an export and, 10 s later, one without any, and the
// roll-ups once a minute. Ended series leave memory as they do in the store by itself. CPU-ms/op is the CPU time of these
// rounds alone; 150 are one percent of a core.
func BenchmarkAdvanceChurn(b *testing.B) {
	x := newSite(b, b.TempDir(), simBegin)
	defer x.close()
	x.step = 15 * time.Second
	bl := x.builder()
	n, ended := 0, 0
	round := func() (used time.Duration) {
		advance := func() {
			before := cpuTime()
			if _, err := bl.Advance(b.Context()); err != nil {
				b.Fatal(err)
			}
			used += cpuTime() - before
		}
		was := x.now
		for i := range 300 {
			x.now = was.Add(time.Duration(i) * x.step / 300)
			x.begin(fmt.Sprintf("group/n1/%d-%d", n, x.now.UnixMilli()), partPlace{Node: "n1"})
			n++
		}
		x.now = was
		x.work(steady)
		kept := x.live[:0]
		for _, p := range x.live {
			if end := p.start.Add(20 * time.Second); !end.After(x.now) {
				p.end = end
				x.export(p, true)
				ended += len(p.series)
				continue
			}
			x.export(p, false)
			kept = append(kept, p)
		}
		clear(x.live[len(kept):])
		x.live, x.truth = kept, nil
		x.send()
		advance()
		if ended > 8192 {
			ended = 0
			if err := x.s.Evict(); err != nil {
				b.Fatal(err)
			}
		}
		x.now = x.now.Add(10 * time.Second)
		advance()
		x.now = x.now.Add(-10 * time.Second)
		return used
	}
	for range 60 {
		round()
	}
	b.ReportAllocs()
	var used time.Duration
	for b.Loop() {
		used += round()
	}
	b.ReportMetric(used.Seconds()*1000/float64(b.N), "CPU-ms/op")
}
