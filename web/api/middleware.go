package api

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"reckon/access"
	"reckon/internal/webconfig"
	"reckon/web/docs"
)

// compressHandler compresses bodies of a kilobyte and more with gzip for clients that accept it.
func compressHandler(h http.Handler) http.Handler { return gzhttp.GzipHandler(h) }

// wrapAll wraps every request with security headers, a log line, and recovery from panics.
func (s *server) wrapAll(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		rec := &responseRecorder{ResponseWriter: w}
		securityHeaders(rec.Header())
		webconfig.StrictTransport(rec.Header(), r)
		defer func() {
			if v := recover(); v != nil {
				if v == http.ErrAbortHandler {
					panic(v)
				}
				s.Logger.ErrorContext(r.Context(), "panic in a handler", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
				if rec.status == 0 {
					rec.Header().Del("Content-Encoding")
					writeError(rec, newError(http.StatusInternalServerError, "see the server log", "the server made a mistake"))
				}
			}
			s.Logger.LogAttrs(r.Context(), slog.LevelDebug, "request",
				slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", rec.status),
				slog.Int64("bytes", rec.bytes), slog.Duration("took", time.Since(begin)), slog.String("from", r.RemoteAddr))
		}()
		if r.Method == http.MethodOptions && s.allowOrigin(rec.Header(), r, true) {
			return
		}
		v := access.Viewer{Role: access.Admin}
		if s.Viewer != nil && !isOpen(r.URL.Path) {
			var err error
			if v, err = s.Viewer(r); err != nil {
				if !errors.As(err, new(*statusError)) && !errors.As(err, new(*access.Refusal)) {
					err = newError(http.StatusUnauthorized, "", "%v", err)
				}
				writeError(rec, err)
				return
			}
		}
		s.allowOrigin(rec.Header(), r, r.Method == http.MethodGet && v.Role == access.User && v.Until.After(begin) &&
			v.Until.Sub(begin) <= time.Hour)
		h.ServeHTTP(rec, r.WithContext(access.With(r.Context(), v)))
	})
}

// allowOrigin lets a web page of another site read workloads if its origin is in Origins and allowed is set. Such a page sends a user's
// token instead of cookies; see static/widget.js. The browser first sends OPTIONS (Fetch Standard, section 3.2).
func (s *server) allowOrigin(h http.Header, r *http.Request, allowed bool) bool {
	origin := r.Header.Get("Origin")
	allowed = allowed && slices.Contains(s.Origins, origin) && strings.HasPrefix(r.URL.Path, "/api/reckon/v1/workloads")
	if allowed {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Headers", "Authorization")
		h.Add("Vary", "Origin")
	}
	return allowed
}

// isOpen reports whether a path can be read without sign-in, as the files of the pages and the built-in guides can.
func isOpen(path string) bool {
	return strings.HasPrefix(path, "/static/") || path == docs.Path || strings.HasPrefix(path, docs.Path+"/")
}

// securityHeaders are safe for JSON and for pages that use only our own files.
func securityHeaders(h http.Header) {
	h.Set("Content-Security-Policy",
		"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action "+
			"'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// responseRecorder records the status and the size of a response.
type responseRecorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *responseRecorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *responseRecorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *responseRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush serves handlers that need an http.Flusher.
func (r *responseRecorder) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() }
