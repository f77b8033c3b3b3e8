package tsdb

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/internal/dirty"
	"reckon/internal/series"
)

// The HTTP API of Prometheus uses the Store as its storage, because a repair replaces the database inside it.
var (
	_ storage.SampleAndChunkQueryable = (*Store)(nil)
	_ storage.ExemplarQueryable       = (*Store)(nil)
	_ storage.AppendableV2            = (*Store)(nil)
)

// Querier reads samples from mint to maxt, both in milliseconds and inclusive.
func (s *Store) Querier(mint, maxt int64) (storage.Querier, error) {
	return s.querierWithout(nil, mint, maxt)
}

// querierWithout returns a querier that skips the blocks in read, which the caller has read before. read may be nil.
func (s *Store) querierWithout(read *readBefore, mint, maxt int64) (storage.Querier, error) {
	db, err := s.acquire()
	if err != nil {
		return nil, err
	}
	s.beginQuery()
	q, err := s.querier(db, read, mint, maxt)
	if err != nil {
		s.endQuery()
		return nil, err
	}
	return &gatedQuerier{Querier: q, s: s, warnings: s.gapWarnings(mint, maxt)}, nil
}

// ChunkQuerier reads chunks, for remote read.
func (s *Store) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	db, err := s.acquire()
	if err != nil {
		return nil, err
	}
	s.beginQuery()
	q, err := db.ChunkQuerier(mint, maxt)
	if err != nil {
		s.endQuery()
		return nil, err
	}
	return &gatedChunkQuerier{ChunkQuerier: q, s: s, warnings: s.gapWarnings(mint, maxt)}, nil
}

// beginQuery waits while new queries are blocked, and then counts the query. The caller must have entered the gate.
func (s *Store) beginQuery() {
	s.starting.RLock()
	s.queries.Add(1)
	s.starting.RUnlock()
}

func (s *Store) endQuery() {
	s.queries.Add(-1)
	s.gate.release()
}

type gatedQuerier struct {
	storage.Querier
	s        *Store
	warnings annotations.Annotations
	done     bool
}

func (q *gatedQuerier) Select(ctx context.Context, sorted bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	return incompleteSet{q.Querier.Select(ctx, sorted, h, ms...), q.warnings, q.s.recheckBlocks, series.Unsound(ctx)}
}

func (q *gatedQuerier) Close() error {
	if q.done {
		return nil
	}
	q.done = true
	defer q.s.endQuery()
	return q.Querier.Close()
}

type gatedChunkQuerier struct {
	storage.ChunkQuerier
	s        *Store
	warnings annotations.Annotations
	done     bool
}

func (q *gatedChunkQuerier) Select(ctx context.Context, sorted bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	set := q.ChunkQuerier.Select(ctx, sorted, h, ms...)
	if len(q.warnings) == 0 {
		return set
	}
	return incompleteChunks{set, q.warnings}
}

func (q *gatedChunkQuerier) Close() error {
	if q.done {
		return nil
	}
	q.done = true
	defer q.s.endQuery()
	return q.ChunkQuerier.Close()
}

// ExemplarQuerier implements storage.ExemplarQueryable. The store keeps the newest exemplars only ([maxExemplars]).
func (s *Store) ExemplarQuerier(ctx context.Context) (storage.ExemplarQuerier, error) {
	db, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer s.gate.release()
	return db.ExemplarQuerier(ctx)
}

// The methods below implement the administrative part of Prometheus's HTTP API (TSDBAdminStats of its web/api/v1).

// CleanTombstones removes data marked by Delete.
func (s *Store) CleanTombstones() error {
	db, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.gate.release()
	return db.CleanTombstones()
}

// Delete marks samples as deleted.
func (s *Store) Delete(ctx context.Context, mint, maxt int64, ms ...*labels.Matcher) error {
	db, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.gate.release()
	var hours dirty.Late
	if first, last := extent(db); first <= last {
		hours.AddRange(max(mint, first), min(maxt, last))
	}
	noted, err := s.noteLate(&hours)
	if err != nil {
		return err
	}
	defer noted()
	return db.Delete(ctx, mint, maxt, intersectingFirst(ms)...)
}

// intersectingFirst sorts the matchers of a deletion in the order that the database uses. The database sorts the same
// slice concurrently for all blocks. While a matcher is moved, it may be missing from the slice, and too much would be
// deleted. A sorted slice needs no move.
func intersectingFirst(ms []*labels.Matcher) []*labels.Matcher {
	set := map[string]bool{}
	for _, m := range ms {
		set[m.Name] = set[m.Name] || !m.Matches("")
	}
	var first, last []*labels.Matcher
	for _, m := range ms {
		not := m.Type == labels.MatchNotEqual || m.Type == labels.MatchNotRegexp
		if !set[m.Name] || (not && m.Matches("")) {
			last = append(last, m)
			continue
		}
		first = append(first, m)
	}
	return append(first, last...)
}

// Snapshot writes a copy of the store to dir, by hard links where it can.
func (s *Store) Snapshot(dir string, withHead bool) error {
	db, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.gate.release()
	return db.Snapshot(dir, withHead)
}

// Stats returns the cardinality of the head; see [Store.Status] for the store's own figures.
func (s *Store) Stats(statsByLabelName string, limit int) (*promtsdb.Stats, error) {
	db, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer s.gate.release()
	return db.Head().Stats(statsByLabelName, limit), nil
}

// WALReplayStatus reports the progress of reading the write-ahead log.
func (s *Store) WALReplayStatus() (promtsdb.WALReplayStatus, error) {
	if _, err := s.acquire(); err != nil {
		return promtsdb.WALReplayStatus{}, err
	}
	defer s.gate.release()
	return s.wal.Head.WALReplayStatus.GetWALReplayStatus(), nil
}

// BlockMetas lists the blocks on disk.
func (s *Store) BlockMetas() ([]promtsdb.BlockMeta, error) {
	db, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer s.gate.release()
	return db.BlockMetas(), nil
}
