package hourly

import (
	"math"

	"reckon/internal/dirty"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// bridgedSeries returns a counter with added samples that let PromQL compute its increases: see bridge.
func bridgedSeries(s storage.Series, at span, e edges) storage.Series {
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
				return failed{l, err}
			}
			l.room = append(l.room, one)
		}
		if err := in.Err(); err != nil {
			return failed{l, err}
		}
		l.all = addBridgeSamples(l.room, at, e, l.all[:0])
		return l
	}}
}

type failed struct {
	*sampleIterator
	err error
}

func (f failed) Next() chunkenc.ValueType             { return chunkenc.ValNone }
func (f failed) Seek(milliseconds) chunkenc.ValueType { return chunkenc.ValNone }
func (f failed) Err() error                           { return f.err }

// burst is the number of samples added beside the first and the last sample of a run. PromQL extrapolates a series by
// about the mean interval between its samples. With one sample per hour, it would overstate the increase of a
// ten-minute run by half. The added samples lower the mean interval.
const burst, burstHistograms = 32, 8

// addBridgeSamples adds samples to a counter that has one sample per hour, so that PromQL computes its increase correctly. It
// adds interpolated samples at the edges e, the starts and ends of ranges, and bursts of equal samples at the start and
// end of runs. The total increase does not change. A histogram stays constant between two samples.
//
// A series that begins before the span at may continue an earlier one. A series that ends within its last hour may be
// continued.
func addBridgeSamples(in []sample, at span, e edges, out []sample) []sample {
	follows := func(i int) bool { // in[i] continues in[i-1]
		a, b := &in[i-1], &in[i]
		return !a.stale() && !b.stale() && a.typ == b.typ && hourOf(b.t) <= hourOf(a.t)+hour
	}
	for i := range in {
		s := &in[i]
		if s.stale() {
			out = append(out, *s)
			continue
		}
		goesOn := i > 0 && follows(i)
		n := int64(burst)
		if s.typ != chunkenc.ValFloat {
			n = burstHistograms
		}
		more := i+1 < len(in) && follows(i+1)
		begins := !goesOn && (i > 0 || s.t >= at.from)
		ends := goesOn && !more && (i+1 < len(in) || s.t < at.to-hour)
		if goesOn {
			p := &in[i-1]
			from, to := out[len(out)-1].t, s.t
			if ends && from < s.t-n {
				to -= n
			}
			for t := e.next(from); t < to; t = e.next(t) {
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

// edges are the start and end times of a query's ranges. Each entry is a first time and a step, in milliseconds. A step
// of 0 means a single time.
type edges [][2]int64

// edgesOf returns the edges for the hints of a query. For a subquery it returns the multiples of the subquery's step,
// because the hints do not contain the enclosing query.
func edgesOf(h *storage.SelectHints) (e edges) {
	if h.Step > 0 && h.Step < hour {
		return edges{{hourOf(h.Start) + 1, hour}} // good enough for a range of a week
	}
	first := h.Start - 1 + h.Range // the engine selects samples after the beginning of a range
	e = edges{{first, h.Step}, {first - h.Range + 1, h.Step}}
	if h.Step > 0 && first%h.Step != 0 {
		at := dirty.Floor(first, h.Step) + h.Step
		e = append(e, [2]int64{at, h.Step}, [2]int64{at - h.Range + 1, h.Step})
	}
	return e
}

// next returns the first edge after a time; math.MaxInt64 if there is none.
func (e edges) next(after int64) int64 {
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
