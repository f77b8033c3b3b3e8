package server

import (
	"context"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"golang.org/x/sys/unix"

	"reckon/store/tsdb"
)

// noteLostAccounts warns that the agent's accounts start at zero because their file is missing. It warns only if this
// node was measured since its last boot, because a file from an earlier boot would not be used.
func (s *Server) noteLostAccounts(state string) {
	local, ok := s.samples.(*tsdb.Store)
	if !ok || s.config.Agent.Replay != "" {
		return
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return
	}
	now := time.Now()
	if measuredSince(local, s.agent.Node(), now.Add(-time.Duration(up.Nano())), now) {
		s.log.Warn(
			"accounts start from zero: the saved ones are missing, although this node was measured since it booted; "+
				"usage since the last export is lost", "file", state)
	}
}

// measuredSince reports whether an agent of a node has written to the store since a time.
func measuredSince(local *tsdb.Store, node string, since, now time.Time) bool {
	q, err := local.Querier(since.UnixMilli(), now.UnixMilli())
	if err != nil {
		return false
	}
	defer q.Close()
	set := q.Select(context.Background(), false, &storage.SelectHints{Start: since.UnixMilli(), End: now.UnixMilli()},
		labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "reckon_agent_ticks_total"),
		labels.MustNewMatcher(labels.MatchEqual, "node", node))
	for set.Next() {
		if set.At().Iterator(nil).Next() != chunkenc.ValNone {
			return true
		}
	}
	return false
}
