package account

import (
	"reckon/metric"
	"reckon/sensor"
)

var ioWaitSeconds = &metric.Desc{
	Name: "reckon_workload_io_wait_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
	Help:   "Time that threads of the workload slept until storage (disks, network file systems, swap) had answered, added up over threads; the kernel's mark of waiting for I/O decides what counts.",
	Labels: with(),
}

// waits is the ledger's state of storage waits.
type waits struct {
	counting
	waiting []awaited[sensor.Wait]
}

// ioWait is the waiting time of the threads of a part.
type ioWait struct {
	nanos uint64
	row   *metric.Series
}

// Waits takes in the storage waits of processes up to the tick that the ledger took last. Waits
// of processes that remain unidentified go to other.
func (l *Ledger) Waits(pass *sensor.WaitPass) {
	if l.other == nil {
		return // no tick yet
	}
	w := &l.waits
	w.begin(l)
	for i := range pass.Waited {
		p := &pass.Waited[i]
		w.waiting = append(w.waiting, awaited[sensor.Wait]{p.PID, p.Start, l.tick + patience, p.IO})
	}
	settle(l, &w.waiting, func(p *Part, use *sensor.Wait) { p.ioWait.nanos += use.Nanos })
	if pass.Unowned != (sensor.Wait{}) {
		w.full = true
		l.other.ioWait.nanos += pass.Unowned.Nanos
	}
}

// exportWaits appends the waiting time of the part, even if it is 0.
func (l *Ledger) exportWaits(p *Part, b *metric.Batch) {
	if l.waits.since == 0 && p.ioWait.nanos == 0 {
		return
	}
	if p.ioWait.row == nil {
		p.ioWait.row = p.series(ioWaitSeconds)
		if p.ioWait.row.Created == 0 {
			p.ioWait.row.Created = l.waits.began
		}
	}
	b.Add(p.ioWait.row, seconds(p.ioWait.nanos))
}
