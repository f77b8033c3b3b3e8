package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// run fetches the target at once and then at each interval, until ctx ends.
func (t *target) run(ctx context.Context, now func() time.Time) {
	ticker := time.NewTicker(t.Interval)
	defer ticker.Stop()
	for {
		t.fetch(ctx, now)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// fetch requests the page once and stores its figures, or the error.
func (t *target) fetch(ctx context.Context, now func() time.Time) {
	began := now()
	err := t.request(ctx)
	var origin *sensor.Origin
	if err == nil {
		origin = t.resolveOrigin()
	}
	if ctx.Err() != nil {
		return
	}
	at := now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took, t.err, t.fetched = at.Sub(began), err, true
	t.last = t.last[:0]
	if err != nil {
		return
	}
	figures, err := t.page.Read(t.body)
	if t.err = err; err != nil {
		return
	}
	t.last, t.at = append(t.last, figures...), at
	if t.origin == nil || *t.origin != *origin {
		t.origin = origin
	}
}

// resolveOrigin returns the workload that the figures belong to, or the peer that sent them.
func (t *target) resolveOrigin() *sensor.Origin {
	if t.Workload != "" {
		return &sensor.Origin{Workload: t.Workload, Trusted: !t.strange, Placed: t.strange}
	}
	o := t.peers.originOfPeer()
	return &o
}

// request reads the page into the body.
func (t *target) request(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	req.Header.Set("User-Agent", "reckon-agent")
	req.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", fmt.Sprintf("%g", t.Timeout.Seconds()))
	if t.TokenFile != "" {
		token, err := os.ReadFile(t.TokenFile)
		if err != nil {
			return fmt.Errorf("token_file: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return shortenError(err, t.Timeout)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		if l := resp.Header.Get("Location"); l != "" {
			return fmt.Errorf("it answers %s and points to %.200q; write that address", resp.Status, l)
		}
		return fmt.Errorf("it answers %s", resp.Status)
	}
	kind := resp.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "text/html") || strings.HasPrefix(kind, "application/") {
		return fmt.Errorf("it answers with %.100s, not with metrics in the text format; is the path right?", kind)
	}
	t.body = t.body[:0]
	for {
		if len(t.body) == cap(t.body) {
			t.body = append(t.body, make([]byte, max(8<<10, cap(t.body)))...)[:len(t.body)]
		}
		n, err := resp.Body.Read(t.body[len(t.body):cap(t.body)])
		t.body = t.body[:len(t.body)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return shortenError(err, t.Timeout)
		}
		if len(t.body) > maxBytes {
			t.body = nil
			return fmt.Errorf("the page is larger than %d MiB", maxBytes>>20)
		}
	}
}

// shortenError shortens the error of a failed request.
func shortenError(err error, timeout time.Duration) error {
	var op *net.OpError
	switch {
	case os.IsTimeout(err):
		return fmt.Errorf("no answer within %v", timeout)
	case errors.Is(err, unix.ECONNREFUSED):
		return errors.New("nothing listens there")
	case errors.Is(err, unix.ENOENT):
		return errors.New("there is no such socket")
	case errors.As(err, &op):
		return op.Err
	}
	var u interface{ Unwrap() error }
	if errors.As(err, &u) && u.Unwrap() != nil {
		return u.Unwrap() // without the address, which names the input already
	}
	return err
}
