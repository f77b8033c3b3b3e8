package catalogue

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/store"
	"reckon/workload"
)

// account is one workload while its series are read: its identity, its facts, and a track for each series. The exported
// fields are saved.
type account struct {
	Site, ID, Kind, Owner string
	OwnerRank             ownerRank
	Start                 int64  // milliseconds
	Known                 bool   // Start comes from the start series, not from the first sample
	Run                   string // source's name of this run of the id, such as the UID of a Job, or empty
	Fixed                 bool   // a row was written: Start is its identity and stays, unless the scheduler reports another

	Scheduler SchedulerTimes
	Next      int64   // start of the id's next run as reported by the scheduler; 0 when there is none
	Born      int64   // earliest start that an agent observed; 0 when none did
	Rows      []int64 // starts under which rows were written
	Eldest    int64   // start of the part that names the owner: the processes of other users came later

	Name, Account, Partition, Command string
	FactsAt                           int64
	Programs                          map[partPlace]partProgram // of its parts
	State, Reason                     string
	StateAt                           int64

	Number               string // batch system's number, if it differs from the id
	QOS                  string
	EndedBy, EndedByUser string

	NodeList string // allocated by the scheduler
	Steps    map[string]*jobStep
	Pods     map[string]*containerState // of the containers of pods, by part
	Tracks   map[uint64]*track
	Ends     map[partPlace]partEnding
	Inexact  figure.Degrees // of figures by key, the worst so far

	touched  bool
	replaces bool  // nothing of the row that is there stays
	Ended    bool  // in the last row that was written
	Over     int64 // the end in that row
	Wrote    writtenState
	ended    int64 // time of the last sample when that was written; 0 when it was in another run of the program
}

// partPlace identifies a part of a workload by node, part and owner. The owner is included because processes of a script
// under another user form a separate part. A place is empty for series of a batch system.
type partPlace struct{ Node, Part, Owner string }

// writtenState is the part of the last row that decides about all hours of the run.
type writtenState struct {
	Owner    string
	Reported bool // by the batch system
}

// ownerRank is the rank of the source of an owner's name.
type ownerRank uint8

const (
	numberedOwner ownerRank = 1 + iota // a number: the node that reported it knows no name
	_                                  // the batch system's number, or a name of digits alone
	nodeOwner                          // the name that a node has for the user
	batchOwner                         // the name that the batch system has
)

// setOwner records an owner's name from the batch system or a node. The name from the source with the highest rank is kept, because a
// node without the user database has only numbers. Among names of one rank, it keeps the first, or the last if instead is set.
func (a *account) setOwner(owner string, byBatch, instead bool) {
	rank := nodeOwner
	if owner == "" || owner == a.Owner && (!byBatch || a.OwnerRank == batchOwner) { // as nearly every sample has it
		return
	}
	if strings.Trim(owner, "0123456789") == "" && workload.ID(a.ID).Kind().Batch() { // else one node has them all, and its eldest counts
		rank = numberedOwner
	}
	if byBatch {
		rank++
	}
	if rank < a.OwnerRank || rank == a.OwnerRank && (!instead || owner == a.Owner) {
		return
	}
	a.Owner, a.OwnerRank, a.touched = owner, rank, true
}

// seriesPlace returns the place of a series.
func seriesPlace(n *series.Labels) partPlace {
	if n.Node == "" && n.Part == "" {
		return partPlace{}
	}
	return partPlace{n.Node, n.Part, n.Owner}
}

// partProgram is the last program of a part, by its info series.
type partProgram struct {
	Name string
	T    int64
}

// partEnding is the end time of a part, and the time T of the sample that reported it. Until is the time of the part's
// previous last sample; it is later than T if the clock was set back. The exported fields are for gob.
type partEnding struct{ End, T, Until int64 }

// precedes reports whether a sample of the part is not from after the end was reported.
func (e partEnding) precedes(t int64) bool { return t <= max(e.T, e.Until) }

// lastSample returns the time of the last sample.
func (a *account) lastSample() int64 {
	var t int64
	for _, k := range a.Tracks {
		t = max(t, k.T)
	}
	for _, e := range a.Ends {
		t = max(t, e.T)
	}
	return t
}

// lastKnownSample returns the time of the last sample. For an ended workload, it does not scan the series.
func (a *account) lastKnownSample() int64 {
	if !a.Ended || a.touched {
		return a.lastSample()
	}
	if a.ended == 0 {
		a.ended = a.lastSample()
	}
	return a.ended
}

// partSpan is the time range in which a part had samples.
type partSpan struct {
	partPlace
	first, last int64
	stale       bool // all its series were marked as ended
	own         bool // it used CPU time of its own: it is not only the place of series of the whole workload
}

// partTimes returns the time of each part. Series without a part, which stand for the whole workload, continue for a while
// after the last part ended. They are included only for a node without other series.
func (a *account) partTimes() []partSpan {
	by := map[partPlace]*partSpan{}
	var s *partSpan // of the track before, which is mostly of the same place
	group := workload.Kind(a.Kind).Group()
	for _, k := range a.Tracks {
		if k.T == 0 {
			continue
		}
		if group && k.Hist != nil && a.Ends[k.place()].End != 0 {
			continue // of all users of the group, under the name of the first
		}
		if p := k.place(); s == nil || s.partPlace != p {
			if s = by[p]; s == nil {
				s = &partSpan{partPlace: p, first: k.First, last: k.T, stale: true}
				by[p] = s
			}
		}
		s.first, s.last = min(s.first, k.First), max(s.last, k.T)
		s.stale = s.stale && k.Stale
		s.own = s.own || k.Slot.isUsedBy(cpuFigure)
	}
	for p, e := range a.Ends {
		if by[p] == nil {
			by[p] = &partSpan{partPlace: p, first: e.T, last: e.T, stale: true}
		}
		by[p].own = true
	}
	parts := map[string]bool{} // nodes on which there are parts
	for p, s := range by {
		if s.own {
			parts[p.Node] = true
		}
	}
	out := make([]partSpan, 0, len(by))
	for p, s := range by {
		if s.own || p.Part != "" || p.Node == "" || !parts[p.Node] {
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(x, y partSpan) int {
		return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.first, y.first), cmp.Compare(x.Part, y.Part),
			cmp.Compare(x.Owner, y.Owner))
	})
	return out
}

// schedulerSilence is the time that a scheduler may be silent about a running job.
const schedulerSilence = 15 * 60 * 1000

// unmeasuredSilence is the time in milliseconds after which a job without samples has ended, if no node observes it.
const unmeasuredSilence = 24 * 60 * 60 * 1000

// endTime returns the end of the workload, or 0 if a part of it still runs at the time now. gone is the time without
// samples after which a part has ended. The end reported by the scheduler takes precedence over observations.
func (a *account) endTime(spans []partSpan, now, gone int64) int64 {
	if a.Scheduler.End != 0 {
		return max(a.Scheduler.End, a.Start)
	}
	pods := a.findSandboxes(spans)
	var end, around, lastReport int64
	for _, s := range spans {
		if a.isReported() && s.partPlace == (partPlace{}) {
			lastReport = s.last
			if a.Next != 0 { // it is over, only its end was not reported yet
				lastReport = min(lastReport, a.Next)
			} else if lastReport > now-max(gone, schedulerSilence) {
				return 0
			}
			continue
		}
		at, over := s.last, false
		if e, ok := a.Ends[s.partPlace]; ok && e.precedes(s.last) {
			at, over = e.End, true
		}
		switch {
		case !over && !s.stale && s.last > now-gone:
			return 0
		case over && pods[partPlace{Node: s.Node, Part: s.Part}]:
			around = max(around, at)
		default:
			end = max(end, at)
		}
	}
	end = cmp.Or(end, around)
	if end == 0 {
		if a.Next == 0 && lastReport > now-unmeasuredSilence {
			return 0
		}
		end = lastReport
	}
	return max(end, a.Start)
}

// findSandboxes returns the places, without owners, of pod sandboxes that have containers. They do not extend the time of a
// pod, because the kubelet may remove the sandbox much later than the containers.
func (a *account) findSandboxes(spans []partSpan) map[partPlace]bool {
	if !workload.ID(a.ID).Kind().Pod() {
		return nil
	}
	out := map[partPlace]bool{}
	for _, s := range spans {
		if s.Part != "" {
			out[partPlace{Node: s.Node, Part: s.Part[:max(strings.LastIndexByte(s.Part, '/'), 0)]}] = true
		}
	}
	return out
}

// wentSilent reports whether a reported run, or a service, that counts as ended only fell silent.
func (a *account) wentSilent(spans []partSpan) bool {
	if !a.isReported() && len(spans) > 0 && workload.ID(a.ID).Kind().Service() {
		last := slices.MaxFunc(spans, func(s, t partSpan) int { return cmp.Compare(s.last, t.last) })
		e, ok := a.Ends[last.partPlace]
		return !last.stale && !(ok && e.precedes(last.last))
	}
	if !a.isReported() || a.Scheduler.End != 0 || a.Next != 0 {
		return false
	}
	observed := false
	for _, s := range spans {
		if s.partPlace == (partPlace{}) {
			continue
		}
		if e, ok := a.Ends[s.partPlace]; !ok || !e.precedes(s.last) {
			return true
		}
		observed = true
	}
	return !observed
}

// catalogueRow makes the catalogue's row as of the time now.
func (a *account) catalogueRow(now time.Time, gone time.Duration) store.Workload {
	spans := a.partTimes()
	seen, end := a.lastSample(), a.endTime(spans, now.UnixMilli(), gone.Milliseconds())
	created := a.waitedSince()
	if created != 0 && a.hasOnlyWaitingPods() { // it begins when it is over, at no time
		a.Start = cmp.Or(end, created)
	}
	w := store.Workload{
		Site: a.Site, ID: a.ID, Kind: a.Kind, Name: a.Name, Owner: a.Owner, Account: a.Account, Partition: a.Partition,
		Command: a.busiestProgram(),
		State:   a.State, Reason: a.Reason, EndedBy: a.EndedBy, EndedByUser: a.EndedByUser, QOS: a.QOS, Steps: a.listSteps(),
		Start: time.UnixMilli(a.Start).UTC(), Seen: time.UnixMilli(seen).UTC(),
	}
	if w.Kind == "" {
		w.Kind = string(workload.ID(a.ID).Kind())
	}
	if w.Name == "" {
		w.Name = workload.ID(a.ID).Name()
	}
	if a.Scheduler.Submit != 0 {
		w.Submit = time.UnixMilli(a.Scheduler.Submit).UTC()
	}
	until := seen
	if end != 0 {
		w.End, until = time.UnixMilli(end).UTC(), end
		w.Lost = a.wentSilent(spans)
	}
	for _, s := range spans {
		if s.Node != "" && !slices.Contains(w.Nodes, s.Node) {
			w.Nodes = append(w.Nodes, s.Node)
		}
	}
	w.Nodes = a.addAllocatedNodes(w.Nodes)
	for _, start := range a.Rows {
		if start != a.Start || a.replaces {
			w.PreviousStarts = append(w.PreviousStarts, time.UnixMilli(start).UTC())
		}
	}
	var reduced bool
	if w.ExitCode, reduced = a.exitCode(); reduced {
		w.Exactness.Add(figure.ExitKey, figure.Estimated)
	} else {
		restoreExitCode(w.Steps, w.ExitCode)
	}
	a.setFigures(&w.Row, seen-gone.Milliseconds(), assignLanes(spans, a.Ends))
	ran := float64(until-a.Start) / 1000
	if w.SuspendedSeconds != nil {
		ran -= *w.SuspendedSeconds
	}
	if w.CPUSeconds != nil && ran > 0 {
		w.CoresMean = new(max(*w.CPUSeconds-a.cpuBeforeFirst(), 0) / ran)
		if m := w.CoresMax; m != nil && a.isReported() && *w.CoresMean*ran <= *m*(ran+wholeSeconds) {
			w.CoresMean = new(min(*w.CoresMean, *m))
		}
	}
	if r := w.RequestSeconds; r != nil && *r >= noLimit {
		w.RequestSeconds = nil
	}
	a.setContainerEnds(&w, gone)
	if created != 0 {
		a.setWaiting(&w, created)
	}
	a.setMeanMemory(&w.Row, until)
	w.Shares = a.shareByUser(spans)
	a.setExactness(&w.Row)
	a.raiseToLimit(&w)
	if accounted := sumStepsCPU(w.Steps); w.CPUSeconds != nil && accounted > 1+1.05**w.CPUSeconds {
		w.Exactness.Add("cpu_seconds", figure.AtLeast) // some of its processes left its control groups
	}
	return w
}

const (
	wholeSeconds = 2.0           // seconds by which a run may be longer, because a batch system reports whole seconds
	noLimit      = 365 * 86400.0 // seconds: Slurm's value for partitions without a time limit
)

// sumStepsCPU returns the CPU time of the steps by accounting, seconds.
func sumStepsCPU(steps []store.Step) (sum float64) {
	for i := range steps {
		if s := &steps[i]; s.CPUSeconds != nil {
			sum += *s.CPUSeconds
		}
	}
	return sum
}

// cpuBeforeFirst returns the CPU time used before the first sample, if that sample marks the start of the workload. In
// imported history, a run begins with its first reading.
func (a *account) cpuBeforeFirst() (seconds float64) {
	for _, k := range a.Tracks {
		if k.T != 0 && k.First == a.Start && !k.isBatch() && k.Slot.isUsedBy(cpuFigure) {
			seconds += k.FirstV
		}
	}
	return seconds
}

// setMeanMemory sets the mean memory of row. It divides by the time since memory was first measured, because the workload
// may be older than its agent. Processes may outlive the end that the scheduler reports. If the mean would exceed the
// peak, it divides by that longer time.
func (a *account) setMeanMemory(row *figure.Row, until int64) {
	from, before := a.firstMemory()
	if row.MemoryByteSeconds == nil {
		return
	}
	held := max(*row.MemoryByteSeconds-before, 0)
	watched := float64(until-max(a.Start, from)) / 1000
	if peak := row.MemoryPeakBytes; peak != nil && held > *peak*watched {
		watched = max(watched, float64(latestEnd(a.Ends)-max(a.Start, from))/1000)
	}
	if peak := row.MemoryPeakBytes; watched > 0 && (held > 0 || peak == nil || *peak == 0) {
		row.MemoryMeanBytes = new(held / watched)
	}
}

// latestEnd returns the latest end of a part as observed by its node, or 0.
func latestEnd(ends map[partPlace]partEnding) (last int64) {
	for _, e := range ends {
		last = max(last, e.End)
	}
	return last
}

// firstMemory returns the time of the first memory sample and the byte-seconds before it. These are summed over the parts
// that existed at that sample.
func (a *account) firstMemory() (first int64, before float64) {
	byNode := map[string]int64{}
	for _, k := range a.Tracks {
		if k.T == 0 || !k.Slot.isUsedBy(memoryFigure) {
			continue
		}
		if at, ok := byNode[k.Node]; !ok || k.First < at {
			byNode[k.Node] = k.First
		}
	}
	for _, k := range a.Tracks {
		if k.T != 0 && k.Slot.isUsedBy(memoryFigure) && k.First == byNode[k.Node] && k.First > a.Start {
			before += k.FirstV
		}
	}
	for _, at := range byNode {
		if first == 0 || at < first {
			first = at
		}
	}
	return first, before
}

// busiestProgram returns the program of the parts that used the most CPU time. A script that only starts the work in steps
// uses little and is thus not chosen.
func (a *account) busiestProgram() string {
	if len(a.Programs) < 2 {
		return a.Command
	}
	used := map[string]float64{}
	for _, k := range a.Tracks {
		if !k.Slot.isUsedBy(cpuFigure) {
			continue
		}
		if name := a.Programs[k.place()].Name; name != "" {
			used[name] += k.totalCount()
		}
	}
	best := a.Command
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if used[name] > used[best] {
			best = name
		}
	}
	return best
}

// exitCode returns the exit code from the best source: the batch system's controller, its accounting, then the nodes.
// From one source it takes the latest code, and the largest of simultaneous codes. reduced reports that accounting may
// have subtracted 128.
func (a *account) exitCode() (code *int, reduced bool) {
	rank := func(k *track) int {
		switch {
		case k.Slot == accountedExitSlot:
			return 1
		case k.isBatch():
			return 2
		}
		return 0
	}
	var best *track
	for _, k := range a.Tracks {
		if k.T == 0 || k.Slot != exitSlot && k.Slot != accountedExitSlot {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(rank(k), rank(best)), cmp.Compare(k.T, best.T), cmp.Compare(k.V, best.V)) > 0 {
			best = k
		}
	}
	if best == nil {
		return nil, false
	}
	n := int(best.V)
	return &n, best.Slot == accountedExitSlot
}

// sortedTracks lists the tracks in a fixed order, so that floating-point sums are reproducible.
func (a *account) sortedTracks() []*track {
	out := make([]*track, 0, len(a.Tracks))
	for _, id := range slices.Sorted(maps.Keys(a.Tracks)) {
		if k := a.Tracks[id]; k.T != 0 {
			out = append(out, k)
		}
	}
	return out
}

// assignLanes assigns a lane to each part. Parts of a node that ran one after the other share a lane, and simultaneous parts
// do not. Peaks of different lanes can thus be added. spans is sorted by node and start. If the end of a part is in
// ends, it counts instead of the last export.
func assignLanes(spans []partSpan, ends map[partPlace]partEnding) map[partPlace]int {
	out := make(map[partPlace]int, len(spans))
	type lane struct {
		node string
		last int64
	}
	var open []lane
	for _, s := range spans {
		at := slices.IndexFunc(open, func(l lane) bool { return l.node == s.Node && l.last <= s.first })
		if at < 0 {
			at = len(open)
			open = append(open, lane{node: s.Node})
		}
		open[at].last = s.last
		if e, ok := ends[s.partPlace]; ok && e.precedes(s.last) {
			open[at].last = min(s.last, e.End)
		}
		out[s.partPlace] = at
	}
	return out
}

// partLane returns the lane of a part. Data without a span, such as the distribution over all parts of a node, gets its own.
func partLane(lane map[partPlace]int, p partPlace) int {
	at, ok := lane[p]
	if !ok && lane != nil {
		at = -1 - len(lane)
		lane[p] = at
	}
	return at
}
