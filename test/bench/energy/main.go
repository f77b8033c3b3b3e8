// Package energy measures the cost of energy accounting: a tick of attribution for a thousand workloads, the view under Kepler's names,
// and a pass of the sensors of energy and GPUs, beside the figures of Kepler. Kepler itself cannot be had from the package sources of the
// other areas; its figures are the design's, by its own timer and its resident size with 1,008 processes.
package energy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"reckon/account"
	"reckon/account/attribution"
	"reckon/metric"
	"reckon/metric/compat"
	"reckon/sensor"
	"reckon/test/bench/measure"
	"reckon/workload"
)

// Run measures it.
func Run(_ context.Context, e *measure.Env, args []string) error {
	f := flag.NewFlagSet("energy", flag.ContinueOnError)
	n := f.Int("workloads", 1000, "how many workloads, with one process each")
	rounds := f.Int("rounds", 12, "how often the sensors are read, a second apart")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *n < 1 || *n > 100_000 || *rounds < 1 {
		return errors.New("-workloads takes 1 to 100000, -rounds 1 and more")
	}
	b := newNode(*n)
	line := e.Table(fmt.Sprintf("%d workloads; 2 packages, 2 memories and a board, all by CPU time", *n), "what", "time", "allocations")
	row := func(what string, f func()) {
		r := testing.Benchmark(func(t *testing.B) {
			t.ReportAllocs()
			for t.Loop() {
				f()
			}
		})
		line("%s | %.3f ms | %d", what, float64(r.NsPerOp())/1e6, r.AllocsPerOp())
	}
	row("accounts of one tick, without energy", b.runTick)
	row("accounts and energy of one tick", func() { b.runTick(); b.runEnergy() })
	row("export of all series", b.runExport)
	view := compat.Kepler("n1")
	row("export, and the view under Kepler's names", func() {
		b.runExport()
		view.Append(&b.batch, len(b.batch.Samples))
	})
	line("Kepler 0.10, one refresh (figure of the design) | 24 ms | |")
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	e.Printf("\nHeap of all of it: %.1f MB (Kepler, resident: 44 to 64 MB).\n", float64(m.HeapAlloc)/1e6)
	runtime.KeepAlive(b)
	runtime.KeepAlive(view)
	return measurePasses(e, *rounds)
}

// benchNode is a simulated machine.
type benchNode struct {
	ledger  *account.Ledger
	pass    sensor.Pass
	machine sensor.Machine
	meters  []sensor.Meter
	sources []attribution.Source
	batch   metric.Batch
	busy    []float64
	start   time.Time
}

func newNode(n int) *benchNode {
	b := &benchNode{start: time.Unix(1_800_000_000, 0), busy: []float64{8, 7}}
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
		b.runTick()
		b.runEnergy()
	}
	b.runExport()
	return b
}

func (b *benchNode) runTick() {
	b.pass.Boot += 1e9
	b.machine.Boot = b.pass.Boot
	b.machine.Idle += 49e9
	for i := range b.pass.Live {
		b.pass.Live[i].UserNanos += 15e9 / uint64(len(b.pass.Live))
	}
	b.ledger.Tick(b.start.Add(time.Duration(b.pass.Boot)), &b.pass, &b.machine)
}

func (b *benchNode) runEnergy() {
	for i := range b.meters {
		b.meters[i].HasJoules = true
		b.meters[i].Joules += 60
		if b.meters[i].Domain == sensor.DomainBoard {
			b.meters[i].Joules += 400
		}
	}
	b.ledger.Energy(attribution.Load{Boot: b.pass.Boot, CPU: 15.0 / 64, Packages: b.busy}, b.sources, nil)
}

func (b *benchNode) runExport() {
	b.batch.Reset(b.start.Add(time.Duration(b.pass.Boot)))
	b.ledger.Export(&b.batch)
}
