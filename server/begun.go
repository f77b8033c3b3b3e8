package server

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/internal/durable"
	"reckon/store/tsdb"
	"reckon/transport/limits"
)

const (
	// begunFile holds the limits of nodes that exceeded the default before a limit existed.
	begunFile = "series-bounds.json"
	// seriesBytes is the memory of a series, derived data included.
	seriesBytes = 4 << 10
	// learnFrom is the age of the oldest samples of nodes that are looked for.
	learnFrom = 24 * time.Hour
)

// seriesBounds are the stored limits on new series.
type seriesBounds struct {
	Nodes  map[string]int `json:"nodes"`
	Series int            `json:"series"` // limit of the server; 0 derives it from the memory
}

// limitNewSeries enables the limits on new series per node. The limit of a node that the store already has is at least
// twice its present number of series, so that an upgrade rejects nothing that was accepted before.
func (s *Server) limitNewSeries() (err error) {
	embedded, ok := s.samples.(*tsdb.Store)
	if !ok {
		return nil // an external store has limits of its own
	}
	file := filepath.Join(s.config.Data, begunFile)
	var b seriesBounds
	if bad := durable.ReadJSON(file, &b); bad != nil {
		if b, err = countSeries(embedded); err != nil {
			return err
		}
		if !errors.Is(bad, fs.ErrNotExist) || (b.Series > 0 && s.config.Play == nil) { // a demonstration was written without them
			s.log.Warn("the bounds of series that nodes had cannot be read and are learned again from the last day", "file", file, "err",
				bad)
		}
		if err := durable.WriteJSON(file, b, 0o640); err != nil {
			s.log.Warn("the bounds of series could not be kept", "file", file, "err", err)
		}
	}
	s.limits.SetNewSeriesLimits(limits.NewSeriesLimits{Learned: b.Nodes, Live: embedded.LiveSeries,
		Most: max(b.Series, int(limits.ProgramMemory()/2/seriesBytes))})
	return nil
}

// countSeries counts the series that nodes had lately.
func countSeries(s *tsdb.Store) (b seriesBounds, err error) {
	b.Nodes = map[string]int{}
	now := time.Now()
	q, err := s.Querier(now.Add(-learnFrom).UnixMilli(), now.UnixMilli())
	if err != nil {
		return b, err
	}
	defer q.Close()
	count, all := map[string]int{}, 0
	set := q.Select(context.Background(), false,
		&storage.SelectHints{Func: "series", Start: now.Add(-learnFrom).UnixMilli(), End: now.UnixMilli()},
		labels.MustNewMatcher(labels.MatchNotEqual, model.MetricNameLabel, ""))
	for set.Next() {
		count[limits.NodeKey(set.At().Labels())]++
		all++
	}
	for key, n := range count {
		if n > limits.DefaultNodeSeries/2 {
			b.Nodes[key] = 2 * n
		}
	}
	b.Series = 2 * all
	return b, set.Err()
}
