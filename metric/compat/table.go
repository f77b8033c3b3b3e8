package compat

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"time"

	"reckon/metric"
)

// table collects the samples of a view. It sums our series that map to the same series, and the
// rates of counters if the original has a gauge of the rate. It keeps label values without a copy,
// so they must not change. Series with equal label values, such as all of a container, share them,
// because a node with a hundred pods has about ten thousand series in views.
type table struct {
	seed  maphash.Seed
	rows  map[uint64]*row // by the hash of their values
	last  *row            // of the sample before: most have the same labels
	order []*cell         // of this round
	rates map[*metric.Desc]rate
	round uint32
	// now and before are the times of this round and of the previous one.
	now, before time.Time
}

// rate is the gauge that belongs to a counter.
type rate struct {
	desc  *metric.Desc
	scale float64
	only  bool // the counter itself is not in the view
}

// row holds the samples with the same label values.
type row struct {
	values []string
	cells  []*cell
	next   *row // with the same hash
}

type cell struct {
	series metric.Series
	value  float64
	pace   *counterRate // nil if no rate belongs to the series
	round  uint32       // the last one with a sample
}

// counterRate holds the last value of a counter, to compute its rate.
type counterRate struct {
	series *metric.Series
	last   float64
	known  bool // there is a last value
}

// beginRound begins a new export at the given time.
func (t *table) beginRound(now time.Time) {
	if t.rows == nil {
		t.rows, t.seed = make(map[uint64]*row), maphash.MakeSeed()
	}
	t.before, t.now, t.order = t.now, now, t.order[:0]
	t.round++
}

// add adds v to the sample of d with the given label values.
func (t *table) add(d *metric.Desc, v float64, labels ...string) { t.cell(d, labels).value += v }

// set makes v the sample of d with the given label values.
func (t *table) set(d *metric.Desc, v float64, labels ...string) { t.cell(d, labels).value = v }

// cell returns the cell of a sample in this round.
func (t *table) cell(d *metric.Desc, labels []string) *cell {
	c := t.row(labels).cell(d, t.rates)
	if c.round != t.round {
		if c.pace != nil {
			c.pace.last, c.pace.known = c.value, c.round != 0
		}
		c.round, c.value = t.round, 0
		t.order = append(t.order, c)
	}
	return c
}

// row returns the row of label values.
func (t *table) row(labels []string) *row {
	if t.last != nil && slices.Equal(t.last.values, labels) {
		return t.last
	}
	var hash uint64
	for _, l := range labels {
		hash = bits.RotateLeft64(hash, 7) ^ maphash.String(t.seed, l)
	}
	r := t.rows[hash]
	for r != nil && !slices.Equal(r.values, labels) {
		r = r.next
	}
	if r == nil {
		r = &row{values: slices.Clone(labels), next: t.rows[hash]}
		t.rows[hash] = r
	}
	t.last = r
	return r
}

// cell returns the cell of d.
func (r *row) cell(d *metric.Desc, rates map[*metric.Desc]rate) *cell {
	for _, c := range r.cells {
		if c.series.Desc == d {
			return c
		}
	}
	c := &cell{series: *metric.NewSeries(d, r.values...)}
	if to, ok := rates[d]; ok {
		c.pace = &counterRate{series: metric.NewSeries(to.desc, r.values...)}
	}
	r.cells = append(r.cells, c)
	return c
}

// endRound appends the samples of the round to b.
func (t *table) endRound(b *metric.Batch) {
	seconds := t.now.Sub(t.before).Seconds()
	for _, c := range t.order {
		r := t.rates[c.series.Desc]
		if !r.only {
			b.Add(&c.series, c.value)
		}
		if p := c.pace; p != nil && p.known && seconds > 0 && c.value >= p.last {
			b.Add(p.series, (c.value-p.last)/seconds*r.scale)
		}
	}
	t.sweep()
}

// sweep drops series without a sample in this round.
func (t *table) sweep() {
	old := func(c *cell) bool { return c.round != t.round }
	for hash, first := range t.rows {
		for at := &first; *at != nil; {
			if (*at).cells = slices.DeleteFunc((*at).cells, old); len((*at).cells) > 0 {
				at = &(*at).next
			} else {
				*at = (*at).next
			}
		}
		if first == nil {
			delete(t.rows, hash)
		} else {
			t.rows[hash] = first
		}
	}
	t.last = nil
}

// label returns the value of a label of s, or "" if s does not have it.
func label(s *metric.Series, name string) string {
	return s.Label(name)
}
