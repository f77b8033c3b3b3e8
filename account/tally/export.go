package tally

import (
	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
)

// Labeller makes the series of an account.
type Labeller interface {
	// Series returns a series with the labels of the account followed by others. Created is 0 if
	// the account may be older than the agent.
	Series(d *metric.Desc, values ...string) *metric.Series
}

// Export appends the series of an account. shown is the time of the last export that included the account, in
// milliseconds since the Unix epoch, or 0. Figures that a source always has are exported even if they are zero. A
// series that was missing from that export counts as zero then.
func (b *Tallies) Export(a *Account, series Labeller, shown int64, to *metric.Batch) {
	for _, s := range b.sources {
		if s.since != 0 && hasZero(s.spec) {
			b.amountsFor(a, s.first)
		}
	}
	for _, h := range a.held {
		h.exportTo(series, shown, to)
	}
}

// hasZero reports whether accounts have a zero of some series.
func hasZero(t *sensor.TallySpec) bool {
	for i := range t.Sets[0].Series {
		if t.Sets[0].Series[i].Always {
			return true
		}
	}
	return false
}

func (h *setAmounts) exportTo(series Labeller, shown int64, to *metric.Batch) {
	s := h.set.source
	for k := range h.set.series {
		x := &h.set.series[k]
		amounts := h.amounts[h.set.first[k]:]
		if amounts[0] == 0 && !(x.Always && (h.set.name.Set != 0 || s.since != 0 && s.have>>k&1 == 1)) {
			if x.Desc.Kind != metric.NativeHistogram || !hasObservation(amounts[1:1+sensor.TallyOctaves]) {
				continue
			}
		}
		if h.rows[k] == nil {
			values := append(append([]string(nil), h.set.name.Labels[:s.spec.Sets[h.set.name.Set].Labels]...), x.Values...)
			h.rows[k] = series.Series(x.Desc, values...)
			if h.rows[k].Created == 0 {
				h.rows[k].Created = s.began
			}
			h.rows[k].Created = max(h.rows[k].Created, shown)
		}
		switch {
		case x.Desc.Kind == metric.NativeHistogram:
			to.AddHistogram(h.rows[k], h.toHistogram(amounts))
		case x.Desc.Unit == metric.Seconds:
			to.Add(h.rows[k], amounts[0]/1e9)
		default:
			to.Add(h.rows[k], amounts[0])
		}
	}
}

func hasObservation(octaves []float64) bool {
	for _, n := range octaves {
		if n > 0 {
			return true
		}
	}
	return false
}

// toHistogram returns the histogram of a sum and its octaves.
func (h *setAmounts) toHistogram(amounts []float64) *metric.Histogram {
	if h.histogram == nil {
		h.histogram = new(metric.Histogram)
	}
	var octaves [sensor.TallyOctaves]uint64
	for i := range octaves {
		octaves[i] = uint64(amounts[1+i])
	}
	h.histogram.Reset()
	h.histogram.AddOctaves(sensor.TallyFirst, octaves[:], amounts[0]/1e9)
	return h.histogram
}

// ExportTotals appends the totals of each source over all processes and begins the next export
// interval. Each source starts with a zero, so that its first amount is not missed.
func (b *Tallies) ExportTotals(to *metric.Batch) {
	for _, s := range b.sources {
		s.beginInterval()
		if s.since == 0 {
			continue
		}
		for set := range s.totals {
			for i := range s.totals[set] {
				t, x := &s.totals[set][i], &s.spec.Sets[set].Series[i]
				if x.Total == nil || t.amount == 0 && set == 0 && s.have>>i&1 == 0 {
					continue
				}
				if t.row == nil {
					t.row = metric.NewSeries(x.Total, x.TotalValues...)
					t.row.Created = s.began
				}
				if x.Desc.Unit == metric.Seconds {
					to.Add(t.row, t.amount/1e9)
				} else {
					to.Add(t.row, t.amount)
				}
			}
		}
	}
}

// Figures returns the number of figures that sources have; Figure returns the name of one.
func (b *Tallies) Figures() int { return len(b.figures) }

// Figure returns the name of a figure in the API.
func (b *Tallies) Figure(i int) string { return b.figures[i].Name }

// Judge calls note with the exactness of each figure of an account that began at start, and its origin.
func (b *Tallies) Judge(a *Account, start uint64, note func(figure int, degree figure.Exactness, source string)) {
	for _, s := range b.sources {
		if s.since == 0 || !hasZero(s.spec) {
			continue
		}
		for _, n := range s.first.figures {
			if n.always {
				degree, source := s.certainty(b.figures[n.figure], start)
				note(n.figure, degree, source)
			}
		}
	}
	for _, h := range a.held {
		for _, n := range h.set.figures {
			if n.always && h.set.name.Set == 0 || !h.hasAny(n.series) {
				continue
			}
			degree, source := h.set.source.certainty(b.figures[n.figure], start)
			note(n.figure, degree, source)
		}
	}
}

// hasAny reports whether some of the series have an amount.
func (h *setAmounts) hasAny(series []int) bool {
	for _, k := range series {
		amounts := h.amounts[h.set.first[k]:]
		if amounts[0] > 0 || h.set.series[k].Desc.Kind == metric.NativeHistogram && hasObservation(amounts[1:1+sensor.TallyOctaves]) {
			return true
		}
	}
	return false
}
