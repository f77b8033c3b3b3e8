package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// demoProgress answers at the address of a demonstration while its history is written. It serves a page with a progress
// bar that reloads itself, and answers all other requests with 503 and the progress.
type demoProgress struct {
	share atomic.Uint64 // in thousandths
	http  *http.Server
	begun time.Time
}

// startProgress serves the progress on a copy of the listener. The original listener stays open for the server, so that
// no connection is refused when the server takes over.
func startProgress(ln net.Listener) (*demoProgress, error) {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("listen: %T is no TCP listener", ln)
	}
	f, err := tcp.File()
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	defer f.Close()
	other, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	p := &demoProgress{begun: time.Now()}
	p.http = &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second}
	p.http.SetKeepAlivesEnabled(false) // the next request goes to the server itself
	go func() {
		if err := p.http.Serve(other); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "reckon: the page of progress: "+toOneLine(err))
		}
	}()
	return p, nil
}

// setShare sets the share of the work that is done, 0 to 1.
func (p *demoProgress) setShare(share float64) { p.share.Store(uint64(1000 * min(max(share, 0), 1))) }

// stop stops serving the progress before the server uses the address.
func (p *demoProgress) stop() { _ = p.http.Close() } // interrupted requests are repeated within a second

// ServeHTTP implements http.Handler.
func (p *demoProgress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	share := float64(p.share.Load()) / 1000
	text := fmt.Sprintf("the demo writes a week of a simulated site: %.0f %% after %.0f s", 100*share, time.Since(p.begun).Seconds())
	h := w.Header()
	h.Set("Retry-After", "1")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		// the client went away
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": "Service Unavailable", "status": 503, "error": text,
			"hint": "ask again in some seconds; the text shows the progress", "detail": text})
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintf(w, demoPage, "T"+text[1:], share, 100*share, 100*share) // likewise
}

// demoPage is shown until the first page of the site is available.
const demoPage = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta http-equiv="refresh" content="1"><title>reckon: starting the demo</title>
<style>:root { color-scheme: light dark; } body { font: 16px/1.5 system-ui, sans-serif; max-width: 34rem; margin: 18vh auto 0; padding: 0 1rem; } progress { width: 100%%; height: 1.2rem; }</style>
<h1>reckon</h1><p role="status">%s.</p><progress max="1" value="%.3f" aria-label="%.0f %%">%.0f %%</progress><p>The page of the site opens by itself when it is there. Nothing of it is measured.</p></html>
`
