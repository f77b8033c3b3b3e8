package run

import "reckon/sensor"

// exitDelay is the time in seconds that the meter waits for the exit record of a dead process.
const exitDelay = 3

// exitFeed selects the exit records of the process tree from all of the machine.
type exitFeed struct {
	source  sensor.ExitSource
	pass    sensor.Pass
	pending []sensor.Process // parent not known, or not known yet
	age     []uint8
	lost    uint64
	err     error
	taken   uint64
	whole   bool // the record of a child of ours came: the source does report it
	// strangers are records of children of the tree that the events did not report.
	strangers uint64
}

func (f *exitFeed) readRecords(t *tree, at float64) {
	f.pass.Reset()
	if err := f.source.Drain(&f.pass); err != nil {
		f.err = err
	}
	f.lost += f.pass.Lost
	f.pending = append(f.pending, f.pass.Exited...)
	for len(f.age) < len(f.pending) {
		f.age = append(f.age, 0)
	}
	for again := true; again; { // the record of a parent may follow its child's
		again = false
		n := 0
		for i := range f.pending {
			if f.chargeRecord(t, &f.pending[i], at) {
				again = true
				continue
			}
			f.pending[n], f.age[n] = f.pending[i], f.age[i]
			n++
		}
		f.pending, f.age = f.pending[:n], f.age[:n]
	}
	n := 0
	for i := range f.pending {
		if f.age[i]++; f.age[i] < 4 {
			f.pending[n], f.age[n] = f.pending[i], f.age[i]
			n++
		}
	}
	f.pending, f.age = f.pending[:n], f.age[:n]
}

// chargeRecord charges an exit record to its command, and reports whether the process belongs to the tree.
func (f *exitFeed) chargeRecord(t *tree, e *sensor.Process, at float64) bool {
	p := t.procs[e.PID]
	switch {
	case t.foreign[e.PID]:
		return false
	case p != nil && (p.exit != nil || p.stat.Start != 0 && e.Start != 0 && !sensor.SameStart(p.stat.Start, e.Start)):
		return false
	case p == nil && (e.Have&sensor.FieldParent == 0 || e.PPID != t.self && t.procs[e.PPID] == nil):
		return false
	case p == nil && t.byEvents:
		f.strangers++ // or one that was folded, and its record comes late
		return true
	case p == nil:
		p = t.addProcess(e.PID, e.PPID)
	}
	if e.Have&sensor.FieldPeak != 0 {
		t.largestEnded = max(t.largestEnded, e.PeakBytes)
	}
	record := *e
	p.exit, p.comm = &record, e.Comm
	f.taken++
	f.whole = f.whole || e.PPID == t.self
	if !t.byEvents {
		t.markDead(p, at)
	}
	return true
}
