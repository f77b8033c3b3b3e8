package series

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
)

// Stream lets a reader inform the store that it is done with a series, so that the store can reuse
// the memory. Without that, a reader may keep series, as with any [storage.SeriesSet]. A Stream
// belongs to one selection and is not safe for concurrent use.
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

// StreamOf returns the stream of a selection; nil if its reader may keep series.
func StreamOf(ctx context.Context) *Stream {
	s, _ := ctx.Value(streamKey{}).(*Stream)
	return s
}

// Give records the series that a store returns next. free is set when the reader is done with it.
func (s *Stream) Give(l labels.Labels, free *bool) { s.labels, s.free = l, free }

// Done states that the reader keeps neither this series nor its iterator; iterators may still be
// reused for the next series, and labels kept. It has no effect if the store's last series is
// another one, as in a merge.
func (s *Stream) Done(l labels.Labels) {
	if s.free != nil && labels.Equal(s.labels, l) {
		*s.free = true
	}
}
