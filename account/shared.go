package account

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"reckon/figure"
	"reckon/sensor"
)

// Forked processes of one program share pages, which a sum of resident sizes counts once per
// process. If a part has several large processes, the sharing is measured for some of them
// ([Ledger.AppendSharers], [Ledger.RecordSharing]) within the reader's budget, and the sum is scaled by the
// result. It is an estimate if some processes are scaled by the result of another one of the same
// size. If the sharing may not be measured, the sum is an upper bound ("at most"), limited to the
// machine's memory minus the memory of other parts, and to the control group of its processes.

// minSharedBytes is the number of bytes that may be counted more than once without being noticed.
const minSharedBytes = 16 << 20

// A measured proportion stays valid until the number of processes or their resident size changes. Limits are growth by
// an eighth, a fall by a quarter, or lasting growth by a thirty-second. It is measured again after remeasureTicks ticks.
// While the result stays the same (within closeTolerance), this interval doubles up to maxDoublings times. A process that the
// agent may not measure is tried again after deniedTicks ticks. During measurements a part keeps its previous value for
// up to holdTicks ticks. If its program was measured before, a process is measured only at an age of minMeasuredAge
// nanoseconds, because most compilers end earlier.
const (
	remeasureTicks = 60
	maxDoublings   = 3
	closeTolerance = wholeProportion / 32
	deniedTicks    = 300
	holdTicks      = 10
	minMeasuredAge = uint64(10 * time.Second)
	growthTicks    = 4  // ticks between two measurements of a part that grows fast
	calmTicks      = 10 // ticks after a change for which one process of a size is enough
)

// proportion is the share of its resident pages that is charged to a process, by memory type, in units of 1/entire.
// Each page is split evenly over the processes that map it.
type proportion [3]uint16

const wholeProportion = 1<<16 - 1

// computeProportion divides the measured memory by the resident memory. It does not distinguish files and shared memory.
func computeProportion(m *sensor.SharedMemory) proportion {
	if !m.HasAnon {
		all := proportionOf(m.Proportional, m.Resident)
		return proportion{all, all, all}
	}
	rest := proportionOf(counterIncrease(m.AnonProportional, m.Proportional), counterIncrease(m.Anon, m.Resident))
	return proportion{proportionOf(m.AnonProportional, m.Anon), rest, rest}
}

func proportionOf(part, all uint64) uint16 {
	if part >= all {
		return wholeProportion
	}
	return uint16(float64(part)/float64(all)*wholeProportion + 0.5)
}

// isClose reports whether two proportions are nearly equal.
func (p *proportion) isClose(other *proportion) bool {
	for i := range p {
		if d := int(p[i]) - int(other[i]); d > closeTolerance || d < -closeTolerance {
			return false
		}
	}
	return true
}

func (p *proportion) split(proc *sensor.Process) (out [3]uint64) {
	for i, v := range [...]uint64{proc.Anon, proc.File, proc.Shmem} {
		out[i] = uint64(float64(v) * float64(p[i]) / wholeProportion)
	}
	return out
}

// sharing holds the facts about the memory that a process shares with others.
type sharing struct {
	rss, of uint32 // KiB, at the last reading and when it was measured
	program program
	part    proportion
	doubled uint8  // how many times the time until the next measurement was doubled
	worker  bool   // it was forked by a process of its part and program
	era     uint32 // era of the part's crowd in which it was measured
	at      uint32 // tick of the measurement, 0 for never
	denied  uint32 // tick at which it could not be measured, 0 for never
	faults  uint32 // minor faults when it was measured
	forked  bool   // it and its parent, in another part, are large and of one program
	counted bool   // part is valid in this tick
	begins  bool   // it was measured in the last tick
	// rewritten reports that the process may have got pages of its own since it was measured. A
	// write to a shared page is a minor fault and does not change the resident size.
	rewritten bool
}

// program is a hash of a program's name, with the lowest bit set for a worker. A measurement of one process applies to
// others with the same value.
type program uint32

func hashProgram(c *sensor.Comm) program {
	const odd = 0x9e3779b97f4a7c15
	h := binary.LittleEndian.Uint64(c[:8])*odd ^ binary.LittleEndian.Uint64(c[8:])
	return program(h*odd>>32) &^ 1
}

// sharedPages holds the facts about the memory that the processes of a part share.
type sharedPages struct {
	*measurementPeriod // nil while little is shared

	// State of this tick.
	rss, largest     uint64 // bytes: sum, and of the largest process
	sampled, unknown uint64 // of rss: scaled by another process's proportion, and by none
	denied           uint64 // of unknown
	shared           [3]uint64
	forked           bool
	crowded          bool
	bounded          bool // its memory is an upper bound
	growing          bool // its sharing changes too fast to be measured now

	// unclaimed is the least shared memory of the machine since before its first tick that belonged to no part, KiB and 1; 0 before.
	unclaimed uint32
}

// measurementPeriod is a period in which the measurements of a part stay valid. It ends when processes are added.
type measurementPeriod struct {
	number  uint32
	live    uint32 // processes at its beginning
	base    uint64 // bytes: resident size when it was measured
	before  uint64 // the same in the tick before
	began   uint32 // tick of its beginning: processes may be growing still, and are measured in the next
	since   uint32 // tick since which the part keeps its previous value, 0 if it does not
	samples [6]programSample
	last    [3]uint64
	upper   [3]uint64 // crowd.shared, with everything unmeasured in full
	most    unmeasuredPeak
	bound   unmeasuredPeak // of ticks with an upper bound
	guessed bool           // last is an estimate
	blind   bool           // nothing has been measured since an upper bound
	pending bool           // unmeasured or grown parts may still be measured
	set     uint64         // control groups of all processes in the tick; 0 if they differ
}

// unmeasuredPeak is the highest resident and needed memory of a part in ticks without a full measurement. It is dropped if
// a later measurement covers processes of that size.
type unmeasuredPeak struct {
	Resident, Needed uint64
	RSS              uint64 // bytes: of the processes
	Degree           figure.Exactness
	Open             bool // it may have been more in some ticks
}

// clear drops the peak if processes with a resident size of at least its size have been measured.
func (m *unmeasuredPeak) clear(rss uint64) {
	if rss >= m.RSS-m.RSS/16 {
		*m = unmeasuredPeak{}
	}
}

func (m *unmeasuredPeak) add(other unmeasuredPeak) {
	m.Resident, m.Needed, m.RSS = max(m.Resident, other.Resident), max(m.Needed, other.Needed), max(m.RSS, other.RSS)
	m.Degree, m.Open = m.Degree.Worse(other.Degree), m.Open || other.Open
}

// programSample is the latest proportion of the processes of one program.
type programSample struct {
	program program
	rss     uint32 // KiB; 0 for none
	part    proportion
}

// isSimilar reports whether the sample may apply to another process of the same program. That process must have about the same size.
func (s *programSample) isSimilar(of *sharing) bool {
	return s.rss != 0 && s.program == of.program && of.rss <= s.rss+s.rss/8 && s.rss <= of.rss+of.rss/8
}

func (c *sharedPages) resetTick() {
	c.rss, c.largest, c.sampled, c.unknown, c.denied, c.shared = 0, 0, 0, 0, 0, [3]uint64{}
	if c.forked, c.bounded, c.growing = false, false, false; c.measurementPeriod != nil {
		c.upper, c.pending = [3]uint64{}, false
	}
}

func (c *sharedPages) measuredFor(of *sharing) *proportion {
	if c.measurementPeriod == nil {
		return nil
	}
	for i := range c.samples {
		if c.samples[i].isSimilar(of) {
			return &c.samples[i].part
		}
	}
	return nil
}

// countShared counts the memory that processes of a part may share. of holds the entries of the living processes.
func (r *registry) countShared(of []*process, live []sensor.Process) {
	for _, p := range r.order {
		p.crowd.resetTick()
	}
	for i, e := range of {
		if p := &live[i]; !e.gone && !isZombie(p) {
			e.part.crowd.addProcess(&e.share, p, r.tick)
		}
	}
}

// addProcess counts a process.
func (c *sharedPages) addProcess(s *sharing, proc *sensor.Process, tick uint64) {
	rss := proc.Anon + proc.File + proc.Shmem
	s.rss, s.program = uint32(min(rss>>10, math.MaxUint32)), hashProgram(&proc.Comm)
	if s.worker { // its parent has its own pages, if it is of the same size
		s.program++
	}
	if c.measurementPeriod != nil && c.rss == 0 {
		c.set = proc.Cgroup
	} else if c.measurementPeriod != nil && c.set != proc.Cgroup {
		c.set = 0
	}
	c.rss += rss
	c.largest = max(c.largest, rss)
	c.forked = c.forked || s.forked && rss >= minSharedBytes
	p, own := proportion{wholeProportion, wholeProportion, wholeProportion}, proportion{wholeProportion, wholeProportion, wholeProportion}
	if s.begins {
		s.faults, s.begins = uint32(proc.MinorFaults), false
	}
	const page = 4 // KiB, at least
	s.rewritten = s.at != 0 && (uint32(proc.MinorFaults)-s.faults)*page > s.rss/32
	if s.counted = s.at != 0 && c.measurementPeriod != nil && s.era == c.number && s.rss <= s.of+s.of/8; s.counted {
		if p = s.part; s.rewritten {
			c.sampled += rss // until it is measured again
		} else {
			own = s.part
		}
	} else if other := c.measuredFor(s); other != nil {
		p = *other
		c.sampled += rss
	} else {
		c.unknown += rss
		if s.denied != 0 && uint32(tick) <= s.denied+deniedTicks {
			c.denied += rss
		}
	}
	for i, v := range p.split(proc) {
		c.shared[i] += v
	}
	if c.measurementPeriod != nil {
		for i, v := range own.split(proc) {
			c.upper[i] += v
		}
	}
}

// closeTick closes the tick. It returns the memory of the part, its certainty, and whether it is good enough to count as a
// peak. raw is the sum by memory type, and before is the value of the previous tick. If judge sets c.bounded,
// [crowd.upperBound] has to find the memory.
func (c *sharedPages) closeTick(raw, before [3]uint64, live uint32, t *tickTotals) (types [3]uint64, sure certainty, good bool) {
	tick := uint32(t.tick)
	twice := c.rss - c.largest
	if c.crowded = twice >= minSharedBytes && twice >= c.rss/32 || c.forked; !c.crowded {
		if c.measurementPeriod != nil {
			c.since, c.last, c.guessed, c.blind = 0, raw, false, false
		}
		return raw, certainty{figure.Exact, fromRSS}, true
	}
	if c.measurementPeriod == nil {
		c.measurementPeriod = &measurementPeriod{last: before, upper: raw}
	}
	switch steady := c.rss <= c.before+c.before/1024; {
	case !c.changed(live, steady):
	case !steady && tick < c.began+growthTicks && c.began != 0:
		c.unknown, c.growing = c.rss, true
	default:
		c.number++
		c.live, c.base, c.began, c.samples, c.unknown = live, c.rss, tick, [6]programSample{}, c.rss
	}
	c.before = c.rss
	if c.unknown <= c.rss/32 {
		sure = certainty{figure.Exact, fromPSS}
		if c.sampled+c.unknown > 0 || c.forked {
			sure.degree = sensor.LackScaled.Exactness()
		}
		c.pending = c.rss > c.base+c.base/32
		good = c.sampled <= c.rss/32 && !c.pending
		c.since, c.last, c.guessed, c.blind = 0, c.shared, !good, false
		return c.shared, sure, good
	}
	if c.began+1 == tick { // in which it is measured
		c.base = c.rss
	}
	if c.since == 0 {
		c.since = tick
	}
	hold := uint32(holdTicks)
	if c.growing {
		hold *= 3
	}
	c.pending = c.denied < c.unknown
	if c.pending && !c.blind && tick < c.since+hold {
		return c.keepMemory(raw), certaintyOfLack(sensor.LackScaled, fromPSS), false
	}
	c.bounded, c.blind = true, true
	return types, certaintyOfLack(sensor.LackSharedPages, fromRSSSum), false
}

// changed reports whether the part changed so much since it was measured that its processes share other pages.
func (c *sharedPages) changed(live uint32, steady bool) bool {
	return live > c.live+c.live/8 || live < c.live-c.live/4 || c.rss > c.base+c.base/8 || c.rss < c.base-c.base/4 ||
		steady && c.rss > c.base+c.base/32
}

// upperBound returns the upper bound of the memory of a part that could not be measured. private is the memory of the other
// parts in bytes. within returns the needed memory of a set of control groups, if known.
func (c *sharedPages) upperBound(t *tickTotals, private uint64, within func(set uint64) (needed uint64, ok bool)) [3]uint64 {
	most := uint64(math.MaxUint64)
	if needed, ok := within(c.set); ok && !c.forked { // memory inherited from its parent is charged to the parent's group
		most = needed
	}
	return boundedMemory(c.upper, c.largest, private, most, t)
}

// keepMemory returns the previous memory of the part, and not less than its largest process's.
func (c *sharedPages) keepMemory(raw [3]uint64) [3]uint64 {
	last := c.last[0] + c.last[1] + c.last[2]
	if last >= c.largest {
		return c.last
	}
	return scaleTypes(raw, float64(c.largest)/float64(c.rss))
}

// boundedMemory limits anonymous and shared memory to most bytes and to the memory of the machine that the other parts leave.
// It limits file pages to mapped pages and to the rest of the machine. No limit goes below largest, the size of the
// largest process.
func boundedMemory(types [3]uint64, largest, private, most uint64, t *tickTotals) [3]uint64 {
	file := types[1]
	if t.anon != 0 {
		types[0] = min(types[0], max(counterIncrease(private, t.anon), largest))
	}
	if t.held != 0 {
		types[2] = min(types[2], max(t.held, largest))
	}
	own := types[0] + types[2]
	if t.used != 0 {
		most = min(most, counterIncrease(private, t.used))
	}
	if limit := max(most, largest); own > limit {
		types = scaleTypes(types, float64(limit)/float64(own))
		own = types[0] + types[2]
	}
	if t.mapped != 0 {
		file = min(file, max(t.mapped, largest))
	}
	if t.total != 0 {
		file = min(file, counterIncrease(own, t.total))
	}
	types[1] = file
	return types
}

func scaleTypes(types [3]uint64, factor float64) [3]uint64 {
	for i := range types {
		types[i] = uint64(float64(types[i]) * factor)
	}
	return types
}

// Sharer is a process with shared memory that should be measured.
type Sharer struct {
	PID   int32
	Start uint64
	RSS   uint64 // bytes: the cost of measuring grows with it
	class uint8
	at    uint32
	twice uint64 // bytes of its part that may be counted more than once
}

// Refines reports whether the process is covered by the measurement of another one, or of an earlier time.
func (s *Sharer) Refines() bool { return s.class > 0 }

// appendUnmeasured appends the processes with shared pages that should be measured, the most urgent first. First are programs
// never measured, then processes covered only by a measurement of another process. Outdated measurements follow, from
// the oldest on. Each of the first two classes starts with the part that may double-count the most memory. Call it
// after [Ledger.Tick].
func (tab *table) appendUnmeasured(list []Sharer) []Sharer {
	if !tab.crowds {
		return list
	}
	now := uint32(tab.tick)
	for _, e := range tab.seen.last {
		c, s := &e.part.crowd, &e.share
		if !c.crowded || c.began == now || c.growing || e.tick != uint32(tab.tick) || e.gone || s.rss == 0 || s.denied != 0 &&
			now <= s.denied+deniedTicks {
			continue
		}
		next := Sharer{PID: e.pid, Start: e.start, RSS: uint64(s.rss) << 10, at: s.at, twice: c.rss - c.largest}
		switch {
		case !s.counted && c.measuredFor(s) == nil:
		case !s.counted && (tab.now < e.start+minMeasuredAge || now < c.began+calmTicks):
			continue
		case !s.counted:
			next.class = 1
		case now < s.at+growthTicks, now < s.at+remeasureTicks<<s.doubled && !s.rewritten:
			continue
		default:
			next.class = 2
		}
		list = append(list, next)
	}
	slices.SortFunc(list, func(a, b Sharer) int {
		if a.class != b.class || a.class < 2 {
			return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(b.twice, a.twice), cmp.Compare(b.RSS, a.RSS),
				cmp.Compare(a.PID, b.PID))
		}
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.PID, b.PID))
	})
	return list
}

// needsSample reports whether a process should be measured in addition to those measured earlier in this tick. At
// first, one process per program and size is enough.
func (tab *table) needsSample(of Sharer) bool {
	e := tab.byID[of.PID]
	return of.class != 0 || e == nil || e.part.crowd.measuredFor(&e.share) == nil
}

// recordSharing records the measured sharing of a process; ok is false if it may not be measured.
func (tab *table) recordSharing(of Sharer, m sensor.SharedMemory, ok bool) {
	e := tab.byID[of.PID]
	if e == nil || e.start != of.Start || e.gone {
		return
	}
	if !ok {
		e.share.denied = uint32(tab.tick)
		return
	}
	c := &e.part.crowd
	if c.measurementPeriod == nil {
		return // it belongs to another part by now
	}
	now, s := computeProportion(&m), &e.share
	if s.doubled = min(s.doubled+1, maxDoublings); s.at == 0 || s.era != c.number || !s.part.isClose(&now) {
		s.doubled = 0
	}
	s.part, s.of, s.era, s.at, s.denied, s.begins = now, s.rss, c.number, uint32(tab.tick), 0, true
	at := 0
	for i := range c.samples {
		if c.samples[i].rss == 0 || c.samples[i].isSimilar(s) {
			at = i
			break
		}
	}
	c.samples[at] = programSample{s.program, s.rss, s.part}
}
