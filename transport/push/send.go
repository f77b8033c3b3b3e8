package push

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/s2"

	"reckon/internal/phrase"
	"reckon/internal/queue"
	"reckon/transport/instance"
)

const (
	backoffMin    = time.Second
	backoffMax    = time.Minute
	maxRetryAfter = 10 * time.Minute // upper limit of Retry-After
)

// refusedError reports samples that the receiver will never accept.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }

// retryError reports a temporary failure: the samples can be sent again.
type retryError struct {
	err   error
	after time.Duration // minimum delay before the retry; 0 if unspecified
}

func (e *retryError) Error() string { return e.err.Error() }

// run sends the queue until ctx ends.
func (t *target) run(ctx context.Context) {
	wait := time.Duration(0)
	for ctx.Err() == nil {
		err := t.sendNext(ctx)
		var later *retryError
		switch {
		case errors.Is(err, queue.ErrEmpty):
			wait = 0
			select {
			case <-t.queue.Ready():
			case <-ctx.Done():
			}
			continue
		case ctx.Err() != nil:
			return
		case err == nil:
			wait = 0
			continue
		case errors.As(err, &later):
			t.updateStatus(func(s *Status) { s.Retries++ })
			wait = min(max(2*wait, t.soonest), backoffMax)
			t.recordFailure(later.err)
			sleepUntilDone(ctx, max(later.after, withJitter(wait)))
		default: // an error of the queue itself
			wait = min(max(2*wait, t.soonest), backoffMax)
			t.recordFailure(err)
			sleepUntilDone(ctx, withJitter(wait))
		}
	}
}

// drain sends until the queue is empty or an error occurs.
func (t *target) drain(ctx context.Context) {
	for ctx.Err() == nil && t.sendNext(ctx) == nil {
		continue
	}
}

// withJitter returns a random duration from d/2 to d, so that the nodes of a site do not all retry at the same time.
func withJitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}

func sleepUntilDone(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sendNext sends the oldest queued record. It returns nil if the record is done, whether stored or refused.
func (t *target) sendNext(ctx context.Context) error {
	r, err := t.queue.Peek(t.buf)
	if err != nil {
		return err
	}
	t.buf = r.Data
	if len(r.Data) < 5 {
		return t.queue.Done(r) // not a record of ours
	}
	samples := uint64(binary.LittleEndian.Uint32(r.Data))
	packed, err := t.correctTimes(ctx, r.Data[4:])
	if err != nil {
		return err
	}
	taken, err := t.sendRequest(ctx, packed, samples)
	var refused *refusedError
	if errors.As(err, &refused) && t.status().LastSent.IsZero() {
		// This endpoint has never accepted a request. Find out whether the record is invalid or the server is of another kind.
		if f := t.check(ctx); f.Problem != "" {
			return &retryError{err: errors.New(f.Problem)}
		}
	}
	switch {
	case errors.As(err, &refused):
		t.countRefused(refused.err, samples-min(taken, samples), r.Time)
	case err != nil:
		return err
	}
	t.recordSuccess(taken)
	return t.queue.Done(r)
}

// sendTimed sends a request and corrects the clock by the Date header of the response.
func (t *target) sendTimed(req *http.Request) (*http.Response, error) {
	if t.corrector == nil {
		return t.client.Do(req)
	}
	since := t.corrector.clock.Since
	var from, to atomic.Int64 // without the time that connecting takes: packets of a connection that begins are lost for seconds
	from.Store(int64(since()))
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteHeaders:         func() { from.Store(int64(since())) },
		GotFirstResponseByte: func() { to.Store(int64(since())) },
	}))
	resp, err := t.client.Do(req)
	if err == nil && to.Load() >= from.Load() {
		t.corrector.learnDate(resp.Header, time.Duration(from.Load()), time.Duration(to.Load()), t.corrector.clock.Now())
	}
	return resp, err
}

// correctTimes returns the request with corrected times. Before the first request of a boot, it asks the receiver for its time.
func (t *target) correctTimes(ctx context.Context, packed []byte) ([]byte, error) {
	if t.corrector == nil {
		return packed, nil
	}
	for t.corrector.needsTime() {
		req, err := http.NewRequestWithContext(ctx, http.MethodHead, t.url, nil)
		if err != nil {
			return nil, &retryError{err: err}
		}
		resp, err := t.sendTimed(req)
		if err != nil {
			return nil, &retryError{err: err}
		}
		resp.Body.Close()
	}
	n, err := s2.DecodedLen(packed)
	if err != nil || n > 64<<20 {
		return packed, nil // send reports the failure
	}
	if t.plain, err = s2.Decode(t.plain[:0:cap(t.plain)], packed); err != nil {
		return packed, nil //nolint:nilerr // the same
	}
	boot, stamped := readClock(t.plain)
	shift := int64(0)
	if boot != "" {
		shift = t.corrector.shift(boot, stamped)
	}
	t.updateStatus(func(s *Status) { s.Behind = time.Duration(shift) * time.Millisecond })
	if shift == 0 {
		return packed, nil
	}
	out, err := t.shifter.shift(t.plain, shift)
	if err != nil {
		return packed, nil //nolint:nilerr // the same
	}
	t.shiftBuf = s2.EncodeSnappy(t.shiftBuf[:0:cap(t.shiftBuf)], out)
	return t.shiftBuf, nil
}

// sendRequest sends one request, by the protocol that the receiver supports, and returns the number of samples accepted.
func (t *target) sendRequest(ctx context.Context, packed []byte, samples uint64) (taken uint64, err error) {
	if t.protocol != "1.0" {
		a, err := t.post(ctx, packed, true)
		if err != nil {
			return 0, err
		}
		taken, why := a.checkWritten(samples)
		forced := t.e.Protocol == "2.0"
		if forced || !a.supportsOnlyV1(t.protocol != "") {
			if a.status/100 == 2 && t.protocol == "" {
				t.setProtocol("2.0")
			}
			return taken, why
		}
		t.protocol = "" // the server may have been replaced by another one
	}
	body, err := t.convertToV1(packed)
	if err != nil {
		return 0, &refusedError{fmt.Errorf("invalid record in the queue: %w", err)}
	}
	a, err := t.post(ctx, body, false)
	if err != nil {
		return 0, err
	}
	if t.native && a.rejectsNative() {
		t.native = false
		t.log.Warn("native histograms are not taken; they are sent as classic ones", "to", t.shown)
		return 0, &retryError{err: errors.New(a.text)}
	}
	if err := a.checkStatus(); err != nil {
		return 0, err
	}
	if t.protocol == "" {
		t.setProtocol("1.0")
	}
	return samples, nil
}

func (t *target) setProtocol(protocol string) {
	t.protocol = protocol
	t.updateStatus(func(s *Status) { s.Protocol = protocol })
	t.log.Info("pushing", "to", t.shown, "remote write", protocol, "native histograms", protocol == "2.0" || t.native)
}

// convertToV1 converts a request to 1.0.
func (t *target) convertToV1(packed []byte) ([]byte, error) {
	n, err := s2.DecodedLen(packed)
	if err != nil || n > 64<<20 {
		return nil, errMalformed
	}
	if t.plain, err = s2.Decode(t.plain[:0:cap(t.plain)], packed); err != nil {
		return nil, errMalformed
	}
	t.legacy.native = t.native
	out, err := t.legacy.convert(t.plain)
	if err != nil {
		return nil, err
	}
	t.body = s2.EncodeSnappy(t.body[:0:cap(t.body)], out)
	return t.body, nil
}

// response is the response to a write request.
type response struct {
	status   int
	header   http.Header
	text     string // beginning of the body, on one line
	location string
}

// post sends a request. It fails only because of the network or the token file, so the caller should always retry.
func (t *target) post(ctx context.Context, body []byte, v2 bool) (*response, error) {
	return t.postTo(ctx, t.url, body, v2)
}

func (t *target) postTo(ctx context.Context, address string, body []byte, v2 bool) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, &retryError{err: err}
	}
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("User-Agent", t.agent)
	if v2 {
		req.Header.Set("Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request")
		req.Header.Set("X-Prometheus-Remote-Write-Version", "2.0.0")
	} else {
		req.Header.Set("Content-Type", "application/x-protobuf")
		req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	}
	if s := t.sender; s.Agent != "" && s.Node != "" {
		s.Sent = time.Now()
		s.Age = s.Sent.Sub(t.opened)
		req.Header.Set(instance.HeaderName, s.Header())
	}
	if err := t.e.authorize(req.Header); err != nil {
		return nil, &retryError{err: err}
	}
	resp, err := t.sendTimed(req)
	if err != nil {
		return nil, &retryError{err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil && resp.StatusCode/100 != 2 {
		return nil, &retryError{err: fmt.Errorf("read the answer: %w", err)}
	}
	t.updateStatus(func(s *Status) { s.Bytes += uint64(len(body)) })
	return &response{status: resp.StatusCode, header: resp.Header, text: phrase.OneLine(raw), location: resp.Header.Get("Location")}, nil
}

const writtenHeader = "X-Prometheus-Remote-Write-Samples-Written"

// supportsOnlyV1 reports whether the response to a 2.0 request shows that the receiver supports only 1.0. Such a
// receiver rejects the message type, cannot decode the request, or accepts it as 1.0 and finds no samples. settled
// means that the receiver supported 2.0 before.
func (a *response) supportsOnlyV1(settled bool) bool {
	none := a.header.Get(writtenHeader) == ""
	switch {
	case a.status/100 == 2:
		return none
	case a.status == http.StatusBadRequest:
		return none && !settled
	default:
		return a.status == http.StatusUnsupportedMediaType
	}
}

// checkWritten returns the number of samples that the receiver reports as written, and an error if that is not all.
func (a *response) checkWritten(samples uint64) (taken uint64, err error) {
	err = a.checkStatus()
	known := false
	for _, h := range []string{writtenHeader, "X-Prometheus-Remote-Write-Histograms-Written"} {
		if n, bad := strconv.ParseUint(a.header.Get(h), 10, 32); bad == nil {
			taken, known = taken+n, true
		}
	}
	switch {
	case err == nil && !known:
		return samples, nil
	case err == nil && taken < samples:
		return taken, &refusedError{fmt.Errorf("%d of %d samples were accepted, with no error for the others", taken, samples)}
	}
	return min(taken, samples), err
}

// checkStatus returns nil for a successful response, and otherwise an error that tells whether to retry.
func (a *response) checkStatus() error {
	err := fmt.Errorf("answer %d %s", a.status, http.StatusText(a.status))
	if a.text != "" {
		err = fmt.Errorf("%w: %s", err, a.text)
	}
	if a.isPlainToTLS() {
		return &retryError{err: &statusError{a, err}}
	}
	switch a.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return &refusedError{err}
	}
	if a.status/100 == 2 {
		return nil
	}
	if a.location != "" {
		err = fmt.Errorf("it sends us on to %s; write that address", a.location)
	}
	// A wrong token or path will be corrected by people, and no samples must be lost until then.
	return &retryError{&statusError{a, err}, a.retryAfter(time.Now())}
}

// retryAfter reads the header (RFC 9110, section 10.2.3): seconds, or a date.
func (a *response) retryAfter(now time.Time) time.Duration {
	v := a.header.Get("Retry-After")
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// rejectsNative reports whether the response is from a Prometheus that has native histograms disabled. Its status
// alone does not show that, because it is a server error.
func (a *response) rejectsNative() bool {
	return a.status/100 != 2 && strings.Contains(a.text, "native histograms are disabled")
}

// recordSuccess records a request that was done.
func (t *target) recordSuccess(taken uint64) {
	was := ""
	t.updateStatus(func(s *Status) {
		was, s.LastError = s.LastError, ""
		s.Sent += taken
		s.LastSent = time.Now()
	})
	if was != "" {
		t.log.Info("pushing again", "to", t.shown, "waiting", t.queue.Stats().Records)
	}
}

// recordFailure records why sending fails. A new reason is logged.
func (t *target) recordFailure(err error) {
	text := Explain(t.url, &t.e, err)
	was := ""
	t.updateStatus(func(s *Status) { was, s.LastError = s.LastError, text })
	if was != text {
		t.log.Warn("nothing can be pushed; it is kept and sent later", "to", t.shown, "err", text)
	}
}

// countRefused counts samples that the receiver rejected as invalid.
func (t *target) countRefused(err error, samples uint64, at time.Time) {
	first := false
	t.updateStatus(func(s *Status) {
		first = s.Refused == 0
		s.Refused += samples
	})
	level := t.log.Debug
	if first {
		level = t.log.Warn // the others are counted in reckon_agent_push_refused_samples_total
	}
	level("samples were refused and are dropped", "to", t.shown, "samples", samples, "from", at.UTC().Format(time.RFC3339), "err", err)
}
