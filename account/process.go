package account

import (
	"cmp"
	"slices"
	"time"

	"reckon/sensor"
)

// process is the ledger's record of a process.
type process struct {
	pid    int32
	ppid   int32 // its parent, at the last reading
	above  int32 // the highest id among its ancestors
	task   int32 // number of the task in its part, 0 if it is not identified; see tasks
	pgid   int32
	sid    int32
	start  uint64
	cgroup uint64
	part   *Part
	last   usage
	tick   uint32  // tick of its last reading
	uid    uint32  // its real user
	file   uint64  // most resident file pages observed, bytes; see highWater
	rate   float64 // cores used by it and the children it waited for, from the last two readings
	dead   uint64  // boot time at which it was first seen as a zombie, 0 if it is none
	sized  bool    // file is valid
	gone   bool    // its exit was accounted for
	absent bool    // it is in Ledger.absent
	fresh  bool    // its entry was made for a child, before it was charged itself
	left   bool    // missing from a pass, and its parent was notified
	passed bool    // its charges were added to those owed to its parent
	based  bool    // the child times are complete from its start on
	retry  bool
	// counted is the number of the export interval in which its start was counted, from 1 on; 0 before.
	counted uint32
	pass    uint32 // tick of the last pass that had it

	children *offspring // nil while it has had none
	share    sharing
}

// alive takes in a process of a pass over the task table.
func (l *Ledger) alive(p *sensor.Process, first bool) {
	e := l.seen.find(p)
	if e == nil {
		e = l.find(p)
	}
	isNew := e == nil
	if isNew {
		e = l.meet(p, false)
	}
	l.seen.now = append(l.seen.now, e)
	e.pass = uint32(l.tick)
	if isNew || e.fresh {
		isNew, e.fresh = true, false
		l.fork(e, p)
		l.count(e)
	}
	if e.gone {
		l.bury(e, p)
		e.tick = uint32(l.tick) // a zombie that waits to be reaped
		l.stillOwed(e)
		return
	}
	if e.retry || e.moved(p, true) {
		was := e.part
		l.identify(e, p, false)
		l.strayedChild(e, was)
	}
	e.tick, e.left, e.passed = uint32(l.tick), false, false
	if p.Threads > 1 && !l.line.settled {
		e.kin().threaded = true
	}
	d := e.last.advance(usageOf(p), p.Have)
	e.part.charge(d, p, e.task, first)
	e.part.highWater(e, p)
	l.follow(e, p, isNew, first)
	watched := float64(max(l.watched(e), uint64(time.Millisecond)))
	e.rate = float64(d.user+d.system) / watched
	if o := e.children; o != nil {
		o.rate = float64(o.fresh) / watched
		e.rate += o.rate
	}
	if l.bury(e, p); !isZombie(p) {
		e.part.occupy(e, p, l.tick)
	}
}

// sequence holds the living processes in the order of the pass. Passes list them in order of
// ids, so that the next process is mostly the one that was next in the last pass.
type sequence struct {
	now, last []*process
	at        int        // in last
	skipped   []*process // of last, those before at that were not found
}

// find returns the entry of a process of the last pass, nil if it is not the next one there.
func (s *sequence) find(p *sensor.Process) *process {
	for s.at < len(s.last) && s.last[s.at].pid < p.PID {
		s.skipped = append(s.skipped, s.last[s.at])
		s.at++
	}
	if s.at == len(s.last) || s.last[s.at].pid != p.PID || s.last[s.at].start != p.Start {
		return nil
	}
	s.at++
	return s.last[s.at-1]
}

// end makes the present pass the last one, and returns what was in that one and not found. It is valid until the next call.
func (s *sequence) end() (missing []*process) {
	missing = append(s.skipped, s.last[s.at:]...)
	s.now, s.last, s.at, s.skipped = s.last[:0], s.now, 0, missing[:0]
	return missing
}

// moved reports whether a process left its process group, session or, where the numbers
// come from one source, its control groups since it was identified, or became another user's.
func (e *process) moved(p *sensor.Process, joined bool) bool {
	return joined && p.Have&sensor.FieldCgroup != 0 && p.Cgroup != e.cgroup ||
		p.Have&sensor.FieldGroup != 0 && (p.PGID != e.pgid || p.SID != e.sid || p.UID != e.uid)
}

// strayed reports whether an ended process belongs to another part than at its last reading: its
// only reading fell between its fork and its setsid(2), setpgid(2), setuid(2) or the move to its control
// group. A workload recognised by the environment is kept, as that can not be read any more.
func (e *process) strayed(p *sensor.Process, joined bool) bool {
	switch kind := e.part.kind; {
	case kind.ByGroup():
		return e.moved(p, joined)
	case kind.Session():
		return joined && p.Have&sensor.FieldCgroup != 0 && p.Cgroup != e.cgroup
	}
	return false
}

// count counts the start of a process.
func (l *Ledger) count(e *process) {
	e.part.started++
	e.counted = l.interval()
}

// interval returns the number of the present export interval, from 1 on.
func (l *Ledger) interval() uint32 { return uint32(l.exports) + 1 }

// ended takes in an exit record. joined reports that its control group ids come from the same
// source as those of living processes.
func (l *Ledger) ended(p *sensor.Process, joined bool) {
	e := l.find(p)
	switch {
	case e == nil:
		e = l.meet(p, true)
		l.count(e)
		l.merge(e, p, p.UserNanos+p.SystemNanos)
	case e.gone:
		return
	case e.strayed(p, joined):
		l.identify(e, p, true)
	case p.UID != e.uid && p.Have&sensor.FieldGroup != 0:
		l.reown(e, p)
	}
	d := e.last.advance(usageOf(p), p.Have)
	e.part.charge(d, p, e.task, false)
	e.part.highWater(e, p)
	if p.Life > 0 {
		e.part.left = max(e.part.left, (e.start+p.Life)|1)
	}
	if p.OOMKilled {
		e.part.oomSeen++
	}
	e.gone, e.tick = true, uint32(l.tick)
	if p.Have&sensor.FieldParent != 0 {
		e.ppid = p.PPID
	}
	if e.left {
		l.owe(e, d.user+d.system)
	}
	l.depart(e)
}

// watched returns the time that the last reading of a process covers: since the tick
// before, or since its start.
func (l *Ledger) watched(e *process) uint64 { return grown(max(l.lastAt, e.start), l.now) }

// find returns the entry of p. An entry of an earlier process with the same id is
// dropped: the id was reused.
func (l *Ledger) find(p *sensor.Process) *process {
	e := l.table[p.PID]
	if e == nil {
		return nil
	}
	if e.start == p.Start || sensor.SameStart(e.start, p.Start) {
		return e
	}
	if p.Start < e.start {
		return nil // a late record of the earlier process; meet keeps the newer one
	}
	if !e.left {
		l.owe(e, e.legacy())
	}
	delete(l.table, p.PID) // and is not reused: it may have left in this very tick
	return nil
}

// meet creates the entry of a new process.
func (l *Ledger) meet(p *sensor.Process, ended bool) *process {
	var e *process
	if n := len(l.free); n > 0 {
		e, l.free = l.free[n-1], l.free[:n-1]
	} else {
		e = new(process)
	}
	*e = process{pid: p.PID, start: p.Start}
	l.identify(e, p, ended)
	if old := l.table[p.PID]; old == nil || old.start < p.Start {
		l.table[p.PID] = e
	}
	l.miss(e)
	return e
}

// meetParent creates the entry of the parent of a process that ended without further
// details (taskstats), if the parent is new itself. live is in order of ids.
func (l *Ledger) meetParent(p *sensor.Process, live []sensor.Process) {
	if p.Have&(sensor.FieldGroup|sensor.FieldParent) != sensor.FieldParent || l.table[p.PPID] != nil || l.table[p.PID] != nil {
		return
	}
	if q := livingOf(live, p.PPID); q != nil && q.Start <= p.Start+uint64(time.Second) {
		l.meet(q, false).fresh = true
	}
}

// livingOf returns a process of a pass by its id, nil if there is none. live is in order of ids.
func livingOf(live []sensor.Process, pid int32) *sensor.Process {
	i, ok := slices.BinarySearchFunc(live, pid, func(q sensor.Process, pid int32) int { return cmp.Compare(q.PID, pid) })
	if !ok {
		return nil
	}
	return &live[i]
}

// identify finds the part that a process belongs to.
func (l *Ledger) identify(e *process, p *sensor.Process, ended bool) {
	parent, inherited := l.inherited(p)
	if ended && p.Have&sensor.FieldGroup == 0 && parent != nil && l.leaves(p.PPID, p.UserNanos+p.SystemNanos) {
		parent, inherited = nil, 0
	}
	l.place(e, p, l.config.Identify(p, parent, ended), parent, inherited)
}

// reown finds the part of an ended process that became another user's since its last reading, if that is a part of
// the same workload: what the process belongs to may not be known any more.
func (l *Ledger) reown(e *process, p *sensor.Process) {
	parent, inherited := l.inherited(p)
	if found := l.config.Identify(p, parent, true); found.Workload == e.part.id && found.Part == e.part.part && found.Place == "" {
		l.place(e, p, found, parent, inherited)
	}
}

// inherited returns the part of the parent of a process, and its task in it.
func (l *Ledger) inherited(p *sensor.Process) (*Part, int32) {
	if q := l.table[p.PPID]; q != nil && p.Have&sensor.FieldParent != 0 && p.PPID > 1 && q.start <= p.Start+uint64(time.Second) {
		return q.part, q.task
	}
	return nil, 0
}

// place charges a process to the part that was found from now on.
func (l *Ledger) place(e *process, p *sensor.Process, found Identified, parent *Part, inherited int32) {
	e.cgroup, e.pgid, e.sid, e.uid, e.retry = p.Cgroup, p.PGID, p.SID, p.UID, found.Retry
	part := parent
	if !found.isOf(parent) {
		part = l.part(found, p.Start)
	}
	if e.task = part.task(found.Task); e.task == 0 && part == parent {
		e.task = inherited
	}
	if e.part != part {
		if e.counted == l.interval() { // it started a moment ago, and no export includes it
			e.part.started--
			part.started++
		}
		e.part = part
		part.start = min(part.start, p.Start)
	}
}

// isOf reports whether nothing was found but that a process belongs where its parent does: the run and the place of a
// container are not known of a process that nobody saw alive.
func (found *Identified) isOf(parent *Part) bool {
	return parent != nil && !parent.closed() && found.Place == "" && found.Run == "" && found.Handle == nil && parent.key == key{found.Workload, found.Part, found.Owner}
}

// lateTicks is the number of ticks by which an exit record may come after the last
// reading of its process: the kernel completes the totals only when the process has been
// waited for and released.
const lateTicks = 3

// putOffTicks is the same while readings of what programs in the kernel count are put off: two of them take place in that time.
const putOffTicks = 9

// PutOff notes that what programs in the kernel count by process is not read in the tick that was taken last, and not
// for more than three ticks: processes that ended are known for longer then.
func (l *Ledger) PutOff() { l.putOff = l.tick }

// miss has forget look at a process that may be missing from the pass.
func (l *Ledger) miss(e *process) {
	if !e.absent {
		e.absent = true
		l.absent = append(l.absent, e)
	}
}

// forget drops processes that have been missing for a while. One with an exit record
// stays a tick longer, for children whose records come after its own.
func (l *Ledger) forget(missing []*process) {
	for _, e := range missing {
		if e.pass != uint32(l.tick) {
			l.miss(e)
		}
	}
	late, gone := uint64(lateTicks), uint64(1)
	if l.putOff != 0 && l.tick-l.putOff <= 2 {
		late, gone = putOffTicks, putOffTicks
	}
	kept := l.absent[:0]
	for _, e := range l.absent {
		if e.pass == uint32(l.tick) || l.table[e.pid] != e { // or another process has its id
			e.absent = false
			continue
		}
		if e.tick != uint32(l.tick) {
			l.depart(e)
		}
		if unseen := l.tick - uint64(e.tick); unseen > late || (e.gone && unseen > gone) {
			delete(l.table, e.pid)
			l.free = append(l.free, e)
			continue
		}
		kept = append(kept, e)
	}
	clear(l.absent[len(kept):])
	l.absent = kept
}
