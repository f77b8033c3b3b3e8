package api

import (
	"context"
	"encoding/json"
	"sync"

	"reckon/web/client"
)

// Hub distributes the ticks of the agent to all subscribers. Publishing never blocks. A slow subscriber misses ticks
// and gets the newest. The zero value is ready for use. It is safe for concurrent use.
type Hub struct {
	mu     sync.Mutex
	last   *tick
	next   int
	subs   map[int]subscriber
	closed bool
}

// subscriber receives a tick without blocking, and nil when the hub closes.
type subscriber func(*tick)

// tick is one event, encoded once by its first reader for all.
type tick struct {
	live client.Live
	once sync.Once
	body []byte
	err  error
}

func (t *tick) encode() ([]byte, error) {
	t.once.Do(func() { t.body, t.err = json.Marshal(&t.live) })
	return t.body, t.err
}

// Publish sends l to all subscribers. The hub keeps l, so nothing it refers to may be modified afterwards.
func (h *Hub) Publish(l client.Live) {
	t := &tick{live: l}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.last = t
	for _, s := range h.subs {
		s(t)
	}
}

// Subscribers returns the number of subscribers, so that an agent can skip building ticks without readers.
func (h *Hub) Subscribers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

// Subscribe returns a channel of ticks. The first is the latest tick, if there is one. The channel is closed when ctx
// ends or the hub is closed.
func (h *Hub) Subscribe(ctx context.Context) <-chan client.Live {
	return subscribe(ctx, h, func(t *tick) client.Live { return t.live })
}

// Close ends all subscriptions. A server calls it on shutdown, because open streams would delay it.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	for id, s := range h.subs {
		delete(h.subs, id)
		s(nil)
	}
}

// subscribe returns a channel that holds only the newest tick, converted by of. The hub's lock is held for each send
// and for the close, so that neither can happen at the same time as the other.
func subscribe[T any](ctx context.Context, h *Hub, of func(*tick) T) <-chan T {
	ch := make(chan T, 1)
	s := func(t *tick) {
		if t == nil {
			close(ch)
			return
		}
		select {
		case <-ch: // discard the previous tick, which the reader has not taken
		default:
		}
		ch <- of(t)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || ctx.Err() != nil {
		close(ch)
		return ch
	}
	if h.subs == nil {
		h.subs = make(map[int]subscriber)
	}
	id := h.next
	h.next++
	h.subs[id] = s
	if h.last != nil {
		s(h.last)
	}
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, ok := h.subs[id]; ok {
			delete(h.subs, id)
			s(nil)
		}
		if len(h.subs) == 0 {
			h.last = nil // Drop it, because it would be outdated when the next reader subscribes.
		}
	})
	return ch
}
