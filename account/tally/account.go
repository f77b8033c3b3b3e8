package tally

import (
	"slices"

	"reckon/metric"
	"reckon/sensor"
)

// Account holds the counts charged to one part of a workload. The zero value is empty.
type Account struct {
	// Monitored: a monitoring group of the kernel counts its memory traffic now.
	Monitored bool
	held      []*setAmounts // of one source together, in the order of sources; of a source the first set first
	moved     *rateChange   // nil while it has moved nothing that has a rate to show
}

// setAmounts holds the amounts of an account in one set of series.
type setAmounts struct {
	set       *set
	amounts   []float64
	handed    []float64 // to another account before, and not in amounts; nil for none
	pending   []Pending // by series; nil while no event shared a hardware counter
	rows      []*metric.Series
	histogram *metric.Histogram // as of the latest export
}

// Pending is the count of an event for a time in which the event was never scheduled.
type Pending struct{ Part, Enabled, Running uint64 }

// rateChange is the amount added since the previous reading, from which rates are computed.
type rateChange struct {
	tick    uint64
	amounts [sensor.TallyRates]float64
}

func (a *Account) findSet(t *set) *setAmounts {
	for _, h := range a.held {
		if h.set == t {
			return h
		}
	}
	return nil
}

// addSet adds a set with zeros to an account that has no amount of it yet.
func (a *Account) addSet(t *set) *setAmounts {
	h := &setAmounts{set: t, amounts: make([]float64, t.amounts), rows: make([]*metric.Series, len(t.series))}
	at := len(a.held)
	for i, o := range a.held {
		if o.set.source == t.source && t.name.Set == 0 {
			at = i
			break
		}
		if o.set.source == t.source {
			at = i + 1
		}
	}
	a.held = slices.Insert(a.held, at, h)
	return h
}

func (a *Account) recordChange(rate sensor.TallyRate, amount float64, tick uint64) {
	if a.moved == nil {
		a.moved = new(rateChange)
	}
	if a.moved.tick != tick {
		*a.moved = rateChange{tick: tick}
	}
	a.moved.amounts[rate] += amount
}

// Absorb adds the amounts of a part that was folded into this one.
func (b *Tallies) Absorb(a, folded *Account) {
	for _, from := range folded.held {
		h := b.amountsFor(a, from.set)
		for i, n := range from.amounts {
			h.amounts[i] += n
		}
		for i := range from.pending {
			if h.pending == nil {
				h.pending = make([]Pending, len(from.pending))
			}
			p, more := &h.pending[i], &from.pending[i]
			p.Part, p.Enabled, p.Running = p.Part+more.Part, p.Enabled+more.Enabled, p.Running+more.Running
		}
	}
}

// Empty reports whether the account has no amounts.
func (a *Account) Empty() bool {
	for _, h := range a.held {
		if hasObservation(h.amounts) {
			return false
		}
	}
	return true
}

// HandOver moves the amounts of an account to another account. They still count for [Account.Exceeds].
func (b *Tallies) HandOver(a, to *Account) {
	for _, h := range a.held {
		if !hasObservation(h.amounts) {
			continue
		}
		into := b.amountsFor(to, h.set)
		for i, n := range h.amounts {
			into.amounts[i] += n
			h.noteHandedOver(i, n)
		}
		clear(h.amounts)
	}
}

// noteHandedOver records that an amount was handed over to the owner's short work.
func (h *setAmounts) noteHandedOver(i int, amount float64) {
	if h.handed == nil {
		h.handed = make([]float64, len(h.amounts))
	}
	h.handed[i] += amount
}

// totalAmount returns an amount including the part of it that was handed over.
func (h *setAmounts) totalAmount(i int) float64 {
	if h.handed == nil {
		return h.amounts[i]
	}
	return h.amounts[i] + h.handed[i]
}

// Handed calls note for each figure with more than a hundredth handed over.
func (b *Tallies) Handed(a *Account, note func(figure int)) {
	for _, h := range a.held {
		for _, n := range h.set.figures {
			var handed, all float64
			for _, k := range n.series {
				if i := h.set.first[k]; h.handed != nil {
					handed, all = handed+h.handed[i], all+h.totalAmount(i)
				}
			}
			if handed > all/100 {
				note(n.figure)
			}
		}
	}
}

// Limits are amounts that a process group with next to no activity does not reach, for each source.
type Limits struct {
	Bytes, Nanos, Calls float64
}

// Exceeds reports whether amounts of at least the given weight reach a limit.
func (a *Account) Exceeds(limits Limits, weight sensor.TallyWeight) bool {
	for i := 0; i < len(a.held); {
		of := a.held[i].set.source
		var bytes, nanos, calls float64
		for ; i < len(a.held) && a.held[i].set.source == of; i++ {
			h := a.held[i]
			for k := range h.set.series {
				x := &h.set.series[k]
				if x.Weight < weight || x.Weight == sensor.WeightNone {
					continue
				}
				switch n := h.totalAmount(h.set.first[k]); x.Desc.Unit {
				case metric.Bytes:
					bytes += n
				case metric.Seconds:
					nanos += n
				default:
					calls += n
				}
			}
		}
		if bytes >= limits.Bytes || nanos >= limits.Nanos || calls >= limits.Calls {
			return true
		}
	}
	return false
}

// Rate returns the use of an account per second, from the latest reading of its source, and whether a source counts it.
func (b *Tallies) Rate(a *Account, rate sensor.TallyRate, tick uint64) (perSecond float64, counted bool) {
	for _, s := range b.sources {
		if s.since == 0 || !s.hasRate(rate) {
			continue
		}
		if a.moved != nil && a.moved.tick == tick && s.span > 0 {
			perSecond = a.moved.amounts[rate] / s.span
		}
		return perSecond, true
	}
	return 0, false
}

// Has reports whether the account was charged any amount with a displayed rate.
func (a *Account) Has(rate sensor.TallyRate) bool {
	for _, h := range a.held {
		for k := range h.set.series {
			if h.set.series[k].Rate == rate && h.totalAmount(h.set.first[k]) > 0 {
				return true
			}
		}
	}
	return false
}

// Counts reports whether a source counts events with a rate to display on this machine.
func (b *Tallies) Counts(rate sensor.TallyRate) bool {
	return slices.ContainsFunc(b.sources, func(s *source) bool { return s.have != 0 && s.hasRate(rate) })
}

// hasRate reports whether one of the source's series in the first set has the given rate.
func (s *source) hasRate(rate sensor.TallyRate) bool {
	for i := range s.spec.Sets[0].Series {
		if s.spec.Sets[0].Series[i].Rate == rate && s.have>>i&1 == 1 {
			return true
		}
	}
	return false
}
