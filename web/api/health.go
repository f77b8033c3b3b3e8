package api

import (
	"fmt"
	"net/http"
)

// healthz reports that the process responds.
func (s *server) healthz(w http.ResponseWriter, _ *http.Request, _ *query) error {
	writeText(w, http.StatusOK, "ok")
	return nil
}

// readyz reports whether queries are served, and if not, why.
func (s *server) readyz(w http.ResponseWriter, _ *http.Request, _ *query) error {
	if reason := s.Ready(); reason != nil {
		w.Header().Set("Retry-After", "1")
		writeText(w, http.StatusServiceUnavailable, "not ready: "+reason.Error())
		return nil
	}
	writeText(w, http.StatusOK, "ready")
	return nil
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // the client has disconnected
}

func (s *server) openapi(w http.ResponseWriter, _ *http.Request, _ *query) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Access-Control-Allow-Origin", "*") // public: viewers of API documents run elsewhere
	_, _ = w.Write(s.document())                       // the client has disconnected
	return nil
}
