package promapi

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/access"
)

// Restricted shows each viewer the series that they may see, as the HTTP API does: whoever
// reads a store for somebody reads it through this. The viewer is in the context of Select.
func Restricted(q storage.Queryable) storage.Queryable {
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		inner, err := q.Querier(mint, maxt)
		if err != nil {
			return nil, err
		}
		return nobodyless{querier{inner, values{inner, mint, maxt}}}, nil
	})
}

// nobodyless answers a context without a viewer with nothing: a handler that forgot who
// asks must not show all.
type nobodyless struct{ querier }

func (q nobodyless) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if access.From(ctx).Role == access.Nobody {
		return storage.EmptySeriesSet()
	}
	return q.querier.Select(ctx, sorted, hints, ms...)
}
