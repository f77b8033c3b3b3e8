package hourly

import (
	"math"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// bridged is a counter with the samples that let PromQL find what it counted: see bridge.
func bridged(s storage.Series, at span, e edges) storage.Series {
	return &storage.SeriesEntry{Lset: s.Labels(), SampleIteratorFn: func(again chunkenc.Iterator) chunkenc.Iterator {
		l, ok := again.(*listed)
		if !ok {
			l = &listed{}
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
		l.all = bridge(l.room, at, e, l.all[:0])
		return l
	}}
}

type failed struct {
	*listed
	err error
}

func (f failed) Next() chunkenc.ValueType             { return chunkenc.ValNone }
func (f failed) Seek(milliseconds) chunkenc.ValueType { return chunkenc.ValNone }
func (f failed) Err() error                           { return f.err }

// burst is how many samples stand beside the first and the last one of a life. PromQL
// continues a series by about the time between two of its samples, on the mean: where there
// is one an hour a life of ten minutes would count half as much again.
const burst, burstHistograms = 32, 8

// bridge adds samples to a counter of one an hour, so that PromQL finds what was counted in
// a range: where ranges begin and end, as if what was counted between two samples came
// evenly; and in bursts, of the same figure, where lives begin and end. Nothing is added to
// what was counted in all. A distribution is taken to stand still between two samples.
//
// What begins before at may go on from before; so may what ends within the last hour of it.
func bridge(in []sample, at span, e edges, out []sample) []sample {
	follows := func(i int) bool { // in[i] goes on from in[i-1]
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
				out = append(out, between(p, s, t))
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

// between is what a counter stood at between two samples.
func between(a, b *sample, t int64) sample {
	c := *a
	if c.t = t; a.typ == chunkenc.ValFloat && b.v > a.v {
		c.v += (b.v - a.v) * (float64(t-a.t) / float64(b.t-a.t))
	}
	return c
}

// edges are the times at which the ranges of a question begin and end: progressions, each
// of a first one and a step, or of one alone where the step is 0.
type edges [][2]int64

// edgesOf finds them. A subquery takes its steps from multiples of them; what it is in is
// not told.
func edgesOf(h *storage.SelectHints) (e edges) {
	if h.Step > 0 && h.Step < hour {
		return edges{{hourOf(h.Start) + 1, hour}} // as good, for a range of a week
	}
	first := h.Start - 1 + h.Range // the engine asks for what is after the begin of a range
	e = edges{{first, h.Step}, {first - h.Range + 1, h.Step}}
	if h.Step > 0 && first%h.Step != 0 {
		at := floor(first, h.Step) + h.Step
		e = append(e, [2]int64{at, h.Step}, [2]int64{at - h.Range + 1, h.Step})
	}
	return e
}

// next is the first one after a time; far away where there is none.
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
