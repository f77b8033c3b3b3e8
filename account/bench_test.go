package account

import (
	"testing"

	"reckon/metric"
	"reckon/sensor"
)

// machine returns a rig with n idle processes in n/5 groups, warmed up.
func machine(t testing.TB, n int) (*rig, []sensor.Process) {
	r := newRig(t, Config{})
	live := make([]sensor.Process, n)
	for i := range live {
		live[i] = proc(int32(100+i), int32(100+i/5), second, second)
	}
	for range 3 {
		r.tick(0, live)
		r.export()
	}
	return r, live
}

func BenchmarkTick(b *testing.B) {
	r, live := machine(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		live[7].UserNanos += second / 2
		r.tick(second/2, live)
	}
}

func BenchmarkExport(b *testing.B) {
	r, _ := machine(b, 1000)
	var batch metric.Batch
	b.ReportAllocs()
	for b.Loop() {
		batch.Reset(wall)
		r.l.Export(&batch)
	}
	b.ReportMetric(float64(len(batch.Samples)), "samples")
}

func TestSteadyMachineAllocatesNothing(t *testing.T) {
	r, live := machine(t, 200)
	var batch metric.Batch
	r.l.Export(&batch)
	if n := testing.AllocsPerRun(20, func() {
		live[7].UserNanos += second / 2
		r.tick(second/2, live)
		batch.Reset(wall)
		r.l.Export(&batch)
	}); n != 0 {
		t.Fatalf("a tick and an export allocate %v times", n)
	}
}
