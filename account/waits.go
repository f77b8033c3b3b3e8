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

var diskWaitSeconds = &metric.Desc{
	Name: "reckon_workload_disk_wait_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
	Help:   "Time that threads of the workload slept until a disk had answered, added up over threads: the part of reckon_workload_io_wait_seconds_total for which the disk is known.",
	Labels: with("device"),
}

// maxDisks is how many disks of a part have series of their own; all others are together in one.
const maxDisks = 8

const otherDisks = "other"

// waits is the ledger's state of storage waits.
type waits struct {
	counting
	waiting []awaited[sensor.Wait]
	disks   []awaited[diskWait]
}

// ioWait is the waiting time of the threads of a part.
type ioWait struct {
	nanos uint64
	row   *metric.Series
	disks []*diskWaited // at most maxDisks and one
}

// diskWait is for how long threads waited for one disk.
type diskWait struct {
	Disk  string `json:"disk"`
	Nanos uint64 `json:"nanos"`
}

type diskWaited struct {
	diskWait
	row *metric.Series
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
	for i := range pass.Disks {
		p := &pass.Disks[i]
		w.disks = append(w.disks, awaited[diskWait]{p.PID, p.Start, l.tick + patience, diskWait{p.Disk, p.Nanos}})
	}
	settle(l, &w.disks, (*Part).diskWait)
	settle(l, &w.waiting, func(p *Part, use *sensor.Wait) { p.ioWait.nanos += use.Nanos })
	if pass.Unowned != (sensor.Wait{}) {
		w.full = true
		l.other.ioWait.nanos += pass.Unowned.Nanos
	}
}

// diskWait adds for how long threads waited for a disk.
func (p *Part) diskWait(use *diskWait) {
	for _, d := range p.ioWait.disks {
		if d.Disk == use.Disk {
			d.Nanos += use.Nanos
			return
		}
	}
	if len(p.ioWait.disks) >= maxDisks && use.Disk != otherDisks {
		p.diskWait(&diskWait{otherDisks, use.Nanos})
		return
	}
	p.ioWait.disks = append(p.ioWait.disks, &diskWaited{diskWait: *use})
}

// absorbWaits takes over for how long a part waited that was folded.
func (p *Part) absorbWaits(o *Part) {
	p.ioWait.nanos += o.ioWait.nanos
	for _, d := range o.ioWait.disks {
		p.diskWait(&d.diskWait)
	}
}

// diskWaits is for how long a part waited for each disk, at rest.
func (p *Part) diskWaits() (all []diskWait) {
	for _, d := range p.ioWait.disks {
		all = append(all, d.diskWait)
	}
	return all
}

// exportWaits appends the waiting time of the part, even if it is 0.
func (l *Ledger) exportWaits(p *Part, b *metric.Batch) {
	if l.waits.since == 0 && p.ioWait.nanos == 0 {
		return
	}
	l.waitRow(p, &p.ioWait.row, ioWaitSeconds)
	b.Add(p.ioWait.row, seconds(p.ioWait.nanos))
	for _, d := range p.ioWait.disks {
		l.waitRow(p, &d.row, diskWaitSeconds, d.Disk)
		b.Add(d.row, seconds(d.Nanos))
	}
}

func (l *Ledger) waitRow(p *Part, row **metric.Series, d *metric.Desc, own ...string) {
	if *row != nil {
		return
	}
	*row = p.series(d, own...)
	if (*row).Created == 0 {
		(*row).Created = l.waits.began
	}
}
