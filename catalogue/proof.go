package catalogue

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"reckon/figure"
	"reckon/store"
)

// Proof reports how far the roll-ups agree with the counters that they are derived from.
type Proof struct {
	// From and To enclose the compared hours; To is exclusive.
	From, To time.Time
	Made     time.Time // when it was finished
	// Hours are the hours, and Nodes the hours of single nodes, that were compared.
	Hours, Nodes int
	// RawCPU is the CPU time of the counters in seconds. Off is the sum of the differences of the
	// roll-ups by hour and node.
	RawCPU, Off float64
	// Differences are the first of those found, and Differing how many there are.
	Differences []Difference
	Differing   int
	// Mended means that the hours were made again and agree since.
	Mended bool
	// LeftOut are hours between From and To that were not compared, because some of their samples
	// were lost to damage.
	LeftOut []time.Time
}

// Difference is a figure of an hour that differs.
type Difference struct {
	Hour        time.Time
	Site, Node  string   // no node: all of the site together, by owners
	Figure      string   // its key
	Rolled, Raw *float64 // nil is nothing
}

// maxDifferences is the maximum number of differences listed in a proof.
const maxDifferences = 50

// maxDeviation is the relative difference up to which two sums count as equal, because they add in different order.
const maxDeviation = 1e-9

// Accounted returns the share of CPU time for which roll-ups and counters agree, from 0 to 1. It is 1 if no CPU time
// was used.
func (p *Proof) Accounted() float64 {
	if p.RawCPU <= 0 {
		if p.Off > 0 {
			return 0
		}
		return 1
	}
	return max(0, 1-p.Off/p.RawCPU)
}

// provableRange returns the time range of roll-ups that can be checked against the series: final hours with all their
// samples. If older samples were dropped, the range starts a week later, because the oldest hours lack their previous
// samples.
func (b *Builder) provableRange(ctx context.Context) (from, to time.Time, err error) {
	if b.roll == nil || b.fold == nil {
		return from, to, nil
	}
	oldest := b.oldestReadable(b.o.Clock())
	from, to = oldest.Truncate(time.Hour), b.roll.done
	older, err := b.roll.out.Use(ctx, store.RollupQuery{From: from.AddDate(-10, 0, 0), To: from, Span: store.SpanWhole})
	if err != nil {
		return from, to, err
	}
	if len(older) > 0 {
		from = from.Add(lookBack + time.Hour)
	}
	return from, to, nil
}

// ProofOptions controls the comparison.
type ProofOptions struct {
	Since, Until time.Time // zero: the whole provable range
	// Mend makes hours that differ again.
	Mend bool
	// Pause is called between slices with how long the last one took; may be nil.
	Pause func(ctx context.Context, took time.Duration) error
}

// Prove compares the roll-ups with the counters of the series by node and hour. It blocks Advance
// for a few hours of history at a time.
func (b *Builder) Prove(ctx context.Context, o ProofOptions) (Proof, error) {
	v := verifier{b: b, off: map[time.Time][]Difference{}}
	if err := v.prepare(ctx, o); err != nil {
		return v.Proof, err
	}
	for at := v.From; at.Before(v.end); at = at.Add(rollSlice) {
		began := b.o.Clock()
		if err := v.compareSlice(ctx, at, store.Earlier(at.Add(rollSlice), v.end)); err != nil {
			return v.Proof, err
		}
		if o.Pause != nil {
			if err := o.Pause(ctx, b.o.Clock().Sub(began)); err != nil {
				return v.Proof, err
			}
		}
	}
	if err := v.recheck(ctx); err != nil {
		return v.Proof, err
	}
	v.finishProof()
	if o.Mend && v.Differing > 0 {
		if err := v.repair(ctx); err != nil {
			return v.Proof, err
		}
	}
	v.Made = b.o.Clock()
	return v.Proof, nil
}

// verifier makes a proof.
type verifier struct {
	Proof
	b      *Builder
	end    time.Time // end of the range read: later gaps reach back
	oldest time.Time
	off    map[time.Time][]Difference
	raw    map[time.Time]float64
	counts map[time.Time]int
}

func (v *verifier) prepare(ctx context.Context, o ProofOptions) error {
	b := v.b
	b.mu.Lock()
	defer b.mu.Unlock()
	v.raw, v.counts = map[time.Time]float64{}, map[time.Time]int{}
	now := b.o.Clock()
	if err := b.rollUpDirty(ctx, now); err != nil {
		return err
	}
	from, to, err := b.provableRange(ctx)
	if err != nil {
		return err
	}
	v.From, v.To, v.end, v.oldest = from, to, now.Truncate(time.Hour).Add(time.Hour), b.oldestReadable(now)
	if !o.Since.IsZero() {
		v.From = store.Later(v.From, o.Since.Truncate(time.Hour))
	}
	if !o.Until.IsZero() && o.Until.Before(v.To) {
		v.To = o.Until.Truncate(time.Hour)
	}
	if !v.From.Before(v.To) {
		v.To, v.end = v.From, v.From
	}
	return nil
}

// rollUpDirty recomputes the dirty hours now.
func (b *Builder) rollUpDirty(ctx context.Context, now time.Time) error {
	if b.fold == nil || b.roll == nil {
		return nil
	}
	if err := b.roll.loadPosition(ctx, b.oldestReadable(now)); err != nil {
		return err
	}
	dirty, err := b.dirtyHours()
	if err != nil {
		return err
	}
	if _, late := lateSince(dirty, 0); !late && b.roll.late.IsZero() {
		return nil
	}
	if _, seen, err := b.backfill(ctx, dirty); err != nil {
		return err
	} else if _, err := b.backfillTails(ctx, seen); err != nil {
		return err
	}
	b.filled = dirty.Mark
	b.roll.next = time.Time{}
	return b.rollUp(ctx, now, dirty)
}

// compareSlice compares the figures of a few hours. If a gap in the samples extends into earlier hours, it compares those as
// well.
func (v *verifier) compareSlice(ctx context.Context, from, to time.Time) error {
	v.b.mu.Lock()
	defer v.b.mu.Unlock()
	p, from, err := v.b.roll.readPass(ctx, from, to, v.oldest, lookAround)
	if err != nil {
		return err
	}
	use, nodes := p.toRows()
	return v.compareRows(ctx, from, to, use, nodes)
}

// provenPlace is an hour of a node, or an hour of all owners of a site.
type provenPlace struct {
	hour       int64
	site, node string
}

func (v *verifier) compareRows(ctx context.Context, from, to time.Time, use []store.Use, nodes []store.NodeUse) error {
	out := v.b.roll.out
	keptUse, err := out.Use(ctx, store.RollupQuery{From: from, To: to, Span: store.SpanHour, By: []string{"site"}})
	if err != nil {
		return err
	}
	keptNodes, err := out.NodeUse(ctx, store.RollupQuery{From: from, To: to, Span: store.SpanHour, By: []string{"site", "node"}})
	if err != nil {
		return err
	}
	raw, rolled := sumByPlace(use, nodes), sumByPlace(keptUse, keptNodes)
	for at := from; at.Before(to); at = at.Add(time.Hour) {
		delete(v.off, at.UTC())
		v.raw[at.UTC()], v.counts[at.UTC()] = 0, 0
	}
	cpu := figure.Index(figure.Hours, "cpu_seconds")
	for k, want := range raw {
		at := time.UnixMilli(k.hour).UTC()
		if k.node != "" {
			v.counts[at]++
		}
		if p := want.At(cpu); k.node != "" && *p != nil {
			v.raw[at] += **p
		}
		v.compareUse(k, want, rolled[k])
		delete(rolled, k)
	}
	for k, kept := range rolled {
		v.compareUse(k, &store.Used{}, kept)
	}
	return nil
}

// sumByPlace adds up by hour and site, and by hour and node.
func sumByPlace(use []store.Use, nodes []store.NodeUse) map[provenPlace]*store.Used {
	out := map[provenPlace]*store.Used{}
	at := func(k provenPlace) *store.Used {
		if out[k] == nil {
			out[k] = &store.Used{}
		}
		return out[k]
	}
	for i := range use {
		figure.Add(at(provenPlace{use[i].At.UnixMilli(), use[i].Site, ""}), &use[i].Used)
	}
	for i := range nodes {
		figure.Add(at(provenPlace{nodes[i].At.UnixMilli(), nodes[i].Site, nodes[i].Node}), &nodes[i].Used)
	}
	return out
}

// provenFigures returns the figures that are counter increases, by number.
func provenFigures() map[int]string {
	out := map[int]string{}
	for _, e := range hourSlots.list {
		for _, i := range e.figures {
			out[i] = hourFigures[i].Key
		}
	}
	return out
}

func (v *verifier) compareUse(k provenPlace, raw, rolled *store.Used) {
	if rolled == nil {
		rolled = &store.Used{}
	}
	at := time.UnixMilli(k.hour).UTC()
	for i, name := range provenFigures() {
		a, b := *raw.At(i), *rolled.At(i)
		x, y := orZeroValue(a), orZeroValue(b)
		if math.Abs(x-y) <= maxDeviation*(1+max(math.Abs(x), math.Abs(y))) {
			continue
		}
		v.off[at] = append(v.off[at], Difference{Hour: at, Site: k.site, Node: k.node, Figure: name, Rolled: b, Raw: a})
	}
}

func orZeroValue(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// isCovered reports whether an hour is part of the proof.
func (v *verifier) isCovered(at time.Time) bool { return !at.Before(v.From) && at.Before(v.To) }

// recheck compares differing hours once more, because they may have been recomputed meanwhile.
func (v *verifier) recheck(ctx context.Context) error {
	if !v.differs() {
		return nil
	}
	v.b.mu.Lock()
	err := v.b.rollUpDirty(ctx, v.b.o.Clock())
	v.b.mu.Unlock()
	if err != nil {
		return err
	}
	return v.compareDiffering(ctx)
}

func (v *verifier) differs() bool {
	for at := range v.off {
		if v.isCovered(at) {
			return true
		}
	}
	return false
}

// compareDiffering compares the hours that differ a second time.
func (v *verifier) compareDiffering(ctx context.Context) error {
	first := v.end
	for at := range v.off {
		if v.isCovered(at) {
			first = store.Earlier(first, at)
		}
	}
	for at := first; at.Before(v.end); at = at.Add(rollSlice) {
		if err := v.compareSlice(ctx, at, store.Earlier(at.Add(rollSlice), v.end)); err != nil {
			return err
		}
	}
	return nil
}

// finishProof completes the proof from the results.
func (v *verifier) finishProof() {
	v.Hours, v.Nodes, v.RawCPU, v.Off, v.Differing, v.Differences, v.LeftOut = 0, 0, 0, 0, 0, nil, nil
	for v.From.Before(v.To) && v.counts[v.From.UTC()] == 0 && len(v.off[v.From.UTC()]) == 0 {
		v.From = v.From.Add(time.Hour) // nothing was measured yet
	}
	lost := v.b.lostHours(v.From, v.To)
	var all []Difference
	for at := v.From.UTC(); at.Before(v.To); at = at.Add(time.Hour) {
		if lost[at] {
			v.LeftOut = append(v.LeftOut, at)
			continue
		}
		v.Hours, v.Nodes, v.RawCPU = v.Hours+1, v.Nodes+v.counts[at], v.RawCPU+v.raw[at]
		node, site := 0.0, 0.0
		for _, d := range v.off[at] {
			all = append(all, d)
			if off := math.Abs(orZeroValue(d.Rolled) - orZeroValue(d.Raw)); d.Figure == "cpu_seconds" && d.Node != "" {
				node += off
			} else if d.Figure == "cpu_seconds" {
				site += off
			}
		}
		v.Off += max(node, site)
	}
	slices.SortFunc(all, func(a, b Difference) int {
		return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Figure, b.Figure))
	})
	v.Differing = len(all)
	v.Differences = all[:min(len(all), maxDifferences)]
}

// lostHours returns the hours that lost samples to damage.
func (b *Builder) lostHours(from, to time.Time) map[time.Time]bool {
	out := map[time.Time]bool{}
	damaged, ok := b.q.(interface {
		Gaps(from, to time.Time) []store.Gap
	})
	if !ok {
		return out
	}
	for _, g := range damaged.Gaps(from, to) {
		for at := store.Later(from, g.From.Truncate(time.Hour)).UTC(); at.Before(to) && !at.After(g.To); at = at.Add(time.Hour) {
			out[at] = true
		}
	}
	return out
}

// repair recomputes the hours that differ and checks them against the series again. The proof still reports their
// differences.
func (v *verifier) repair(ctx context.Context) error {
	found := v.Proof
	v.b.mu.Lock()
	v.b.roll.noteLate(v.Differences[0].Hour)
	v.b.roll.next = time.Time{}
	dirty, err := v.b.dirtyHours()
	if err == nil {
		if err = v.b.roll.saveProgress(ctx); err == nil {
			err = v.b.rollUp(ctx, v.b.o.Clock(), dirty)
		}
	}
	v.b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("make hours again that differ: %w", err)
	}
	if err := v.compareDiffering(ctx); err != nil {
		return err
	}
	v.finishProof()
	left := v.Differing
	v.Proof = found
	v.Mended = left == 0
	return nil
}
