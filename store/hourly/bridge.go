package hourly

import (
	"math"

	"reckon/internal/dirty"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// bridgedSeries returns a counter with added samples, from which PromQL computes the right increases; see addBridgeSamples.
func bridgedSeries(s storage.Series, within timeRange, rangeEdges rangeEdges) storage.Series {
	return &storage.SeriesEntry{Lset: s.Labels(), SampleIteratorFn: func(again chunkenc.Iterator) chunkenc.Iterator {
		l, ok := again.(*sampleIterator)
		if !ok {
			l = &sampleIterator{}
		}
		l.i, l.room = 0, l.room[:0]
		in := s.Iterator(nil)
		for typ := in.Next(); typ != chunkenc.ValNone; typ = in.Next() {
			one, err := sampleAt(in, typ)
			if err != nil {
				return failedIterator{l, err}
			}
			l.room = append(l.room, one)
		}
		if err := in.Err(); err != nil {
			return failedIterator{l, err}
		}
		l.all = addBridgeSamples(l.room, within, rangeEdges, l.all[:0])
		return l
	}}
}

type failedIterator struct {
	*sampleIterator
	err error
}

func (f failedIterator) Next() chunkenc.ValueType             { return chunkenc.ValNone }
func (f failedIterator) Seek(milliseconds) chunkenc.ValueType { return chunkenc.ValNone }
func (f failedIterator) Err() error                           { return f.err }

// burstSamples is the number of samples added beside the first and the last sample of a run. PromQL extrapolates a series by
// about the mean interval between its samples. With one sample per hour, it would overstate the increase of a
// ten-minute run by half. The added samples lower the mean interval.
const burstSamples, burstHistograms = 32, 8

// addBridgeSamples adds samples to a counter that has one sample per hour, so that PromQL computes its increase correctly. It
// adds interpolated samples at the edges e, the starts and ends of ranges, and bursts of equal samples at the start and
// end of runs. The total increase does not change. A histogram stays constant between two samples.
//
// A series that begins before the span at may continue an earlier one. A series that ends within its last hour may be
// continued.
func addBridgeSamples(in []sample, within timeRange, rangeEdges rangeEdges, out []sample) []sample {
	follows := func(i int) bool { // in[i] continues in[i-1]
		a, b := &in[i-1], &in[i]
		return !a.isStale() && !b.isStale() && a.typ == b.typ && hourStart(b.t) <= hourStart(a.t)+hour
	}
	for i := range in {
		s := &in[i]
		if s.isStale() {
			out = append(out, *s)
			continue
		}
		goesOn := i > 0 && follows(i)
		n := int64(burstSamples)
		if s.typ != chunkenc.ValFloat {
			n = burstHistograms
		}
		more := i+1 < len(in) && follows(i+1)
		begins := !goesOn && (i > 0 || s.t >= within.from)
		ends := goesOn && !more && (i+1 < len(in) || s.t < within.to-hour)
		if goesOn {
			p := &in[i-1]
			from, to := out[len(out)-1].t, s.t
			if ends && from < s.t-n {
				to -= n
			}
			for t := rangeEdges.nextAfter(from); t < to; t = rangeEdges.nextAfter(t) {
				out = append(out, interpolate(p, s, t))
			}
			for t := to; t < s.t; t++ {
				c := *s
				c.t = t
				out = append(out, c)
			}
		}
		out = append(out, *s)
		if begins && more && in[i+1].t > s.t+2*n {
			for k := int64(1); k <= n; k++ {
				c := *s
				c.t += k
				out = append(out, c)
			}
		}
	}
	return out
}

// interpolate interpolates a counter between two samples.
func interpolate(a, b *sample, t int64) sample {
	c := *a
	if c.t = t; a.typ == chunkenc.ValFloat && b.v > a.v {
		c.v += (b.v - a.v) * (float64(t-a.t) / float64(b.t-a.t))
	}
	return c
}

// rangeEdges are the start and end times of a query's ranges. Each entry is a first time and a step, in milliseconds. A step
// of 0 means a single time.
type rangeEdges [][2]int64

// edgesFromHints returns the edges for the hints of a query. For a subquery it returns the multiples of the subquery's step,
// because the hints do not contain the enclosing query.
func edgesFromHints(hints *storage.SelectHints) (e rangeEdges) {
	if hints.Step > 0 && hints.Step < hour {
		return rangeEdges{{hourStart(hints.Start) + 1, hour}} // good enough for a range of a week
	}
	first := hints.Start - 1 + hints.Range // the engine selects samples after the beginning of a range
	e = rangeEdges{{first, hints.Step}, {first - hints.Range + 1, hints.Step}}
	if hints.Step > 0 && first%hints.Step != 0 {
		at := dirty.Floor(first, hints.Step) + hints.Step
		e = append(e, [2]int64{at, hints.Step}, [2]int64{at - hints.Range + 1, hints.Step})
	}
	return e
}

// nextAfter returns the first edge after a time; math.MaxInt64 if there is none.
func (e rangeEdges) nextAfter(after int64) int64 {
	best := int64(math.MaxInt64)
	for _, p := range e {
		t, step := p[0], p[1]
		switch {
		case t > after:
		case step == 0:
			continue
		default:
			t += ((after-t)/step + 1) * step
		}
		best = min(best, t)
	}
	return best
}
