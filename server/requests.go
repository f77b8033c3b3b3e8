package server

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// requestCounter counts requests and response times. Its zero value is ready for use. It is safe for concurrent use.
type requestCounter struct {
	running atomic.Int64

	mu      sync.Mutex
	count   map[[2]string]uint64 // by kind and status class
	seconds map[string]float64
}

// countHandler counts the requests of a handler.
func (q *requestCounter) countHandler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, rec := time.Now(), &statusRecorder{ResponseWriter: w}
		q.running.Add(1)
		defer func() {
			q.running.Add(-1)
			q.countRequest(requestKind(r.URL.Path), cmp.Or(rec.status, http.StatusOK), time.Since(began))
		}()
		h.ServeHTTP(rec, r)
	})
}

// markInteractive marks the work of requests as interactive, because background work yields to it.
func (s *Server) markInteractive(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(s.courtesy.Question(r.Context())))
		if word := requestKind(r.URL.Path); word == "workloads" || word == "usage" {
			s.reportViewer(word == "usage")
		}
	})
}

func (q *requestCounter) countRequest(what string, status int, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count == nil {
		q.count, q.seconds = map[[2]string]uint64{}, map[string]float64{}
	}
	q.count[[2]string{what, strconv.Itoa(status/100) + "xx"}]++
	if what != "live" { // the duration of a stream depends on its reader
		q.seconds[what] += took.Seconds()
	}
}

// requestKind returns the kind of request of a path, from a small set.
func requestKind(path string) string {
	if rest, ok := strings.CutPrefix(path, "/api/reckon/v1/"); ok {
		word, _, _ := strings.Cut(rest, "/")
		switch word {
		case "workloads", "nodes", "usage", "findings", "report", "fit", "scale", "data", "power", "import", "backup", "live", "alerts",
			"proof", "prove":
			return word
		}
		return "other"
	}
	switch {
	case path == "/api/v1/write" || strings.HasSuffix(path, "/v1/metrics"):
		return "ingest"
	case strings.HasPrefix(path, "/api/v1/query"):
		return "query"
	case path == "/api/v1/read":
		return "remote_read"
	case strings.HasPrefix(path, "/api/v1/"):
		return "prometheus"
	case path == "/metrics" || path == "/healthz" || path == "/readyz" || strings.HasPrefix(path, "/-/"):
		return "health"
	case strings.HasPrefix(path, "/alertmanager/"):
		return "alertmanager"
	case strings.HasPrefix(path, "/auth/"):
		return "sign_in"
	}
	return "page"
}

func (q *requestCounter) gather(add addFunc) {
	add(selfRunning, float64(q.running.Load()))
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(q.count),
		func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		add(selfRequests, float64(q.count[k]), k[0], k[1])
	}
	for _, what := range slices.Sorted(maps.Keys(q.seconds)) {
		add(selfSeconds, q.seconds[what], what)
	}
}

// statusRecorder notes the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusRecorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Flush implements http.Flusher.
func (w *statusRecorder) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap gives http.ResponseController access to the underlying writer.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
