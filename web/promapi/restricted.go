package promapi

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/access"
)

// Restricted returns a view of q in which a viewer sees only permitted series, as in the HTTP API. The viewer is in the
// context of Select. Every read for a viewer must use this view.
func Restricted(q storage.Queryable) storage.Queryable {
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		inner, err := q.Querier(mint, maxt)
		if err != nil {
			return nil, err
		}
		return requireViewer{querier{inner, visibleLabels{inner, mint, maxt}}}, nil
	})
}

// requireViewer returns no series if the context has no viewer. A handler that forgets to set the viewer therefore
// cannot expose all series.
type requireViewer struct{ querier }

func (q requireViewer) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if access.From(ctx).Role == access.Nobody {
		return storage.EmptySeriesSet()
	}
	return q.querier.Select(ctx, sorted, hints, ms...)
}
