package api_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// stream records an event stream while it is written.
type stream struct {
	header http.Header
	mu     sync.Mutex
	buf    bytes.Buffer
	wrote  chan struct{}
}

func newStream(ctx context.Context, target string) (*http.Request, *stream) {
	return httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil), &stream{header: http.Header{}, wrote: make(chan struct{}, 1)}
}

func (s *stream) Header() http.Header { return s.header }
func (s *stream) WriteHeader(int)     {}
func (s *stream) Flush()              {}
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Write(p)
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return len(p), nil
}

// event waits for the first event and returns its data.
func (s *stream) event(t *testing.T) []byte {
	t.Helper()
	for {
		s.mu.Lock()
		_, rest, found := bytes.Cut(s.buf.Bytes(), []byte("\ndata: "))
		data, _, whole := bytes.Cut(rest, []byte("\n\n"))
		data = bytes.Clone(data)
		s.mu.Unlock()
		if found && whole {
			return data
		}
		select {
		case <-s.wrote:
		case <-t.Context().Done():
			t.Fatal("no event came")
		}
	}
}
