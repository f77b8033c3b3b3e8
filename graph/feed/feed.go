// Package feed writes the workloads, nodes and sites of a catalogue into the knowledge graph: one subgraph for each, in
// the vocabulary of reckon, when it begins, changes or ends.
//
// Unchanged objects are not written, and mostly not even described, because the few facts that a subgraph is derived
// from are remembered. After a start, all objects are compared once with the stored subgraphs.
package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"reckon/figure/wire"
	"reckon/graph"
	"reckon/graph/own"
	"reckon/graph/telemetry"
	"reckon/store"
	"reckon/workload"
)

// Workloads is the part of the catalogue that the feed reads.
type Workloads interface {
	// Lasting is as in [store.Facts].
	Lasting(ctx context.Context, since, until, now time.Time, groups store.GroupMinimum) ([]store.Workload, error)
}

// Nodes is the source of nodes.
type Nodes interface {
	Nodes(ctx context.Context, now time.Time) ([]wire.Node, error)
}

// Options configure a feed.
type Options struct {
	Store     graph.Store
	Workloads Workloads
	Nodes     Nodes
	Base      string // of ids; see own.Vocabulary
	Site      string // name of the site of this server, for things without a site of their own
	Links     Links
	// Forecast reports which kinds of workloads are forecast; nil: none.
	Forecast func(kind string) bool
	// Keep is the time that ended things stay in the graph; 0 is a week.
	Keep  time.Duration
	Clock func() time.Time
}

// Feed writes changes. It is not safe for concurrent use.
type Feed struct {
	o Options
	// known holds the facts last written of each subgraph, and when it ended.
	known  map[string]writtenState
	looked time.Time // up to when the catalogue was read
	// lookedLate is the time when rows were last read again for backfill.
	lookedLate time.Time
	nodes      time.Time // when the nodes were read
	// repaired reports that the stored subgraphs were compared with the catalogue.
	repaired bool
}

type writtenState struct {
	facts   string
	end     time.Time
	machine bool // a node or a site
}

// everyone is the owner of subgraphs of nodes and sites, because everyone may read them.
const everyone = "*"

// nodesEvery is the interval between readings of nodes, because they have many series.
const nodesEvery = time.Minute

// overlap is the time range of the catalogue that every update rereads, because ends arrive late.
// lateOverlap is reread only every lateEvery, for backfill: with thousands of short process groups,
// reading all of them after every export would dominate the cost.
const (
	overlap     = time.Minute
	lateOverlap = 10 * time.Minute
	lateEvery   = 3 * time.Minute
)

// New makes a feed.
func New(o Options) *Feed {
	if o.Keep <= 0 {
		o.Keep = 7 * 24 * time.Hour
	}
	if o.Site == "" {
		o.Site = "default"
	}
	return &Feed{o: o, known: map[string]writtenState{}}
}

// Origin is the origin of subgraphs that a feed writes.
const Origin = "reckon"

// Update writes all changes since the last call to the graph store and returns the number of changed subgraphs. The
// next call retries failed writes.
func (f *Feed) Update(ctx context.Context) (changed int, err error) {
	now := f.o.Clock()
	n, err := f.updateWorkloads(ctx, now)
	changed += n
	if err != nil {
		return changed, err
	}
	if now.Sub(f.nodes) >= nodesEvery || now.Before(f.nodes) {
		if n, err = f.updateNodes(ctx, now); err != nil {
			return changed + n, err
		}
		changed += n
		f.nodes = now
	}
	n, err = f.deleteEnded(ctx, now)
	changed += n
	if err == nil && !f.repaired {
		n, err = f.deleteOrphans(ctx)
		changed += n
		f.repaired = err == nil
	}
	return changed, err
}

// deleteOrphans deletes subgraphs that an earlier run of the server wrote and that no longer exist in the catalogue.
func (f *Feed) deleteOrphans(ctx context.Context) (n int, err error) {
	list, err := f.o.Store.List(ctx)
	if err != nil {
		return 0, err
	}
	for _, i := range list {
		if _, ok := f.known[i.ID]; ok || i.Origin != Origin {
			continue
		}
		if err := f.deleteSubgraph(ctx, i.ID); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (f *Feed) deleteSubgraph(ctx context.Context, id string) error {
	if _, err := f.o.Store.Delete(ctx, id, graph.AnyVersion); err != nil && !errors.Is(err, graph.ErrNotFound) {
		return fmt.Errorf("delete the subgraph %s: %w", id, err)
	}
	delete(f.known, id)
	return nil
}

func (f *Feed) newVocabulary(site string) own.Vocabulary {
	site = cmp.Or(site, f.o.Site)
	return own.Vocabulary{Base: f.o.Base, Site: site}
}

func (f *Feed) updateWorkloads(ctx context.Context, now time.Time) (changed int, err error) {
	since, late := f.looked.Add(-overlap), now.Sub(f.lookedLate) >= lateEvery || now.Before(f.lookedLate)
	if late {
		since = f.looked.Add(-lateOverlap)
	}
	if f.looked.IsZero() || f.looked.After(now) {
		since = now.Add(-f.o.Keep)
	}
	list, err := f.o.Workloads.Lasting(ctx, since, time.Time{}, now, minActivity)
	if err != nil {
		return 0, fmt.Errorf("read what runs: %w", err)
	}
	for len(list) > 0 && err == nil {
		var n int
		n, list, err = f.writeBatch(ctx, list, now)
		changed += n
	}
	if err == nil {
		f.looked = now
	}
	if err == nil && late {
		f.lookedLate = now
	}
	return changed, err
}

// batchSize is the number of subgraphs per transaction. A transaction of 50 subgraphs writes nearly as many index pages as
// one of 250. Larger batches would block other writers for too long.
const batchSize = 250

// writeBatch writes one batch of subgraphs, for rows with facts that changed since they were last written. It
// returns the number of changed subgraphs and the rows that are left for the next batch.
func (f *Feed) writeBatch(ctx context.Context, list []store.Workload, now time.Time) (changed int, rest []store.Workload, err error) {
	var changes []graph.Change
	facts := map[string]writtenState{}
	for i := range list {
		if rest = list[i+1:]; len(changes) == batchSize {
			rest = list[i:]
			break
		}
		w := &list[i]
		if workload.Kind(w.Kind).Sum() || isShortLived(w) { // sums without an identity, and noise
			continue
		}
		id, is := f.subgraphOf(w)
		if f.known[id].facts == is.facts {
			continue
		}
		if _, twice := facts[id]; !twice {
			changes = append(changes, f.toChange(w, id, now))
			facts[id] = is
		}
	}
	changed, err = f.putAll(ctx, changes)
	if err == nil {
		maps.Copy(f.known, facts)
	}
	return changed, rest, err
}

func (f *Feed) subgraphOf(w *store.Workload) (id string, is writtenState) {
	o := f.o.Links.Workload(w)
	return f.newVocabulary(w.Site).WorkloadID(o.Kind, o.Namespace, o.Name, o.UID).Value, writtenState{facts: factsText(w), end: w.End}
}

func (f *Feed) toChange(w *store.Workload, id string, now time.Time) graph.Change {
	at := now
	if !w.End.IsZero() {
		at = w.End
	}
	o := f.o.Links.Workload(w)
	if f.o.Forecast != nil && f.o.Forecast(w.Kind) {
		telemetry.Forecast(o.Telemetry, "workload", telemetry.Selector("workload", w.ID, "site", w.Site))
	}
	return graph.Change{
		ID: id, Put: graph.Put{Quads: f.newVocabulary(w.Site).Workload(o), Origin: Origin, Owner: w.Owner, Time: at,
			IfVersion: graph.AnyVersion}}
}

// putAll writes several subgraphs, in one transaction if the store supports it.
func (f *Feed) putAll(ctx context.Context, list []graph.Change) (changed int, err error) {
	if s, ok := f.o.Store.(graph.Batch); ok && len(list) > 1 {
		if changed, err = s.PutAll(ctx, list); err != nil {
			return 0, fmt.Errorf("write %d subgraphs, the first of them %s: %w", len(list), list[0].ID, err)
		}
		return changed, nil
	}
	for _, c := range list {
		did, err := f.writeSubgraph(ctx, c.ID, c.Quads, c.Owner, c.Time)
		if err != nil {
			return changed, err
		}
		if did {
			changed++
		}
	}
	return changed, nil
}

// minRunTime is the time that a process group must run before it is described.
const minRunTime = time.Minute

// minActivity is the least activity of a process group that is described, because idle work gives nothing to search for.
var minActivity = store.GroupMinimum{Ran: minRunTime, CPUSeconds: 1, MemoryPeakBytes: 64 << 20}

// isShortLived reports whether a workload is an unnamed process group that was never seen running for a minute. Such groups
// get no subgraph yet, because a machine that compiles programs has thousands of them per hour, with 80 quads each. A
// row may be a minute old, and the group may have ended since.
func isShortLived(w *store.Workload) bool {
	if !workload.Kind(w.Kind).Group() || w.Start.IsZero() {
		return false
	}
	until := w.Seen
	if !w.End.IsZero() {
		until = w.End
	}
	return until.Sub(w.Start) < minRunTime
}

// factsText returns all the facts that the subgraph of a workload is derived from.
func factsText(w *store.Workload) string {
	var b strings.Builder
	fmt.Fprint(&b, w.State, "\x00", w.Owner, "\x00", strings.Join(w.Nodes, ","), "\x00", w.Start.UnixMilli(), " ", w.Submit.UnixMilli(),
		" ", w.End.UnixMilli())
	for _, v := range []*float64{w.RequestCores, w.RequestMemoryBytes, w.RequestGPUs, w.LimitCores, w.LimitMemoryBytes} {
		if v == nil {
			b.WriteString(" -")
		} else {
			fmt.Fprint(&b, " ", *v)
		}
	}
	return b.String()
}

func (f *Feed) writeSubgraph(ctx context.Context, id string, quads []graph.Quad, owner string, at time.Time) (bool, error) {
	_, changed, err := f.o.Store.Put(ctx, id, graph.Put{Quads: quads, Origin: Origin, Owner: owner, Time: at, IfVersion: graph.AnyVersion})
	if err != nil {
		return false, fmt.Errorf("write the subgraph %s: %w", id, err)
	}
	return changed, nil
}

func (f *Feed) updateNodes(ctx context.Context, now time.Time) (changed int, err error) {
	list, err := f.o.Nodes.Nodes(ctx, now)
	if err != nil {
		return 0, fmt.Errorf("read the nodes: %w", err)
	}
	var news []changedMachine
	bySite, there := map[string][]string{}, map[string]bool{}
	for i := range list {
		n := &list[i]
		v := f.newVocabulary(n.Site)
		o := f.o.Links.Node(n)
		bySite[v.Site] = append(bySite[v.Site], n.Node)
		news = f.addChanged(news, there, v.NodeID(n.Node).Value, fmt.Sprint(o.Status, o.Since.Unix(), o.Allocatable),
			func() []graph.Quad { return v.Node(o) })
	}
	if len(bySite) == 0 {
		bySite[f.o.Site] = nil // the site itself always exists
	}
	for site, nodes := range bySite {
		slices.Sort(nodes)
		v := f.newVocabulary(site)
		news = f.addChanged(news, there, v.SiteID().Value, "of "+strings.Join(nodes, ","),
			func() []graph.Quad { return v.Describe(f.o.Links.Site(site, nodes)) })
	}
	for some := range slices.Chunk(news, batchSize) {
		n, err := f.describeAll(ctx, some, now)
		if changed += n; err != nil {
			return changed, err
		}
	}
	for id, w := range f.known {
		if w.machine && !there[id] {
			if err := f.deleteSubgraph(ctx, id); err != nil {
				return changed, err
			}
			changed++
		}
	}
	return changed, nil
}

// changedMachine is a node or a site with changed facts.
type changedMachine struct {
	id, facts string
	describe  func() []graph.Quad
}

// addChanged adds a machine to the list if its facts changed since the last time, and records that it exists.
func (f *Feed) addChanged(list []changedMachine, there map[string]bool, id, facts string, describe func() []graph.Quad) []changedMachine {
	there[id] = true
	if f.known[id].facts == facts {
		return list
	}
	return append(list, changedMachine{id, facts, describe})
}

// describeAll writes subgraphs that everyone may read.
func (f *Feed) describeAll(ctx context.Context, list []changedMachine, now time.Time) (int, error) {
	changes := make([]graph.Change, len(list))
	for i, m := range list {
		changes[i] = graph.Change{ID: m.id,
			Put: graph.Put{Quads: m.describe(), Origin: Origin, Owner: everyone, Time: now, IfVersion: graph.AnyVersion}}
	}
	changed, err := f.putAll(ctx, changes)
	if err != nil {
		return changed, err
	}
	for _, m := range list {
		f.known[m.id] = writtenState{facts: m.facts, machine: true}
	}
	return changed, nil
}

// deleteEnded deletes things that ended long ago.
func (f *Feed) deleteEnded(ctx context.Context, now time.Time) (n int, err error) {
	for id, w := range f.known {
		if w.end.IsZero() || now.Sub(w.end) < f.o.Keep {
			continue
		}
		if err := f.deleteSubgraph(ctx, id); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
