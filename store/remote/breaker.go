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
	maxFailures   = 3
	maxRetryDelay = 10 * time.Second
)

func (b *breaker) allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails < maxFailures {
		return nil
	}
	if b.trying || time.Now().Before(b.next) {
		return b.why
	}
	b.trying = true
	return nil
}

func (b *breaker) recordSuccess() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails, b.trying, b.why, b.since = 0, false, nil, time.Time{}
}

// recordAbandoned ends an attempt that has no result because the caller went away.
func (b *breaker) recordAbandoned() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}

func (b *breaker) recordFailure(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.fails == 0 {
		b.since = now
	}
	b.fails, b.trying, b.why = b.fails+1, false, err
	wait := min(time.Second<<min(max(b.fails-maxFailures, 0), 5), maxRetryDelay)
	var slow *retryLaterError
	if errors.As(err, &slow) {
		wait = max(wait, slow.after)
	}
	b.next = now.Add(wait)
	return err
}

// outageError contains the cause of an outage and the time at which it began.
type outageError struct {
	why   error
	since time.Time
}

func (e *outageError) Error() string {
	return fmt.Sprintf("%v (since %s)", e.why, e.since.UTC().Format(time.RFC3339))
}

// Unwrap returns the reason.
func (e *outageError) Unwrap() error { return e.why }

// Since returns the time of the first of the consecutive failures.
func (e *outageError) Since() time.Time { return e.since }

func (b *breaker) currentOutage() *outageError {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails == 0 {
		return nil
	}
	return &outageError{b.why, b.since}
}

// healthTimeout is the time without a response after which the health of the server is checked, and the time limit of the check.
const healthTimeout = 5 * time.Second

// errUnresponsive cancels a request to a server that does not answer the health check either.
var errUnresponsive = errors.New("no sign of life")

// healthProbe finds out whether a server that does not answer a query is busy or hangs. If the server answers a health
// check, the query continues. Otherwise the query is cancelled within twice the patience. It does not wait for the
// timeout, which is long because answers may be large. Any response to the health check counts, because a proxy may not
// know the path.
type healthProbe struct {
	mu     sync.Mutex
	asking chan struct{} // closed when the health check under way is answered
	alive  bool

	silence, grace time.Duration // healthTimeout, except in tests
}

// timedOut reports whether this client ended a request, and not its caller.
func timedOut(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, os.ErrDeadlineExceeded) || errors.Is(cause, errUnresponsive)
}

// watch cancels a request if the server fails a health check while the request waits.
func (w *serverClient) watch(limit context.Context, cancel context.CancelCauseFunc) *time.Timer {
	var again *time.Timer
	var mu sync.Mutex // guards again, which the timer itself uses
	mu.Lock()
	defer mu.Unlock()
	again = time.AfterFunc(w.pulse.silence, func() {
		if limit.Err() != nil {
			return
		}
		if !w.isAlive() {
			cancel(errUnresponsive)
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

// isAlive checks the health of the server, once for all concurrent callers.
func (w *serverClient) isAlive() bool {
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

// healthURL returns an address that the server can answer at little cost.
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
