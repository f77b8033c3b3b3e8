package account

import (
	"reckon/account/energy"
	"reckon/account/tally"
	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// partKey identifies a part.
type partKey struct {
	id    workload.ID
	part  string
	owner string
}

// Part is the account of one part of a workload on this node. Only its [Ledger] creates and changes
// it; others may read it between ticks.
type Part struct {
	partKey
	kind   workload.Kind
	facts  facts
	group  *group
	cgroup sensor.CgroupHandle
	cg     sensor.Cgroup // last reading, Have == 0 when there is none

	// start and end are nanoseconds since boot; end is 0 while the part runs. created is the start
	// in milliseconds since the Unix epoch if the account saw all of it from zero, else 0.
	start, end uint64
	created    int64
	emptySince uint64 // when it was first found without a process, 0 if it has one
	// left is the last time that a process was alive: the time of the last reading with one or, as
	// an odd number, a later exact end from an exit record.
	left uint64
	partNames
	container *container // as its supervisor reports it, nil while it reports nothing
	phase     phase
	full      bool // exports all series, see reduced
	pushed    bool // it sent its own figures, so it is no short work
	// lost are the figures that permanently lack some threads or processes.
	lost lackedFigures
	have sensor.Fields

	total    usage             // since the start
	set      *separateCounters // part of total that series may lack; nil if they lack nothing
	tasks    uint64            // CPU nanoseconds observed per process
	unseen   uint64            // part of children that no reading or record showed
	cgBase   int64             // CPU nanoseconds of the control group that do not belong to this account
	past     counterOffsets
	commands commands
	byTask   *tasks // nil if the batch system distinguishes none
	started  uint64
	folded   uint32 // process groups folded into this one
	// oomSeen counts its processes chosen by the OOM killer. The control group counts them as well,
	// but is often gone before it can be read.
	oomSeen uint32

	memory       memory
	crowd        sharedPages
	sure         memoryCertainty
	degrees      degrees // of the last export
	live, thread uint32

	energy    energy.Account
	tally     tally.Account
	monitored *monitorCounts // nil while no monitoring group held it

	now    tickUse // this tick
	rows   *partSeries
	labels *[4]string // of series without labels of their own, which share them
}

// tickUse is the activity of a part in one tick, before control groups are taken into account.
type tickUse struct {
	used    usage         // observed per process
	cpu     uint64        // after comparison with the control group; used by histograms and shares
	late    uint64        // part used by children before this tick, by their parents' child times
	fresh   bool          // the control group was read in this tick, after the processes
	lacks   lackedFigures // of living processes
	sharing bool          // several processes have explicit huge pages, which may be the same
	blank   bool          // memory of a process is missing
	live    uint32
	threads uint32
	huge    uint32 // memory in explicit huge pages, in the least size of such, minHugePage
	memory  [3]uint64
	swap    uint64
}

// group is one workload on this node. All its parts together have one distribution of cores.
type group struct {
	id     workload.ID
	parts  int
	cores  metric.Histogram
	cpu    uint64 // this tick, without late time
	late   uint64 // CPU time that came late, such as the children's, and is in no observation yet
	seen   uint64 // tick number of cpu
	lead   *Part  // exports the distribution and the figures of the whole control group
	series *metric.Series
	whole  *jobGroup    // nil while there is no such control group
	exact  *exactness   // nil while all is as exact as of the kind
	wanted *wantedCores // nil while its threads have not waited
	resourceBounds
	sum podSum
}

// phase is the progress of a part's exports.
type phase uint8

const (
	unexported phase = iota
	heldBack         // by the last export for the next
	exported         // some export included it
	endedOnce        // its end was exported before a restart, and is exported once more
	flushed          // its end was exported
	reported         // the same, and a supervisor still reports the container
	absorbed         // its use was folded into another part
)

// rejectsCharges reports whether the part accepts no more charges, because its end was exported or it was merged into
// another part.
func (p *Part) rejectsCharges() bool { return p.phase >= endedOnce }

// Workload returns the id of the workload that the part belongs to.
func (p *Part) Workload() workload.ID { return p.id }

// Name returns the part's name, often empty.
func (p *Part) Name() string { return p.part }

// Owner returns the owner of the part.
func (p *Part) Owner() string { return p.owner }

// TickCPU returns the CPU nanoseconds that the last tick charged to the part.
func (p *Part) TickCPU() uint64 { return p.now.cpu }

// CPU returns the CPU nanoseconds charged since the part's start.
func (p *Part) CPU() uint64 { return p.total.user + p.total.system }

// tickTotals holds the totals of a tick that all parts need to close it.
type tickTotals struct {
	seconds  float64 // since the last tick
	capacity uint64  // CPU nanoseconds that the machine has in that time
	used     uint64  // memory that the machine uses, page cache left out, bytes; 0 if unknown
	mapped   uint64  // memory that maps files on the machine, bytes; 0 if unknown
	total    uint64  // memory of the machine, bytes; 0 if unknown
	anon     uint64  // anonymous memory on the machine, bytes; 0 if unknown
	held     uint64  // memory that memfd, tmpfs and shared memory hold on the machine, bytes; 0 if unknown
	tick     uint64
	boot     uint64 // its time, nanoseconds since boot
	initial  bool   // use found now is from before the ledger
}

// updateCPU sets the CPU time of the part to the largest of three values: the previous total, the sum over processes,
// and the counter of the control group. This counts processes that no reading saw, and it counts a group that is read
// a moment later only once.
func (p *Part) updateCPU(capacity uint64, initial bool) {
	used := p.now.used
	p.tasks += used.user + used.system
	p.unseen += p.now.late
	before := p.total.user + p.total.system
	counted := int64(p.cg.UsageNanos) - p.cgBase
	if p.place != "" && p.now.fresh && p.cg.Have&sensor.CgroupCPU != 0 {
		// A container's group has everything used in it so far. Additional use of its processes is
		// from before they entered it, as in the first stages of the runtime.
		p.tasks = min(p.tasks, uint64(max(0, counted)))
	}
	after := max(before, p.tasks)
	if p.cg.Have&sensor.CgroupCPU != 0 && counted > int64(after) {
		unseen := uint64(counted) - after
		if unseen > capacity && !initial {
			// The increase exceeds the machine's capacity since the last tick: the control group is
			// older than this account, and its past was already charged.
			p.cgBase += int64(unseen)
			unseen = 0
		}
		after += unseen
		if unseen > 0 && p.cg.Have&sensor.CgroupCPUSplit != 0 {
			used.user = max(used.user, counterIncrease(p.total.user, p.counterSum(cgUser)))
			used.system = max(used.system, counterIncrease(p.total.system, p.counterSum(cgSystem)))
		}
	}
	added := after - before
	u := shareOf(added, used.user, used.system)
	p.total.user += u
	p.total.system += added - u
	if !initial {
		p.now.cpu, p.now.late = added, min(p.now.late, added)
	}
	used.user, used.system = 0, 0
	p.total.add(used)
}

// updateIO uses the control group's counters if processes could not be read, and returns their excess over the processes.
func (p *Part) updateIO() (excess usage) {
	if p.have&sensor.FieldIO == 0 && p.cg.Have&sensor.CgroupIO != 0 {
		excess.read, excess.write = counterIncrease(p.total.read, p.counterSum(cgRead)), counterIncrease(p.total.write,
			p.counterSum(cgWrite))
		p.total.add(excess)
	}
	return excess
}

// mergeEnded adds the account of an ended part to the part that it is folded into.
func (r *registry) mergeEnded(into, ended *Part) {
	into.total.add(ended.total)
	if ended.set != nil {
		into.ensureSeparate().before.add(ended.set.before)
	}
	into.have |= ended.have
	into.tasks += ended.total.user + ended.total.system
	into.unseen += ended.total.user + ended.total.system - min(ended.total.user+ended.total.system, ended.tasks-min(ended.tasks,
		ended.unseen))
	into.memory.byteSeconds += ended.memory.byteSeconds
	into.memory.peak = max(into.memory.peak, ended.memory.peak)
	into.memory.neededPeak = max(into.memory.neededPeak, ended.memory.neededPeak)
	if ended.memory.bounds != nil {
		b := into.memory.ensureBounds()
		b.most = max(b.most, ended.memory.bounds.most)
	}
	if c := &ended.crowd; c.measurementPeriod != nil && (c.most != (unmeasuredPeak{}) || c.bound != (unmeasuredPeak{})) {
		if into.crowd.measurementPeriod == nil {
			into.crowd.measurementPeriod = new(measurementPeriod)
		}
		into.crowd.most.add(c.most)
		into.crowd.most.add(c.bound)
	}
	if ended.sure.resident.source != fromNothing {
		into.sure.add(ended.sure.resident, ended.sure.needed)
	}
	into.started += ended.started
	if s := ended.script(); s != nil && into.script() == nil {
		s.row = nil
		into.ensureTasks().script = s
	}
	into.lost |= ended.lost
	r.deletes.mergePart(into, ended)
	into.folded++
	into.commands.merge(&ended.commands)
	into.energy.Absorb(&ended.energy)
	r.tallies.Absorb(&into.tally, &ended.tally)
	into.absorbMonitored(ended)
	if into.start == 0 || ended.start < into.start {
		into.start = ended.start
	}
}

// setCgroup sets the handle of the part's control group.
func (p *Part) setCgroup(h sensor.CgroupHandle) {
	switch {
	case h == nil || h == p.cgroup:
	case p.cgroup != nil:
		_ = h.Close()
	default:
		p.cgroup = h
		p.readCgroup()
	}
}

// readCgroup reads the control group of the part. After the group is removed, the last reading stays.
func (p *Part) readCgroup() {
	last := p.cg
	if err := p.cgroup.Read(&p.cg); err != nil {
		_ = p.cgroup.Close()
		p.cgroup, p.cg = nil, last
		p.cg.Have &= sensor.CgroupCPU | fieldsAfterRemoval
		return
	}
	if last := last.UsageNanos; p.cg.UsageNanos < last { // recreated under the same name: it counts from zero
		p.cgBase -= int64(last)
	}
}

// readCgroups reads the control groups of parts and whole workloads. If exit records are complete, it may skip
// a group with processes that did not run since the last tick, because such a group used nothing.
func (l *Ledger) readCgroups(pass *sensor.Pass) {
	exact := pass.Complete() && pass.Joined && pass.Lost == 0
	for _, p := range l.parts.order {
		if p.end != 0 {
			continue
		}
		idle := exact && p.now.live > 0 && p.now.used == (usage{})
		if w := p.group.whole; w != nil && !idle {
			w.active = l.at.tick
		}
		if p.cgroup != nil && !(idle && isIdleRecent(p.cgroup)) {
			p.readCgroup()
			p.now.fresh = p.cgroup != nil
			p.boundMemory(!p.now.fresh, l.table.line.settled)
		}
		p.group.whole.addPart(p)
	}
	l.parts.readJobGroups(l.table.line.settled)
}

// isIdleRecent reports whether the last reading of an idle group is recent enough.
func isIdleRecent(h sensor.CgroupHandle) bool {
	r, ok := h.(sensor.CgroupRester)
	return ok && r.Rest()
}

// fieldsAfterRemoval is the set of control group figures, besides CPU time, that stay valid after the group is removed.
const fieldsAfterRemoval = sensor.CgroupPeak | sensor.CgroupEvents | sensor.CgroupRefaults | sensor.CgroupMemoryEvents |
	sensor.CgroupThrottle | sensor.CgroupPressure | sensor.CgroupIO | sensor.CgroupFaults

// facts holds the facts about a part other than its usage. changed is set if they differ from those in its series.
type facts struct {
	workload.Facts
	changed bool
}

// merge fills in the fields that were empty before.
func (f *facts) merge(other workload.Facts) {
	was := f.Facts
	setIfZero(&f.Name, other.Name)
	setIfZero(&f.Account, other.Account)
	setIfZero(&f.Partition, other.Partition)
	setIfZero(&f.Command, other.Command)
	setIfZero(&f.Run, other.Run)
	setIfZero(&f.RequestCores, other.RequestCores)
	setIfZero(&f.RequestMemoryBytes, other.RequestMemoryBytes)
	setIfZero(&f.RequestGPUs, other.RequestGPUs)
	setIfZero(&f.RequestSeconds, other.RequestSeconds)
	f.changed = f.changed || f.Facts != was
}

func setIfZero[T comparable](dst *T, v T) {
	var zero T
	if *dst == zero {
		*dst = v
	}
}
