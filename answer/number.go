package answer

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// Numbers finds jobs by their job number, through the series that reports it.
type Numbers struct {
	Series storage.Queryable
	Back   time.Duration // how far back to search; 0 for no limit
	Clock  func() time.Time
}

// maxMatches is the maximum number of jobs with one number.
const maxMatches = 50

// Numbered returns the ids of jobs that have a number.
func (n Numbers) Numbered(ctx context.Context, number string) (ids []string, err error) {
	from, to := int64(0), int64(math.MaxInt64/2)
	if n.Back > 0 {
		from, to = n.Clock().Add(-n.Back).UnixMilli(), n.Clock().UnixMilli()
	}
	q, err := n.Series.Querier(from, to)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	set := q.Select(ctx, false, &storage.SelectHints{Func: "series", Start: from, End: to},
		labels.MustNewMatcher(labels.MatchEqual, "__name__", "reckon_slurm_number_info"),
		labels.MustNewMatcher(labels.MatchEqual, "number", number))
	for set.Next() && len(ids) < maxMatches {
		if id := set.At().Labels().Get("workload"); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, set.Err()
}
