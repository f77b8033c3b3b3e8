package embedded

import (
	"sync"

	"reckon/graph"
)

// broadcaster notifies listeners of changed subgraphs. If the channel of a slow listener is full, the oldest
// notifications are dropped. The listener can still find the changes by their versions.
type broadcaster struct {
	mu        sync.Mutex
	listeners map[chan graph.Info]bool
	closed    bool
}

const pendingChanges = 256

func (b *broadcaster) send(i graph.Info) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.listeners {
		for {
			select {
			case c <- i:
			default:
				select {
				case <-c:
				default:
				}
				continue
			}
			break
		}
	}
}

func (b *broadcaster) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for c := range b.listeners {
		close(c)
	}
	b.listeners = nil
}

// Watch returns a channel of changes, and a function that stops it. The channel is closed when the store is.
func (s *Store) Watch() (changes <-chan graph.Info, stop func()) {
	c := make(chan graph.Info, pendingChanges)
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if s.feed.closed {
		close(c)
		return c, func() {}
	}
	if s.feed.listeners == nil {
		s.feed.listeners = map[chan graph.Info]bool{}
	}
	s.feed.listeners[c] = true
	return c, func() {
		s.feed.mu.Lock()
		defer s.feed.mu.Unlock()
		if s.feed.listeners[c] {
			delete(s.feed.listeners, c)
			close(c)
		}
	}
}
