package promapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// bound lets at most n requests into the store at one time, so that a dashboard of a
// hundred panels can not take all memory. The others wait, and are refused after a
// while. Answers that read no series are never held up.
func bound(h http.Handler, n int, wait time.Duration) http.Handler {
	slots := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !readsSeries(r.URL.Path) {
			h.ServeHTTP(w, r)
			return
		}
		select {
		case slots <- struct{}{}:
		default:
			patience := time.NewTimer(wait)
			defer patience.Stop()
			select {
			case slots <- struct{}{}:
			case <-r.Context().Done():
				return
			case <-patience.C:
				unavailable(w, fmt.Sprintf("%d queries are being answered and this one waited for %s; try again, or ask for less at a time", n, wait))
				return
			}
		}
		defer func() { <-slots }()
		h.ServeHTTP(w, r)
	})
}

func readsSeries(path string) bool {
	word, _, _ := strings.Cut(strings.TrimPrefix(path, "/api/v1/"), "/")
	switch word {
	case "query", "query_range", "query_exemplars", "series", "labels", "label", "read":
		return true
	}
	return false
}

// forbidden writes a refusal in the form of the Prometheus API.
func forbidden(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "forbidden", "error": text}) // the client went away: nothing left to say
}

// unavailable writes an error in the form of the Prometheus API.
func unavailable(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "unavailable", "error": text}) // the client went away: nothing left to say
}
