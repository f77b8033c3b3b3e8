// Package account integrates what sensors read into the running totals of each
// workload on a node: counters, peaks and distributions.
//
// A [Ledger] is fed once per internal tick with a pass over the task table and the
// totals of the machine, and asked once per export interval for its series. What
// accumulates is a counter since the start of the workload, so a lost export loses
// no usage. The invariants it keeps, and the tests hold:
//
//	conservation   Σ workloads + other = processors · time − idle − iowait − steal
//	once           a process is charged what it used, once, whoever saw it: a live
//	               pass, its exit record, or the counter of its control group
//	short work     what lived between two ticks is charged to its workload
//
// The package is pure: it reads no clock, file or socket. A Ledger is used from one
// goroutine.
package account

import (
	"cmp"
	"slices"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// Config sets up a [Ledger].
type Config struct {
	// Node is the name of the machine, for other/NODE and short/OWNER/NODE.
	Node string
	// Export is the time between two exports. Process groups that end within one and
	// use less than a CPU second are folded.
	Export time.Duration
	// Linger is how long an ended workload stays in the exports, for consumers that
	// scrape; 0 exports it once.
	Linger time.Duration
	// Idle says whose idle energy is; empty is nobody's.
	Idle IdleShare
	// Identify says what a process belongs to. It is called when a process is first
	// seen and when it moved. parent is the part of its parent, or nil; ended says that
	// the process is gone, so that nothing more can be read of it.
	Identify func(p *sensor.Process, parent *Part, ended bool) Identified
}

// Identified is the answer of Config.Identify.
type Identified struct {
	workload.Identity
	// Handle reads the control group named by Identity.Cgroup. The ledger closes it.
	// It may be nil.
	Handle sensor.CgroupHandle
	// Whole reads the control group named by Identity.Whole. The ledger closes it. It may
	// be nil.
	Whole sensor.CgroupHandle
	// Retry asks for another identification on the next tick, because the process
	// could not be looked at well enough yet.
	Retry bool
}

// process is what the ledger remembers of a process.
type process struct {
	pid    int32
	ppid   int32 // its parent, when it was last seen
	start  uint64
	cgroup uint64
	part   *Part
	last   usage
	tick   uint64 // when it was last seen
	pgid   int32
	sid    int32
	file   uint64  // most resident file pages seen, bytes; see highWater
	sized  bool    // file is known
	gone   bool    // its exit was accounted for
	fresh  bool    // it was met as a parent, before it was charged
	left   bool    // it was not seen any more, and its parent was told
	passed bool    // what it leaves is owed to its parent already
	based  bool    // what its children used is known from its birth on
	rate   float64 // cores, from the last two readings
	dead   uint64  // boot time at which it was first seen as a zombie, 0 if it is none
	retry  bool
	// counted is the export interval in which it was counted as started, beginning with 1; 0 before.
	counted uint64

	children *offspring // nil while it had none
	share    sharing
}

// Ledger holds the accounts of one node.
type Ledger struct {
	config Config
	table  map[int32]*process
	free   []*process // reused, so that a steady machine allocates nothing
	parts  map[key]*Part
	order  []*Part // parts in order of appearance, for stable exports
	groups map[workload.ID]*group
	shorts map[string]*metric.Series // by owner, for shortWorkloads
	counts map[string]uint64
	dead   map[string]*dead // zombies, by owner

	tick    uint64
	now     uint64 // boot time of this tick
	exports uint64
	began   uint64 // boot time of the first tick
	lastAt  uint64 // boot time of the last tick
	booted  int64  // see SetBooted
	first   bool   // this tick is the first of the ledger, or of the one that it was restored from
	epoch   int64  // nanoseconds between the Unix epoch and boot
	machine sensor.Machine
	span    float64 // seconds between the last two ticks
	balance int64   // CPU nanoseconds charged beyond what the machine was busy
	lost    uint64
	// forgotten is the CPU time of parts that were flushed, nanoseconds.
	forgotten uint64
	other     *Part
	line      lineage
	exact     []*exactness
	evidence  evidence
	crowds    bool    // a part has processes that share much; see shared.go
	energy    *energy // nil until a meter was read
	gpus      gpus
}

// New returns an empty ledger.
func New(c Config) *Ledger {
	if c.Export <= 0 {
		c.Export = 15 * time.Second
	}
	return &Ledger{
		config: c,
		table:  make(map[int32]*process),
		parts:  make(map[key]*Part),
		groups: make(map[workload.ID]*group),
		shorts: make(map[string]*metric.Series),
		counts: make(map[string]uint64),
		dead:   make(map[string]*dead),
	}
}

// Tick takes in one pass. wall is the time of day that belongs to pass.Boot; it
// names moments and never measures spans, so a clock that jumps spoils nothing.
// m may be nil when the totals of the machine could not be read.
func (l *Ledger) Tick(wall time.Time, pass *sensor.Pass, m *sensor.Machine) {
	first := l.began == 0
	l.first = first
	l.sweep()
	if first {
		l.began, l.lastAt = pass.Boot, pass.Boot
		l.epoch = wall.UnixNano() - int64(pass.Boot)
		l.evidence.first = true
	}
	l.tick++
	l.now = pass.Boot
	elapsed := grown(l.lastAt, pass.Boot)
	l.lost += pass.Lost

	l.begin()
	l.beginLineage(pass)
	// Parents end after their children, so the last records come first: a child that
	// nobody saw alive then finds its parent's part.
	for i := len(pass.Exited) - 1; i >= 0; i-- {
		l.meetParent(&pass.Exited[i], pass.Live)
		l.ended(&pass.Exited[i], pass.Joined)
	}
	for i := range pass.Live {
		l.alive(&pass.Live[i], first)
	}
	l.forget()
	l.reconcile(elapsed, capacity(elapsed, m))
	l.settle(pass.Boot, elapsed, m, first)
	l.lastAt = pass.Boot
}

func (l *Ledger) begin() {
	for _, d := range l.dead {
		d.n = 0
	}
	for _, p := range l.order {
		p.now = tick{}
		p.crowd.begin()
		if p.cgroup == nil || p.end != 0 {
			continue
		}
		p.readCgroup()
	}
	l.readWholes()
}

// alive takes in a process of the live pass.
func (l *Ledger) alive(p *sensor.Process, first bool) {
	e := l.find(p)
	isNew := e == nil
	if isNew {
		e = l.meet(p, false)
	}
	if isNew || e.fresh {
		isNew, e.fresh = true, false
		l.fork(e, p)
		l.count(e)
	}
	if e.gone {
		l.bury(e, p)
		e.tick = l.tick // a zombie that waits to be reaped
		return
	}
	if e.retry || e.moved(p, true) {
		l.identify(e, p, false)
	}
	e.tick, e.left, e.passed = l.tick, false, false
	d := e.last.advance(usageOf(p), p.Have)
	e.part.charge(d, p, first)
	e.part.highWater(e, p)
	e.rate = float64(d.user+d.system) / float64(max(l.watched(e), uint64(time.Millisecond)))
	l.follow(e, p, isNew, first)
	if l.bury(e, p); !isZombie(p) {
		e.part.occupy(e, p, l.tick)
	}
}

// moved reports whether a process left its process group, session or, where the numbers
// come from one source, its control groups since it was identified.
func (e *process) moved(p *sensor.Process, joined bool) bool {
	return joined && p.Have&sensor.FieldCgroup != 0 && p.Cgroup != e.cgroup ||
		p.Have&sensor.FieldGroup != 0 && (p.PGID != e.pgid || p.SID != e.sid)
}

// strayed reports whether a process that ended belongs elsewhere than where it was last seen:
// the only reading of it fell between its fork and its setsid(2), setpgid(2) or the move to its
// control group. What was recognised by its environment stays, as that can not be read any more.
func (e *process) strayed(p *sensor.Process, joined bool) bool {
	switch e.part.kind {
	case workload.Group, workload.Other:
		return e.moved(p, joined)
	case workload.Unit, workload.Session:
		return joined && p.Have&sensor.FieldCgroup != 0 && p.Cgroup != e.cgroup
	}
	return false
}

// count counts a process as started.
func (l *Ledger) count(e *process) {
	e.part.started++
	e.counted = l.exports + 1
}

// ended takes in an exit record. joined says that its control groups go by the numbers of the
// living.
func (l *Ledger) ended(p *sensor.Process, joined bool) {
	e := l.find(p)
	switch {
	case e == nil:
		e = l.meet(p, true)
		l.count(e)
	case e.gone:
		return
	case e.strayed(p, joined):
		l.identify(e, p, true)
	}
	d := e.last.advance(usageOf(p), p.Have)
	e.part.charge(d, p, false)
	e.part.highWater(e, p)
	if p.OOMKilled {
		e.part.oomSeen++
	}
	e.gone, e.tick = true, l.tick
	if p.Have&sensor.FieldParent != 0 {
		e.ppid = p.PPID
	}
	if e.left {
		l.owe(e, d.user+d.system)
	}
	l.depart(e)
}

// watched is the time that the last reading of a process tells of: since the tick before,
// or since its start.
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
	l.drop(p.PID, e)
	return nil
}

// meet makes the entry of a process that was not known.
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
	return e
}

// meetParent makes the entry of the parent of a process that ended and of which no more is
// known (taskstats), if the parent is new itself. live is in order of ids.
func (l *Ledger) meetParent(p *sensor.Process, live []sensor.Process) {
	if p.Have&(sensor.FieldGroup|sensor.FieldParent) != sensor.FieldParent || l.table[p.PPID] != nil || l.table[p.PID] != nil {
		return
	}
	i, ok := slices.BinarySearchFunc(live, p.PPID, func(q sensor.Process, pid int32) int { return cmp.Compare(q.PID, pid) })
	if ok && live[i].Start <= p.Start+uint64(time.Second) {
		l.meet(&live[i], false).fresh = true
	}
}

// identify finds the part that a process belongs to.
func (l *Ledger) identify(e *process, p *sensor.Process, ended bool) {
	var parent *Part
	if q := l.table[p.PPID]; q != nil && p.Have&sensor.FieldParent != 0 && p.PPID > 1 && q.start <= p.Start+uint64(time.Second) {
		parent = q.part
	}
	found := l.config.Identify(p, parent, ended)
	e.cgroup, e.pgid, e.sid, e.retry = p.Cgroup, p.PGID, p.SID, found.Retry
	part := l.part(found, p.Start)
	if e.part != part {
		if e.counted == l.exports+1 { // it began a moment ago, and no export has told it
			e.part.started--
			part.started++
		}
		e.part = part
		part.start = min(part.start, p.Start)
	}
}

// part returns the account of an identity, new if need be.
func (l *Ledger) part(found Identified, start uint64) *Part {
	k := key{found.Workload, found.Part, found.Owner}
	if p := l.parts[k]; p != nil && !p.flushed && !p.told {
		p.adopt(found.Handle)
		p.group.whole.adopt(found.Whole)
		p.facts.merge(found.Facts)
		p.end = 0 // it had ended a moment ago and nobody was told: a service restarted
		return p
	}
	if old := l.parts[k]; old != nil {
		l.remove(old) // it was exported to its end; a new run takes the name
	}
	p := &Part{key: k, kind: k.id.Kind(), start: start}
	p.facts.merge(found.Facts)
	if !l.first && start >= l.began {
		p.created = (l.epoch + int64(start)) / 1e6
	}
	p.adopt(found.Handle)
	g := l.groups[k.id]
	if g == nil {
		g = &group{id: k.id}
		l.groups[k.id] = g
	}
	g.parts++
	p.group = g
	if g.lead == nil {
		g.lead = p
	}
	g.whole.adopt(found.Whole)
	l.parts[k] = p
	l.order = append(l.order, p)
	return p
}

// lateTicks is for how many ticks an exit record may come after its process was last
// seen: the kernel completes the totals only when the process has been waited for and
// released.
const lateTicks = 3

// forget drops processes that were not seen for a while. One whose end was accounted
// for stays a tick longer, for children whose records come after its own.
func (l *Ledger) forget() {
	for pid, e := range l.table {
		if e.tick != l.tick {
			l.depart(e)
		}
		if unseen := l.tick - e.tick; unseen > lateTicks || (e.gone && unseen > 1) {
			l.drop(pid, e)
		}
	}
}

func (l *Ledger) drop(pid int32, e *process) {
	if l.table[pid] == e {
		delete(l.table, pid)
	}
	l.free = append(l.free, e)
}
