package server

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/web/api"
)

// numbers finds jobs by another number, by the series that tell it.
type numbers struct {
	samples storage.Queryable
	back    time.Duration // how far back is looked; 0 for all there is
}

var _ api.Numbers = numbers{}

// mostNumbered is how many jobs one number is taken for.
const mostNumbered = 50

// Numbered implements api.Numbers.
func (n numbers) Numbered(ctx context.Context, number string) (ids []string, err error) {
	from, to := int64(0), int64(math.MaxInt64/2)
	if n.back > 0 {
		from, to = time.Now().Add(-n.back).UnixMilli(), time.Now().UnixMilli()
	}
	q, err := n.samples.Querier(from, to)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	set := q.Select(ctx, false, &storage.SelectHints{Func: "series", Start: from, End: to},
		labels.MustNewMatcher(labels.MatchEqual, "__name__", "reckon_slurm_number_info"), labels.MustNewMatcher(labels.MatchEqual, "number", number))
	for set.Next() && len(ids) < mostNumbered {
		if id := set.At().Labels().Get("workload"); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, set.Err()
}
