package api

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// Pages are the pages for the browser.
type Pages struct {
	// Files contains index.html, a template with the values .Version and .Has, the features of the
	// server (words separated by spaces), and the files that it refers to below /static/.
	Files fs.FS
	// Paths are the URL patterns served with index.html.
	Paths []string
}

// featureList lists the features of this server, so that pages offer nothing else.
func (s *server) featureList() string {
	var words []string
	for _, topic := range []struct {
		word string
		here bool
	}{
		{"live", s.Hub != nil}, {"auth", s.Auth != nil}, {"usage", s.Usage != nil}, {"scale", s.Scale != nil}, {"logs", s.Logs != nil},
		{"fit", s.Fit != nil}, {"move", s.Moves != nil}, {"forecast", s.Forecasts != nil}, {"rank", s.Ranks != nil},
		{"devices", s.Devices != nil},
		{"graph", s.Graph != nil}, {"findings", s.Findings != nil}, {"runs", s.MetricRuns != nil},
		{"data", s.Data != nil}, {"power", s.Power != nil}, {"prometheus", s.Prometheus != nil}, {"metrics", s.Metrics != nil},
		{"alerts", s.Alerts != nil}, {"held-back", s.Inconsistent != nil}, {"silences", s.Alertmanager != nil}, {"made-up", s.MadeUp},
	} {
		if topic.here {
			words = append(words, topic.word)
		}
	}
	return strings.Join(words, " ")
}

// mountPages serves the web pages and their files. If this build has no pages, it serves a small page at / with the
// addresses of the API. Pages contain no data, because their scripts call the API.
func (s *server) mountPages(mux *http.ServeMux) {
	files, paths := fs.FS(staticFiles), []string{"/{$}"}
	root := "static"
	if s.Pages != nil {
		files, paths, root = s.Pages.Files, s.Pages.Paths, "."
	}
	page := template.Must(template.ParseFS(files, path.Join(root, "index.html")))
	told := map[string]any{"Version": s.Version, "Has": s.featureList(), "Prometheus": s.Prometheus != nil, "Metrics": s.Metrics != nil}
	for _, p := range append([]string{"/"}, paths...) {
		elsewhere, pattern := p == "/", "GET "+p
		if elsewhere { // an address without a page
			pattern = p
		}
		mux.Handle(pattern, compressHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if elsewhere && (s.Pages == nil || !strings.Contains(r.Header.Get("Accept"), "text/html")) {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			if elsewhere {
				w.WriteHeader(http.StatusNotFound)
			}
			if err := page.Execute(w, told); err != nil {
				s.Logger.DebugContext(r.Context(), "send the page", "error", err)
			}
		})))
	}
	// Links in the style of Prometheus, which older messages contain.
	mux.HandleFunc("GET /graph", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/explore?"+url.Values{"expr": {r.FormValue("g0.expr")}}.Encode(), http.StatusFound)
	})
	media := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	entries, err := fs.ReadDir(files, root)
	if err != nil {
		panic(err) // they are embedded
	}
	if s.Pages != nil { // the sign-in form looks the same with and without pages
		s.serveFile(mux, staticFiles, "static/landing.css", media[".css"])
	}
	for _, e := range entries {
		if kind := media[path.Ext(e.Name())]; kind != "" {
			s.serveFile(mux, files, path.Join(root, e.Name()), kind)
		}
	}
}

// hashedName matches names that contain the hash of their content, so that changed content has another name.
var hashedName = regexp.MustCompile(`-[A-Z0-9]{8}\.js$`)

// serveFile serves one file below /static/.
func (s *server) serveFile(mux *http.ServeMux, files fs.FS, name, kind string) {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err) // they are embedded
	}
	sum := sha256.Sum256(content)
	keep := "no-cache" // cached, but revalidated
	if hashedName.MatchString(name) {
		keep = "public, max-age=31536000, immutable"
	}
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	mux.Handle("GET /static/"+path.Base(name), compressHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", keep)
		w.Header().Set("ETag", tag)
		http.ServeFileFS(w, r, files, name)
	})))
}
