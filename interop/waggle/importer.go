package waggle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure/wire"
	"reckon/interop/importer"
	"reckon/store/tsdb"
)

// flushSize is the number of measurements that are buffered before they are written.
const flushSize = 1_000_000

// maxClockAhead is the time that a measurement may lie in the future, because clocks differ.
const maxClockAhead = 10 * time.Minute

// Importer imports saved responses of Waggle's data API. It skips text values. Samples that the store already has are
// counted as known. It is not safe for concurrent use.
type Importer struct {
	store importer.Store
	site  string
	now   time.Time

	res    importer.Result
	file   string
	series map[uint64][]*bufferedSeries
	held   int
	texts  int
}

// bufferedSeries holds the samples of a series that are not written yet.
type bufferedSeries struct {
	labels  labels.Labels
	samples []bufferedSample
}

type bufferedSample struct {
	t int64
	v float64
}

// NewImporter returns an importer into a store, under a site.
func NewImporter(store importer.Store, site string, now time.Time) *Importer {
	return &Importer{store: store, site: site, now: now, series: make(map[uint64][]*bufferedSeries)}
}

// Read imports one input, plain or gzip. Unreadable lines are counted and listed.
func (im *Importer) Read(ctx context.Context, name string, in io.Reader) error {
	im.res.Files++
	im.file = name
	in, err := importer.Unpack(in)
	if err != nil {
		return err
	}
	var failed error
	err = eachLine(in, func(n int, line []byte) {
		if failed == nil && im.held >= flushSize {
			failed = im.flushBuffer(ctx)
		}
		if failed == nil {
			im.addLine(n, line)
		}
	}, im.addError)
	if errors.Is(err, importer.ErrDamaged) {
		im.addError(0, err)
		err = nil
	}
	return errors.Join(failed, err)
}

func (im *Importer) addLine(n int, line []byte) {
	l, t, v, err := parseRecord(line)
	switch {
	case errors.Is(err, errText):
		im.texts++
		return
	case err != nil:
		im.addError(n, err)
		return
	}
	im.res.Records++
	if at := time.UnixMilli(t); at.After(im.now.Add(maxClockAhead)) {
		im.res.Refused++
		im.addError(n, fmt.Errorf("it is of %s, in the future", at.UTC().Format(time.RFC3339)))
		return
	}
	key := l.Hash()
	var s *bufferedSeries
	for _, have := range im.series[key] {
		if labels.Equal(have.labels, l) {
			s = have
		}
	}
	if s == nil {
		s = &bufferedSeries{labels: l}
		im.series[key] = append(im.series[key], s)
	}
	s.samples = append(s.samples, bufferedSample{t, v})
	im.held++
}

// maxListed is the number of lines that are listed.
const maxListed = 100

func (im *Importer) addError(line int, err error) {
	if im.res.BadCount++; len(im.res.Bad) < maxListed {
		im.res.Bad = append(im.res.Bad, wire.ImportBad{File: im.file, Line: line, Error: err.Error(), Count: 1})
	}
}

// Finish writes the remaining data and returns the overall result.
func (im *Importer) Finish(ctx context.Context) (importer.Result, error) {
	err := im.flushBuffer(ctx)
	if im.texts > 0 && im.res.Records == 0 && im.res.BadCount == 0 {
		im.addError(0, fmt.Errorf("all %d measurements are text, which series cannot hold", im.texts))
	}
	return im.res, err
}

// flushBuffer writes the buffered samples that are new.
func (im *Importer) flushBuffer(ctx context.Context) error {
	if im.held == 0 {
		return nil
	}
	var h tsdb.History
	from, to := int64(0), int64(0)
	taken := 0
	for _, list := range im.series {
		for _, s := range list {
			fresh, err := im.newSamples(ctx, s)
			if err != nil {
				return err
			}
			im.res.Known += len(s.samples) - len(fresh)
			if len(fresh) == 0 {
				continue
			}
			l := labels.NewBuilder(s.labels).Set("site", im.site).Labels()
			out := h.Series(l)
			for _, v := range fresh {
				if err := out.Add(v.t, v.v); err != nil {
					return err
				}
			}
			if taken == 0 || fresh[0].t < from {
				from = fresh[0].t
			}
			if last := fresh[len(fresh)-1].t; taken == 0 || last > to {
				to = last
			}
			taken += len(fresh)
		}
	}
	clear(im.series)
	im.held = 0
	if taken == 0 {
		return nil
	}
	if err := im.store.ImportBlocks(ctx, &h); err != nil {
		return err
	}
	im.res.Taken += taken
	im.res.Samples += taken
	im.res.Note(time.UnixMilli(from), time.UnixMilli(to))
	return nil
}

// newSamples returns the samples that the store does not have, in order of time; the first one of duplicates.
func (im *Importer) newSamples(ctx context.Context, s *bufferedSeries) ([]bufferedSample, error) {
	slices.SortStableFunc(s.samples, func(a, b bufferedSample) int { return cmp.Compare(a.t, b.t) })
	list := slices.CompactFunc(slices.Clone(s.samples), func(a, b bufferedSample) bool { return a.t == b.t })
	q, err := im.store.Querier(list[0].t, list[len(list)-1].t)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	ms := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "site", im.site)}
	s.labels.Range(func(l labels.Label) { ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value)) })
	set := q.Select(ctx, true, &storage.SelectHints{Start: list[0].t, End: list[len(list)-1].t}, ms...)
	known := map[int64]bool{}
	want := s.labels.Len() + 1
	for set.Next() {
		if set.At().Labels().Len() != want {
			continue // it has additional labels
		}
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			known[it.AtT()] = true
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
	}
	if err := set.Err(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(v bufferedSample) bool { return known[v.t] }), nil
}
