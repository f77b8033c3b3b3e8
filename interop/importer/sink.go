package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series"
	"reckon/store"
	"reckon/store/tsdb"
)

// sink collects the data to be written, and the data to be deleted before.
type sink struct {
	h   *tsdb.History
	err error
	n   int

	from, to int64 // range of the changes
	jobs     map[seriesKey]*jobSeries
	nodes    map[nodeKey]*nodeSeries
	clusters map[string]*jobSeries
	slurm    map[string]map[string][]int64 // by site and workload: when jobs of the batch system were measured

	drops map[int64]map[string][]string // by period and site: nodes with series to rebuild
	own   map[zeroKey]bool              // zeros at the start of such series
	undos []zeroKey                     // zeros of jobs with a changed start
	gone  []store.Run
}

type seriesKey struct {
	nodeKey
	id, owner string
}

// zeroKey is a zero sample before the first reading of a job, at its start time.
type zeroKey struct {
	nodeKey
	id    string
	start int64
}

func newSink() *sink {
	return &sink{
		h: &tsdb.History{}, from: 1 << 62, jobs: map[seriesKey]*jobSeries{}, nodes: map[nodeKey]*nodeSeries{},
		clusters: map[string]*jobSeries{},
		slurm:    map[string]map[string][]int64{}, drops: map[int64]map[string][]string{}, own: map[zeroKey]bool{},
	}
}

func (s *sink) addSample(to *tsdb.HistorySeries, t int64, v float64) {
	if err := to.Add(t, v); err != nil && s.err == nil {
		s.err = err
	}
	s.n++
}

// Amounts collected before a write.
const (
	sinkSamples = 4_000_000
	sinkJobs    = 20_000
)

func (s *sink) isFull() bool { return s.n >= sinkSamples || len(s.jobs) >= sinkJobs }

func (s *sink) seriesOfJob(p nodeKey, j *jobState) *jobSeries {
	k := seriesKey{p, j.ID, j.Owner}
	o := s.jobs[k]
	if o == nil {
		o = &jobSeries{of: s, by: map[string]*tsdb.HistorySeries{}, base: []string{
			"kind", j.Kind, "node", p.node, "owner", j.Owner, "site", p.site, "source", "sonar", "workload", j.ID,
		}}
		s.jobs[k] = o
	}
	return o
}

func (s *sink) seriesOfNode(p nodeKey) *nodeSeries {
	o := s.nodes[p]
	if o == nil {
		o = &nodeSeries{
			jobSeries: jobSeries{of: s, by: map[string]*tsdb.HistorySeries{},
				base: []string{"node", p.node, "site", p.site, "source", "sonar"}}}
		s.nodes[p] = o
	}
	return o
}

func (s *sink) seriesOfCluster(site string) *jobSeries {
	o := s.clusters[site]
	if o == nil {
		o = &jobSeries{of: s, by: map[string]*tsdb.HistorySeries{}, base: []string{"site", site, "source", "sonar"}}
		s.clusters[site] = o
	}
	return o
}

// recordTime records when a job of the batch system was measured.
func (s *sink) recordTime(site, id string, t int64) {
	seen := innerMap(s.slurm, site)
	seen[id] = append(seen[id], t)
}

// addDrop records that the series of a node in a period are rebuilt. was is the earlier state at its end.
func (s *sink) addDrop(p nodeKey, at int64, was *nodeState) {
	drops := innerMap(s.drops, at)
	drops[p.site] = append(drops[p.site], p.node)
	if was == nil {
		return
	}
	for _, j := range was.Jobs {
		if j.First >= at {
			s.own[zeroKey{p, j.ID, j.Start}] = true
		}
	}
}

func (s *sink) addUndo(p nodeKey, id string, start int64) {
	s.undos = append(s.undos, zeroKey{p, id, start})
	s.own[zeroKey{p, id, start}] = true
}

// writeSink stores the collected data, and then the resulting states.
func (im *Importer) writeSink(ctx context.Context, st *siteState) error {
	out := im.out
	im.out = newSink()
	if out.err != nil {
		return out.err
	}
	if st != nil && out.from <= out.to {
		if err := st.beginImport(unixTime(out.from), unixTime(out.to+1), out.gone); err != nil {
			return err
		}
	}
	im.res.Gone = append(im.res.Gone, out.gone...)
	kept, err := im.deleteRebuilt(ctx, out)
	if err != nil {
		return err
	}
	for site, seen := range out.slurm {
		if err := im.dropAccounted(ctx, site, seen); err != nil {
			return err
		}
	}
	im.res.Samples += out.n
	if err := im.o.Store.ImportBlocks(ctx, out.h); err != nil {
		return err
	}
	if err := im.o.Store.ImportBlocks(ctx, kept); err != nil {
		return err
	}
	if st == nil {
		return nil
	}
	return st.journal.saveEnds()
}

// deleteRebuilt removes the series to be rebuilt. It returns the zero samples that later periods wrote into these series,
// because the caller must write them again.
func (im *Importer) deleteRebuilt(ctx context.Context, out *sink) (*tsdb.History, error) {
	kept, byText := &tsdb.History{}, map[string]*tsdb.HistorySeries{}
	for _, p := range sortedKeys(out.drops) {
		for _, site := range sortedKeys(out.drops[p]) {
			for nodes := range slices.Chunk(out.drops[p][site], 200) {
				from, to := p*1000, (p+periodSeconds)*1000-1
				ms := []*labels.Matcher{series.Equal("source", "sonar"), series.Equal("site", site), series.OneOf("node", nodes)}
				if err := im.collectZeros(ctx, kept, byText, out, site, from, to, ms); err != nil {
					return nil, err
				}
				ms = append(ms, labels.MustNewMatcher(labels.MatchNotRegexp, "__name__", "reckon_slurm_.*"))
				if err := im.o.Store.Delete(ctx, from, to, ms...); err != nil {
					return nil, fmt.Errorf("delete series to be rebuilt: %w", err)
				}
			}
		}
	}
	for _, z := range out.undos {
		at := z.start*1000 + startOffset
		if err := im.o.Store.Delete(ctx, at, at, series.Equal("source", "sonar"), series.Equal("site", z.site),
			series.Equal("node", z.node),
			series.Equal("workload", z.id)); err != nil {
			return nil, fmt.Errorf("delete series to be rebuilt: %w", err)
		}
	}
	return kept, nil
}

// collectZeros collects the zero samples of a time range, except samples of rebuilt series.
func (im *Importer) collectZeros(ctx context.Context, into *tsdb.History, byText map[string]*tsdb.HistorySeries, out *sink, site string,
	from,
	to int64, ms []*labels.Matcher) (err error) {
	q, err := im.o.Store.Querier(from, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	set := q.Select(ctx, false, nil, append([]*labels.Matcher{series.OneOf("__name__", []string{mCPU, mCommand})}, ms...)...)
	for set.Next() {
		l := set.At().Labels()
		s := byText[l.String()]
		it := set.At().Iterator(nil)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			t, v := it.At()
			if vt != chunkenc.ValFloat || t%1000 != startOffset || out.own[zeroKey{nodeKey{site, l.Get("node")}, l.Get("workload"),
				t / 1000}] {
				continue
			}
			if s == nil {
				s = into.Series(l)
				byText[l.String()] = s
			}
			if err := s.Add(t, v); err != nil {
				return err
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	return set.Err()
}
