package promapi

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/access"
)

// Restricted returns a view that shows each viewer only permitted series, as in the HTTP API. Use
// it for every read on behalf of a viewer. The viewer is in the context of Select.
func Restricted(q storage.Queryable) storage.Queryable {
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		inner, err := q.Querier(mint, maxt)
		if err != nil {
			return nil, err
		}
		return requireViewer{querier{inner, values{inner, mint, maxt}}}, nil
	})
}

// requireViewer returns nothing if the context has no viewer, so that a handler that forgets the
// viewer cannot expose all series.
type requireViewer struct{ querier }

func (q requireViewer) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if access.From(ctx).Role == access.Nobody {
		return storage.EmptySeriesSet()
	}
	return q.querier.Select(ctx, sorted, hints, ms...)
}
