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

// waits is what the ledger knows of waiting for storage.
type waits struct {
	counting
	waiting []waitingWaited
}

// waitingWaited is what a process waited that is not known yet.
type waitingWaited struct {
	sensor.Waited
	until uint64 // tick
}

// ioWait is for how long the threads of a part waited.
type ioWait struct {
	nanos uint64
	row   *metric.Series
}

// Waits takes in what processes waited for storage until the tick that the ledger took last. What
// belongs to no process that becomes known goes to other.
func (l *Ledger) Waits(pass *sensor.WaitPass) {
	if l.other == nil {
		return // no tick yet
	}
	w := &l.waits
	w.begin(l)
	waiting := w.waiting
	w.waiting = w.waiting[:0]
	for i := range waiting {
		l.chargeWait(waiting[i])
	}
	for i := range pass.Waited {
		l.chargeWait(waitingWaited{pass.Waited[i], l.tick + patience})
	}
	if pass.Unowned != (sensor.Wait{}) {
		w.full = true
		l.other.ioWait.nanos += pass.Unowned.Nanos
	}
}

func (l *Ledger) chargeWait(w waitingWaited) {
	if p := l.chargeable(w.PID, w.Start, w.until); p != nil {
		p.ioWait.nanos += w.IO.Nanos
		return
	}
	l.waits.waiting = append(l.waits.waiting, w)
}

// exportWaits appends for how long the part waited, also where it did not.
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
