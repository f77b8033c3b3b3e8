package slurmctl

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"reckon/interop/slurmtext"
	"reckon/metric"
)

// What a Book goes by.
const (
	// repeat is how often an unchanged job is told again, so that its series do not go stale.
	repeat = 2 * time.Minute
	// behind is how old the time of the last word on a job may be: what is not older than
	// that is taken in by the next round of the catalogue, without history being read again.
	behind = 90 * time.Second
	// remember is for how long a job is known after its end: longer than any question
	// looks back, so that it is not told anew.
	remember = 3 * time.Hour
	// apart is the least time between two samples. One after the last word of a life stands
	// the mark that its series ended; and one before a life begins is taken to be of it.
	apart = time.Millisecond
	// giveUp is for how long accounting is asked for a job that left the queue.
	giveUp = 24 * time.Hour
)

// Book keeps the lives of jobs as they are told, and writes them as samples. A life is
// told again when it changed, and from time to time while it lasts.
//
// A sample has a time within the life that it is of: the store keeps one value for
// a series and time, and two lives of one id would else stand in each other's place.
type Book struct {
	lives map[key]*life
	round uint64
	heard time.Time // when the queue was asked last: what lives is told for that time
}

// key is the identity of a life, the cluster apart.
type key struct {
	id     string
	submit int64
}

type life struct {
	job  Job
	rows rows
	said string    // what was told last
	told time.Time // the time of the last sample
	over bool      // the end was told

	round uint64    // when the queue had it
	left  time.Time // when it was first missed in the queue; zero while it is there
	asked time.Time // when accounting was last asked for it
}

// started is the last state of what waited of an array, when its tasks have become jobs of
// their own. Slurm has no word for that.
const started = "started"

// NewBook returns an empty book.
func NewBook() *Book { return &Book{lives: map[key]*life{}} }

func (b *Book) life(j *Job) *life {
	k := key{j.ID, j.Submit.Unix()}
	l := b.lives[k]
	if l == nil {
		l = &life{}
		b.lives[k] = l
	}
	return l
}

// Queue takes in all jobs that the controller has at the time now. whole says that none is missing.
func (b *Book) Queue(now time.Time, jobs []Job, whole bool) {
	b.round++
	b.heard = now
	for i := range jobs {
		l := b.life(&jobs[i])
		l.round, l.left = b.round, time.Time{}
		l.merge(&jobs[i])
	}
	if !whole {
		return
	}
	tasks := map[string]time.Time{} // when a task of an array last began
	for k, l := range b.lives {
		if array, _, ok := strings.Cut(k.id, "_"); ok && l.job.Start.After(tasks[array]) {
			tasks[array] = l.job.Start
		}
	}
	for k, l := range b.lives {
		if l.round == b.round || l.job.Ended {
			continue
		}
		if l.left.IsZero() {
			l.left = now
		}
		// What waits of an array has no end of its own: its tasks have begun.
		if at, ok := tasks[k.id]; ok && l.job.Tasks > 0 && slurmtext.Waits(l.job.State) {
			l.job.State, l.job.Reason, l.job.Ended, l.job.End = started, "all tasks have begun", true, at
		}
	}
}

// Accounts takes in what accounting says of jobs.
func (b *Book) Accounts(jobs []Job) {
	for i := range jobs {
		j := &jobs[i]
		if l, known := b.lives[key{j.ID, j.Submit.Unix()}]; known || j.Ended {
			if !known {
				l = b.life(j)
			}
			queued := l.round == b.round && b.round > 0
			if queued && (!j.Ended || j.Tasks > 0) {
				continue // of what is in the queue, the queue knows more
			}
			l.merge(j)
		}
	}
}

// merge takes over what is said; what is left open stays as it was. A job that ended
// does not begin again: that is another life.
func (l *life) merge(j *Job) {
	was := l.job
	if was.Ended && !j.Ended && was.State != started {
		return
	}
	l.job = *j
	n := &l.job
	for _, f := range []struct{ to, from *string }{
		{&n.User, &was.User}, {&n.Account, &was.Account}, {&n.Partition, &was.Partition}, {&n.Name, &was.Name}, {&n.NodeList, &was.NodeList},
	} {
		if *f.to == "" {
			*f.to = *f.from
		}
	}
	for _, f := range []struct{ to, from *float64 }{
		{&n.Cores, &was.Cores}, {&n.MemoryBytes, &was.MemoryBytes}, {&n.GPUs, &was.GPUs}, {&n.Nodes, &was.Nodes}, {&n.Seconds, &was.Seconds},
	} {
		if *f.to == 0 {
			*f.to = *f.from
		}
	}
	if n.Start.IsZero() && !slurmtext.Waits(n.State) {
		n.Start = was.Start
	}
	if n.StepCount < was.StepCount {
		n.Steps, n.StepCount = was.Steps, was.StepCount
	}
	if n.Exit == nil && n.Ended {
		n.Exit = was.Exit
	}
	if n.Reason == "" && n.State == was.State {
		n.Reason = was.Reason
	}
}

// Missed are the numbers of jobs that left the queue without an end, those asked longest
// ago first, and when the first of them was handed in. They count as asked.
func (b *Book) Missed(now time.Time, most int) (raw []uint32, since time.Time) {
	var list []*life
	for _, l := range b.lives {
		if !l.job.Ended && !l.left.IsZero() && now.Sub(l.asked) >= min(repeat, now.Sub(l.left)/4) {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(x, y *life) int { return cmp.Or(x.asked.Compare(y.asked), cmp.Compare(x.job.Raw, y.job.Raw)) })
	for _, l := range list[:min(len(list), most)] {
		l.asked = now
		raw = append(raw, l.job.Raw)
		if since.IsZero() || l.job.Submit.Before(since) {
			since = l.job.Submit
		}
	}
	return raw, since
}

// Unresolved is how many jobs left the queue of which no end is known.
func (b *Book) Unresolved() (n int) {
	for _, l := range b.lives {
		if !l.job.Ended && !l.left.IsZero() {
			n++
		}
	}
	return n
}

// LeftSince is when the first of the jobs left the queue of which no end is known; zero
// when there is none.
func (b *Book) LeftSince() (t time.Time) {
	for _, l := range b.lives {
		if !l.job.Ended && !l.left.IsZero() && (t.IsZero() || l.left.Before(t)) {
			t = l.left
		}
	}
	return t
}

// Tell returns what there is to tell at the time now, in batches by time, and forgets lives
// that are long over.
func (b *Book) Tell(now time.Time) []metric.Batch {
	next := b.following()
	byTime := map[int64]*metric.Batch{}
	order := slices.SortedFunc(maps.Keys(b.lives), func(x, y key) int {
		return cmp.Or(cmp.Compare(x.submit, y.submit), cmp.Compare(x.id, y.id))
	})
	for _, k := range order {
		l := b.lives[k]
		if l.forgotten(now) {
			delete(b.lives, k)
			continue
		}
		at, ok := l.due(now, b.heard, next[k])
		if !ok {
			continue
		}
		t := byTime[at.UnixMilli()]
		if t == nil {
			t = &metric.Batch{Time: at}
			byTime[at.UnixMilli()] = t
		}
		l.tell(t)
	}
	out := make([]metric.Batch, 0, len(byTime))
	for _, t := range byTime {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(x, y metric.Batch) int { return x.Time.Compare(y.Time) })
	return out
}

// following says of each life of an id when the next one was handed in.
func (b *Book) following() map[key]time.Time {
	byID := map[string][]int64{}
	for k := range b.lives {
		byID[k.id] = append(byID[k.id], k.submit)
	}
	out := map[key]time.Time{}
	for id, list := range byID {
		slices.Sort(list)
		for i := range list[:len(list)-1] {
			out[key{id, list[i]}] = time.Unix(list[i+1], 0).UTC()
		}
	}
	return out
}

// due says whether something is to be told, and for which time.
func (l *life) due(now, heard, next time.Time) (time.Time, bool) {
	said := l.job.facts()
	changed := said != l.said
	at := now.Truncate(time.Millisecond)
	switch {
	case !l.job.Ended && (!next.IsZero() || !l.left.IsZero()):
		return at, false // not in the queue any more: the last word comes from accounting
	case !changed && (l.job.Ended || now.Sub(l.told) < repeat):
		return at, false
	case l.job.Ended:
		// The end itself, but not long ago, and not before what was told already.
		if end := l.job.End; !end.IsZero() && end.Before(at) {
			at = end
		}
		at = latestOf(at, now.Add(-behind), l.told.Add(2*apart))
		if limit := next.Add(-3 * apart); !next.IsZero() && !at.Before(limit) {
			// Before the next life, with room for what may come to be known later.
			at = latestOf(next.Add(-time.Second), l.job.Submit, l.told.Add(2*apart))
			if at.After(limit) {
				at = limit
			}
		}
	default:
		if at = heard.Truncate(time.Millisecond); !at.After(l.told) {
			return at, false // nothing was heard since, or the clock was set back
		}
	}
	l.said, l.told, l.over = said, at, l.job.Ended
	return at.Truncate(time.Millisecond), true
}

func latestOf(t time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if o.After(t) {
			t = o
		}
	}
	return t
}

// forgotten reports whether a life is long over, or was never heard of again.
func (l *life) forgotten(now time.Time) bool {
	if l.over {
		return now.Sub(latestOf(l.job.End, l.told)) > remember && l.left.IsZero() || now.Sub(l.told) > 2*remember
	}
	return !l.left.IsZero() && now.Sub(l.left) > giveUp
}

// Undo makes the next Tell say everything again, after a batch could not be stored. To say
// it twice changes nothing.
func (b *Book) Undo() {
	for _, l := range b.lives {
		l.said = ""
	}
}
