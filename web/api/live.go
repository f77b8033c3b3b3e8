package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"reckon/access"
)

const (
	// keepAlive is the maximum silence of a stream, so that proxies do not close it.
	keepAlive = 15 * time.Second
	// writeWait is the time limit for writing one event. A reader that is stuck for longer is disconnected.
	writeWait = 10 * time.Second
)

// serveLive streams ticks as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
func (s *server) serveLive(w http.ResponseWriter, r *http.Request, _ *query) error {
	if s.Hub == nil {
		if s.MadeUp {
			return newError(http.StatusNotFound, "GET /api/reckon/v1/workloads?running=true lists running workloads",
				"this server shows a simulated site, so it has no live stream")
		}
		return newError(http.StatusNotFound, "ask the server of a node that runs `reckon up`",
			"this server runs no agent, so it has no live stream")
	}
	ctl := http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would buffer events
	send := func(text string, args ...any) error {
		if err := ctl.SetWriteDeadline(time.Now().Add(writeWait)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := fmt.Fprintf(w, text, args...); err != nil {
			return err
		}
		return ctl.Flush()
	}
	if err := send("retry: 1000\n\n"); err != nil {
		return nil // the client has disconnected
	}
	viewer := access.From(r.Context())
	ticks := subscribe(r.Context(), s.Hub, func(t *tick) *tick { return t })
	silence := time.NewTimer(keepAlive)
	defer silence.Stop()
	for {
		var err error
		select {
		case t, ok := <-ticks:
			if !ok {
				return nil
			}
			body, encodeErr := t.encode()
			if !viewer.All() {
				body, encodeErr = json.Marshal(viewer.Live(t.live))
			}
			if encodeErr != nil {
				s.Logger.ErrorContext(r.Context(), "encode a live tick", "error", encodeErr)
				continue
			}
			err = send("event: live\nid: %d\ndata: %s\n\n", t.live.Time.UnixMilli(), body)
		case <-silence.C:
			err = send(": alive\n\n")
		}
		if err != nil {
			return nil // the client has disconnected
		}
		silence.Reset(keepAlive)
	}
}
