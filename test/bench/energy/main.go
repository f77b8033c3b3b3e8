// Command energy measures what energy costs: a tick of attribution for a thousand
// workloads, and the view under Kepler's names, beside the figures of Kepler.
//
//	go run ./test/bench/energy [-workloads 1000]
//
// Kepler itself cannot be had from the package sources of the other benchmarks; its
// figures are those of the design, measured by its own timer and by its resident size
// with 1,008 processes on the same kind of machine.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"reckon/account"
	"reckon/account/attribution"
	"reckon/metric"
	"reckon/metric/compat"
	"reckon/sensor"
	"reckon/workload"
)

func main() {
	n := flag.Int("workloads", 1000, "how many workloads, with one process each")
	flag.Parse()
	if *n < 1 || *n > 100_000 {
		fmt.Fprintln(os.Stderr, "energy: -workloads takes 1 to 100000")
		os.Exit(2)
	}
	b := newNode(*n)
	fmt.Printf("%d workloads; 2 packages, 2 memories and a board, all by CPU time\n\n", *n)
	fmt.Println("| what | time | allocations |\n|---|---|---|")
	row := func(what string, f func()) {
		r := testing.Benchmark(func(t *testing.B) {
			t.ReportAllocs()
			for t.Loop() {
				f()
			}
		})
		fmt.Printf("| %s | %.3f ms | %d |\n", what, float64(r.NsPerOp())/1e6, r.AllocsPerOp())
	}
	row("accounts of one tick, without energy", b.tick)
	row("accounts and energy of one tick", func() { b.tick(); b.energy() })
	row("export of all series", b.export)
	view := compat.Kepler("n1")
	row("export, and the view under Kepler's names", func() {
		b.export()
		view.Append(&b.batch, len(b.batch.Samples))
	})
	fmt.Println("| Kepler 0.10, one refresh (figure of the design) | 24 ms | |")
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	held := m.HeapAlloc
	runtime.KeepAlive(b)
	runtime.KeepAlive(view)
	fmt.Printf("\nHeap of all of it: %.1f MB (Kepler, resident: 44 to 64 MB)\n", float64(held)/1e6)
	if err := passes(12); err != nil {
		fmt.Fprintln(os.Stderr, "energy: "+err.Error())
		os.Exit(1)
	}
}

// node is a machine that is made up.
type node struct {
	ledger  *account.Ledger
	pass    sensor.Pass
	machine sensor.Machine
	meters  []sensor.Meter
	sources []attribution.Source
	batch   metric.Batch
	busy    []float64
	start   time.Time
}

func newNode(n int) *node {
	b := &node{start: time.Unix(1_800_000_000, 0), busy: []float64{8, 7}}
	b.ledger = account.New(account.Config{Node: "n1", Identify: func(p *sensor.Process, _ *account.Part, _ bool) account.Identified {
		return account.Identified{Identity: workload.Identity{
			Workload: workload.MakeID(workload.Group, fmt.Sprintf("n1/%d-1", p.PGID)), Owner: "alice",
		}}
	}})
	b.machine.Cores = 64
	b.pass.Boot = 1000e9
	for i := range n {
		b.pass.Live = append(b.pass.Live, sensor.Process{
			PID: int32(100 + i), PPID: 1, PGID: int32(100 + i), Start: 1e9, State: 'S', Threads: 1,
			Have: sensor.FieldGroup | sensor.FieldMemory, UserNanos: 1e9, Comm: sensor.CommOf([]byte("work")),
		})
	}
	for _, z := range []string{"0", "1"} {
		b.meters = append(b.meters, sensor.Meter{Domain: sensor.DomainPackage, Zone: z}, sensor.Meter{Domain: sensor.DomainDRAM, Zone: z})
	}
	b.meters = append(b.meters, sensor.Meter{Domain: sensor.DomainBoard})
	b.sources = []attribution.Source{{Name: "cray", Meters: b.meters}}
	for range 20 {
		b.tick()
		b.energy()
	}
	b.export()
	return b
}

func (b *node) tick() {
	b.pass.Boot += 1e9
	b.machine.Boot = b.pass.Boot
	b.machine.Idle += 49e9
	for i := range b.pass.Live {
		b.pass.Live[i].UserNanos += 15e9 / uint64(len(b.pass.Live))
	}
	b.ledger.Tick(b.start.Add(time.Duration(b.pass.Boot)), &b.pass, &b.machine)
}

func (b *node) energy() {
	for i := range b.meters {
		b.meters[i].HasJoules = true
		b.meters[i].Joules += 60
		if b.meters[i].Domain == sensor.DomainBoard {
			b.meters[i].Joules += 400
		}
	}
	b.ledger.Energy(attribution.Load{Boot: b.pass.Boot, CPU: 15.0 / 64, Packages: b.busy}, b.sources, nil)
}

func (b *node) export() {
	b.batch.Reset(b.start.Add(time.Duration(b.pass.Boot)))
	b.ledger.Export(&b.batch)
}
