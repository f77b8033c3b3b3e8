package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// breaker is a circuit breaker for a server that is unreachable. After some consecutive failures, it lets through one
// request at increasing intervals and rejects all others.
type breaker struct {
	mu     sync.Mutex
	fails  int
	since  time.Time // of the first failure
	next   time.Time // next attempt
	trying bool
	why    error
}

const (
	failsAtMost = 3
	waitAtMost  = 10 * time.Second
)

func (b *breaker) allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails < failsAtMost {
		return nil
	}
	if b.trying || time.Now().Before(b.next) {
		return b.why
	}
	b.trying = true
	return nil
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails, b.trying, b.why, b.since = 0, false, nil, time.Time{}
}

// abandoned ends an attempt without a result, because the caller went away.
func (b *breaker) abandoned() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}

func (b *breaker) failed(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.fails == 0 {
		b.since = now
	}
	b.fails, b.trying, b.why = b.fails+1, false, err
	wait := min(time.Second<<min(max(b.fails-failsAtMost, 0), 5), waitAtMost)
	var slow *slowError
	if errors.As(err, &slow) {
		wait = max(wait, slow.after)
	}
	b.next = now.Add(wait)
	return err
}

// awayError is the cause of an outage, and when it began.
type awayError struct {
	why   error
	since time.Time
}

func (e *awayError) Error() string {
	return fmt.Sprintf("%v (since %s)", e.why, e.since.UTC().Format(time.RFC3339))
}

// Unwrap returns the reason.
func (e *awayError) Unwrap() error { return e.why }

// Since returns the time of the first failure in the row.
func (e *awayError) Since() time.Time { return e.since }

func (b *breaker) outageError() *awayError {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails == 0 {
		return nil
	}
	return &awayError{b.why, b.since}
}

// patience is the time that the other side may be silent before a health check, and the time limit of the check.
const patience = 5 * time.Second

// errLifeless ends a request to a server that does not answer the health check either.
var errLifeless = errors.New("no sign of life")

// healthProbe finds out whether a server that does not answer a query is busy or hangs. If the server answers a health
// check, the query continues. Otherwise the query is cancelled within twice the patience. It does not wait for the
// timeout, which is long because answers may be large. Any response to the health check counts, because a proxy may not
// know the path.
type healthProbe struct {
	mu     sync.Mutex
	asking chan struct{} // closed when the health check under way is answered
	alive  bool

	silence, grace time.Duration // patience, except in tests
}

// timedOut reports whether we ended a request, rather than its caller.
func timedOut(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, os.ErrDeadlineExceeded) || errors.Is(cause, errLifeless)
}

// watch cancels a request if the other side fails a health check while the request waits.
func (w *web) watch(limit context.Context, cancel context.CancelCauseFunc) *time.Timer {
	var again *time.Timer
	var mu sync.Mutex // guards again, which the timer itself uses
	mu.Lock()
	defer mu.Unlock()
	again = time.AfterFunc(w.pulse.silence, func() {
		if limit.Err() != nil {
			return
		}
		if !w.isAlive() {
			cancel(errLifeless)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if limit.Err() == nil {
			again.Reset(w.pulse.silence)
		}
	})
	return again
}

// isAlive checks the health of the other side once for all concurrent callers.
func (w *web) isAlive() bool {
	p := &w.pulse
	p.mu.Lock()
	if asking := p.asking; asking != nil {
		p.mu.Unlock()
		<-asking
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.alive
	}
	asking := make(chan struct{})
	p.asking = asking
	p.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), p.grace)
	defer cancel()
	resp, err := w.send(ctx, http.MethodGet, w.conf.healthURL(), nil, nil)
	if err == nil {
		_ = resp.Body.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alive, p.asking = err == nil || ctx.Err() == nil, nil // a refused connection is not silence; the request itself will report it
	close(asking)
	return p.alive
}

// healthURL returns an address that is cheap for the other side to answer.
func (c *settings) healthURL() string {
	base, path := c.api, "/-/healthy"
	switch c.kind {
	case kindVictoria:
		path = "/health"
	case kindMimir:
		path = "/ready"
		base = strings.TrimSuffix(base, "/prometheus/api/v1")
	case kindInflux1, kindInflux2:
		path = "/ping"
		base = strings.TrimSuffix(base, "/query")
	}
	u, err := url.Parse(strings.TrimSuffix(base, "/api/v1") + path)
	if err != nil {
		return c.api
	}
	u.RawQuery = ""
	return u.String()
}
