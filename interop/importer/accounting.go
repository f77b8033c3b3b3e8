package importer

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/figure"
	"reckon/interop/sacct"
)

func (im *Importer) endJob(ctx context.Context) error {
	j := im.last
	im.last = nil
	if j == nil {
		return nil
	}
	j.Complete()
	return im.readJob(ctx, j)
}

// readJob reads a job with its steps from accounting.
func (im *Importer) readJob(ctx context.Context, j *sacct.Job) error {
	im.res.Records++
	for _, err := range j.Unread {
		im.badField(j.Line, err)
	}
	site := im.siteOf(j.Cluster)
	at := reportedTime(j)
	switch {
	case at.IsZero() || j.State == "pending":
		im.res.Waiting++
		return nil
	case at.After(im.o.Clock().Add(10 * time.Minute)):
		im.res.Refused++
		im.addError(0, fmt.Errorf("job %s: %s is in the future; check the time zone of the export (--zone)", j.ID,
			at.UTC().Format(time.RFC3339)))
		return nil
	}
	st, err := im.loadState(site)
	if err != nil {
		return err
	}
	st.addJobID(j)
	key := jobFingerprint(j)
	if st.Jobs[key] {
		im.res.Known++
		return nil
	}
	st.Jobs[key] = true
	im.res.Taken++
	im.noteSeen(site, string(j.Workload()))
	one := *j
	one.Cluster = site
	im.jobs = append(im.jobs, one)
	if len(im.jobs) >= jobBatch {
		return im.flushJobs(ctx)
	}
	return nil
}

// reportedTime returns the time of the state that accounting reports for a job.
func reportedTime(j *sacct.Job) time.Time {
	if !j.End.IsZero() && sacct.IsFinal(j.State) {
		switch j.State {
		case sacct.Requeued, "node_fail", "boot_fail", "launch_failed", "preempted":
			// the next run is submitted in the same second, and may start a millisecond earlier
			return j.End.Add(-2 * time.Millisecond)
		}
		return j.End
	}
	if !j.Start.IsZero() && j.Seen.After(j.Start) {
		return j.Seen
	}
	return j.Start
}

func jobFingerprint(j *sacct.Job) uint64 {
	h := fnv.New64a()
	id := j.ID
	if strings.Contains(id, "+") { // the id under which it was imported before components had ids of their own
		id = j.Raw
	}
	cpu, memory := j.Has()
	h.Write([]byte(j.Kind))
	fmt.Fprintf(h, "%s|%s|%s|%d|%d|%d|%s|%v|%v", j.Cluster, id, j.Raw, j.Submit.Unix(), j.Start.Unix(), j.End.Unix(), j.State, cpu, memory)
	return h.Sum64()
}

type bookPoint struct {
	t int64
	v float64
}

// seriesBook collects points of one id by series; several runs of it share a series.
type seriesBook struct {
	lines   []bookLine
	builder labels.ScratchBuilder
}

type bookLine struct {
	hash   uint64
	labels labels.Labels
	points []bookPoint
}

func (b *seriesBook) addPoint(t int64, v float64, name string, lists ...[]string) {
	l := makeLabels(&b.builder, name, lists...)
	hash := l.Hash()
	i := slices.IndexFunc(b.lines, func(x bookLine) bool { return x.hash == hash })
	if i < 0 {
		i = len(b.lines)
		b.lines = slices.Grow(b.lines, 1)[:i+1]
		b.lines[i] = bookLine{hash, l, b.lines[i].points[:0]} // with the room of an earlier one
	}
	b.lines[i].points = append(b.lines[i].points, bookPoint{t, v})
}

// flushJobs writes the pending jobs.
func (im *Importer) flushJobs(ctx context.Context) error {
	if len(im.jobs) == 0 {
		return nil
	}
	slices.SortStableFunc(im.jobs, func(a, b sacct.Job) int {
		// As labels are ordered, so that series need little sorting.
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.User, b.User), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.ID, b.ID))
	})
	from, to := int64(math.MaxInt64), int64(0)
	for i := range im.jobs {
		j := &im.jobs[i]
		at := reportedTime(j).UnixMilli()
		to = max(to, at)
		if !j.Start.IsZero() {
			at = j.Start.UnixMilli()
		}
		from = min(from, at)
	}
	measured, err := im.measuredJobs(ctx, from, to)
	if err != nil {
		return err
	}
	b, sites := seriesBook{}, map[string]bool{}
	for i := range im.jobs {
		j := &im.jobs[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		im.writeJob(&b, j, measured[i])
		sites[j.Cluster] = true
		if i+1 == len(im.jobs) || im.jobs[i+1].ID != j.ID || im.jobs[i+1].User != j.User || im.jobs[i+1].Kind != j.Kind ||
			im.jobs[i+1].Cluster != j.Cluster {
			im.closeBook(&b)
		}
	}
	clear(im.jobs)
	im.jobs = im.jobs[:0]
	for _, site := range sortedKeys(sites) {
		st, err := im.loadState(site)
		if err != nil {
			return err
		}
		if err := st.beginImport(unixTime(im.out.from), unixTime(im.out.to+1), nil); err != nil {
			return err
		}
	}
	return im.writeSink(ctx, nil)
}

// closeBook adds the series of an id to the output.
func (im *Importer) closeBook(b *seriesBook) {
	for i := range b.lines {
		l := &b.lines[i]
		slices.SortStableFunc(l.points, func(x, y bookPoint) int { return cmp.Compare(x.t, y.t) })
		s := im.out.h.Series(l.labels)
		for _, p := range l.points {
			im.out.addSample(s, p.t, p.v)
		}
	}
	b.lines = b.lines[:0]
}

// valueInterval is the interval at which values of a total that is spread over time are written, because views look back a week.
const valueInterval = 24 * time.Hour

// writeJob writes the series of one job.
func (im *Importer) writeJob(b *seriesBook, j *sacct.Job, measured bool) {
	at := reportedTime(j)
	t := at.UnixMilli()
	id := j.Workload()
	base := []string{"kind", string(id.Kind()), "owner", j.User, "site", j.Cluster, "source", cmp.Or(string(j.Kind), "sacct"),
		"workload", string(id)}
	put := func(v float64, name string, pairs ...string) { b.addPoint(t, v, name, base, pairs) }
	maybe := func(v *float64, name string) {
		if v != nil {
			put(*v, name)
		}
	}
	im.extendRange(at.Unix())
	put(1, mInfo, "name", j.Name, "account", j.Account, "partition", j.Partition)
	put(1, mState, "state", j.State, "reason", j.Reason)
	if j.Also != "" {
		put(1, mNumber, "number", j.Also)
	}
	if j.Nodes != "" {
		put(1, mNodes, "nodes", j.Nodes)
	}
	if !j.Submit.IsZero() {
		put(float64(j.Submit.Unix()), mSubmit)
	}
	maybe(j.ReqCores, mCores)
	maybe(j.ReqMemory, mReqMem)
	maybe(j.ReqGPUs, mReqGPUs)
	maybe(j.TimeLimit, mReqTime)
	maybe(j.ReqNodes, mReqNodes)
	if j.ExitCode != nil {
		if j.ExitReduced {
			put(float64(*j.ExitCode), mExit, "by", figure.Accounting)
		} else {
			put(float64(*j.ExitCode), mExit)
		}
	}
	if sacct.IsFinal(j.State) && !j.End.IsZero() {
		put(float64(j.End.Unix()), mEnd)
	}
	if j.QOS != "" {
		put(1, mQOS, "qos", j.QOS)
	}
	if j.EndedBy != "" {
		put(1, mEndedBy, "by", j.EndedBy, "user", im.userName(j))
	}
	im.steps(b, j, base, t)
	if j.Start.IsZero() {
		return
	}
	put(float64(j.Start.Unix()), mStart)
	im.allocation(b, j, base, t)
	im.noteSpan(j.Start.Unix(), at.Unix()) // it held its allocation
	if !sacct.IsFinal(j.State) || measured {
		return
	}
	maybe(j.PeakMemory, mPeak)
	// Each of these points records the start of the job; otherwise a point a day later looks like another job.
	for at := j.Start; at.Before(j.End); at = at.Add(valueInterval) {
		b.addPoint(at.UnixMilli(), float64(j.Start.Unix()), mStart, base)
	}
	spread := func(v *float64, name string, pairs ...string) {
		if v == nil {
			return
		}
		whole := j.End.Sub(j.Start)
		if whole > 0 {
			for since := time.Duration(0); since < whole; since += valueInterval {
				b.addPoint(j.Start.Add(since).UnixMilli(), *v*since.Seconds()/whole.Seconds(), name, base, pairs)
			}
		}
		b.addPoint(t, *v, name, base, pairs)
	}
	spread(j.CPUUser, mCPU, "mode", "user")
	spread(j.CPUSystem, mCPU, "mode", "system")
	spread(j.Read, mIO, "direction", "read")
	spread(j.Written, mIO, "direction", "write")
}
