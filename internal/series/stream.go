package series

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
)

// Stream lets a reader tell the store that it no longer needs a series, so that the store can reuse the series' memory.
// Without a Stream the reader may keep series, as the interface [storage.SeriesSet] allows. A Stream belongs to one
// selection and is not safe for concurrent use.
type Stream struct {
	labels labels.Labels
	free   *bool
}

type streamKey struct{}

// WithStream returns a context for one selection; its reader calls [Stream.Done].
func WithStream(ctx context.Context) (context.Context, *Stream) {
	s := &Stream{}
	return context.WithValue(ctx, streamKey{}, s), s
}

// StreamOf returns the stream of a selection, or nil if its reader may keep series.
func StreamOf(ctx context.Context) *Stream {
	s, _ := ctx.Value(streamKey{}).(*Stream)
	return s
}

// Give records the series that a store returns next. free is set when the reader is done with it.
func (s *Stream) Give(l labels.Labels, free *bool) { s.labels, s.free = l, free }

// Done tells the store that the reader no longer uses the series with labels l nor its iterator. The labels remain
// valid, and the iterator may be passed to the next series. Done has no effect if another series was read since, as in
// a merge of several sets.
func (s *Stream) Done(l labels.Labels) {
	if s.free != nil && labels.Equal(s.labels, l) {
		*s.free = true
	}
}
