// Package account integrates the readings of sensors into the running totals of each workload on a
// node: counters, peaks and distributions.
//
// A [Ledger] is fed once per internal tick with a pass over the task table and the totals of the
// machine, and exports its series once per interval. Accumulating figures are counters since the
// start of the workload, so a lost export loses no usage. It keeps these invariants, which tests
// check:
//
//	conservation   Σ workloads + other = processors · time − idle − iowait − steal
//	once           the use of a process is charged once, whichever source reports it: a live
//	               pass, its exit record, or the counter of its control group
//	short work     processes that lived between two ticks are charged to their workload
//
// The package is pure: it reads no clock, file or socket. A Ledger is used from one goroutine.
package account

import (
	"slices"
	"time"

	"reckon/account/tally"
	"reckon/sensor"
	"reckon/workload"
)

// Config sets up a [Ledger].
type Config struct {
	// Node is the name of the machine, for other/NODE and short/OWNER/NODE.
	Node string
	// Export is the export interval. Process groups that end within one and use less than a CPU
	// second are folded, and idle ones after somewhat longer.
	Export time.Duration
	// Linger is the time that an ended workload stays in the exports, for consumers that scrape. 0 exports it once.
	Linger time.Duration
	// Idle selects the owners of idle energy; empty means none.
	Idle IdleShare
	// Identify resolves the workload of a process that is new or has moved. was is the previous
	// part of the process, else the part of its parent, or nil. ended means that the process is
	// gone and can no longer be read.
	Identify func(p *sensor.Process, was *Part, ended bool) Identified
	// Login returns the login user of a process, or "" if unknown; it may be nil. One login may
	// have many owners, such as the owners of a user's rootless containers.
	Login func(pid int32) string
	// Rename returns the current names of a place (workload.Identity.Place), without control
	// groups. program is the program with the most CPU time there, or "". It is called at each tick
	// for parts with provisional names; nil means that all names are final.
	Rename func(place, program string) workload.Identity
	// NameGrace returns how long a part with a provisional name is held back from exports, at least
	// two seconds. It is called at each export; nil means two seconds.
	NameGrace func() time.Duration
	// Container returns the supervisor's report on a place, or nil if there is none. ended means
	// that the part has no process any more. Container may be nil.
	Container func(place string, ended bool) *workload.ContainerFacts
	// Within returns the needed memory in bytes of the control group of a set
	// ([sensor.Process.Cgroup]); ok is false for the root. It may be nil.
	Within func(set uint64) (needed uint64, ok bool)
	// Tallies are the sources of per-process counts. Saved counts of other sources are dropped.
	Tallies []*sensor.TallySpec
}

// Identified is the result of Config.Identify: the workload and the control groups of a process.
type Identified struct {
	workload.Identity
	// Handle reads the control group named by Identity.Cgroup. The ledger closes it. It may be nil.
	Handle sensor.CgroupHandle
	// Whole reads the control group named by Identity.Whole. The ledger closes it. It may be nil.
	Whole sensor.CgroupHandle
	// Retry requests another identification in the next tick, because the process could not be examined completely.
	Retry bool
}

// Ledger holds the accounts of one node.
type Ledger struct {
	config   Config
	at       *times
	parts    *registry
	table    *table
	node     node
	judge    *assessor
	power    power
	links    map[string]linkUse // by adapter, the last look
	monitors monitoring
}

// node is the machine as a whole.
type node struct {
	machine  sensor.Machine // at the last tick
	busy     float64        // cores that were busy in the last tick, by the kernel's count
	haveBusy bool
	slow     bool  // its last reading of the processes took long
	balance  int64 // CPU nanoseconds charged in excess of the machine's busy time
	lost     uint64
}

// New returns an empty ledger.
func New(c Config) *Ledger {
	if c.Export <= 0 {
		c.Export = 15 * time.Second
	}
	if c.Within == nil {
		c.Within = func(uint64) (uint64, bool) { return 0, false }
	}
	l := &Ledger{config: c, at: new(times)}
	l.parts = newRegistry(&l.config, l.at)
	l.parts.tallies = tally.New(append(slices.Clone(c.Tallies), adapterSpec)...)
	l.judge = &assessor{parts: l.parts}
	l.table = newTable(&l.config, l.at, l.parts, &l.node.machine, &l.judge.evidence)
	l.judge.doubts = &l.table.doubts
	l.parts.repoint = l.table.moveProcesses
	l.power.Idle = c.Idle
	return l
}

// Tick records one pass. wall is the time of day at pass.Boot. It is used for dates only, never for
// durations, so that clock steps do not distort figures. m is nil if the totals of the machine
// could not be read.
func (l *Ledger) Tick(wall time.Time, pass *sensor.Pass, m *sensor.Machine) {
	first := l.at.began == 0
	l.at.first = first
	l.parts.dropFlushed()
	if first {
		l.at.began, l.at.lastAt = pass.Boot, pass.Boot
		l.at.epoch = wall.UnixNano() - int64(pass.Boot)
		l.judge.evidence.first = true
	}
	l.at.tick++
	l.at.now = pass.Boot
	elapsed := counterIncrease(l.at.lastAt, pass.Boot)
	l.node.lost += pass.Lost
	l.power.Opens = append(l.power.Opens[:0], pass.Opens...)

	for _, p := range l.parts.order {
		p.now = tickUse{}
	}
	l.RenameParts()
	l.table.recordPass(pass, first)
	l.parts.countShared(l.table.seen.last, pass.Live)
	l.readCgroups(pass)
	reading := uint64(0)
	if m != nil {
		reading = counterIncrease(pass.Boot, m.Boot)
	}
	l.table.closeTick(elapsed, reading, m)
	l.closeTick(pass.Boot, elapsed, m, first)
	l.table.line.beforeLast, l.at.before, l.at.lastAt = l.at.before, l.at.lastAt, pass.Boot
}

// SkipCounts records that the per-process counters of kernel programs were not read in the last tick. Ended processes
// are then remembered longer, because up to three ticks may be skipped.
func (l *Ledger) SkipCounts() { l.table.putOff = l.at.tick }

// AppendSharers appends the processes with shared memory that should be measured; see [Sharer]. Call it after [Ledger.Tick].
func (l *Ledger) AppendSharers(list []Sharer) []Sharer { return l.table.appendUnmeasured(list) }

// NeedsMeasurement reports whether a process should still be measured, after others of the list were measured.
func (l *Ledger) NeedsMeasurement(process Sharer) bool { return l.table.needsSample(process) }

// RecordSharing records the measured memory sharing of a process. ok is false if the agent may not measure the process.
func (l *Ledger) RecordSharing(process Sharer, memory sensor.SharedMemory, ok bool) {
	l.table.recordSharing(process, memory, ok)
}
