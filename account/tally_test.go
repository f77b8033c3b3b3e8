package account

import (
	"testing"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/task/counters"
	"reckon/sensor/task/files"
	"reckon/sensor/task/runqueue"
	"reckon/sensor/task/traffic"
	"reckon/sensor/task/waits"
)

// sources are the specifications of the sources that an agent has.
var sources = []*sensor.TallySpec{traffic.Spec, waits.Spec, runqueue.Spec, files.Spec, counters.Spec}

// passOf is a reading with some rows.
func passOf(rows ...[]sensor.TallyRow) *sensor.TallyPass {
	p := new(sensor.TallyPass)
	p.Reset()
	for _, r := range rows {
		p.Rows = append(p.Rows, r...)
	}
	return p
}

// unowned is the same where the source had no room for the processes.
func unowned(rows ...[]sensor.TallyRow) *sensor.TallyPass {
	p := passOf(rows...)
	p.Unowned = true
	return p
}

// row is an amount of a process.
func row(pid int32, start uint64, series int, amount uint64) sensor.TallyRow {
	return sensor.TallyRow{PID: pid, Start: start, Series: uint8(series), Amount: amount}
}

// sent is TCP traffic that a process transmitted.
func sent(pid int32, start, bytes uint64) []sensor.TallyRow {
	return []sensor.TallyRow{
		row(pid, start, traffic.Bytes(traffic.TCP, traffic.ScopeElsewhere, sensor.Transmit), bytes),
		row(pid, start, traffic.Messages(traffic.TCP, sensor.Transmit), 1),
	}
}

func (r *rig) traffic(s ...[]sensor.TallyRow) { r.l.Tally(traffic.Spec, passOf(s...)) }

// waited is for how long a process waited for storage.
func (r *rig) waited(pid int32, start, nanos uint64) {
	r.l.Tally(waits.Spec, passOf([]sensor.TallyRow{row(pid, start, 0, nanos)}))
}

// queued is delays of a process in one octave.
func queued(pid int32, start uint64, octave int, n, nanos uint64) []sensor.TallyRow {
	return []sensor.TallyRow{row(pid, start, 0, nanos), {PID: pid, Start: start, Bound: uint8(octave + 1), Amount: n}}
}

// counted is a pass with counts of a process.
func counted(pid int32, start uint64, counts map[counters.Counter]uint64) *sensor.TallyPass {
	p := passOf()
	p.Have = 1<<counters.Cycles | 1<<counters.CacheMisses | 1<<counters.FP512 | 1<<counters.Memory
	for c, n := range counts {
		p.Rows = append(p.Rows, row(pid, start, int(c), n))
		if c == counters.CacheMisses {
			p.Rows = append(p.Rows, row(pid, start, int(counters.Memory), 64*n))
		}
	}
	return p
}

// using is the same counts for each operation on a file system.
func using(p *sensor.TallyPass, pid int32, start uint64, set uint8, kind, source string, amounts ...uint64) {
	name := p.Named(sensor.TallyName{Set: set, Labels: [2]string{kind, source}})
	for i, n := range amounts {
		x := row(pid, start, i, n)
		x.Name = name
		p.Rows = append(p.Rows, x)
	}
}

// busyPass is traffic, waits and delays of n processes.
func busyPass(live []sensor.Process) (all map[*sensor.TallySpec]*sensor.TallyPass) {
	all = map[*sensor.TallySpec]*sensor.TallyPass{traffic.Spec: passOf(), waits.Spec: passOf(), runqueue.Spec: passOf()}
	for i := range live {
		p := &live[i]
		all[traffic.Spec].Rows = append(all[traffic.Spec].Rows, sent(p.PID, p.Start, 1<<20)...)
		all[runqueue.Spec].Rows = append(all[runqueue.Spec].Rows, queued(p.PID, p.Start, 3, 2, 100)...)
		all[waits.Spec].Add(p.PID, p.Start, 0, 5)
		using(all[waits.Spec], p.PID, p.Start, 1, "sda", "", 5)
	}
	return all
}

func TestTalliesAllocateNothing(t *testing.T) {
	r, live := machine(t, 200)
	passes := busyPass(live)
	var batch metric.Batch
	step := func() {
		r.tick(second/2, live)
		for spec, pass := range passes {
			r.l.Tally(spec, pass)
		}
		batch.Reset(wall)
		r.l.Export(&batch)
	}
	for range 3 {
		step()
	}
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Errorf("readings and an export allocate %v times", n)
	}
}

func BenchmarkTally(b *testing.B) {
	r, live := machine(b, 1000)
	passes := busyPass(live)
	r.tick(0, live)
	b.ReportAllocs()
	for b.Loop() {
		for spec, pass := range passes {
			r.l.Tally(spec, pass)
		}
	}
}
