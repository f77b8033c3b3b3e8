package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	maxEvent     = 64 << 20         // bytes per tick: a machine with 100,000 workloads
	silence      = 45 * time.Second // three keep-alives of the server
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 10 * time.Second
)

// Live yields the ticks of the server's agent until ctx ends or the loop breaks.
//
// After a lost connection, it yields the error with a zero Live and connects again after a pause, which grows with each
// attempt. The caller may break the loop to give up. After a permanent error, such as a server without an agent, the
// sequence ends.
func (c *Client) Live(ctx context.Context) iter.Seq2[Live, error] {
	return func(yield func(Live, error) bool) {
		backoff := firstBackoff
		for {
			err := c.readStream(ctx, func(l Live) bool {
				backoff = firstBackoff
				return yield(l, nil)
			})
			if errors.Is(err, errStop) || ctx.Err() != nil {
				return
			}
			if !yield(Live{}, err) {
				return
			}
			var refused *APIError
			if errors.As(err, &refused) && refused.Status < 500 {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(backoff/2 + rand.N(backoff/2)):
			}
			backoff = min(2*backoff, lastBackoff)
		}
	}
}

var errStop = errors.New("the reader has had enough")

// readStream reads the ticks of one connection. It always returns an error, because a stream has no end.
func (c *Client) readStream(ctx context.Context, each func(Live) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("%s was silent for %s", c.Server(), silence)) })
	defer quiet.Stop()
	resp, err := c.sendRequest(ctx, http.MethodGet, "/api/reckon/v1/live", nil, "text/event-stream")
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return fmt.Errorf("read the answer of %s: %w", c.Server(), err)
		}
		return c.responseError(resp, body)
	}
	err = readEvents(resp.Body, func(name string, data []byte) error {
		quiet.Reset(silence)
		if name != "live" {
			return nil // an event kind of a later version, or a keep-alive
		}
		var l Live
		if err := json.Unmarshal(data, &l); err != nil {
			return fmt.Errorf("%s sent a tick that is not JSON: %w", c.Server(), err)
		}
		if !each(l) {
			return errStop
		}
		return nil
	})
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, errStop) {
		return cause
	}
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s closed the live stream", c.Server())
	}
	return err
}

// readEvents reads a stream of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream). It calls each for every
// event, and for every comment with an empty name. At the end of the stream it returns nil.
func readEvents(r io.Reader, each func(name string, data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
	lines.Split(scanLines)
	name, data, have := "", []byte(nil), false
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 { // end of the event
			if have {
				name = cmp.Or(name, "message")
				if err := each(name, data); err != nil {
					return err
				}
			}
			name, data, have = "", data[:0], false
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "": // a comment
			if err := each("", nil); err != nil {
				return err
			}
		case "event":
			name = string(value)
		case "data":
			if have {
				data = append(data, '\n')
			}
			if len(data)+len(value) > maxEvent {
				return fmt.Errorf("an event of the live stream is longer than %d bytes", maxEvent)
			}
			data, have = append(data, value...), true
		}
	}
	return lines.Err()
}

// scanLines splits at LF, CR LF or CR alone, as the standard requires.
func scanLines(b []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(b, "\r\n")
	switch {
	case i < 0:
		return 0, nil, nil // an unfinished last line is dropped
	case b[i] == '\n':
		return i + 1, b[:i], nil
	case i+1 < len(b):
		if b[i+1] == '\n' {
			return i + 2, b[:i], nil
		}
		return i + 1, b[:i], nil
	case atEOF:
		return i + 1, b[:i], nil
	}
	return 0, nil, nil // CR at the end of the buffer: LF may follow
}
