package server

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"reckon/graph"
)

// stamps writes graphs named timestamp:MS to a remote store, which cannot create them on demand. It writes one graph
// per minute in which the graph changed. It deletes the previous one only after the new one exists, so that clients
// always find one. It is not safe for concurrent use.
type stamps struct {
	to      graph.Store
	from    *snapshots
	changed bool
	last    time.Time
}

// stampOrigin is the origin of the stamps. They include the work of all owners, so only administrators may read them.
const stampOrigin = "reckon/timestamps"

// write writes the current graph if something has changed since the last one.
func (s *stamps) write(ctx context.Context, now time.Time) error {
	if s == nil || !s.changed && now.Sub(s.last) < timestampRetention-2*time.Minute {
		return nil
	}
	ms := now.Truncate(time.Minute).UnixMilli()
	quads, err := s.from.At(ctx, ms, nil)
	if err != nil {
		return fmt.Errorf("describe how things are: %w", err)
	}
	id := "timestamp:" + strconv.FormatInt(ms, 10)
	if _, _, err := s.to.Put(ctx, id, graph.Put{Quads: quads, Origin: stampOrigin, Time: now, IfVersion: graph.AnyVersion}); err != nil {
		return fmt.Errorf("write the graph %s: %w", id, err)
	}
	s.changed, s.last = false, now
	return nil
}

// add records that the given number of subgraphs changed.
func (s *stamps) add(changed int) {
	if s != nil && changed > 0 {
		s.changed = true
	}
}
