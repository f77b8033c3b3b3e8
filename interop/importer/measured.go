package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// What accounting says that a job used counts only where nobody saw the job. That is decided
// for each life of an id: ids come again.

// usage are the metrics that accounting and agents both report.
var usage = []string{mCPU, mPeak, mIO}

// aside is by how many seconds clocks may differ.
const aside = 60

// during reports whether one of the times, which are in order, is within a run.
func during(times []int64, start, end int64) bool {
	i, _ := slices.BinarySearch(times, start-aside)
	return i < len(times) && times[i] <= end+aside
}

// asked is how many workloads are asked for in one query.
const asked = 500

// measuredJobs says of the jobs that wait whether somebody else than accounting saw them.
func (im *Importer) measuredJobs(ctx context.Context, from, to int64) (out []bool, err error) {
	out = make([]bool, len(im.jobs))
	byID := map[string][]int{} // site and workload
	ids := map[string]bool{}
	for i := range im.jobs {
		j := &im.jobs[i]
		if j.Start.IsZero() || j.End.IsZero() {
			continue
		}
		byID[j.Cluster+"\x00slurm/"+j.ID] = append(byID[j.Cluster+"\x00slurm/"+j.ID], i)
		ids["slurm/"+j.ID] = true
	}
	q, err := im.o.Store.Querier(from-aside*1000, to+aside*1000)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	var it chunkenc.Iterator
	for part := range slices.Chunk(sortedKeys(ids), asked) {
		set := q.Select(ctx, false, nil, equal("__name__", mCPU), oneOf("workload", part), labels.MustNewMatcher(labels.MatchNotEqual, "source", "sacct"))
		for set.Next() {
			l := set.At().Labels()
			lives := byID[l.Get("site")+"\x00"+l.Get("workload")]
			slices.SortFunc(lives, func(a, b int) int { return im.jobs[a].Start.Compare(im.jobs[b].Start) })
			it = set.At().Iterator(it)
			for _, i := range lives {
				vt := it.Seek((im.jobs[i].Start.Unix() - aside) * 1000)
				if vt == chunkenc.ValNone {
					break
				}
				out[i] = out[i] || it.AtT() <= (im.jobs[i].End.Unix()+aside)*1000
			}
		}
		if set.Err() != nil {
			return nil, set.Err()
		}
	}
	return out, nil
}

// toldLife is a life that accounting reported.
type toldLife struct {
	id         string
	start, end int64 // seconds
}

// dropAccounted deletes what accounting reported of the use of jobs that were now seen: times
// are given by workload.
func (im *Importer) dropAccounted(ctx context.Context, site string, seen map[string][]int64) error {
	if len(seen) == 0 {
		return nil
	}
	for part := range slices.Chunk(sortedKeys(seen), asked) {
		from, to := int64(1)<<62, int64(0)
		for _, id := range part {
			slices.Sort(seen[id])
			from, to = min(from, seen[id][0]), max(to, seen[id][len(seen[id])-1])
		}
		lives, err := im.accountedLives(ctx, site, part, from-90*86400, to+90*86400)
		if err != nil {
			return err
		}
		if err := im.dropUsage(ctx, site, lives, seen); err != nil {
			return fmt.Errorf("delete what accounting reported of jobs that are measured: %w", err)
		}
	}
	return nil
}

// accountedLives finds the lives of workloads of which accounting reported some use.
func (im *Importer) accountedLives(ctx context.Context, site string, ids []string, from, to int64) (out []toldLife, err error) {
	q, err := im.o.Store.Querier(from*1000, to*1000)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	set := q.Select(ctx, false, nil, equal("__name__", mStart), equal("source", "sacct"), equal("site", site), oneOf("workload", ids))
	for set.Next() {
		id := set.At().Labels().Get("workload")
		known := len(out)
		it := set.At().Iterator(nil)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			t, v := it.At()
			if value.IsStaleNaN(v) {
				continue
			}
			if len(out) == known || out[len(out)-1].start != int64(v) {
				out = append(out, toldLife{id: id, start: int64(v)})
			}
			out[len(out)-1].end = t / 1000
		}
	}
	return out, set.Err()
}

// dropUsage deletes the usage of those lives in which a job was seen. Ids with one life go
// together.
func (im *Importer) dropUsage(ctx context.Context, site string, lives []toldLife, seen map[string][]int64) error {
	many := map[string]int{}
	for _, l := range lives {
		many[l.id]++
	}
	lives = slices.DeleteFunc(lives, func(l toldLife) bool { return !during(seen[l.id], l.start, l.end) })
	if len(lives) == 0 {
		return nil
	}
	drop := func(from, to int64, ids ...string) error {
		return im.o.Store.Delete(ctx, from*1000, to*1000+999, oneOf("__name__", usage), equal("source", "sacct"), equal("site", site), oneOf("workload", ids))
	}
	var ids []string
	from, to := int64(1)<<62, int64(0)
	for _, l := range lives {
		for t := l.start; t < l.end+touchedRange; t += touchedRange {
			im.note(min(t, l.end))
		}
		if many[l.id] > 1 {
			if err := drop(l.start, l.end, l.id); err != nil {
				return err
			}
			continue
		}
		ids, from, to = append(ids, l.id), min(from, l.start), max(to, l.end)
	}
	if len(ids) == 0 {
		return nil
	}
	return drop(from, to, ids...)
}

// measuredTimes says when reckon's own agent measured nodes, by their names without domain.
type measuredTimes map[place][]int64

// near is how far from a reading the agent's own samples may lie, in seconds.
const near = 600

func (m measuredTimes) at(p place, t int64) bool {
	list := m[place{p.site, hostOf(p.node)}]
	i, _ := slices.BinarySearch(list, t)
	return i < len(list) && list[i]-t <= near || i > 0 && t-list[i-1] <= near
}

// measuredNodes finds when agents measured: each of them reports when its node was started.
func (im *Importer) measuredNodes(ctx context.Context, from, to int64) (_ measuredTimes, err error) {
	q, err := im.o.Store.Querier((from-near)*1000, (to+near)*1000)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	out := measuredTimes{}
	set := q.Select(ctx, false, nil, equal("__name__", mBoot), equal("source", ""))
	for set.Next() {
		l := set.At().Labels()
		p := place{l.Get("site"), hostOf(l.Get("node"))}
		var last int64
		it := set.At().Iterator(nil)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			t, v := it.At()
			if !value.IsStaleNaN(v) && t/1000-last >= near/2 {
				last = t / 1000
				out[p] = append(out[p], last)
			}
		}
		slices.Sort(out[p])
	}
	return out, set.Err()
}

func unix(t int64) time.Time { return time.Unix(t, 0).UTC() }
