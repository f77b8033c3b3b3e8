package promapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/access"
)

// restrictedStore returns to each viewer only the series that the viewer may see. It filters below PromQL, so that each
// query gives the result that it would give if no other series existed. It first narrows the selection with the index
// and then checks every series.
type restrictedStore struct {
	storage.SampleAndChunkQueryable
}

func (r restrictedStore) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := r.SampleAndChunkQueryable.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	return querier{q, visibleLabels{q, mint, maxt}}, nil
}

func (r restrictedStore) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	q, err := r.SampleAndChunkQueryable.ChunkQuerier(mint, maxt)
	if err != nil {
		return nil, err
	}
	plain, err := r.SampleAndChunkQueryable.Querier(mint, maxt)
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return chunkQuerier{q, visibleLabels{plain, mint, maxt}, plain}, nil
}

type querier struct {
	storage.Querier
	values visibleLabels
}

func (q querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	v := access.From(ctx)
	if v.All() {
		return q.Querier.Select(ctx, sorted, hints, ms...)
	}
	return visibleSeries{q.Querier.Select(ctx, sorted, withoutLimit(hints), addOwnerMatchers(v, ms)...), v}
}

func (q querier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	if access.From(ctx).All() {
		return q.Querier.LabelValues(ctx, name, hints, ms...)
	}
	return q.values.listValues(ctx, name, hints, ms)
}

func (q querier) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	if access.From(ctx).All() {
		return q.Querier.LabelNames(ctx, hints, ms...)
	}
	return q.values.listNames(ctx, hints, ms)
}

type chunkQuerier struct {
	storage.ChunkQuerier
	values visibleLabels
	plain  storage.Querier
}

func (q chunkQuerier) Close() error { return errors.Join(q.ChunkQuerier.Close(), q.plain.Close()) }

func (q chunkQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	v := access.From(ctx)
	if v.All() {
		return q.ChunkQuerier.Select(ctx, sorted, hints, ms...)
	}
	return visibleChunks{q.ChunkQuerier.Select(ctx, sorted, withoutLimit(hints), addOwnerMatchers(v, ms)...), v}
}

func (q chunkQuerier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	if access.From(ctx).All() {
		return q.ChunkQuerier.LabelValues(ctx, name, hints, ms...)
	}
	return q.values.listValues(ctx, name, hints, ms)
}

func (q chunkQuerier) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	if access.From(ctx).All() {
		return q.ChunkQuerier.LabelNames(ctx, hints, ms...)
	}
	return q.values.listNames(ctx, hints, ms)
}

// withoutLimit removes a limit, because it would count series that are filtered out later.
func withoutLimit(h *storage.SelectHints) *storage.SelectHints {
	if h == nil || h.Limit == 0 {
		return h
	}
	c := *h
	c.Limit = 0
	return &c
}

// addOwnerMatchers adds matchers for the index: the owner is the viewer's own, or missing.
func addOwnerMatchers(v access.Viewer, ms []*labels.Matcher) []*labels.Matcher {
	alternatives := []string{""}
	for _, o := range v.Own() {
		alternatives = append(alternatives, regexp.QuoteMeta(o))
	}
	m, err := labels.NewMatcher(labels.MatchRegexp, "owner", strings.Join(alternatives, "|"))
	if err != nil { // a name that no regular expression can hold: nothing carries it
		m = labels.MustNewMatcher(labels.MatchEqual, "owner", "")
	}
	return append(slices.Clip(slices.Clone(ms)), m)
}

type visibleSeries struct {
	storage.SeriesSet
	viewer access.Viewer
}

func (s visibleSeries) Next() bool {
	for s.SeriesSet.Next() {
		if l := s.SeriesSet.At().Labels(); s.viewer.SeesSeries(l.Get) {
			return true
		}
	}
	return false
}

type visibleChunks struct {
	storage.ChunkSeriesSet
	viewer access.Viewer
}

func (s visibleChunks) Next() bool {
	for s.ChunkSeriesSet.Next() {
		if l := s.ChunkSeriesSet.At().Labels(); s.viewer.SeesSeries(l.Get) {
			return true
		}
	}
	return false
}

// visibleLabels answers label name and value requests from the visible series, because the index covers all series.
type visibleLabels struct {
	q          storage.Querier
	mint, maxt int64 // of q; hints without them would ask about 1970
}

func (v visibleLabels) eachSeries(ctx context.Context, ms []*labels.Matcher, take func(labels.Labels)) (annotations.Annotations, error) {
	who := access.From(ctx)
	if len(ms) == 0 {
		ms = []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+")}
	}
	set := visibleSeries{v.q.Select(ctx, false, &storage.SelectHints{Start: v.mint, End: v.maxt, Func: "series"}, addOwnerMatchers(who,
		ms)...), who}
	for set.Next() {
		take(set.At().Labels())
	}
	return set.Warnings(), set.Err()
}

func (v visibleLabels) listValues(ctx context.Context, name string, hints *storage.LabelHints, ms []*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	found := map[string]struct{}{}
	w, err := v.eachSeries(ctx, ms, func(l labels.Labels) {
		if value := l.Get(name); value != "" {
			found[value] = struct{}{}
		}
	})
	return sortAndLimit(found, hints), w, err
}

func (v visibleLabels) listNames(ctx context.Context, hints *storage.LabelHints, ms []*labels.Matcher) ([]string, annotations.Annotations,
	error) {
	found := map[string]struct{}{}
	w, err := v.eachSeries(ctx, ms, func(l labels.Labels) {
		l.Range(func(l labels.Label) { found[l.Name] = struct{}{} })
	})
	return sortAndLimit(found, hints), w, err
}

func sortAndLimit(found map[string]struct{}, hints *storage.LabelHints) []string {
	out := slices.Sorted(maps.Keys(found))
	if hints != nil && hints.Limit > 0 && len(out) > hints.Limit {
		out = out[:hints.Limit]
	}
	return out
}

// restrictedExemplars shows exemplars, which may carry any label, only to viewers who see all.
type restrictedExemplars struct{ storage.ExemplarQueryable }

func (r restrictedExemplars) ExemplarQuerier(ctx context.Context) (storage.ExemplarQuerier, error) {
	if access.From(ctx).All() {
		return r.ExemplarQueryable.ExemplarQuerier(ctx)
	}
	return hiddenExemplars{}, nil
}

type hiddenExemplars struct{}

func (hiddenExemplars) Select(int64, int64, ...[]*labels.Matcher) ([]exemplar.QueryResult, error) {
	return nil, nil
}

// restrictPaths restricts viewers who may not see everything to some paths. These read series through [restrictedStore] or return
// nothing private. All other paths return data of the whole server.
func restrictPaths(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := access.From(r.Context())
		if v.All() || (v.Role > access.Nobody && isOpenPath(r.URL.Path)) {
			h.ServeHTTP(w, r)
			return
		}
		writeForbidden(w, "a viewer of role "+v.Role.String()+" may not see "+r.URL.Path)
	})
}

func isOpenPath(path string) bool {
	if readsSeries(path) {
		return true
	}
	switch strings.TrimPrefix(path, "/api/v1/") {
	case "metadata", "format_query", "parse_query", "status/buildinfo", "features":
		return true
	}
	return false
}
