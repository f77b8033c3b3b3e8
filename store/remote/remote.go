// Package remote keeps series in a third-party server: Prometheus, VictoriaMetrics, Mimir, Thanos
// and the like, and InfluxDB. Such a store is configured by one address, see [ParseURL].
//
// Samples are written by Prometheus remote write 1.0
// (https://prometheus.io/docs/specs/prw/remote_write_spec/), which all of them accept, by 2.0 if
// the address selects it, and to InfluxDB 2.x as line protocol. They are read by remote read
// (https://prometheus.io/docs/prometheus/latest/querying/remote_read_api/), by VictoriaMetrics's
// /api/v1/export, by range selectors of the query API, or by InfluxQL, whichever the other side
// has. Native histograms are sent as classic ones with all their bounds, unless the server is
// configured to accept them, and are reassembled when they are read.
//
// A sample is acknowledged when the other side has acknowledged it. Samples that the other side
// refuses are named in a [*store.RefusedError]; if it cannot be reached, the error is
// [store.ErrUnavailable], and for some seconds other requests fail at once. With a queue
// ([Options.Queue]) Append returns when the samples are on disk, and they are sent in order when
// the server is available.
//
// A [Store] is safe for concurrent use. Times are milliseconds since the Unix epoch; values are
// stored unchanged.
package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/internal/dirty"
	"reckon/store"
)

// Options configure a Store.
type Options struct {
	// URL is the address of the server, as in [ParseURL].
	URL string
	// Natives are the metrics with native histograms of [metric.HistogramSchema] that are
	// reassembled if they are stored as classic ones.
	Natives []string
	// Queue is a directory for unsent samples. If it is empty, Append waits for the server.
	// QueueBytes limits it, by default to 256 MiB; the oldest samples are dropped first.
	Queue      string
	QueueBytes int64
	// Sent is called when a request of the queue was accepted; may be nil.
	Sent func()
	// History is the time over which the other side may hold samples, 90 days by default.
	History time.Duration
	// Dirty records the hours with late samples; nil is for tools that derive nothing. Shared
	// replaces it if other servers write to the same store.
	Dirty  dirty.Journal
	Shared Late
	// Logger receives log messages; nil discards them.
	Logger *slog.Logger
}

// Late records hours with late samples, as [dirty.Hours] does.
type Late interface {
	Begin(*dirty.Late) (end func(), err error)
	Snapshot() (dirty.Snapshot, error)
	Clean(dirty.Snapshot) error
}

// peer is the protocol of one kind of server.
type peer interface {
	// takes returns an error if the server has no form for a value; staleness markers are then left out.
	checkValue(v float64) error
	// encode returns the body of a write request.
	encode(w *prompb.WriteRequest) (body []byte, header map[string]string, err error)
	// read returns the matching series, in the order of their labels. It may return more.
	read(ctx context.Context, mint, maxt int64, ms []*labels.Matcher) (storage.SeriesSet, error)
	labelValues(ctx context.Context, name string, mint, maxt int64, ms []*labels.Matcher) ([]string, error)
	labelNames(ctx context.Context, mint, maxt int64, ms []*labels.Matcher) ([]string, error)
}

// Store is a store of series in another server.
type Store struct {
	o     Options
	conf  *settings
	web   *serverClient
	peer  peer
	two   *write2 // nil unless remote write 2.0 is configured
	log   *slog.Logger
	known newestTimes
	out   *outbox // nil without a queue

	natives map[string]string // name of a series of a classic histogram -> name of the histogram
	whole   map[string]bool   // names of the histograms

	metaMu sync.Mutex
	meta   map[string]metadata.Metadata
	fresh  []prompb.MetricMetadata // to be sent with the next request

	newest atomic.Int64 // time of the newest sample written here, milliseconds
	dirty  Late
	oldest oldest
	closed atomic.Bool
	uses   sync.WaitGroup
	gate   sync.RWMutex // held for reading while a use begins
}

var (
	_ store.Series    = (*Store)(nil)
	_ store.Reachable = (*Store)(nil)
)

// Open creates a store without network access. Connection errors are returned by [Store.Check], Append and queries.
func Open(o Options) (*Store, error) {
	conf, err := parseSettings(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.History <= 0 {
		o.History = store.DefaultRetention
	}
	if o.Dirty == nil {
		o.Dirty = dirty.Memory{}
	}
	s := &Store{o: o, dirty: dirty.New(o.Dirty), conf: conf, log: o.Logger, meta: map[string]metadata.Metadata{},
		natives: map[string]string{}, whole: map[string]bool{}}
	if o.Shared != nil {
		s.dirty = o.Shared
	}
	if s.web, err = newServerClient(conf); err != nil {
		return nil, err
	}
	switch conf.kind {
	case kindVictoria:
		s.peer = &victoria{prometheus: prometheus{conf: conf, web: s.web}}
	case kindInflux1:
		s.peer = &influx1{prometheus{conf: conf, web: s.web}, influxQL{conf: conf, web: s.web}}
	case kindInflux2:
		s.peer = &influx2{influxQL{conf: conf, web: s.web}}
	default:
		if conf.two {
			s.two = &write2{describe: s.describedAs, started: s.known.startTime}
		}
		s.peer = &prometheus{conf: conf, web: s.web, two: s.two}
	}
	if !conf.native {
		for _, name := range o.Natives {
			s.whole[name] = true
			for _, suffix := range classicSuffixes {
				s.natives[name+suffix] = name
			}
		}
	}
	if o.Queue != "" {
		if s.out, err = openOutbox(s, o.Queue, o.QueueBytes); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// String returns the address, without a secret.
func (s *Store) String() string { return s.conf.shown }

// acquire counts a user of the store. Close waits until all users are done.
func (s *Store) acquire() error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed.Load() {
		return store.ErrClosed
	}
	s.uses.Add(1)
	return nil
}

// Close waits for writes under way. Requests in the queue stay there.
func (s *Store) Close() error {
	s.gate.Lock()
	first := s.closed.CompareAndSwap(false, true)
	s.gate.Unlock()
	if !first {
		return nil
	}
	s.uses.Wait()
	var err error
	if s.out != nil {
		err = s.out.close()
	}
	s.web.client.CloseIdleConnections()
	return err
}

// Down returns an error while the server rejects reads or writes, and otherwise nil. The error contains the time since
// when it has done so, which its method Since returns, and the cause.
func (s *Store) Down() error {
	read, write := s.web.reads.currentOutage(), s.web.writes.currentOutage()
	switch {
	case read == nil && write == nil:
		return nil
	case read == nil || write != nil && write.since.Before(read.since):
		return write
	}
	return read
}

// Waiting returns the number of queued requests. lost is the number of requests lost since the start, because the
// server rejected them or the queue was full.
func (s *Store) Waiting() (waiting int, lost uint64) {
	if s.out == nil {
		return 0, 0
	}
	return s.out.stats()
}

// Ready implements [store.Series]; a remote store is always ready.
func (s *Store) Ready() error { return nil }

// Check queries one label to find out whether the server is reachable.
func (s *Store) Check(ctx context.Context) error {
	now := time.Now()
	_, err := s.peer.labelValues(ctx, "site", now.Add(-time.Minute).UnixMilli(), now.UnixMilli(), nil)
	return err
}

// Metadata returns the type, unit and help of each metric written since the start.
func (s *Store) Metadata() map[string]metadata.Metadata {
	s.metaMu.Lock()
	defer s.metaMu.Unlock()
	return maps.Clone(s.meta)
}

// Describe adds the description of a metric, which is sent with the next samples.
func (s *Store) Describe(name string, m metadata.Metadata) error {
	s.metaMu.Lock()
	defer s.metaMu.Unlock()
	if s.meta[name] == m {
		return nil
	}
	s.meta[name] = m
	s.fresh = append(s.fresh, prompb.MetricMetadata{Type: prompb.FromMetadataType(m.Type), MetricFamilyName: name, Help: m.Help,
		Unit: m.Unit})
	return nil
}

// describedAs returns the description of a metric. If name is that of a part of a classic histogram or summary, it
// returns the description of the whole metric.
func (s *Store) describedAs(name string) metadata.Metadata {
	s.metaMu.Lock()
	defer s.metaMu.Unlock()
	for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			if m, ok := s.meta[base]; ok {
				return m
			}
		}
	}
	return metadata.Metadata{Type: model.MetricTypeUnknown}
}

func (s *Store) takeDescriptions() []prompb.MetricMetadata {
	s.metaMu.Lock()
	defer s.metaMu.Unlock()
	fresh := s.fresh
	s.fresh = nil
	return fresh
}

// Querier reads samples from mint to maxt, both inclusive.
func (s *Store) Querier(mint, maxt int64) (storage.Querier, error) {
	if s.closed.Load() {
		return nil, store.ErrClosed
	}
	return &querier{s: s, mint: mint, maxt: maxt}, nil
}

// ChunkQuerier reads chunks, built from the samples.
func (s *Store) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	q, err := s.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	return chunkQuerier{q}, nil
}

type chunkQuerier struct{ storage.Querier }

func (q chunkQuerier) Select(ctx context.Context, sorted bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	return storage.NewSeriesSetToChunkSet(q.Querier.Select(ctx, sorted, h, ms...))
}

// ExemplarQuerier finds no exemplars: none are written.
func (s *Store) ExemplarQuerier(context.Context) (storage.ExemplarQuerier, error) {
	return noExemplars{}, nil
}

type noExemplars struct{}

func (noExemplars) Select(_, _ int64, _ ...[]*labels.Matcher) ([]exemplar.QueryResult, error) {
	return nil, nil
}

type querier struct {
	s          *Store
	mint, maxt int64
}

// Select implements storage.Querier.
func (q *querier) Select(ctx context.Context, _ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	set, err := q.s.read(ctx, q.mint, q.maxt, ms)
	if err != nil {
		return storage.ErrSeriesSet(fmt.Errorf("read from %s: %w", q.s, err))
	}
	if away := q.s.web.writes.currentOutage(); away != nil && away.since.UnixMilli() <= q.maxt {
		return warningSet{set, fmt.Errorf("incomplete since %s: %w", away.since.UTC().Format(time.RFC3339), away.why)}
	}
	return set
}

// warningSet adds a warning to an answer: the store answers queries but accepts no samples.
type warningSet struct {
	storage.SeriesSet
	what error
}

// Warnings implements storage.SeriesSet.
func (w warningSet) Warnings() annotations.Annotations {
	all := w.SeriesSet.Warnings()
	return (&all).Add(w.what)
}

// LabelValues implements storage.LabelQuerier.
func (q *querier) LabelValues(ctx context.Context, name string, h *storage.LabelHints, ms ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	list, err := q.s.peer.labelValues(ctx, name, q.mint, q.maxt, ms)
	return q.limitLabels(h, list, err)
}

// LabelNames implements storage.LabelQuerier.
func (q *querier) LabelNames(ctx context.Context, h *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	list, err := q.s.peer.labelNames(ctx, q.mint, q.maxt, ms)
	return q.limitLabels(h, list, err)
}

func (q *querier) limitLabels(h *storage.LabelHints, values []string, err error) ([]string, annotations.Annotations, error) {
	if err != nil {
		return nil, nil, fmt.Errorf("read labels from %s: %w", q.s, err)
	}
	slices.Sort(values)
	values = slices.Compact(values)
	if h != nil && h.Limit > 0 && len(values) > h.Limit {
		values = values[:h.Limit]
	}
	return values, nil, nil
}

// Close implements storage.Querier.
func (q *querier) Close() error { return nil }

// oldest caches the time of the oldest sample for a while.
type oldest struct {
	mu    sync.Mutex
	at    time.Time
	found bool
	asked time.Time
}

// Oldest returns the time of the oldest samples in the history, or an earlier time. It returns false if there are no
// samples.
func (s *Store) Oldest() (time.Time, bool) {
	s.oldest.mu.Lock()
	defer s.oldest.mu.Unlock()
	now := time.Now()
	wait := time.Hour
	if !s.oldest.found {
		wait = time.Minute
	}
	if now.Sub(s.oldest.asked) < wait {
		return s.oldest.at, s.oldest.found
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.conf.timeout)
	defer cancel()
	first := now.Add(-s.o.History)
	any := func(to time.Time) (bool, error) {
		list, err := s.peer.labelValues(ctx, model.MetricNameLabel, first.UnixMilli(), to.UnixMilli(), nil)
		return len(list) > 0, err
	}
	found, err := any(now)
	if err != nil { // unknown: the caller reads from the beginning
		return first, true
	}
	lo, hi := first, now // nothing up to lo, something up to hi
	for found && hi.Sub(lo) > time.Hour {
		mid := lo.Add(hi.Sub(lo) / 2)
		here, err := any(mid)
		if err != nil {
			return first, true
		}
		if here {
			hi = mid
		} else {
			lo = mid
		}
	}
	s.oldest.at, s.oldest.found, s.oldest.asked = lo, found, now
	return lo, found
}

var errUnsupportedValue = errors.New("the store has no form for it")
