// Package tally keeps the counts of per-process sources (sensor.Tally) by account. It charges the rows of a reading to the accounts of
// their processes, exports them as series, and saves and restores them. Its only knowledge of a source is the source's specification.
//
// Amounts of an unknown process wait until the caller provides its account, so that
//
//	Σ accounts + waiting amounts = total of the source
//
// [Tallies] and the accounts are used from one goroutine.
package tally

import (
	"slices"
	"strings"

	"reckon/metric"
	"reckon/sensor"
)

// MaxWaitTicks is the number of ticks that amounts wait for their process to be identified. The process may have started
// after the process table was read, and its exit record may be late.
const MaxWaitTicks = 15

// Tallies holds the amounts that all sources of a node counted.
type Tallies struct {
	sources []*source
	cells   map[string]setSeries // by key, see seriesKey
	figures []*sensor.TallyFigure
	now     Moment
}

// Moment is the tick that a reading belongs to.
type Moment struct {
	Tick  uint64
	Boot  uint64  // nanoseconds since boot
	Span  float64 // seconds since the tick before
	Epoch int64   // nanoseconds from the Unix epoch to boot
}

// source is the state of one source.
type source struct {
	spec    *sensor.TallySpec
	first   *set                      // of every account
	sets    map[sensor.TallyName]*set // the others
	waiting []Awaited
	totals  [][]seriesTotal // by kind of set and series
	counting
}

// set is a set of series with its name.
type set struct {
	source  *source
	name    sensor.TallyName
	series  []sensor.TallySeries
	first   []int    // of each series, the index of its amount, or of its sum and the octaves after it
	amounts int      // in all
	keys    []string // of each series
	figures []setFigure
}

// setFigure is a figure that consists of some series of a set.
type setFigure struct {
	figure int // index into Books.figures
	always bool
	series []int
}

// seriesTotal is the total of a series over all processes, with or without an account.
type seriesTotal struct {
	amount float64
	row    *metric.Series
}

// setSeries identifies a series in a kind of set.
type setSeries struct {
	source *source
	set    uint8
	series int
}

// Awaited is an amount that was read but not charged yet. Its process may not be in the table
// yet, or may have ended without an exit record.
type Awaited struct {
	sensor.TallyRow
	Until   uint64   // the tick with which waiting for the process ends
	Account *Account // to be charged, nil to wait on
	set     *set
}

// spareAwaited is the largest number of elements for which the memory of a list is kept.
const spareAwaited = 256

// New returns empty tallies for the given sources.
func New(specs ...*sensor.TallySpec) *Tallies {
	b := &Tallies{cells: make(map[string]setSeries)}
	for _, s := range specs {
		b.source(s)
	}
	return b
}

// source returns the state of a source. It creates the state of a new source.
func (b *Tallies) source(spec *sensor.TallySpec) *source {
	for _, s := range b.sources {
		if s.spec == spec {
			return s
		}
	}
	s := &source{spec: spec, sets: make(map[sensor.TallyName]*set)}
	b.sources = append(b.sources, s)
	defer func() { s.first = b.set(s, sensor.TallyName{}) }()
	for i := range spec.Sets {
		s.totals = append(s.totals, make([]seriesTotal, len(spec.Sets[i].Series)))
		for k := range spec.Sets[i].Series {
			x := &spec.Sets[i].Series[k]
			b.cells[seriesKey(x)] = setSeries{s, uint8(i), k}
			if x.Figure != nil && !slices.ContainsFunc(b.figures, func(f *sensor.TallyFigure) bool { return f.Name == x.Figure.Name }) {
				b.figures = append(b.figures, x.Figure)
			}
		}
	}
	return s
}

// seriesKey returns the name under which the amounts of a series are saved.
func seriesKey(s *sensor.TallySeries) string {
	return strings.Join(append([]string{strings.TrimPrefix(s.Desc.Name, "reckon_workload_")}, s.Values...), " ")
}

// set returns a set by its name.
func (b *Tallies) set(s *source, name sensor.TallyName) *set {
	if t := s.sets[name]; t != nil {
		return t
	}
	t := &set{source: s, name: name, series: s.spec.Sets[name.Set].Series}
	for i := range t.series {
		x := &t.series[i]
		t.first, t.keys = append(t.first, t.amounts), append(t.keys, seriesKey(x))
		if t.amounts++; x.Desc.Kind == metric.NativeHistogram {
			t.amounts += sensor.TallyOctaves
		}
		if x.Figure == nil {
			continue
		}
		of := slices.IndexFunc(b.figures, func(f *sensor.TallyFigure) bool { return f.Name == x.Figure.Name })
		at := slices.IndexFunc(t.figures, func(n setFigure) bool { return n.figure == of })
		if at < 0 {
			at, t.figures = len(t.figures), append(t.figures, setFigure{figure: of})
		}
		n := &t.figures[at]
		n.always, n.series = n.always || x.Always, append(n.series, i)
	}
	s.sets[name] = t
	return t
}

// RecordReading records the reading of a source at the last tick and returns all amounts that wait for an account.
// The caller sets their accounts and then calls [Tallies.ChargeAwaited].
func (b *Tallies) RecordReading(now Moment, spec *sensor.TallySpec, pass *sensor.TallyPass) []Awaited {
	s := b.source(spec)
	b.now = now
	s.beginReading(now)
	s.have |= pass.Have
	s.lacks = append(s.lacks[:0], pass.Lacks...)
	s.full = s.full || pass.Gaps || pass.Lost > 0 || pass.Unowned
	set, name := s.first, uint16(0)
	for i := range pass.Rows {
		r := &pass.Rows[i]
		if r.Name != name {
			if name = r.Name; name == 0 {
				set = s.first
			} else {
				set = b.set(s, pass.NameOf(name))
			}
		}
		if int(r.Series) >= len(set.series) {
			continue
		}
		if r.Bound == 0 && r.Enabled == 0 {
			s.totals[set.name.Set][r.Series].amount += float64(r.Amount)
		}
		s.waiting = append(s.waiting, Awaited{TallyRow: *r, set: set, Until: now.Tick + MaxWaitTicks})
	}
	return s.waiting
}

// ChargeAwaited charges the waiting amounts of a source that now have an account. The others continue to wait.
func (b *Tallies) ChargeAwaited(spec *sensor.TallySpec) {
	s := b.source(spec)
	kept, came := s.waiting[:0], len(s.waiting)
	for i := range s.waiting {
		if w := &s.waiting[i]; w.Account != nil {
			b.chargeRow(w.Account, w.set, &w.TallyRow)
		} else {
			kept = append(kept, *w)
		}
	}
	if cap(kept) > spareAwaited && came < cap(kept)/8 {
		kept = slices.Clone(kept) // the memory of a reading of many processes that ended at once
	}
	s.waiting = kept
}

// Charge charges an account with an amount of a series of a named set.
func (b *Tallies) Charge(a *Account, spec *sensor.TallySpec, name sensor.TallyName, series int, amount uint64) {
	b.chargeRow(a, b.set(b.source(spec), name), &sensor.TallyRow{Series: uint8(series), Amount: amount})
}

// Begin begins a reading of a source with amounts that come by [Tallies.Charge].
func (b *Tallies) Begin(now Moment, spec *sensor.TallySpec) { b.source(spec).beginReading(now) }

// chargeRow adds a row to an account. A multiplexed event is scaled as if it occurred at the same rate while it was not
// scheduled, which holds only on average. For an event that was never scheduled, the next counts decide.
func (b *Tallies) chargeRow(a *Account, t *set, r *sensor.TallyRow) {
	x, h := &t.series[r.Series], b.amountsFor(a, t)
	amount := float64(r.Amount)
	if r.Enabled > 0 {
		t.source.shared = true
		if h.pending == nil {
			h.pending = make([]Pending, len(t.series))
		}
		p := &h.pending[r.Series]
		p.Part, p.Enabled, p.Running = p.Part+r.Amount, p.Enabled+r.Enabled, p.Running+r.Running
		if p.Running == 0 {
			return
		}
		amount = float64(p.Part) * max(float64(p.Enabled)/float64(p.Running), 1)
		*p = Pending{}
	}
	if x.Rate == sensor.RateMemory && a.Monitored {
		return
	}
	h.amounts[t.first[r.Series]+int(r.Bound)] += amount
	if x.Rate != sensor.RateNone {
		a.recordChange(x.Rate, amount, b.now.Tick)
	}
}

// amountsFor returns the amounts of an account in a set, at first zero. Names beyond the limit share one entry.
func (b *Tallies) amountsFor(a *Account, t *set) *setAmounts {
	if h := a.findSet(t); h != nil {
		return h
	}
	if t.name.Set == 0 {
		return a.addSet(t)
	}
	named := 0
	for _, h := range a.held {
		if h.set.source == t.source && h.set.name.Set != 0 {
			named++
		}
	}
	others := sensor.TallyName{Set: t.name.Set}
	spec := &t.source.spec.Sets[t.name.Set]
	for i := range spec.Labels {
		others.Labels[i] = sensor.OtherNames
	}
	if named >= spec.Most && t.name != others {
		return b.amountsFor(a, b.set(t.source, others))
	}
	return a.addSet(t)
}
