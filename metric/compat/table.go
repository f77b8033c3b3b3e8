package compat

import (
	"time"

	"reckon/metric"
)

// table collects the samples of a view: our series that map to the same series
// are summed, and the rate of a counter is added where the original has a gauge of it.
type table struct {
	cache metric.Cache
	cells map[*metric.Series]*cell
	order []*cell // of this round
	rates map[*metric.Desc]rate
	now   time.Time
}

// rate is the gauge that belongs to a counter.
type rate struct {
	desc  *metric.Desc
	scale float64
	only  bool // the counter itself is not in the view
}

type cell struct {
	series, rate *metric.Series
	value        float64
	last         float64
	at, lastAt   time.Time
	fresh        bool
}

// begin starts a round.
func (t *table) begin(now time.Time) {
	t.now, t.order = now, t.order[:0]
	if t.cells == nil {
		t.cells = make(map[*metric.Series]*cell)
	}
}

// add adds v to the sample of d with the given label values.
func (t *table) add(d *metric.Desc, v float64, labels ...string) { t.cell(d, labels).value += v }

// set makes v the sample of d with the given label values.
func (t *table) set(d *metric.Desc, v float64, labels ...string) { t.cell(d, labels).value = v }

// cell returns the cell of a sample in this round.
func (t *table) cell(d *metric.Desc, labels []string) *cell {
	s := t.cache.Get(d, labels...)
	c := t.cells[s]
	if c == nil {
		c = &cell{series: s}
		t.cells[s] = c
	}
	if !c.fresh {
		c.fresh = true
		c.last, c.lastAt = c.value, c.at
		c.value, c.at = 0, t.now
		t.order = append(t.order, c)
	}
	return c
}

// end appends the samples of the round to b.
func (t *table) end(b *metric.Batch) {
	for _, c := range t.order {
		c.fresh = false
		r, paired := t.rates[c.series.Desc]
		if !r.only {
			b.Add(c.series, c.value)
		}
		seconds := c.at.Sub(c.lastAt).Seconds()
		if !paired || c.lastAt.IsZero() || seconds <= 0 || c.value < c.last {
			continue
		}
		if c.rate == nil {
			c.rate = metric.NewSeries(r.desc, c.series.Values...)
		}
		b.Add(c.rate, (c.value-c.last)/seconds*r.scale)
	}
	t.cache.Sweep()
	for s, c := range t.cells {
		if c.at != t.now {
			delete(t.cells, s)
		}
	}
}

// label returns the value of a label of s, "" when it has none.
func label(s *metric.Series, name string) string {
	return s.Label(name)
}
