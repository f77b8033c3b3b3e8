package account

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"reckon/account/energy"
	"reckon/account/tally"
	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// stateVersion must be raised when the meaning of the state changes; newer versions are not
// restored. Version 2 stored tallies in a different form for each source; see state2.go.
const stateVersion = 3

// state is a serialized ledger. An agent that restarts within the same boot continues from it, so
// that no usage is lost and no counter falls.
type state struct {
	stateHead
	Parts     []partState                 `json:"parts"`
	Processes []processState              `json:"processes"`
	Cores     map[string]metric.Histogram `json:"cores"`
	Wanted    map[string]metric.Histogram `json:"wanted,omitempty"`
	Wholes    map[string]wholeState       `json:"wholes,omitempty"` // by workload
}

// stateHead is the part of the state that belongs to no part and no process.
type stateHead struct {
	Version   int                  `json:"version"`
	BootID    string               `json:"boot_id"`
	Booted    int64                `json:"booted,omitempty"`
	Node      string               `json:"node"`
	Began     uint64               `json:"began"`
	LastAt    uint64               `json:"last_at"`
	Epoch     int64                `json:"epoch"`
	Machine   sensor.Machine       `json:"machine"`
	Balance   int64                `json:"balance"`
	Lost      uint64               `json:"lost"`
	Exported  uint64               `json:"exported,omitempty"`
	Counted   [8]uint64            `json:"counted,omitzero"`
	Forgotten uint64               `json:"forgotten"`
	Lineage   bool                 `json:"lineage"` // child times are reported
	Counts    map[string]uint64    `json:"counts"`
	Energy    *energy.State        `json:"energy,omitempty"`
	GPUs      []energy.DeviceState `json:"gpus,omitempty"`
	// Tallies are the sources of package tally, by name.
	Tallies map[string]tally.SourceState `json:"tallies,omitempty"`
}

type partState struct {
	ID       string         `json:"id"`
	Part     string         `json:"part"`
	Owner    string         `json:"owner"`
	Facts    workload.Facts `json:"facts"`
	Start    uint64         `json:"start"`
	End      uint64         `json:"end"`
	Created  int64          `json:"created"`
	Exported bool           `json:"exported"`
	// EndExported means that its end was exported, and may have been sent.
	EndExported bool           `json:"told,omitempty"`
	Most        unmeasuredPeak `json:"most,omitzero"`
	Usage       [8]uint64      `json:"usage"`
	Reduced     bool           `json:"reduced,omitempty"` // the exports had the reduced series set
	// Apart is the use of the part before the ledger began, and the use that it handed over.
	Apart   *[2][8]uint64 `json:"apart,omitempty"`
	Tasks   uint64        `json:"tasks"`
	Unseen  uint64        `json:"unseen,omitempty"`
	Lost    lackedFigures `json:"lost,omitempty"`   // see Part.lost
	Deleted [2]uint64     `json:"deleted,omitzero"` // see deletes
	// Doubts are the CPU nanoseconds that may be another part's, and that may be missing.
	Doubts  [2]uint64 `json:"doubts,omitzero"`
	CgBase  int64     `json:"cg_base"`
	CgUsage uint64    `json:"cg_usage"`
	Have    uint32    `json:"have"`
	Started uint64    `json:"started"`
	Folded  uint32    `json:"folded"`
	Peak    uint64    `json:"peak"`
	OOMSeen uint32    `json:"oom_seen,omitempty"`

	NeededPeak uint64    `json:"needed_peak,omitempty"`
	Need       needState `json:"need,omitzero"`

	Place  string          `json:"place,omitempty"`
	Run    string          `json:"run,omitempty"`
	Naming workload.Naming `json:"naming,omitempty"`
	Past   counterOffsets  `json:"past,omitzero"`

	ByteSecs float64           `json:"byte_seconds"`
	Commands map[string]uint64 `json:"commands"`
	Named    []string          `json:"named"`
	Rest     uint64            `json:"rest"`

	energy.AccountState

	Tally     []tally.Amount `json:"tally,omitempty"`
	Monitored *monitorCounts `json:"monitored,omitempty"`

	ByTask map[string]uint64 `json:"by_task,omitempty"`
}

type processState struct {
	PID   int32     `json:"p"`
	PPID  int32     `json:"pp,omitempty"`
	Start uint64    `json:"s"`
	Part  int       `json:"a"` // index into parts
	Usage [8]uint64 `json:"u"`
	Gone  bool      `json:"g,omitempty"`
	// Left: it is gone, and its charges were added to those that its parent is owed.
	Left bool   `json:"l,omitempty"`
	Dead uint64 `json:"d,omitempty"` // see process.dead
	// Of are the workload and owner of a zombie whose part is in no account any more.
	Of *[2]string `json:"f,omitempty"`
	// Children is the accounted CPU time of the children and the owed time; see children.go. It is
	// unknownBase if their earlier use is unknown.
	Children [2]uint64 `json:"c,omitzero"`
}

// unknownBase marks child times with an unknown starting point.
const unknownBase = ^uint64(0)

func (e *process) savedChildTimes() [2]uint64 {
	switch {
	case !e.based:
		return [2]uint64{unknownBase, 0}
	case e.children == nil:
		return [2]uint64{}
	}
	return [2]uint64{e.children.known, e.children.owed}
}

// restoreChildTimes restores saved child times. known is false for a state of an older version, which has none.
func (e *process) restoreChildTimes(s [2]uint64, known bool) {
	if e.based = known && s[0] != unknownBase; e.based && s != [2]uint64{} {
		*e.childRecord() = childTimes{known: s[0], owed: s[1]}
	}
}

func (u usage) toArray() [8]uint64 {
	return [8]uint64{u.user, u.system, u.wait, u.voluntary, u.involun, u.majorFaults, u.read, u.write}
}

func usageFrom(a [8]uint64) usage {
	return usage{a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]}
}

// stateHeader returns the state without its lists.
func (l *Ledger) stateHeader(bootID string) *stateHead {
	return &stateHead{
		Version: stateVersion, BootID: bootID, Booted: l.at.booted, Node: l.config.Node,
		Began: l.at.began, LastAt: l.at.lastAt, Epoch: l.at.epoch,
		Machine: l.node.machine, Balance: l.node.balance, Lost: l.node.lost, Counts: l.parts.counts,
		Exported: l.at.exported, Counted: l.table.counted.toArray(),
		Forgotten: l.parts.forgotten,
		Lineage:   true,
		Energy:    l.power.State(),
		GPUs:      l.power.Devices(),
		Tallies:   l.parts.tallies.State(),
	}
}

// SetBooted sets the boot time of the machine in seconds since the Unix epoch. Process group ids
// are derived from it, so that they survive a restart even if the clock is set meanwhile.
func (l *Ledger) SetBooted(second int64) { l.at.booted = second }

// Running returns the workloads with parts that have not ended, with the facts of each part.
func (l *Ledger) Running() iter.Seq2[workload.ID, workload.Facts] {
	return func(yield func(workload.ID, workload.Facts) bool) {
		for _, p := range l.parts.order {
			if p.end == 0 && !yield(p.id, p.facts.Facts) {
				return
			}
		}
	}
}

// Booted returns the value of SetBooted, or the value of an earlier ledger of this boot.
func (l *Ledger) Booted() int64 { return l.at.booted }

// state returns the serialized part, valid until the next call with the same map.
func (p *Part) state(commands map[string]uint64) partState {
	clear(commands)
	s := partState{
		ID: string(p.id), Part: p.part, Owner: p.owner, Facts: p.facts.Facts,
		Start: p.start, End: p.end, Created: p.created, Exported: p.phase >= exported, EndExported: p.phase >= endedOnce,
		Usage: p.total.toArray(), Tasks: p.tasks, Unseen: p.unseen, Lost: p.lost | p.now.lacks, CgBase: p.cgBase, CgUsage: p.cg.UsageNanos,
		Have: uint32(p.have), Started: p.started, Folded: p.folded, Peak: p.memory.peak, NeededPeak: p.memory.neededPeak,
		OOMSeen:  p.oomSeen,
		Need:     p.memory.bounds.savedState(),
		ByteSecs: p.memory.byteSeconds, Commands: commands, Rest: p.commands.other,
	}
	if e := p.crowd.measurementPeriod; e != nil {
		s.Most = e.most
		s.Most.add(e.bound)
	}
	s.Reduced = p.rows != nil && p.rows.reduced && !p.full
	if p.set != nil {
		s.Apart = &[2][8]uint64{p.set.before.toArray(), p.set.handed.toArray()}
	}
	s.Place, s.Run, s.Naming, s.Past = p.place, p.run, p.naming, p.past
	s.AccountState, s.Tally, s.ByTask, s.Monitored = p.energy.State(), p.tally.State(), p.taskState(), p.monitored
	for comm, c := range p.commands.byName {
		s.Commands[comm.String()] += c.nanos
	}
	for _, c := range p.commands.named {
		s.Named = append(s.Named, c.comm.String())
	}
	return s
}

// Restore loads a state of the same boot into an empty ledger. It returns an error if the state is
// from another boot or node, or [ErrDamaged]. The ledger stays empty in both cases.
func (l *Ledger) Restore(data []byte, bootID string) error {
	body, err := unseal(data)
	if err != nil {
		return err
	}
	var s state
	if err := json.Unmarshal(body, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	switch {
	case s.Version < 2 || s.Version > stateVersion:
		return fmt.Errorf("%w: they have version %d, this program reads 2 to %d", ErrDamaged, s.Version, stateVersion)
	case s.Version == 2:
		if err := s.fromVersion2(body); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	switch {
	case s.BootID != bootID:
		return fmt.Errorf("the saved accounts are of an earlier boot")
	case s.Node != l.config.Node:
		return fmt.Errorf("the saved accounts are of node %q", s.Node)
	}
	for _, p := range s.Processes {
		if p.Part < 0 || p.Part >= len(s.Parts) {
			return fmt.Errorf("%w: process %d belongs to no part", ErrDamaged, p.PID)
		}
	}
	l.at.began, l.at.lastAt, l.at.epoch, l.at.exported = s.Began, s.LastAt, s.Epoch, s.Exported
	l.table.counted = usageFrom(s.Counted)
	l.table.line.gap = true
	if s.Booted != 0 {
		l.at.booted = s.Booted
	}
	l.node.machine, l.node.balance, l.node.lost, l.parts.forgotten = s.Machine, s.Balance, s.Lost, s.Forgotten
	maps.Copy(l.parts.counts, s.Counts)
	parts := make([]*Part, len(s.Parts))
	for i := range s.Parts {
		parts[i] = l.restorePart(&s.Parts[i])
	}
	accounts, charged := make([]*energy.Account, len(parts)), make([]*energy.AccountState, len(parts))
	for i, p := range parts {
		accounts[i], charged[i] = &p.energy, &s.Parts[i].AccountState
	}
	l.power.Restore(s.Energy, s.GPUs, accounts, charged)
	l.parts.tallies.RestoreSources(s.Tallies)
	for id, h := range s.Cores {
		if g := l.parts.groups[workload.ID(id)]; g != nil {
			g.cores = h
		}
	}
	for id, h := range s.Wanted {
		if g := l.parts.groups[workload.ID(id)]; g != nil {
			g.wanted = &wantedCores{cores: h}
		}
	}
	for id, v := range s.Wholes {
		if g := l.parts.groups[workload.ID(id)]; g != nil {
			if g.whole == nil {
				g.whole = new(jobGroup)
			}
			m := &g.whole.memory
			m.peak, m.neededPeak = v[0], v[1]
			m.restore(needState(v[2:]))
		}
	}
	l.table.exact = slices.ContainsFunc(s.Processes, func(p processState) bool { return p.Start%clockTick != 0 })
	for _, p := range s.Processes {
		// Every process is identified again, which opens the control groups.
		e := &process{
			pid: p.PID, ppid: p.PPID, start: p.Start, part: parts[p.Part], last: usageFrom(p.Usage), gone: p.Gone, left: p.Gone || p.Left,
			passed: p.Left, dead: p.Dead, retry: true,
		}
		if of := p.Of; of != nil {
			id := workload.ID(of[0])
			e.part = &Part{partKey: partKey{id: id, owner: of[1]}, kind: id.Kind(), phase: flushed}
		}
		e.restoreChildTimes(p.Children, s.Lineage)
		l.table.recordScript(e, nil)
		l.table.byID[p.PID] = e
		l.table.markMissing(e)
	}
	return nil
}

func (l *Ledger) restorePart(s *partState) *Part {
	p := l.parts.ensurePart(Identified{Identity: workload.Identity{
		Workload: workload.ID(s.ID), Part: s.Part, Owner: s.Owner, Facts: s.Facts, Place: s.Place, Run: s.Run, Naming: s.Naming,
	}}, s.Start)
	p.past = s.Past
	p.start, p.end, p.created = s.Start, s.End, s.Created
	switch {
	case s.EndExported:
		p.phase = endedOnce
	case s.Exported:
		p.phase = exported
	}
	p.total, p.tasks, p.unseen, p.lost = usageFrom(s.Usage), s.Tasks, s.Unseen, s.Lost
	l.parts.deletes.restore(p, s.Deleted)
	if s.Reduced {
		p.rows = p.newRows()
		p.rows.reduced, p.rows.shown = true, (l.at.epoch+int64(l.at.exported))/1e6
	}
	if s.Apart != nil {
		p.set = &separateCounters{before: usageFrom(s.Apart[0]), handed: usageFrom(s.Apart[1])}
	}
	if s.Doubts != [2]uint64{} {
		l.table.doubts.about[p] = uncertainty{known: errorBounds{over: s.Doubts[0], lack: s.Doubts[1]}}
	}
	p.cgBase, p.cg.UsageNanos = s.CgBase, s.CgUsage
	p.have, p.started, p.folded = sensor.Fields(s.Have), s.Started, s.Folded
	p.memory.peak, p.memory.neededPeak, p.memory.byteSeconds, p.oomSeen = s.Peak, s.NeededPeak, s.ByteSecs, s.OOMSeen
	p.memory.restore(s.Need)
	if s.Most != (unmeasuredPeak{}) {
		p.crowd.measurementPeriod = &measurementPeriod{most: s.Most}
	}
	l.parts.tallies.Restore(&p.tally, s.Tally)
	p.monitored = s.Monitored
	p.restoreTasks(s.ByTask)
	p.commands.other = s.Rest
	for name, nanos := range s.Commands {
		p.commands.addTime(sensor.CommOf([]byte(name)), nanos)
	}
	for _, name := range s.Named {
		comm := sensor.CommOf([]byte(name))
		if c := p.commands.byName[comm]; c != nil && c.series == nil && len(p.commands.named) < namedCommands {
			c.series = p.newSeries(commandSeconds, comm.String())
			p.commands.named = append(p.commands.named, c)
		}
	}
	if p.kind.System() && p.id.Name() == l.config.Node {
		l.parts.other = p
	}
	return p
}
