package account

import (
	"cmp"
	"slices"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// process is the ledger's record of a process.
type process struct {
	pid    int32
	ppid   int32         // its parent, at the last reading
	above  int32         // the highest id among its ancestors
	task   int16         // number of the task in its part, 0 if it is not identified; see tasks
	lacks  lackedFigures // of its figures, at the last reading
	pgid   int32
	sid    int32
	start  uint64
	cgroup uint64
	part   *Part
	last   usage
	tick   uint32  // tick of its last reading
	uid    uint32  // its real user
	file   uint64  // most resident file pages observed, bytes; see recordPeakMemory
	rate   float64 // cores used by it and its reaped children, from the last two readings
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

	children *childTimes // nil while it has had none
	share    sharing
}

// table holds the processes of a ledger and the open amounts between parents and children; see children.go.
type table struct {
	*times
	config   *Config
	parts    *registry
	machine  *sensor.Machine // at the last tick
	evidence *evidence
	byID     map[int32]*process
	free     []*process // reused, so that a steady machine allocates nothing
	seen     passOrder
	absent   []*process              // that may not have been in the last pass
	putOff   uint64                  // tick of the last call of Ledger.SkipCounts
	dead     map[string]*zombieCount // zombies, by owner
	line     reconciliation
	doubts   uncertainties
	excess   loginLimits
	crowds   bool // a part has processes that share much memory; see shared.go
	scripts  bool // this pass has ends of batch scripts, or after them; see script.go
	exact    bool // start times are exact to the nanosecond
	// counted is the source's count of all processes since the ledger began; see node.go.
	counted usage
	have    sensor.Fields
	rows    [3]*metric.Series
}

func newTable(c *Config, at *times, parts *registry, machine *sensor.Machine, v *evidence) *table {
	return &table{
		times: at, config: c, parts: parts, machine: machine, evidence: v, byID: make(map[int32]*process),
		dead: make(map[string]*zombieCount), excess: newLoginLimits(), line: reconciliation{orphans: make(map[*Part]uint64)},
		doubts: uncertainties{noted: make(map[pair]errorBounds), about: make(map[*Part]uncertainty), guessed: make(map[*Part]uint64)},
	}
}

// recordPass records all processes of a pass over the task table.
func (tab *table) recordPass(pass *sensor.Pass, first bool) {
	for _, d := range tab.dead {
		d.n = 0
	}
	tab.line.settled, tab.line.live = pass.Complete() && pass.Lost == 0 && !tab.line.gap, pass.Live
	tab.line.reported, tab.line.held, tab.line.newThreads = false, 0, 0
	tab.exact = pass.Joined
	tab.countLivingChildren(pass)
	// Parents end after their children, so the last records come first. A child that no reading saw
	// then finds its parent's part.
	for i := len(pass.Exited) - 1; i >= 0; i-- {
		tab.addParent(&pass.Exited[i], pass.Live)
		tab.handleExit(&pass.Exited[i], pass.Joined)
	}
	for i := range pass.Live {
		tab.recordLiving(&pass.Live[i], first)
	}
	if tab.scripts {
		tab.endScripts(pass)
	}
	tab.dropMissing(tab.seen.finishPass())
}

// recordLiving records a process of a pass over the task table.
func (tab *table) recordLiving(p *sensor.Process, first bool) {
	e := tab.seen.find(p)
	if e == nil {
		e = tab.findProcess(p)
	}
	isNew := e == nil
	if isNew {
		e = tab.addProcess(p, false)
	}
	tab.seen.now = append(tab.seen.now, e)
	e.pass = uint32(tab.tick)
	if isNew || e.fresh {
		isNew, e.fresh = true, false
		tab.recordFork(e, p)
		tab.countStart(e)
	}
	if e.gone {
		tab.countZombie(e, p)
		e.tick = uint32(tab.tick) // a zombie that waits to be reaped
		tab.keepOwed(e)
		return
	}
	if (e.retry || e.changedIdentity(p, true)) && !(isZombie(p) && e.part.rejectsCharges()) {
		was := e.part
		tab.identify(e, p, false)
		tab.correctChildPlace(e, was)
	}
	e.tick, e.left, e.passed = uint32(tab.tick), false, false
	if p.Threads > 1 && !tab.line.settled {
		e.childRecord().threaded = true
	}
	e.lacks = lacksOf(p.Partial)
	d := e.last.increase(readUsage(p), p.Have, p.Partial)
	if tab.have |= p.Have; !first {
		tab.counted.add(d)
	}
	e.part.chargeUsage(d, p, e.task, first)
	if e.part.kind.Folded() {
		tab.excess.addUse(e, p, d, tab.tick)
	}
	tab.parts.deletes.chargeDeleted(e, p, tab.line.gap && !isNew)
	e.part.now.lacks |= e.lacks
	e.part.recordPeakMemory(e, p)
	tab.recordParent(e, p, isNew, first)
	watched := float64(max(tab.coveredTime(e), uint64(time.Millisecond)))
	e.rate = float64(d.user+d.system) / watched
	if o := e.children; o != nil {
		o.rate = float64(o.fresh) / watched
		e.rate += o.rate
	}
	if tab.countZombie(e, p); !isZombie(p) {
		e.part.countProcess(p)
	}
}

// passOrder finds the process for each entry of a pass. Passes are ordered by process id, so the next process is usually
// the one that followed in the last pass.
type passOrder struct {
	now, last []*process
	at        int        // in last
	skipped   []*process // of last, those before at that were not found
}

// find returns the entry of a process from the last pass, or nil if it is not the next one in the order of the pass.
func (s *passOrder) find(p *sensor.Process) *process {
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

// finishPass finishes a pass. It returns the processes of the previous pass that this pass did not contain. The slice is valid
// until the next call.
func (s *passOrder) finishPass() (missing []*process) {
	missing = append(s.skipped, s.last[s.at:]...)
	s.now, s.last, s.at, s.skipped = s.last[:0], s.now, 0, missing[:0]
	return missing
}

// changedIdentity reports whether a process changed its process group, session, user or control group since it was
// identified. Set joined if both control group ids come from the same source; otherwise they are not compared.
func (e *process) changedIdentity(p *sensor.Process, joined bool) bool {
	return joined && p.Have&sensor.FieldCgroup != 0 && p.Cgroup != e.cgroup ||
		p.Have&sensor.FieldGroup != 0 && (p.PGID != e.pgid || p.SID != e.sid || p.UID != e.uid)
}

// endedElsewhere reports whether an ended process belongs to another part than its last reading shows. Its only reading
// may have fallen between fork and setsid(2), setpgid(2), setuid(2) or the move to its control group. A process that
// was identified by its environment keeps its part, because the environment can no longer be read.
func (e *process) endedElsewhere(p *sensor.Process, joined bool) bool {
	switch kind := e.part.kind; {
	case kind.ByGroup():
		return e.changedIdentity(p, joined)
	case kind.Session():
		return joined && p.Have&sensor.FieldCgroup != 0 && p.Cgroup != e.cgroup
	}
	return false
}

// countStart counts the start of a process.
func (tab *table) countStart(e *process) {
	e.part.started++
	e.counted = tab.interval()
}

// handleExit handles the exit record p. Set joined if its control group id comes from the same source as the ids of
// living processes.
func (tab *table) handleExit(p *sensor.Process, joined bool) {
	e := tab.findProcess(p)
	switch {
	case e == nil:
		e = tab.addProcess(p, true)
		tab.countStart(e)
		tab.markGuessedPartUncertain(e, p, p.UserNanos+p.SystemNanos)
	case e.gone:
		return
	case e.endedElsewhere(p, joined):
		tab.identify(e, p, true)
	case p.UID != e.uid && p.Have&sensor.FieldGroup != 0:
		tab.identifyChangedUser(e, p)
	}
	if p.Have&sensor.FieldIO == 0 && e.part.have&sensor.FieldIO != 0 {
		e.part.lost |= lackIO // its use since its last reading
	}
	e.part.lost |= lacksOf(p.Partial)
	d := e.last.increase(readUsage(p), p.Have, p.Partial)
	tab.have |= p.Have
	tab.counted.add(d)
	e.part.chargeUsage(d, p, e.task, false)
	tab.parts.deletes.chargeDeleted(e, p, false)
	e.part.recordPeakMemory(e, p)
	if p.Life > 0 {
		e.part.left = max(e.part.left, (e.start+p.Life)|1)
	}
	if p.OOMKilled {
		e.part.oomSeen++
	}
	if s := e.part.script(); s != nil && (e.pid == s.pid || s.end != 0) {
		tab.scripts = true
	}
	e.gone, e.tick = true, uint32(tab.tick)
	if p.Have&sensor.FieldParent != 0 {
		e.ppid = p.PPID
	}
	if e.left {
		tab.recordOwed(e, d.user+d.system)
	}
	tab.recordExit(e)
}

// coveredTime returns the time covered by the last reading of a process: since the previous tick, or since its start.
func (tab *table) coveredTime(e *process) uint64 {
	return counterIncrease(max(tab.lastAt, e.start), tab.now)
}

// findProcess returns the entry of p. It drops an entry with the same id but another start, because the id was reused.
func (tab *table) findProcess(p *sensor.Process) *process {
	e := tab.byID[p.PID]
	if e == nil {
		return nil
	}
	if e.start == p.Start || sensor.SameStart(e.start, p.Start) {
		return e
	}
	if p.Start < e.start {
		return nil // a late record of the earlier process; meet keeps the newer one
	}
	tab.markWaitMissing(e)
	if !e.left {
		tab.recordOwed(e, e.futureChildTime())
	}
	delete(tab.byID, p.PID) // and is not reused: it may have left in this very tick
	return nil
}

// addProcess creates the entry of a new process.
func (tab *table) addProcess(p *sensor.Process, ended bool) *process {
	var e *process
	if n := len(tab.free); n > 0 {
		e, tab.free = tab.free[n-1], tab.free[:n-1]
	} else {
		e = new(process)
	}
	*e = process{pid: p.PID, start: p.Start}
	tab.identify(e, p, ended)
	if old := tab.byID[p.PID]; old == nil || old.start < p.Start {
		tab.byID[p.PID] = e
	}
	tab.markMissing(e)
	return e
}

// addParent adds the parent of the process p to the table if the parent is new. It is needed if the exit record of p
// has only the parent's id (taskstats). live is ordered by process id.
func (tab *table) addParent(p *sensor.Process, live []sensor.Process) {
	if p.Have&(sensor.FieldGroup|sensor.FieldParent) != sensor.FieldParent || tab.byID[p.PPID] != nil || tab.byID[p.PID] != nil {
		return
	}
	if q := findLiving(live, p.PPID); q != nil && q.Start <= p.Start+uint64(time.Second) {
		tab.addProcess(q, false).fresh = true
	}
}

// findLiving returns the process with the given id, or nil. live must be sorted by id.
func findLiving(live []sensor.Process, pid int32) *sensor.Process {
	i, ok := slices.BinarySearchFunc(live, pid, func(q sensor.Process, pid int32) int { return cmp.Compare(q.PID, pid) })
	if !ok {
		return nil
	}
	return &live[i]
}

// identify finds the part that a process belongs to.
func (tab *table) identify(e *process, p *sensor.Process, ended bool) {
	parent, inherited := tab.partOfParent(p)
	if ended && p.Have&sensor.FieldGroup == 0 && parent != nil && tab.isOwnGroup(p.PPID, p.UserNanos+p.SystemNanos) {
		parent, inherited = nil, 0
	}
	was := parent
	if e.part != nil {
		was = e.part
	}
	tab.assign(e, p, tab.config.Identify(p, was, ended), parent, inherited)
}

// identifyChangedUser finds the part of an ended process that changed its user since its last reading. It accepts
// only a part of the same workload, because the rest of the identity may no longer be known.
func (tab *table) identifyChangedUser(e *process, p *sensor.Process) {
	parent, inherited := tab.partOfParent(p)
	if found := tab.config.Identify(p, parent, true); found.Workload == e.part.id && found.Part == e.part.part && found.Place == "" {
		tab.assign(e, p, found, parent, inherited)
	}
}

// partOfParent returns the part of the parent of a process, and its task in it.
func (tab *table) partOfParent(p *sensor.Process) (*Part, int16) {
	if q := tab.byID[p.PPID]; q != nil && p.Have&sensor.FieldParent != 0 && p.PPID > 1 && q.start <= p.Start+uint64(time.Second) {
		return q.part, q.task
	}
	return nil, 0
}

// assign sets the part that a process is charged to from now on.
func (tab *table) assign(e *process, p *sensor.Process, found Identified, parent *Part, inherited int16) {
	e.cgroup, e.pgid, e.sid, e.uid, e.retry = p.Cgroup, p.PGID, p.SID, p.UID, found.Retry
	part, start := parent, p.Start
	held, login, late := tab.limitGroups(e, &found)
	if late {
		start = max(start, tab.now)
	}
	if was := e.part; was != nil && was.id == found.Workload && was.owner != found.Owner {
		start = max(start, tab.now) // it became another user's, and was the first one's until now
	}
	if !found.belongsTo(parent) {
		part = tab.parts.ensurePart(found, start)
		if login != "" && login != part.owner {
			part.ensureSeparate().login = login
		}
		if held != nil {
			part.startFromPending(held)
		}
	}
	if e.task = part.taskNumber(found.Task); e.task == 0 && part == parent {
		e.task = inherited
	}
	if e.part != part {
		if e.counted == tab.interval() { // it started a moment ago, and no export includes it
			e.part.started--
			part.started++
		}
		e.part = part
		part.start = min(part.start, start)
	}
	tab.recordScript(e, parent)
}

// belongsTo reports whether a process belongs to the part of its parent, as far as that is known. A process that no
// reading saw alive has no known pod or container.
func (found *Identified) belongsTo(parent *Part) bool {
	return parent != nil && !parent.rejectsCharges() && found.Place == "" && found.Run == "" && found.Handle == nil &&
		parent.partKey == partKey{found.Workload, found.Part, found.Owner}
}

// lateTicks is the number of ticks that an exit record may lag the last reading of its process. The
// kernel completes the totals only after the process was reaped and released.
const lateTicks = 3

// postponedTicks replaces lateTicks while readings of kernel program counts are postponed. Two of these readings take
// place in that time.
const postponedTicks = 9

// markMissing marks a process that is missing from the pass, so that forget examines it.
func (tab *table) markMissing(e *process) {
	if !e.absent {
		e.absent = true
		tab.absent = append(tab.absent, e)
	}
}

// dropMissing drops processes that have been missing for a while. A process with an exit record stays a
// tick longer, because records of its children may follow.
func (tab *table) dropMissing(missing []*process) {
	for _, e := range missing {
		if e.pass != uint32(tab.tick) {
			tab.markMissing(e)
		}
	}
	late, gone := uint64(lateTicks), uint64(1)
	if tab.putOff != 0 && tab.tick-tab.putOff <= 2 {
		late, gone = postponedTicks, postponedTicks
	}
	kept := tab.absent[:0]
	for _, e := range tab.absent {
		if e.pass == uint32(tab.tick) || tab.byID[e.pid] != e { // or another process has its id
			e.absent = false
			continue
		}
		if e.tick != uint32(tab.tick) {
			tab.recordExit(e)
		}
		if unseen := tab.tick - uint64(e.tick); unseen > late || (e.gone && unseen > gone) {
			if !e.gone {
				e.part.lost |= e.lacks
			}
			delete(tab.byID, e.pid)
			delete(tab.parts.deletes.last, deleterKey{e.pid, e.start})
			delete(tab.excess.of, e)
			tab.free = append(tab.free, e)
			continue
		}
		kept = append(kept, e)
	}
	clear(tab.absent[len(kept):])
	tab.absent = kept
}

// recordFork records a new process. The process shares memory pages with its parent if both are in one part, or if the parent
// is large and runs the same program.
func (tab *table) recordFork(e *process, p *sensor.Process) {
	q := tab.byID[p.PPID]
	switch {
	case q == nil || p.Have&sensor.FieldParent == 0:
	case q.part == e.part:
		e.share.worker = true
	case uint64(q.share.rss)<<10 >= minSharedBytes && q.share.program&^1 == hashProgram(&p.Comm):
		e.share.forked, q.share.forked = true, true
	}
}
