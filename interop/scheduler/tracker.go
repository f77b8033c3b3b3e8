package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"reckon/interop/slurmtext"
	"reckon/metric"
	"reckon/workload"
)

const (
	// resendInterval is the interval at which the samples of an unchanged job are sent again, so that its series do not go stale.
	resendInterval = 2 * time.Minute
	// maxSampleAge is the maximum age of a run's last sample. Younger samples are read by the next round of the
	// catalogue. Older ones would require a backfill.
	maxSampleAge = 90 * time.Second
	// retention is the time that a job is kept after its end. It exceeds the time range of every query to the batch system,
	// so that a job that is returned again is not mistaken for a new one.
	retention = 3 * time.Hour
	// minSampleSpacing is the minimum time between two samples of a run. It leaves room for the staleness marker after
	// the last sample. A sample just before the start of a run would be attributed to that run.
	minSampleSpacing = time.Millisecond
	// acctTimeout is the time that accounting is queried for a job that left the queue.
	acctTimeout = 24 * time.Hour
)

// JobTracker keeps the runs of jobs and converts them to samples. It writes samples when a run changes and at intervals
// while the run lasts.
//
// The time of each sample is within its run. The store keeps one value per series and time, so two runs with the same
// job id would otherwise overwrite each other.
type JobTracker struct {
	kind     workload.Kind
	runs     map[runKey]*run
	round    uint64
	polledAt time.Time // time of the last poll of the queue; samples of active runs have this time
	// parts are the parts of runs before the last change of their allocation, by id.
	parts map[string][]Job
}

// runKey is the identity of a run within the cluster.
type runKey struct {
	id     string
	submit int64
}

type run struct {
	kind    workload.Kind
	job     Job
	rows    runSeries
	sent    string    // fingerprint of the last samples
	sentAt  time.Time // time of the last sample
	endSent bool
	// suspendedSince is the start of the last suspension reported by the queue, suspendedBefore the
	// seconds suspended before that.
	suspendedSince  time.Time
	suspendedBefore float64

	round   uint64    // last poll in which the queue contained it
	left    time.Time // when it was first absent from the queue; zero while it is present
	queried time.Time // when accounting was last queried for it
}

// arrayStarted is the last state of the waiting part of an array, when its tasks have become separate jobs. Slurm has no such state.
const arrayStarted = "started"

// NewJobTracker returns a tracker of the jobs of a kind, without runs.
func NewJobTracker(kind workload.Kind) *JobTracker {
	return &JobTracker{kind: kind, runs: map[runKey]*run{}, parts: map[string][]Job{}}
}

func (b *JobTracker) findRun(j *Job) *run {
	k := runKey{j.ID, j.Submit.Unix()}
	l := b.runs[k]
	if l == nil {
		l = &run{kind: b.kind}
		b.runs[k] = l
	}
	return l
}

// UpdateQueue updates the runs from the jobs of the controller at time now. whole is true if the list is complete.
func (b *JobTracker) UpdateQueue(now time.Time, jobs []Job, whole bool) {
	b.round++
	b.polledAt = now
	for i := range jobs {
		l := b.findRun(&jobs[i])
		l.round, l.left = b.round, time.Time{}
		l.mergeRecord(&jobs[i])
	}
	if !whole {
		return
	}
	tasks := map[string]time.Time{} // latest start of a task of an array
	for k, l := range b.runs {
		if array, _, ok := strings.Cut(k.id, "_"); ok && l.job.Start.After(tasks[array]) {
			tasks[array] = l.job.Start
		}
	}
	for k, l := range b.runs {
		if l.round == b.round || l.job.Ended {
			continue
		}
		if l.left.IsZero() {
			l.left = now
		}
		// The pending part of an array has no end of its own because its tasks have started.
		if at, ok := tasks[k.id]; ok && l.job.Tasks > 0 && slurmtext.IsPending(l.job.State) {
			l.job.State, l.job.Reason, l.job.Ended, l.job.End = arrayStarted, "all tasks have begun", true, at
		}
	}
}

// UpdateAccounting updates the runs from records of accounting.
func (b *JobTracker) UpdateAccounting(jobs []Job) {
	for i := range jobs {
		if jobs[i].State == "resizing" {
			b.keepPart(&jobs[i])
		}
	}
	for i := range jobs {
		j := &jobs[i]
		if j.State == "resizing" {
			continue // the last record of the run has its end
		}
		b.restoreSubmit(j)
		if l, tracked := b.runs[runKey{j.ID, j.Submit.Unix()}]; tracked || j.Ended {
			if !tracked {
				l = b.findRun(j)
			}
			queued := l.round == b.round && b.round > 0
			if queued && (!j.Ended || j.Tasks > 0) {
				continue // the queue is more recent
			}
			l.mergeRecord(j)
		}
	}
}

// earlierPart returns the earlier part of a run if j is its record after a change of allocation. It then sets the submit
// and start time of j to the run's. Accounting writes the time of the change as submit time, and that time or
// the start of the run (observed with 22.05) as start.
func (b *JobTracker) earlierPart(j *Job) *Job {
	for k := range b.parts[j.ID] {
		p := &b.parts[j.ID][k]
		if sameSecond(p.Start.Sub(j.Start)) && !j.Submit.Before(p.End) || j.Submit.Equal(p.End) && j.Start.Equal(p.End) {
			j.Allocated.Since, j.Submit, j.Start = j.Submit, p.Submit, p.Start
			return p
		}
	}
	return nil
}

// restoreSubmit sets the submit time of a run in its last record after a change of allocation, and the known data of the time before.
func (b *JobTracker) restoreSubmit(j *Job) {
	if p := b.earlierPart(j); p != nil {
		p.addEarlierPart(j)
		return
	}
	if _, own := b.runs[runKey{j.ID, j.Submit.Unix()}]; j.Start.IsZero() || !j.Submit.After(j.Start) {
		return
	} else if own {
		j.Start = j.Submit // a clock was set between the two
		return
	}
	j.Allocated.Since = j.Submit
	for k, l := range b.runs {
		if k.id == j.ID && sameSecond(l.job.Start.Sub(j.Start)) {
			j.Submit = l.job.Submit
			return
		}
	}
	j.Submit = j.Start // the run before the change was not observed
}

// keepPart stores the record of the part of a run before a change of allocation, including the steps of earlier parts.
// The record after the change may arrive only with a later query.
func (b *JobTracker) keepPart(j *Job) {
	list := b.parts[j.ID]
	switch p := b.earlierPart(j); {
	case p != nil && j.End.After(p.End):
		p.addEarlierPart(j)
		*p = *j
	case p == nil && !slices.ContainsFunc(list, func(had Job) bool { return sameSecond(had.Start.Sub(j.Start)) }):
		if j.Submit.After(j.Start) { // those before were not observed
			j.Allocated.Since = j.Submit
		}
		b.parts[j.ID] = append(list, *j)
	}
}

// addEarlierPart adds the allocation and the steps of j to next, the record after a change of allocation. A step that continued
// through the change is in both records. The batch script and extern are only in the first one (observed with 22.05),
// as if they had ended.
func (j *Job) addEarlierPart(next *Job) {
	next.Earlier = append(slices.Clone(j.Earlier), j.Allocated)
	steps, more := slices.Clone(j.Steps), 0
	for i := range steps {
		if s := &steps[i]; s.State == "resizing" && (s.ID == "batch" || s.ID == "extern") {
			s.State, s.End, s.Exit = next.State, next.End, next.Exit
		}
	}
	for _, s := range next.Steps {
		if i := slices.IndexFunc(steps, func(had Step) bool { return had.ID == s.ID }); i >= 0 {
			steps[i] = s
			continue
		}
		steps, more = KeepStep(steps, s), more+1
	}
	next.StepCount = max(j.StepCount, len(j.Steps)) + max(next.StepCount-len(next.Steps), 0) + more
	next.Steps = steps
}

// sameSecond reports whether two times written in whole seconds may be equal.
func sameSecond(d time.Duration) bool { return d > -2*time.Second && d < 2*time.Second }

// ownerSpelling returns the name of a job as its owner wrote it: accounting of Slurm replaces quotes.
func ownerSpelling(name, was string) string {
	if name == strings.ReplaceAll(was, `"`, "`") {
		return was
	}
	return name
}

// mergeRecord updates a run from a record of its job. Empty fields of the record leave the known values unchanged. A run that
// has ended stays ended, because a job that starts again is another run.
func (l *run) mergeRecord(j *Job) {
	was := l.job
	if was.Ended && !j.Ended && was.State != arrayStarted {
		return
	}
	l.job = *j
	n := &l.job
	for _, f := range []struct{ to, from *string }{
		{&n.User, &was.User}, {&n.Account, &was.Account}, {&n.Partition, &was.Partition}, {&n.Name, &was.Name},
		{&n.NodeList, &was.NodeList},
		{&n.QOS, &was.QOS}, {&n.UID, &was.UID},
	} {
		if *f.to == "" {
			*f.to = *f.from
		}
	}
	for _, f := range []struct{ to, from *float64 }{
		{&n.Cores, &was.Cores}, {&n.MemoryBytes, &was.MemoryBytes}, {&n.GPUs, &was.GPUs}, {&n.Nodes, &was.Nodes},
		{&n.Seconds, &was.Seconds},
		{&n.Allocated.Cores, &was.Allocated.Cores}, {&n.Allocated.MemoryBytes, &was.Allocated.MemoryBytes},
		{&n.Allocated.GPUs, &was.Allocated.GPUs},
		{&n.Allocated.Nodes, &was.Allocated.Nodes}, {&n.Suspended, &was.Suspended},
	} {
		if *f.to == 0 {
			*f.to = *f.from
		}
	}
	n.Name = ownerSpelling(n.Name, was.Name)
	if n.Start.IsZero() && !slurmtext.IsPending(n.State) {
		n.Start = was.Start
	}
	if len(n.Earlier) == 0 {
		n.Earlier = was.Earlier
	}
	if n.Allocated.Since.IsZero() {
		n.Allocated.Since = was.Allocated.Since
	}
	if n.EndedByUser == "" && n.EndedBy == was.EndedBy || n.EndedBy == "" && n.State == was.State {
		n.EndedBy, n.EndedByUser = was.EndedBy, was.EndedByUser
	}
	if n.StepCount < was.StepCount {
		n.Steps, n.StepCount = was.Steps, was.StepCount
	}
	if n.Ended && (n.Exit == nil || n.ExitReduced && was.Ended && was.Exit != nil && !was.ExitReduced) {
		n.Exit, n.ExitReduced = was.Exit, was.ExitReduced
	}
	if !was.SuspendedSince.IsZero() {
		l.suspendedSince, l.suspendedBefore = was.SuspendedSince, was.Suspended
	}
	if n.Ended && n.Suspended > 0 && !n.Start.IsZero() && !n.End.IsZero() {
		if !l.suspendedSince.IsZero() && n.End.Before(l.suspendedSince.Add(2*time.Second)) {
			n.Suspended = min(n.Suspended, l.suspendedBefore) // it was suspended when it was cancelled
		}
		n.Suspended = slurmtext.Suspended(n.Suspended, n.End.Sub(n.Start).Seconds(), nil)
	}
	if n.Reason == "" && n.State == was.State {
		n.Reason = was.Reason
	}
}

// Unaccounted returns up to most numbers of jobs that left the queue without a known end, and their earliest submit
// time. The least recently queried jobs come first. The call marks the returned jobs as queried at now.
func (b *JobTracker) Unaccounted(now time.Time, most int) (numbers []uint64, since time.Time) {
	var list []*run
	for _, l := range b.runs {
		if !l.job.Ended && !l.left.IsZero() && now.Sub(l.queried) >= min(resendInterval, now.Sub(l.left)/4) {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(x, y *run) int {
		return cmp.Or(x.queried.Compare(y.queried), cmp.Compare(x.job.Number, y.job.Number))
	})
	for _, l := range list[:min(len(list), most)] {
		l.queried = now
		numbers = append(numbers, l.job.Number)
		if since.IsZero() || l.job.Submit.Before(since) {
			since = l.job.Submit
		}
	}
	return numbers, since
}

// Unresolved returns the number of jobs that left the queue without a known end.
func (b *JobTracker) Unresolved() (n int) {
	for _, l := range b.runs {
		if !l.job.Ended && !l.left.IsZero() {
			n++
		}
	}
	return n
}

// RereadSince returns the time from which accounting must be read again after a restart, or the zero time. The reread
// finds jobs that left the queue without a known end, which need no query by number then. It also restores a run's
// earlier allocations, which are sent with its end.
func (b *JobTracker) RereadSince() (t time.Time) {
	for k, l := range b.runs {
		since := l.left
		if len(b.parts[k.id]) > 0 {
			since = l.job.Start
		}
		if !l.job.Ended && !since.IsZero() && (t.IsZero() || since.Before(t)) {
			t = since
		}
	}
	return t
}

// Collect returns the samples that are due at time now, in batches by time, and drops runs that ended long ago.
func (b *JobTracker) Collect(now time.Time) []metric.Batch {
	next := b.nextSubmits()
	byTime := map[int64]*metric.Batch{}
	order := slices.SortedFunc(maps.Keys(b.runs), func(x, y runKey) int {
		return cmp.Or(cmp.Compare(x.submit, y.submit), cmp.Compare(x.id, y.id))
	})
	for _, k := range order {
		l := b.runs[k]
		if l.isForgotten(now) {
			delete(b.runs, k)
			delete(b.parts, k.id)
			continue
		}
		at, ok := l.dueTime(now, b.polledAt, next[k])
		if !ok {
			continue
		}
		batch := func(at time.Time) *metric.Batch {
			t := byTime[at.UnixMilli()]
			if t == nil {
				t = &metric.Batch{Time: at}
				byTime[at.UnixMilli()] = t
			}
			return t
		}
		for i := range l.earlierAllocations() { // each at its own time, before the current allocation's
			l.addAllocation(batch(at.Add(time.Duration(i-len(l.job.Earlier))*minSampleSpacing)), &l.job.Earlier[i])
		}
		l.appendTo(batch(at))
	}
	out := make([]metric.Batch, 0, len(byTime))
	for _, t := range byTime {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(x, y metric.Batch) int { return x.Time.Compare(y.Time) })
	return out
}

// earlierAllocations returns the allocations before the current one. They are sent after the end of the run.
func (l *run) earlierAllocations() []Allocation {
	if !l.job.Ended {
		return nil
	}
	return l.job.Earlier
}

// nextSubmits maps each run to the submit time of the next run of its id.
func (b *JobTracker) nextSubmits() map[runKey]time.Time {
	byID := map[string][]int64{}
	for k := range b.runs {
		byID[k.id] = append(byID[k.id], k.submit)
	}
	out := map[runKey]time.Time{}
	for id, list := range byID {
		slices.Sort(list)
		for i := range list[:len(list)-1] {
			out[runKey{id, list[i]}] = time.Unix(list[i+1], 0).UTC()
		}
	}
	return out
}

// dueTime reports whether samples must be sent, and their time.
func (l *run) dueTime(now, polledAt, next time.Time) (time.Time, bool) {
	current := l.job.sampleFingerprint()
	changed := current != l.sent
	at := now.Truncate(time.Millisecond)
	switch {
	case !l.job.Ended && (!next.IsZero() || !l.left.IsZero()):
		return at, false // no longer in the queue: accounting has the final state
	case !changed && (l.job.Ended || now.Sub(l.sentAt) < resendInterval):
		return at, false
	case l.job.Ended:
		// The end itself, unless it is long ago or before samples that were sent.
		if end := l.job.End; !end.IsZero() && end.Before(at) {
			at = end
		}
		free := l.sentAt.Add(time.Duration(2+len(l.job.Earlier)) * minSampleSpacing)
		at = latestTime(at, now.Add(-maxSampleAge), free)
		if limit := next.Add(-3 * minSampleSpacing); !next.IsZero() && !at.Before(limit) {
			// Before the next run, leaving space for a later correction.
			at = latestTime(next.Add(-time.Second), l.job.Submit, free)
			if at.After(limit) {
				at = limit
			}
		}
	default:
		if at = polledAt.Truncate(time.Millisecond); !at.After(l.sentAt) {
			return at, false // not polled since, or the clock was set back
		}
	}
	l.sent, l.sentAt, l.endSent = current, at, l.job.Ended
	return at.Truncate(time.Millisecond), true
}

func latestTime(t time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if o.After(t) {
			t = o
		}
	}
	return t
}

// isForgotten reports whether a run ended long ago, or disappeared from the queue long ago.
func (l *run) isForgotten(now time.Time) bool {
	if l.endSent {
		return now.Sub(latestTime(l.job.End, l.sentAt)) > retention && l.left.IsZero() || now.Sub(l.sentAt) > 2*retention
	}
	return !l.left.IsZero() && now.Sub(l.left) > acctTimeout
}

// Resend makes the next Collect return all samples again. Call it after a batch could not be stored. Samples that were
// stored before do not change.
func (b *JobTracker) Resend() {
	for _, l := range b.runs {
		l.sent = ""
	}
}
