package promapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"reckon/access"
)

// limitRequests limits the number of concurrent requests to n, so that a dashboard with a hundred panels cannot use up
// the memory. It also limits the requests of each viewer to atOnce, so that one viewer cannot block the others. Further
// requests wait up to the duration wait and then fail. Requests that read no series are not limited.
func limitRequests(h http.Handler, n int, wait time.Duration, atOnce func(access.Viewer) int) http.Handler {
	slots := make(chan struct{}, n)
	own := &viewers{slots: map[string]*viewerSlots{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !readsSeries(r.URL.Path) {
			h.ServeHTTP(w, r)
			return
		}
		patience := time.NewTimer(wait)
		defer patience.Stop()
		enter := func(slots chan struct{}, whose string) bool {
			select {
			case slots <- struct{}{}:
				return true
			case <-r.Context().Done():
			case <-patience.C:
				writeUnavailable(
					w, fmt.Sprintf("%d queries%s are being answered and this one waited for %s; try again, or ask for less at a time",
						cap(slots), whose, wait))
			}
			return false
		}
		if v := access.From(r.Context()); atOnce != nil {
			if most := atOnce(v); most < n {
				mine := own.acquire(v, most)
				defer own.release(v)
				if !enter(mine, " of yours") {
					return
				}
				defer func() { <-mine }()
			}
		}
		if !enter(slots, "") {
			return
		}
		defer func() { <-slots }()
		h.ServeHTTP(w, r)
	})
}

// viewers holds the slots of the current viewers.
type viewers struct {
	mu    sync.Mutex
	slots map[string]*viewerSlots
}

type viewerSlots struct {
	taken chan struct{}
	users int
}

func viewerKey(v access.Viewer) string { return v.Role.String() + " " + v.Name }

func (s *viewers) acquire(v access.Viewer, n int) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, ok := s.slots[viewerKey(v)]
	if !ok {
		own = &viewerSlots{taken: make(chan struct{}, n)}
		s.slots[viewerKey(v)] = own
	}
	own.users++
	return own.taken
}

func (s *viewers) release(v access.Viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.slots[viewerKey(v)]
	if own.users--; own.users == 0 {
		delete(s.slots, viewerKey(v))
	}
}

func readsSeries(path string) bool {
	word, _, _ := strings.Cut(strings.TrimPrefix(path, "/api/v1/"), "/")
	switch word {
	case "query", "query_range", "query_exemplars", "series", "labels", "label", "read":
		return true
	}
	return false
}

func writeForbidden(w http.ResponseWriter, text string) {
	writeError(w, http.StatusForbidden, "forbidden", text)
}

func writeUnavailable(w http.ResponseWriter, text string) {
	w.Header().Set("Retry-After", "1")
	writeError(w, http.StatusServiceUnavailable, "unavailable", text)
}

// writeError writes an error in the form of the Prometheus API.
func writeError(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// the client went away: nothing left to report
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": kind, "error": text})
}
