package tally

import (
	"maps"
	"slices"

	"reckon/metric"
	"reckon/sensor"
)

// Amount is the saved amount of one series of an account.
type Amount struct {
	Key     string    `json:"k"`           // see seriesKey
	Name    []string  `json:"n,omitempty"` // of the set
	Amount  float64   `json:"a,omitempty"`
	Octaves []float64 `json:"o,omitempty"` // of a histogram
	Pending *Pending  `json:"p,omitempty"`
	Handed  float64   `json:"h,omitempty"` // handed over before, not part of Amount
}

// Waiting is a saved amount that waits until its process is identified.
type Waiting struct {
	PID   int32  `json:"pid"`
	Start uint64 `json:"s"`
	Bound uint8  `json:"b,omitempty"`
	Amount
	Enabled uint64 `json:"e,omitempty"`
	Running uint64 `json:"r,omitempty"`
}

// SourceState is a saved source.
type SourceState struct {
	Began   int64     `json:"began"`
	Totals  []Amount  `json:"totals,omitempty"`
	Waiting []Waiting `json:"waiting,omitempty"`
}

func (t *set) labels() []string { return t.name.Labels[:t.source.spec.Sets[t.name.Set].Labels] }

// State returns the saved form of an account.
func (a *Account) State() (all []Amount) {
	for _, h := range a.held {
		for k := range h.set.series {
			x := Amount{Key: h.set.keys[k], Name: h.set.labels(), Amount: h.amounts[h.set.first[k]]}
			if h.set.series[k].Desc.Kind == metric.NativeHistogram {
				octaves := h.amounts[h.set.first[k]+1:][:sensor.TallyOctaves]
				if hasObservation(octaves) {
					x.Octaves = slices.Clone(octaves)
				}
			}
			if h.pending != nil && h.pending[k] != (Pending{}) {
				p := h.pending[k]
				x.Pending = &p
			}
			if h.handed != nil {
				x.Handed = h.handed[h.set.first[k]]
			}
			if x.Amount != 0 || x.Octaves != nil || x.Pending != nil || x.Handed != 0 {
				all = append(all, x)
			}
		}
	}
	return all
}

// findAmount returns the set and the index of the series of a saved amount. It returns nil if no source has that series any
// more.
func (b *Tallies) findAmount(x *Amount) (owner *set, index int) {
	at, ok := b.cells[x.Key]
	if !ok {
		return nil, 0
	}
	name := sensor.TallyName{Set: at.set}
	copy(name.Labels[:at.source.spec.Sets[at.set].Labels], x.Name)
	return b.set(at.source, name), at.series
}

// Restore adds saved amounts to an account. It drops amounts of series that no source has any more.
func (b *Tallies) Restore(a *Account, saved []Amount) {
	for i := range saved {
		x := &saved[i]
		t, k := b.findAmount(x)
		if t == nil {
			continue
		}
		h := b.amountsFor(a, t)
		h.amounts[h.set.first[k]] += x.Amount
		if x.Handed != 0 {
			h.noteHandedOver(h.set.first[k], x.Handed)
		}
		for o, n := range x.Octaves[:min(len(x.Octaves), len(h.amounts)-h.set.first[k]-1)] {
			h.amounts[h.set.first[k]+1+o] += n
		}
		if x.Pending != nil {
			if h.pending == nil {
				h.pending = make([]Pending, len(h.set.series))
			}
			h.pending[k] = *x.Pending
		}
	}
}

// State returns the sources for saving: the start of counting, the totals of the node, and the waiting amounts.
func (b *Tallies) State() map[string]SourceState {
	all := make(map[string]SourceState)
	for _, s := range b.sources {
		x := SourceState{Began: s.began}
		for set := range s.totals {
			for i, t := range s.totals[set] {
				if of := &s.spec.Sets[set].Series[i]; of.Total != nil && t.amount != 0 {
					x.Totals = append(x.Totals, Amount{Key: seriesKey(of), Amount: t.amount})
				}
			}
		}
		for i := range s.waiting {
			w := &s.waiting[i]
			x.Waiting = append(x.Waiting, Waiting{
				PID: w.PID, Start: w.Start, Bound: w.Bound, Enabled: w.Enabled, Running: w.Running,
				Amount: Amount{Key: w.set.keys[w.Series], Name: w.set.labels(), Amount: float64(w.TallyRow.Amount)},
			})
		}
		if x.Began != 0 || x.Totals != nil || x.Waiting != nil {
			all[s.spec.Name] = x
		}
	}
	return all
}

// RestoreSources restores saved sources. Waiting amounts have as much time left as newly read ones.
func (b *Tallies) RestoreSources(saved map[string]SourceState) {
	for _, s := range b.sources {
		x, ok := saved[s.spec.Name]
		if !ok {
			continue
		}
		s.began = max(x.Began, 0)
		for i := range x.Totals {
			if at, ok := b.cells[x.Totals[i].Key]; ok && at.source == s {
				s.totals[at.set][at.series].amount += x.Totals[i].Amount
			}
		}
		for i := range x.Waiting {
			w := &x.Waiting[i]
			if t, k := b.findAmount(&w.Amount); t != nil && t.source == s {
				s.waiting = append(s.waiting, Awaited{TallyRow: sensor.TallyRow{
					PID: w.PID, Start: w.Start, Bound: w.Bound, Series: uint8(k), Amount: uint64(w.Amount.Amount), Enabled: w.Enabled,
					Running: w.Running,
				}, set: t, Until: MaxWaitTicks})
			}
		}
	}
}

// Keys lists the series that are saved, in order, for tests of the form.
func (b *Tallies) Keys() []string { return slices.Sorted(maps.Keys(b.cells)) }
