package catalogue

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/store"
	"reckon/workload"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// workloadKey names a workload without its run, because batch systems reuse ids.
type workloadKey struct{ Site, ID string }

// fold reads series in slices of time and keeps what rows need. Its memory use depends on the workloads alive in a
// slice, not on the length of history.
type fold struct {
	q        storage.Queryable
	newer    storage.Queryable          // q without earlier samples, if known
	accounts map[workloadKey][]*account // the runs of each, by start
	names    series.Labels
	// placed are the runs of parts if the start of a part names its run, because runs of one id may then overlap.
	placed map[workloadKey]map[partPlace]*account
	// numbers are the jobs that have another number, by the id that nodes make of the number; see numbers.go.
	numbers map[workloadKey]workloadKey
	gone    []store.Run // rows that turned out to belong to another job
	added   []*account  // since the round began
	waiting []waitingPod
	// moved holds the batch system ids with new runs, or new times of runs, since the round began.
	// If a sample precedes the others of its series, the value is the start of its run.
	moved map[workloadKey]int64
	to    int64 // end of the interval that is folded
}

func newFold(q storage.Queryable) *fold {
	return &fold{q: q, accounts: map[workloadKey][]*account{}, placed: map[workloadKey]map[partPlace]*account{},
		numbers: map[workloadKey]workloadKey{},
		moved:   map[workloadKey]int64{}}
}

// sameStart is the largest difference between two reports of one start, because sources round.
const sameStart = 1500

// partPause is the time in milliseconds after the last sample of a workload within which another part of it may begin. A
// batch job may pause between two steps.
const partPause = 5 * 60 * 1000

// startSpan is one value of a series of times, such as a start, with the times of its first and last sample.
type startSpan struct {
	partPlace
	start, first, last int64
	run                string // source's name of the run
}

// foldSamples folds all samples of the interval. Intervals of later calls may overlap; no sample counts twice.
func (f *fold) foldSamples(ctx context.Context, from, to time.Time, ms ...*labels.Matcher) error {
	f.to = to.UnixMilli()
	if err := f.findRuns(ctx, from, to, ms); err != nil {
		return err
	}
	// Of facts at the same time the last one counts, so that they are read in order.
	facts, figures := runSlots.splitNames(firstFigure)
	if err := series.ForEach(ctx, f.sampleSource(), from, to, f.addSeries, append(slices.Clip(ms), series.OneOf("__name__",
		facts))...); err != nil {
		return err
	}
	if err := series.EachUnordered(ctx, f.sampleSource(), from, to, f.addSeries,
		append(slices.Clip(ms), series.OneOf("__name__", figures))...); err != nil {
		return err
	}
	f.assignWaiting()
	return f.readExactness(ctx, from, to)
}

// sampleSource returns the source of samples.
func (f *fold) sampleSource() storage.Queryable {
	if f.newer != nil {
		return f.newer
	}
	return f.q
}

// findRuns finds the starts in the interval and gives each run an account.
func (f *fold) findRuns(ctx context.Context, from, to time.Time, ms []*labels.Matcher) error {
	found, ends, reported := map[workloadKey][]startSpan{}, map[workloadKey][]startSpan{}, map[workloadKey]*schedulerSeries{}
	numbers := map[workloadKey]string{}
	ms = append(slices.Clip(ms), series.OneOf("__name__", []string{figure.StartTime, figure.EndTime, figure.SubmitTime, numberInfo}))
	err := series.ForEach(ctx, f.sampleSource(), from, to, func(l labels.Labels, it chunkenc.Iterator) error {
		f.names.Read(l, "run", "number")
		into := found
		if f.names.Metric == figure.EndTime {
			into = ends
		}
		k := workloadKey{f.names.Site, f.names.Workload}
		if f.names.Metric == numberInfo {
			numbers[k] = f.names.Rest["number"]
			return nil
		}
		p := seriesPlace(&f.names)
		if p == (partPlace{}) {
			if reported[k] == nil {
				reported[k] = &schedulerSeries{}
			}
			to := map[string]*[]startSpan{figure.StartTime: &reported[k].starts, figure.EndTime: &reported[k].ends,
				figure.SubmitTime: &reported[k].submits}[f.names.Metric]
			*to = append(*to, valueSpans(p, it)...)
			return nil
		}
		if f.names.Metric == figure.SubmitTime {
			return nil
		}
		spans := valueSpans(p, it)
		for i := range spans {
			spans[i].run = f.names.Rest["run"]
		}
		into[k] = append(into[k], spans...)
		return nil
	}, ms...)
	if err != nil {
		return err
	}
	for k, r := range reported {
		for _, l := range r.joinRuns() {
			f.recordRun(k, l)
		}
	}
	for k, number := range numbers {
		f.noteNumber(k, number)
	}
	f.adoptNumbered()
	f.moveStarts(found)
	for k, list := range found {
		slices.SortFunc(list, func(a, b startSpan) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.last, b.last), cmp.Compare(a.Node, b.Node),
				cmp.Compare(a.Part, b.Part), cmp.Compare(a.Owner, b.Owner))
		})
		f.assignStarts(k, list, ends[k])
	}
	return nil
}

// valueSpans splits a series of times (seconds) into runs of one value.
func valueSpans(p partPlace, it chunkenc.Iterator) []startSpan {
	var out []startSpan
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		t, v := it.At()
		if math.IsNaN(v) || v <= 0 {
			continue
		}
		at := int64(math.Floor(v * 1000))
		if n := len(out); n == 0 || out[n-1].start != at {
			out = append(out, startSpan{partPlace: p, start: at, first: t})
		}
		out[len(out)-1].last = t
	}
	return out
}

// livePlaces holds the known times of the samples of each place of a run.
type livePlaces struct {
	places map[partPlace]seenSpan
}

// seenSpan is the start of a place, or its first sample if the start is unknown, and the time of its last sample.
type seenSpan struct{ since, until int64 }

func (g *livePlaces) addPlace(p partPlace, since, until int64) {
	s, ok := g.places[p]
	if !ok || since < s.since {
		s.since = since
	}
	s.until = max(s.until, until)
	g.places[p] = s
}

// placesBefore iterates over the places that began before start. A place that began at start or later does not show
// that the run continues, because the nodes of one new run report in any order.
func (g *livePlaces) placesBefore(start int64) iter.Seq2[partPlace, seenSpan] {
	return func(yield func(partPlace, seenSpan) bool) {
		for p, s := range g.places {
			if s.since < start-sameStart && !yield(p, s) {
				return
			}
		}
	}
}

// assignStarts assigns starts to accounts. A start belongs to a run that continues, on another node or after a restart of the
// agent, or to a new run.
func (f *fold) assignStarts(k workloadKey, list, ends []startSpan) {
	known := map[*account]*livePlaces{}
	for _, l := range list {
		mine := f.findReported(k, l.start, l.Node, list)
		if mine != nil {
			if mine.Born == 0 || l.start < mine.Born {
				mine.Born = l.start
				mine.Start = mine.startTime()
				f.sortAccounts(k)
				f.recordMove(k, 0)
			}
			if mine.includesStart(l.start) && !mine.includesStart(mine.Born) { // which may be of a life before, then
				f.recordMove(k, 0)
			}
			continue
		}
		for _, a := range f.accounts[k] {
			if a.isReported() {
				continue
			}
			if l.run != "" && a.Run != "" {
				if a.Run == l.run {
					if mine = a; known[a] == nil {
						known[a] = a.currentPlaces()
					}
				}
				continue
			}
			g := known[a]
			if g == nil {
				g = a.currentPlaces()
				known[a] = g
			}
			if a.isStartOf(g, l, ends) {
				mine = a // the latest that fits
			}
		}
		if mine == nil {
			mine = f.addAccount(k, l.start)
			f.moveToNewRun(k, mine)
			f.recordMove(k, 0)
			known[mine] = mine.currentPlaces()
		}
		if mine.Eldest == 0 || l.start <= mine.Eldest {
			mine.Eldest = l.start
			mine.setOwner(l.Owner, false, true)
		}
		if !mine.Fixed || !mine.Known && mine.waitedSince() != 0 {
			if !mine.Known || l.start < mine.Start {
				mine.Start = l.start
			}
			mine.Known = true
		}
		if l.run != "" {
			mine.Run = l.run
			if f.placed[k] == nil {
				f.placed[k] = map[partPlace]*account{}
			}
			f.placed[k][l.partPlace] = mine
		}
		known[mine].addPlace(l.partPlace, l.start, l.last)
	}
}

// moveToNewRun moves data of a new run from the previous run's account to a new account. It is needed because a disconnected
// node reports an end late. Runs that a batch system reported are read again instead; see findMisplaced.
func (f *fold) moveToNewRun(k workloadKey, mine *account) {
	for _, a := range f.accounts[k] {
		if a == mine || a.isReported() || a.samplesFrom(true) > mine.samplesFrom(true) {
			continue
		}
		for id, t := range a.Tracks {
			if t.First >= mine.samplesFrom(t.isBatch())-1 {
				mine.Tracks[id] = t
				delete(a.Tracks, id)
				a.touched, mine.touched = true, true
			}
		}
		for p, e := range a.Ends {
			if since := mine.samplesFrom(p == partPlace{}); e.T >= since && e.End >= since {
				mine.Ends[p] = e
				delete(a.Ends, p)
			}
		}
		mine.Owner, mine.OwnerRank, mine.Kind, mine.Name, mine.Account = a.Owner, a.OwnerRank, a.Kind, a.Name, a.Account
		mine.Partition, mine.Command, mine.Programs = a.Partition, a.Command, maps.Clone(a.Programs)
	}
}

func (a *account) currentPlaces() *livePlaces {
	g := &livePlaces{places: map[partPlace]seenSpan{}}
	var at partPlace // tracks of one place mostly follow each other: they are joined before they are looked up
	var of seenSpan
	for _, t := range a.Tracks {
		if t.Slot == unscheduledSlot {
			continue
		}
		since := t.First
		if t.Slot == startSlot {
			since = min(since, int64(t.FirstV*1000))
		}
		if p := t.place(); of == (seenSpan{}) || p != at {
			if of != (seenSpan{}) {
				g.addPlace(at, of.since, of.until)
			}
			at, of = p, seenSpan{since, t.T}
			continue
		}
		of.since, of.until = min(of.since, since), max(of.until, t.T)
	}
	if of != (seenSpan{}) {
		g.addPlace(at, of.since, of.until)
	}
	for p, e := range a.Ends {
		g.addPlace(p, e.End, e.T)
	}
	return g
}

// isStartOf reports whether l is a start of the run of a.
func (a *account) isStartOf(g *livePlaces, l startSpan, ends []startSpan) bool {
	switch {
	case a.hasOnlyWaitingPods():
		return l.start <= a.lastSample()+partPause
	case abs(l.start-a.Start) <= sameStart:
		return true
	case l.last < a.Start:
		return false
	}
	var until int64
	onNode, again, became := false, false, false
	for p, s := range g.placesBefore(l.start) {
		until = max(until, s.until)
		onNode = onNode || p.Node == l.Node
		again = again || p == l.partPlace
		became = became || p.Node == l.Node && p.Owner != l.Owner
	}
	if became && workload.ID(a.ID).Kind().Group() { // its id holds its start: some of its processes changed their user
		return true
	}
	over := a.isOver(g, l.start, ends)
	if l.start <= until || until == 0 {
		return !over
	}
	// After a pause, a new part is the next step, unless all parts are over and it is on another
	// node. The same part again means that the workload was restarted.
	return !again && l.start <= until+partPause && (onNode || !over)
}

// isOver reports whether every part of a run had ended when another began. A part with samples from after an end did not.
func (a *account) isOver(g *livePlaces, start int64, ends []startSpan) bool {
	some := false
	for p, s := range g.placesBefore(start) {
		some = true
		e, ok := a.Ends[p]
		ended := ok && e.End <= start && e.precedes(s.until)
		for _, x := range ends {
			ended = ended || (x.partPlace == p && x.start <= start && s.until <= x.last)
		}
		if !ended {
			return false
		}
	}
	return some
}

func abs(v int64) int64 { return max(v, -v) }

func (f *fold) addAccount(k workloadKey, start int64) *account {
	a := &account{Site: k.Site, ID: k.ID, Start: start, Tracks: map[uint64]*track{}, Ends: map[partPlace]partEnding{}}
	f.accounts[k], f.added = append(f.accounts[k], a), append(f.added, a)
	f.sortAccounts(k)
	return a
}

// addSeries folds one series into the accounts of its workload.
func (f *fold) addSeries(l labels.Labels, it chunkenc.Iterator) error {
	n := &f.names
	n.Read(l, runLabels...)
	s, ok := runSlots.findSlot(n)
	if n.Workload == "" || !ok {
		return nil
	}
	mine := workloadKey{n.Site, n.Workload}
	id := labels.StableHash(l)
	at := seriesPlace(n)
	byBatch := at == partPlace{} || s.isStep()
	var now *account
	alone := f.onlyAccount(mine, byBatch)
	pick := func(t int64) *account {
		if alone != nil {
			now = alone
		} else {
			now = f.runAt(mine, t, byBatch, n)
		}
		if !now.Known && t < now.Start {
			now.Start = t
		}
		if now.Kind == "" {
			now.Kind = n.Kind
		}
		now.setOwner(n.Owner, byBatch, false)
		return now
	}
	switch {
	case s.isStep():
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			if t, v := it.At(); vt == chunkenc.ValFloat && !math.IsNaN(v) {
				pick(t).addStepSample(s, t, v, n)
			}
		}
	case s.isContainer():
		f.addContainer(mine, s, it)
	case s == unscheduledSlot:
		f.readWaitingPod(mine, id, it)
	case s == endSlot:
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			t, v := it.At()
			if vt != chunkenc.ValFloat || math.IsNaN(v) {
				continue
			}
			end := int64(v * 1000)
			a := pick(max(t, end)) // a clock that was set back dates the report before the end
			if e, ok := a.Ends[at]; !ok || t > e.T {
				a.Ends[at], a.touched = partEnding{End: end, T: t, Until: a.aheadSample(at, f.to)}, true
			}
		}
	default:
		var of *account
		var tr *track // of the account
		readSamples(it, func(t int64) *track {
			a := pick(t)
			if a != of {
				if of, tr = a, a.Tracks[id]; tr == nil {
					tr = &track{Slot: s, Node: at.Node, Part: at.Part, Owner: at.Owner}
					a.Tracks[id] = tr
				}
			}
			if t > tr.T {
				a.touched = true
			} else if t < tr.First && a.isReported() {
				f.recordMove(workloadKey{a.Site, a.ID}, min(a.samplesFrom(true), t))
			}
			return tr
		}, func(t int64, _ float64) {
			// Only values are facts: of a series that was marked as ended they were read before.
			now.addFact(s, t, n)
		})
	}
	return nil
}

// recordMove records a change of the runs of an id. If the time is not 0, samples since then must be read again.
func (f *fold) recordMove(k workloadKey, since int64) {
	f.moved[k] = min(cmp.Or(f.moved[k], since), cmp.Or(since, f.moved[k]))
}

// aheadSample returns the time of the last sample of a part after to, the end of the current interval, or 0. Such
// samples were read earlier, while the clock was ahead.
func (a *account) aheadSample(p partPlace, to int64) (last int64) {
	for _, k := range a.Tracks {
		if k.T > to && k.place() == p {
			last = max(last, k.T)
		}
	}
	return last
}

// addFact records the facts that a series has as labels.
func (a *account) addFact(s slot, t int64, n *series.Labels) {
	if s == infoSlot {
		a.noteProgram(t, n)
	}
	switch {
	case s == infoSlot && t >= a.FactsAt:
		a.addInfoFacts(t, n)
	case s == stateSlot && t >= a.StateAt:
		a.StateAt, a.State, a.Reason = t, n.Rest["state"], n.Rest["reason"]
	case s == nodesSlot:
		a.NodeList = n.Rest["nodes"]
	case s == qosSlot:
		a.QOS = n.Rest["qos"]
	case s == endedBySlot:
		a.EndedBy, a.EndedByUser = n.Rest["by"], n.Rest["user"]
	}
}

// addInfoFacts records the facts of an info series. The latest series wins, but facts that it lacks are kept.
func (a *account) addInfoFacts(t int64, n *series.Labels) {
	a.FactsAt = t
	for label, field := range map[string]*string{"name": &a.Name, "account": &a.Account, "partition": &a.Partition, "command": &a.Command} {
		if v := n.Rest[label]; v != "" {
			*field = v
		}
	}
	a.setOwner(n.Owner, n.Node == "" && n.Part == "", a.Eldest == 0)
}

// noteProgram notes which program a part runs, by its info series.
func (a *account) noteProgram(t int64, n *series.Labels) {
	at, v := seriesPlace(n), n.Rest["command"]
	if v == "" || t < a.Programs[at].T {
		return
	}
	if a.Programs == nil {
		a.Programs = map[partPlace]partProgram{}
	}
	a.Programs[at] = partProgram{v, t}
}

// openRuns returns the runs that have new samples or have not ended, in a stable order. All other rows stay as they are,
// so it skips those runs: on a busy node they are a hundred times as many.
func (f *fold) openRuns() []*account {
	var out []*account
	for _, list := range f.accounts {
		for _, a := range list {
			if a.touched || !a.Ended {
				out = append(out, a)
			}
		}
	}
	return sortRuns(out)
}

func sortRuns(list []*account) []*account {
	slices.SortFunc(list, func(a, b *account) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Site, b.Site))
	})
	return list
}
