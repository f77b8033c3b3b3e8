package catalogue

import (
	"context"
	"fmt"
	"time"

	"reckon/figure"
	"reckon/store"
)

// currentHours holds the results for the part of the current hours before until. A round then reads only the last minutes
// instead of thousands of ended workloads. Later facts, such as a name, do not change it. They are used when the hour
// becomes final and all its samples are read again.
type currentHours struct {
	from, until time.Time
	use         []store.Use
	nodes       []store.NodeUse
	known       int64 // the newest sample that was read for them, milliseconds; 0 before they were made
	whole       bool  // these hours are read whole each time
}

// dropKept drops the kept results if there are unread samples before their end.
func (r *roller) dropKept(t time.Time) {
	if r != nil && t.Before(r.now.until) {
		r.now = currentHours{}
	}
}

// noteAppended records the time of the oldest appended sample.
func (r *roller) noteAppended(since time.Time) {
	if r == nil {
		return
	}
	if !r.made.IsZero() {
		r.noteSpacing(r.made.Sub(since))
	}
	r.dropKept(since)
	if r.fresh.IsZero() || since.Before(r.fresh) {
		r.fresh = since
	}
}

// lookBack returns how far before its range a round reads, and how far back the next round recomputes. It is twice the
// interval or the lateness of samples. With frequent samples that is one minute instead of ten, which saves much with
// thousands of short workloads.
func (r *roller) lookBack() time.Duration {
	return min(max(2*r.apart, 30*time.Second), lookAround)
}

// noteSpacing records the time between two samples, or the lateness of one. It ignores times above lookAround, because
// no round could cover them. An example is the initial zero of an old counter.
func (r *roller) noteSpacing(apart time.Duration) {
	if apart <= lookAround {
		r.apart = max(r.apart, apart)
	}
}

// advanceHours computes the hours from the first one that is not final to the current one. It reads only the last
// minutes. It reads the earlier time again if that has batch runs, because allocations arrive late, or if a gap extends
// into it.
func (r *roller) advanceHours(ctx context.Context, from, now, oldest time.Time) error {
	end := now.Truncate(time.Hour).Add(time.Hour)
	if !r.now.from.Equal(from) {
		r.now = currentHours{from: from, until: from, whole: !r.reports}
	}
	if r.now.whole {
		return r.recomputeHours(ctx, from, end, oldest)
	}
	cut := store.Later(now.Add(-r.lookBack()).Truncate(15*time.Second), r.now.until)
	if err := r.computeEarlier(ctx, cut, oldest); err != nil {
		return fmt.Errorf("roll up %s: %w", from.UTC().Format(time.RFC3339), err)
	}
	until := r.now.until
	// Use before until that becomes known now is added to it.
	edges := appendHours(nil, from.UnixMilli(), until.UnixMilli())
	before := len(edges) - 1
	edges = appendHours(edges[:before], until.UnixMilli(), cut.UnixMilli())
	edges = appendHours(edges[:len(edges)-1], cut.UnixMilli(), end.UnixMilli())
	reach := lookAround
	if until.After(from) {
		reach = r.lookBack()
	}
	p, err := r.readRecent(ctx, edges, before, reach, oldest)
	if err == nil && p.short {
		p, err = r.readRecent(ctx, edges, before, lookAround, oldest)
	}
	if err != nil {
		return fmt.Errorf("roll up %s: %w", until.UTC().Format(time.RFC3339), err)
	}
	switch gap := p.back < p.from; {
	case p.batch:
		return r.recomputeHours(ctx, from, end, oldest)
	case gap && (until.Equal(from) || p.back < from.UnixMilli()):
		// Hours that are settled are made again with these.
		newest, err := r.computeHours(ctx, from, end, oldest, lookAround)
		r.now = currentHours{from: from, until: from, known: newest}
		return err
	case gap:
		r.noteSpacing(now.Sub(time.UnixMilli(p.back)))
		r.now = currentHours{}
		return r.advanceHours(ctx, from, now, oldest)
	}
	var past, last []store.Use
	var pastNodes, lastNodes []store.NodeUse
	use, nodes := p.toRows()
	r.rolled = r.rolled || len(use) > 0
	for _, u := range use {
		list := &last
		if u.At.Before(cut) {
			list = &past
		}
		u.At = u.At.Truncate(time.Hour)
		*list = append(*list, u)
	}
	for _, u := range nodes {
		list := &lastNodes
		if u.At.Before(cut) {
			list = &pastNodes
		}
		u.At = u.At.Truncate(time.Hour)
		*list = append(*list, u)
	}
	// The first of rows that are joined is changed: those that are kept come last.
	past, pastNodes = mergeUse(append(past, r.now.use...)), sumNodeRows(append(pastNodes, r.now.nodes...))
	if err := r.out.ReplaceHours(ctx, from, end, mergeUse(append(last, past...)), sumNodeRows(append(lastNodes,
		pastNodes...))); err != nil {
		return err
	}
	r.now.until, r.now.use, r.now.nodes, r.now.known = cut, past, pastNodes, p.newest
	r.apart -= r.apart / 8 // a single observation is remembered for a quarter of an hour
	r.noteSpacing(time.Duration(p.apart) * time.Millisecond)
	r.made = now
	return nil
}

// computeEarlier reads the current hours up to a time, unless that was done before or one pass can read everything.
func (r *roller) computeEarlier(ctx context.Context, until, oldest time.Time) error {
	from := r.now.from
	if !r.now.until.Equal(from) || !until.After(from) {
		return nil
	}
	step, err := r.partLength(ctx, from.UnixMilli(), until.UnixMilli())
	if err != nil || step >= until.UnixMilli()-from.UnixMilli() {
		return err
	}
	p := newPass(from, until)
	r.setPreviousPass(p)
	if p, err = r.readInParts(ctx, p, step, oldest, 0); err != nil || p.batch || p.back < from.UnixMilli() {
		return err // the pass over all hours returns the same error with the remedy
	}
	r.now.use, r.now.nodes = p.toRows()
	r.now.until, r.now.known = until, until.UnixMilli()
	r.fresh = time.Time{} // all was read now
	return nil
}

// setPreviousPass records which samples the previous pass read.
func (r *roller) setPreviousPass(p *pass) {
	p.known = r.now.known
	if !r.fresh.IsZero() && (r.now.until.After(r.now.from) || p.known != 0) {
		p.fresh = r.fresh.UnixMilli()
	}
}

// readRecent computes the intervals between edges except for the first before ones. It reads samples from the time reach
// earlier on.
func (r *roller) readRecent(ctx context.Context, edges []int64, before int, reach time.Duration, oldest time.Time) (*pass, error) {
	p := newPassAt(edges, before)
	p.reach = reach.Milliseconds()
	p.older = oldest.Before(p.readStart())
	r.setPreviousPass(p)
	return p, p.read(ctx, r.q, r.out, oldest)
}

// recomputeHours computes hours from all of their samples. Later rounds do so too, until the first hour that is not final is
// another one.
func (r *roller) recomputeHours(ctx context.Context, from, end, oldest time.Time) error {
	_, err := r.computeHours(ctx, from, end, oldest, lookAround)
	r.now = currentHours{from: from, whole: true}
	return err
}

// sumNodeRows returns the sum of the rows of one hour and node.
func sumNodeRows(rows []store.NodeUse) []store.NodeUse {
	type group struct {
		at         int64
		site, node string
	}
	at := make(map[group]int, len(rows))
	var out []store.NodeUse
	for i := range rows {
		u := &rows[i]
		g := group{u.At.UnixMilli(), u.Site, u.Node}
		if j, ok := at[g]; ok {
			figure.Add(&out[j].Used, &u.Used)
			figure.Add(&out[j].Capacity, &u.Capacity)
			continue
		}
		at[g] = len(out)
		out = append(out, *u)
	}
	return out
}
