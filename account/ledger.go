// Package account integrates the readings of sensors into the running totals of each
// workload on a node: counters, peaks and distributions.
//
// A [Ledger] is fed once per internal tick with a pass over the task table and the totals
// of the machine, and exports its series once per interval. Accumulating figures are
// counters since the start of the workload, so a lost export loses no usage. It keeps
// these invariants, which tests check:
//
//	conservation   Σ workloads + other = processors · time − idle − iowait − steal
//	once           a process is charged what it used, once, whichever source reports it: a live
//	               pass, its exit record, or the counter of its control group
//	short work     processes that lived between two ticks are charged to their workload
//
// The package is pure: it reads no clock, file or socket. A Ledger is used from one
// goroutine.
package account

import (
	"slices"
	"time"

	"reckon/account/tally"
	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// Config sets up a [Ledger].
type Config struct {
	// Node is the name of the machine, for other/NODE and short/OWNER/NODE.
	Node string
	// Export is the time between two exports. Process groups that end within one and
	// use less than a CPU second are folded, and those that do next to nothing for somewhat longer.
	Export time.Duration
	// Linger is how long an ended workload stays in the exports, for consumers that
	// scrape; 0 exports it once.
	Linger time.Duration
	// Idle selects the owners of idle energy; empty means none.
	Idle IdleShare
	// Identify resolves the workload of a process. It is called when a process is first
	// seen and when it moved. parent is the part of its parent, or nil; ended means that
	// the process is gone, so that nothing more can be read of it.
	Identify func(p *sensor.Process, parent *Part, ended bool) Identified
	// Rename returns the current names of a place (workload.Identity.Place), without control groups. program is the
	// program that used most CPU time there, empty if none has been identified. It is called at each tick for parts
	// with provisional names; nil means that all names are final.
	Rename func(place, program string) workload.Identity
	// NameGrace is how long a part with a provisional name is held back from exports, at least two seconds; it is
	// called at each export. nil means two seconds.
	NameGrace func() time.Duration
	// Container returns the supervisor's report of a place, nil while there is none; ended means that the part has no
	// process any more. Container may be nil.
	Container func(place string, ended bool) *workload.ContainerFacts
	// Tallies are the sources that may count activity of processes. What a saved ledger has of other ones is lost.
	Tallies []*sensor.TallySpec
}

// Identified is the result of Config.Identify.
type Identified struct {
	workload.Identity
	// Handle reads the control group named by Identity.Cgroup. The ledger closes it.
	// It may be nil.
	Handle sensor.CgroupHandle
	// Whole reads the control group named by Identity.Whole. The ledger closes it. It may
	// be nil.
	Whole sensor.CgroupHandle
	// Retry requests another identification on the next tick, because the process could
	// not be examined well enough yet.
	Retry bool
}

// Ledger holds the accounts of one node.
type Ledger struct {
	config Config
	table  map[int32]*process
	free   []*process // reused, so that a steady machine allocates nothing
	parts  map[key]*Part
	places map[string]*Part
	// reported are containers that have ended and whose account is closed, but which the supervisor still reports.
	reported map[key]*Part
	seen     sequence
	absent   []*process // that may not have been in the last pass
	putOff   uint64     // tick of the last call of PutOff
	order    []*Part    // parts in order of appearance, for stable exports
	groups   map[workload.ID]*group
	shorts   map[string]*metric.Series // by owner, for shortWorkloads
	counts   map[string]uint64
	dead     map[string]*dead // zombies, by owner

	tick    uint64
	now     uint64 // boot time of this tick
	exports uint64
	began   uint64 // boot time of the first tick
	lastAt  uint64 // boot time of the last tick
	before  uint64 // boot time of the tick before that
	booted  int64  // see SetBooted
	first   bool   // this tick is the first of the ledger, or of the one that it was restored from
	epoch   int64  // nanoseconds between the Unix epoch and boot
	machine sensor.Machine
	span    float64 // seconds between the last two ticks
	busy    float64 // cores that were busy in that span, by the kernel's count
	balance int64   // CPU nanoseconds charged beyond what the machine was busy
	lost    uint64
	// forgotten is the CPU time of parts that were flushed, nanoseconds.
	forgotten uint64
	other     *Part
	line      lineage
	exact     []*exactness
	evidence  evidence
	doubts    doubts
	haveBusy  bool
	crowds    bool    // a part has processes that share much memory; see shared.go
	energy    *energy // nil until a meter was read
	gpus      gpus
	tallies   *tally.Books
	links     map[string]linkUse // by adapter, the last look
	monitors  monitoring
}

// New returns an empty ledger.
func New(c Config) *Ledger {
	if c.Export <= 0 {
		c.Export = 15 * time.Second
	}
	l := &Ledger{
		config:   c,
		table:    make(map[int32]*process),
		parts:    make(map[key]*Part),
		places:   make(map[string]*Part),
		reported: make(map[key]*Part),
		groups:   make(map[workload.ID]*group),
		shorts:   make(map[string]*metric.Series),
		counts:   make(map[string]uint64),
		dead:     make(map[string]*dead),
		doubts:   doubts{noted: make(map[pair]uncertain), about: make(map[*Part]doubt), guessed: make(map[*Part]uint64)},
	}
	l.tallies = tally.New(l.chargeable, append(slices.Clone(c.Tallies), adapters)...)
	return l
}

// Tick takes in one pass. wall is the time of day that belongs to pass.Boot; it dates
// moments and never measures spans, so a jumping clock distorts no figure. m may be nil
// when the totals of the machine could not be read.
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
	l.Name()
	l.beginLineage(pass)
	l.sight(pass)
	// Parents end after their children, so the last records come first: a child that was
	// never seen alive then finds its parent's part.
	for i := len(pass.Exited) - 1; i >= 0; i-- {
		l.meetParent(&pass.Exited[i], pass.Live)
		l.ended(&pass.Exited[i], pass.Joined)
	}
	for i := range pass.Live {
		l.alive(&pass.Live[i], first)
	}
	l.forget(l.seen.end())
	l.readCgroups(pass)
	l.countForks(m)
	reading := uint64(0)
	if m != nil {
		reading = grown(pass.Boot, m.Boot)
	}
	l.reconcile(elapsed, reading, capacity(elapsed+l.line.elapsed, pass.Boot, m)) // some of it was held in the tick before
	l.line.elapsed = elapsed
	l.settle(pass.Boot, elapsed, m, first)
	l.line.beforeLast, l.before, l.lastAt = l.before, l.lastAt, pass.Boot
}

func (l *Ledger) begin() {
	for _, d := range l.dead {
		d.n = 0
	}
	for _, p := range l.order {
		p.now = tick{}
		p.crowd.begin()
	}
}

// part returns the account of an identity, created if need be.
func (l *Ledger) part(found Identified, start uint64) *Part {
	if p := l.placed(found.Place); p != nil {
		if !p.exported && p.better(&found) {
			return l.rename(p, found)
		}
		p.adopt(found.Handle)
		p.group.adopt(found.Whole)
		p.facts.merge(found.Facts)
		p.revive()
		return p
	}
	k := key{found.Workload, found.Part, found.Owner}
	p := l.parts[k]
	if p == nil || p.cgroup != found.Handle {
		if q := l.holder(found.Handle); q != nil {
			return l.sameGroup(q, found)
		}
	}
	if p != nil && !p.closed() && (p.run == found.Run || p.run == "") {
		if found.Place != p.place { // a restarted container
			p.succeed(found.Handle, nil)
		}
		l.learn(p, found)
		p.revive()
		return p
	}
	p = &Part{key: k, kind: k.id.Kind(), start: start}
	p.met, p.naming = l.now, found.Naming
	if !l.first && start >= l.began {
		p.created = (l.epoch + int64(start)) / 1e6
	}
	l.enter(p)
	l.learn(p, found)
	l.order = append(l.order, p)
	return p
}

// revive continues a part that ended a moment ago and whose end was not exported: a restarted service or container.
func (p *Part) revive() {
	if p.end != 0 {
		p.end, p.emptySince = 0, 0
	}
}
