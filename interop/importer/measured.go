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

	"reckon/internal/series"
)

// The use of a job in accounting counts only if the job was not measured. That is decided for each run of an id, because ids are reused.

// usageMetrics are the metrics that both accounting and agents report.
var usageMetrics = []string{mCPU, mPeak, mIO}

// clockTolerance is the tolerance for differing clocks, in seconds.
const clockTolerance = 60

// anyWithin reports whether one of the ordered times is within a run.
func anyWithin(times []int64, start, end int64) bool {
	i, _ := slices.BinarySearch(times, start-clockTolerance)
	return i < len(times) && times[i] <= end+clockTolerance
}

// idsPerQuery is the number of workloads per query.
const idsPerQuery = 500

// measuredJobs returns, for each pending job, whether a source other than accounting measured it.
func (im *Importer) measuredJobs(ctx context.Context, from, to int64) (out []bool, err error) {
	out = make([]bool, len(im.jobs))
	byID := map[string][]int{} // by site and workload
	ids := map[string]bool{}
	for i := range im.jobs {
		j := &im.jobs[i]
		if j.Start.IsZero() || j.End.IsZero() {
			continue
		}
		id := string(j.Workload())
		byID[j.Cluster+"\x00"+id] = append(byID[j.Cluster+"\x00"+id], i)
		ids[id] = true
	}
	q, err := im.o.Store.Querier(from-clockTolerance*1000, to+clockTolerance*1000)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	var it chunkenc.Iterator
	for part := range slices.Chunk(sortedKeys(ids), idsPerQuery) {
		set := q.Select(ctx, false, nil, series.Equal("__name__", mCPU), series.OneOf("workload", part),
			labels.MustNewMatcher(labels.MatchNotRegexp, "source", "sacct|pbs|sge|lsf"))
		for set.Next() {
			l := set.At().Labels()
			lives := byID[l.Get("site")+"\x00"+l.Get("workload")]
			slices.SortFunc(lives, func(a, b int) int { return im.jobs[a].Start.Compare(im.jobs[b].Start) })
			it = set.At().Iterator(it)
			for _, i := range lives {
				vt := it.Seek((im.jobs[i].Start.Unix() - clockTolerance) * 1000)
				if vt == chunkenc.ValNone {
					break
				}
				out[i] = out[i] || it.AtT() <= (im.jobs[i].End.Unix()+clockTolerance)*1000
			}
		}
		if set.Err() != nil {
			return nil, set.Err()
		}
	}
	return out, nil
}

// accountedRun is a run reported by accounting.
type accountedRun struct {
	id         string
	start, end int64 // seconds
}

// dropAccounted deletes the use reported by accounting for jobs that have now been measured at the given times, by workload.
func (im *Importer) dropAccounted(ctx context.Context, site string, seen map[string][]int64) error {
	if len(seen) == 0 {
		return nil
	}
	for part := range slices.Chunk(sortedKeys(seen), idsPerQuery) {
		from, to := int64(1)<<62, int64(0)
		for _, id := range part {
			slices.Sort(seen[id])
			from, to = min(from, seen[id][0]), max(to, seen[id][len(seen[id])-1])
		}
		lives, err := im.accountedRuns(ctx, site, part, from-90*86400, to+90*86400)
		if err != nil {
			return err
		}
		if err := im.dropUsage(ctx, site, lives, seen); err != nil {
			return fmt.Errorf("delete what accounting reported of jobs that are measured: %w", err)
		}
	}
	return nil
}

// accountedRuns returns the runs of workloads with use reported by accounting.
func (im *Importer) accountedRuns(ctx context.Context, site string, ids []string, from, to int64) (out []accountedRun, err error) {
	q, err := im.o.Store.Querier(from*1000, to*1000)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	set := q.Select(ctx, false, nil, series.Equal("__name__", mStart), series.Equal("source", "sacct"), series.Equal("site", site),
		series.OneOf("workload", ids))
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
				out = append(out, accountedRun{id: id, start: int64(v)})
			}
			out[len(out)-1].end = t / 1000
		}
	}
	return out, set.Err()
}

// dropUsage deletes the usage of the measured runs of a job. Ids with a single run are deleted together.
func (im *Importer) dropUsage(ctx context.Context, site string, lives []accountedRun, seen map[string][]int64) error {
	many := map[string]int{}
	for _, l := range lives {
		many[l.id]++
	}
	lives = slices.DeleteFunc(lives, func(l accountedRun) bool { return !anyWithin(seen[l.id], l.start, l.end) })
	if len(lives) == 0 {
		return nil
	}
	drop := func(from, to int64, ids ...string) error {
		return im.o.Store.Delete(ctx, from*1000, to*1000+999, series.OneOf("__name__", usageMetrics), series.Equal("source", "sacct"),
			series.Equal("site", site),
			series.OneOf("workload", ids))
	}
	var ids []string
	from, to := int64(1)<<62, int64(0)
	for _, l := range lives {
		im.noteSpan(l.start, l.end)
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

// measuredTimes are the times of measurements by reckon's own agent, by node name without domain.
type measuredTimes map[nodeKey][]int64

// agentDistance is the maximum distance between a reading and the agent's own samples, in seconds.
const agentDistance = 600

func (m measuredTimes) includes(p nodeKey, t int64) bool {
	list := m[nodeKey{p.site, shortHost(p.node)}]
	i, _ := slices.BinarySearch(list, t)
	return i < len(list) && list[i]-t <= agentDistance || i > 0 && t-list[i-1] <= agentDistance
}

// measuredNodes returns when agents measured: each of them reports the boot time of its node.
func (im *Importer) measuredNodes(ctx context.Context, from, to int64) (_ measuredTimes, err error) {
	q, err := im.o.Store.Querier((from-agentDistance)*1000, (to+agentDistance)*1000)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	out := measuredTimes{}
	set := q.Select(ctx, false, nil, series.Equal("__name__", mBoot), series.Equal("source", ""))
	for set.Next() {
		l := set.At().Labels()
		p := nodeKey{l.Get("site"), shortHost(l.Get("node"))}
		var last int64
		it := set.At().Iterator(nil)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			t, v := it.At()
			if !value.IsStaleNaN(v) && t/1000-last >= agentDistance/2 {
				last = t / 1000
				out[p] = append(out[p], last)
			}
		}
		slices.Sort(out[p])
	}
	return out, set.Err()
}

func unixTime(t int64) time.Time { return time.Unix(t, 0).UTC() }
