// Package ingest receives samples from other machines: it is a receiver of Prometheus remote write 2.0
// (https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/) and 1.0 (https://prometheus.io/docs/specs/prw/remote_write_spec/), with
// native histograms, out-of-order samples, descriptions of metrics, and start times of counters; and of OpenTelemetry metrics over HTTP
// (see OTLP).
//
// With both versions of the protocol, every valid sample of a request is stored; invalid ones are named in the response, which is then
// 400, so that the sender does not send them again. If the store itself fails, nothing of the request is stored and the response is 503
// or 500: the sender retries. A repeated request is stored once.
//
// Times are milliseconds since the Unix epoch. The handler is safe for concurrent use.
package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"

	"reckon/store"
	"reckon/transport/instance"
	"reckon/transport/limits"
	"reckon/transport/senders"
)

// Options configure a receiver.
type Options struct {
	Store storage.AppendableV2
	// Describe is called with type, unit and help of a metric when they are new; may be nil.
	Describe func(name string, m metadata.Metadata) error
	// Allow returns the check of the nodes that the sender may send samples for; nil allows all. An
	// error refuses the request, so that the sender keeps it.
	Allow func(ctx context.Context) (func(site, node string) bool, error)
	// Own returns the labels of a sender that may only send its own figures, and nil for others; it
	// may be nil. Allow and Admit do not apply to such senders.
	Own func(ctx context.Context) *RestrictedSender
	// Begin counts a request against the limits of its sender. An error, such as a [*limits.RateError],
	// refuses it for now. nil means no limits.
	Begin func(ctx context.Context) (*limits.Request, error)
	// Admit decides whether a sender that identifies its instance may use its name. An error refuses the request, so
	// that the sender keeps it. Samples up to a nonzero after are refused permanently. nil admits all.
	Admit func(s instance.Sender, address string) (after time.Time, err error)
	// Stats counts requests and samples; it may be nil. Sender returns the name under which it counts a sender.
	Stats  *Stats
	Sender func(ctx context.Context) string
	// MaxBody and MaxDecoded limit a request in bytes before and after decompression; 16 and 64 MiB by default.
	MaxBody, MaxDecoded int64
	// Sizes returns both limits for each request; nil for MaxBody and MaxDecoded.
	Sizes func() (body, decoded int64)
	// MaxConcurrent limits the requests that are unpacked and stored at the same time; others wait. Requests over 128 KiB leave one of
	// several slots free, and those over a megabyte another one, so that ordinary senders do not wait for them. The default is twice the
	// number of processors. A body that is still being received takes no slot, so that slow senders block no others.
	MaxConcurrent int
	// MaxReceiving limits the total bytes of bodies received, or being received, and not yet
	// stored. Requests beyond it get a 503. The default is 4 times MaxBody.
	MaxReceiving int64
	// Memory is the budget in bytes for decoding requests. Several receivers may share it; nil creates one.
	Memory *limits.Memory
	// Ahead is the time that a sample may lie in the future, 10 minutes by default.
	Ahead  time.Duration
	Logger *slog.Logger
	Clock  func() time.Time // time.Now by default; tests replace it
}

type handler struct {
	Options
	protocol   string           // in Stats
	slots      [3]chan struct{} // that large, middle-sized, and all requests may take
	buffers    sync.Pool
	meta       descriptionCache
	series     seriesCache
	unstoredAt atomic.Int64 // last warning that samples could not be stored, Unix seconds
	refusedAt  atomic.Int64 // last warning that samples were refused, Unix seconds
}

// Handler returns the receiver, to be mounted at /api/v1/write.
func Handler(o Options) http.Handler { return newHandler(o, "remote_write") }

func newHandler(o Options, protocol string) *handler {
	o.MaxBody = cmp.Or(o.MaxBody, 16<<20)
	o.MaxDecoded = cmp.Or(o.MaxDecoded, 64<<20)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 2*runtime.GOMAXPROCS(0))
	o.Ahead = cmp.Or(o.Ahead, 10*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.MaxReceiving = cmp.Or(o.MaxReceiving, 4*o.MaxBody)
	if o.Memory == nil {
		o.Memory = limits.NewMemory(0)
	}
	if o.Sizes == nil {
		o.Sizes = func() (int64, int64) { return o.MaxBody, o.MaxDecoded }
	}
	h := &handler{Options: o, protocol: protocol}
	for i := range h.slots {
		h.slots[i] = make(chan struct{}, max(o.MaxConcurrent-(len(h.slots)-1-i), 1))
	}
	h.buffers.New = func() any { return new(buffers) }
	h.meta.tell = o.Describe
	return h
}

// statusError is an error response.
type statusError struct {
	code  int
	text  string
	after time.Duration
}

func (e *statusError) Error() string { return e.text }

func newStatusError(code int, format string, args ...any) error {
	return &statusError{code: code, text: fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	got, v2, err := h.serve(w, r)
	if v2 {
		w.Header().Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(got.samples))
		w.Header().Set("X-Prometheus-Remote-Write-Histograms-Written", strconv.Itoa(got.histograms))
		w.Header().Set("X-Prometheus-Remote-Write-Exemplars-Written", strconv.Itoa(got.exemplars))
	}
	if err == nil {
		h.Stats.countRequest(h.protocol, http.StatusNoContent)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var s *statusError
	if !errors.As(err, &s) {
		s = storeError(err)
		h.logStoreFailure(r, err)
	} else {
		h.logRefusal(r, s)
	}
	if s.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(s.after.Seconds())))
	}
	h.Stats.countRequest(h.protocol, s.code)
	http.Error(w, s.text, s.code)
}

// logStoreFailure logs that the store cannot take samples, which then wait at their senders. It logs once a minute,
// regardless of the number of senders.
func (h *handler) logStoreFailure(r *http.Request, err error) {
	level, now, last := slog.LevelDebug, time.Now().Unix(), h.unstoredAt.Load()
	if now-last >= 60 && h.unstoredAt.CompareAndSwap(last, now) {
		level = slog.LevelError
	}
	h.Logger.Log(r.Context(), level, "samples could not be stored; the sender keeps them", "from", r.RemoteAddr, "err", err)
}

// logRefusal logs an error that is returned to a sender. It logs once a minute at level warning, because rejected
// samples are lost and the logs of senders are rarely read.
func (h *handler) logRefusal(r *http.Request, s *statusError) {
	level, now, last := slog.LevelDebug, time.Now().Unix(), h.refusedAt.Load()
	if now-last >= 60 && h.refusedAt.CompareAndSwap(last, now) {
		level = slog.LevelWarn
	}
	h.Logger.Log(r.Context(), level, "samples refused", "from", r.RemoteAddr, "status", s.code, "err", s.text)
}

// storeError returns the response for an error of the store.
func storeError(err error) *statusError {
	switch {
	case errors.Is(err, store.ErrFull):
		return &statusError{http.StatusServiceUnavailable, err.Error(), time.Minute}
	case errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrUnavailable):
		return &statusError{http.StatusServiceUnavailable, err.Error(), 5 * time.Second}
	case errors.Is(err, limits.ErrMemory):
		return &statusError{http.StatusServiceUnavailable, err.Error() + "; send it again", 5 * time.Second}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &statusError{http.StatusServiceUnavailable, err.Error(), time.Second}
	}
	return &statusError{http.StatusInternalServerError, err.Error(), 0}
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) (got result, v2 bool, err error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return got, false, newStatusError(http.StatusMethodNotAllowed, "remote write is a POST of samples; to read them see /api/v1/query")
	}
	v2, err = messageVersion(r.Header)
	if err != nil {
		return got, false, err
	}
	who, err := h.identifySender(r)
	if err != nil {
		return got, v2, err
	}
	buf := h.buffers.Get().(*buffers)
	defer h.recycle(buf)
	if err := h.receive(w, r, buf); err != nil {
		return got, v2, err
	}
	turn, err := h.unpack(r.Context(), buf)
	if err != nil {
		return got, v2, err
	}
	defer turn.releaseAll()
	if v2 {
		if err := buf.two.parse(buf.plain); err != nil {
			return got, v2, newStatusError(http.StatusBadRequest, "the body is no io.prometheus.write.v2.Request: %v", err)
		}
		if err := turn.reserveDecode(r.Context(), buf.two.isLarge()); err != nil {
			return got, v2, err
		}
	} else {
		large, err := checkRequestV1(buf.plain)
		if err != nil {
			return got, v2, newStatusError(http.StatusBadRequest, "the body is no prometheus.WriteRequest: %v", err)
		}
		if err := turn.reserveDecode(r.Context(), large); err != nil {
			return got, v2, err
		}
	}
	// The writer holds the store open, so it is created last, when only storing is left.
	in := h.newWriter(r.Context(), who)
	defer in.abandon()
	if v2 {
		got, err = in.storeRequestV2(&buf.two)
	} else {
		got, err = in.storeRequestV1(buf.plain)
	}
	return got, v2, err
}

// sender is the sender of a request, with the limits that apply to it.
type sender struct {
	name    string
	allowed func(site, node string) bool // nil: for all
	own     *RestrictedSender            // nil: it may send for others
	bounds  *limits.Request              // nil: none
	after   int64                        // samples up to this time belong to another machine, in milliseconds; 0: none do
}

func (h *handler) identifySender(r *http.Request) (s sender, err error) {
	ctx := r.Context()
	if h.Sender != nil {
		s.name = h.Sender(ctx)
	}
	if h.Own != nil {
		s.own = h.Own(ctx)
	}
	if h.Allow != nil && s.own == nil {
		if s.allowed, err = h.Allow(ctx); err != nil {
			return s, newStatusError(http.StatusForbidden, "%v", err)
		}
	}
	if who, ok := instance.Parse(r.Header); ok && h.Admit != nil && s.own == nil && (s.allowed == nil || s.allowed(who.Site, who.Node)) {
		after, err := h.Admit(who, senderAddress(r))
		if err != nil {
			return s, &statusError{http.StatusConflict, err.Error(), senders.RetryAfter}
		}
		if !after.IsZero() {
			s.after = after.UnixMilli()
		}
	}
	if h.Begin != nil {
		if s.bounds, err = h.Begin(ctx); err != nil {
			return s, rateLimitError(err)
		}
	}
	return s, nil
}

// senderAddress returns the address of the sender, without its port.
func senderAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// rateLimitError returns the response for a sender that exceeds its rate. Such a sender keeps its samples and sends them later.
func rateLimitError(err error) error {
	var s *limits.RateError
	if errors.As(err, &s) {
		return &statusError{http.StatusTooManyRequests, s.Error(), s.Wait}
	}
	return err
}

// messageVersion reports whether the body is a message of remote write 2.0, by the Content-Type header.
func messageVersion(header http.Header) (v2 bool, err error) {
	const types = "application/x-protobuf with proto=prometheus.WriteRequest or proto=io.prometheus.write.v2.Request"
	if e := header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "snappy") {
		return false, newStatusError(http.StatusUnsupportedMediaType, "unsupported content encoding %q; remote write uses snappy", e)
	}
	given := header.Get("Content-Type")
	if given == "" {
		return false, nil // early senders of 1.0 leave it out
	}
	media, params, err := mime.ParseMediaType(given)
	if err != nil || media != "application/x-protobuf" {
		return false, newStatusError(http.StatusUnsupportedMediaType, "unsupported content type %q; send %s", given, types)
	}
	switch params["proto"] {
	case "", "prometheus.WriteRequest":
		return false, nil
	case "io.prometheus.write.v2.Request":
		return true, nil
	}
	return false, newStatusError(http.StatusUnsupportedMediaType, "unsupported message %q; send %s", params["proto"], types)
}
