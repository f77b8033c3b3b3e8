package account

import (
	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
)

// Series of processor counters.
var (
	cyclesTotal = &metric.Desc{
		Name: "reckon_workload_cycles_total", Kind: metric.Counter,
		Help:   "Cycles of processors that ran the workload.",
		Labels: with(),
	}
	instructionsTotal = &metric.Desc{
		Name: "reckon_workload_instructions_total", Kind: metric.Counter,
		Help:   "Instructions executed by the workload, including those of the kernel on its behalf; per cycle they show how well the processors were used.",
		Labels: with(),
	}
	branchMisses = &metric.Desc{
		Name: "reckon_workload_branch_misses_total", Kind: metric.Counter,
		Help:   "Branches of the workload that the processor predicted wrongly.",
		Labels: with(),
	}
	cacheMisses = &metric.Desc{
		Name: "reckon_workload_cache_misses_total", Kind: metric.Counter,
		Help:   "Cache lines that cores fetched from beyond the last level of the cache while they ran the workload; how many of the prefetches are among them depends on the processor.",
		Labels: with(),
	}
	fpInstructions = &metric.Desc{
		Name: "reckon_workload_fp_instructions_total", Kind: metric.Counter,
		Help:   "Floating-point instructions of the workload by width: scalar, 128, 256 or 512 bits; on processors of AMD they are internal operations.",
		Labels: with("width"),
	}
	memoryTraffic = &metric.Desc{
		Name: "reckon_workload_memory_traffic_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help:   "Bytes that the workload moved between caches and memory, by method: resctrl (a monitoring group of the kernel counts both directions) or misses (an estimate: cache misses by the size of a line, without what was written back). Both cover different times of one workload, and add up.",
		Labels: with("method"),
	}
)

// counterDescs are the descriptions of the processor counters, with the value of their label.
var counterDescs = [sensor.Counters]struct {
	desc  *metric.Desc
	width string
}{
	{cyclesTotal, ""}, {instructionsTotal, ""}, {branchMisses, ""}, {cacheMisses, ""},
	{fpInstructions, "scalar"}, {fpInstructions, "128"}, {fpInstructions, "256"}, {fpInstructions, "512"},
}

// tallies is the ledger's state of processor counters.
type tallies struct {
	counting
	have    uint16
	waiting []awaited[counterUse]
	shared  bool // since the last export, events were multiplexed: exported counts are scaled
}

// counterUse is the counts of a process, with the bytes of memory that one cache miss moved there.
type counterUse struct {
	sensor.CounterUse
	Line uint64 `json:"line"`
}

// events is the counts of a part.
type events struct {
	Values  [sensor.Counters]float64 `json:"v"`           // scaled
	Pending sensor.CounterUse        `json:"p,omitzero"`  // of times in which an event was never scheduled
	Misses  float64                  `json:"m,omitempty"` // bytes of memory, by cache misses

	moved   float64 // bytes of memory since the reading before
	tick    uint64
	rows    [sensor.Counters]*metric.Series
	traffic *metric.Series
}

// Counters takes in the processor counts of processes up to the tick that the ledger took last. Counts of processes
// that remain unidentified go to other.
func (l *Ledger) Counters(pass *sensor.CounterPass) {
	if l.other == nil {
		return // no tick yet
	}
	c := &l.counters
	c.begin(l)
	c.have |= pass.Have
	c.full = c.full || pass.Gaps || pass.Unowned != (sensor.CounterUse{})
	for i := range pass.Counted {
		p := &pass.Counted[i]
		c.waiting = append(c.waiting, awaited[counterUse]{p.PID, p.Start, l.tick + patience, counterUse{p.Use, pass.Line}})
	}
	settle(l, &c.waiting, func(p *Part, use *counterUse) { c.shared = p.count(use, l.tick) || c.shared })
	if pass.Unowned != (sensor.CounterUse{}) {
		l.other.count(&counterUse{pass.Unowned, pass.Line}, l.tick)
	}
}

// count adds counts and reports whether some had to be scaled. A multiplexed event is assumed to have occurred at the
// same rate while it was not scheduled, which holds on average only; where it was never scheduled, the next counts
// decide.
func (p *Part) count(use *counterUse, tick uint64) (scaled bool) {
	if use.CounterUse == (sensor.CounterUse{}) {
		return false
	}
	if p.events == nil {
		p.events = new(events)
	}
	e := p.events
	if e.tick != tick {
		e.moved, e.tick = 0, tick
	}
	for i := range use.CounterUse {
		u, pending := &use.CounterUse[i], &e.Pending[i]
		n := float64(u.Whole)
		pending.Part, pending.Enabled, pending.Running = pending.Part+u.Part, pending.Enabled+u.Enabled, pending.Running+u.Running
		scaled = scaled || u.Enabled > 0
		if pending.Running > 0 {
			n += float64(pending.Part) * max(float64(pending.Enabled)/float64(pending.Running), 1)
			*pending = sensor.Count{}
		}
		e.Values[i] += n
		if i == int(sensor.CacheMisses) && (p.monitored == nil || !p.monitored.now) {
			e.Misses += n * float64(use.Line)
			e.moved += n * float64(use.Line)
		}
	}
	return scaled
}

// absorbEvents takes over the counts of a folded part.
func (p *Part) absorbEvents(o *Part) {
	if o.events == nil {
		return
	}
	if p.events == nil {
		p.events = new(events)
	}
	for i, v := range o.events.Values {
		p.events.Values[i] += v
	}
	p.events.Pending.Add(&o.events.Pending)
	p.events.Misses += o.events.Misses
}

// exportCounters appends the counts of a part, 0 for events that did not occur.
func (l *Ledger) exportCounters(p *Part, b *metric.Batch) {
	if l.counters.since == 0 && p.events == nil {
		return
	}
	if p.events == nil {
		p.events = new(events)
	}
	e := p.events
	for i, v := range e.Values {
		if v > 0 || l.counters.have>>i&1 == 1 {
			d := &counterDescs[i]
			if d.width == "" {
				b.Add(l.counterRow(p, &e.rows[i], d.desc), v)
			} else {
				b.Add(l.counterRow(p, &e.rows[i], d.desc, d.width), v)
			}
		}
	}
	if e.Misses > 0 {
		b.Add(l.counterRow(p, &e.traffic, memoryTraffic, "misses"), e.Misses)
	}
}

func (l *Ledger) counterRow(p *Part, row **metric.Series, d *metric.Desc, values ...string) *metric.Series {
	if *row == nil {
		*row = p.series(d, values...)
		if (*row).Created == 0 {
			(*row).Created = l.counters.began
		}
	}
	return *row
}

// exported begins the next export interval.
func (c *tallies) exported() {
	c.counting.exported()
	c.shared = false
}

// certainty returns the exactness of the counts of a part that began at start.
func (c *tallies) certainty(start uint64) certainty {
	sure := c.counting.certainty(start, fromCounters)
	if c.shared {
		sure = sure.worse(certainty{figure.Estimated, fromTurns})
	}
	return sure
}
