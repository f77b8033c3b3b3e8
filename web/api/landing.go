package api

import (
	"embed"
	"html/template"
	"net/http"
	"path"
)

//go:embed static
var static embed.FS

// landing serves the page at / and its files. The page holds no data: its script
// asks the API, and without a script it lists the addresses.
func (s *server) landing(mux *http.ServeMux) {
	page := template.Must(template.ParseFS(static, "static/index.html"))
	mux.Handle("GET /{$}", compress(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if err := page.Execute(w, map[string]any{
			"Version": s.Version, "Prometheus": s.Prometheus != nil, "Metrics": s.Metrics != nil,
		}); err != nil {
			s.Logger.DebugContext(r.Context(), "send the landing page", "error", err)
		}
	})))
	for name, media := range map[string]string{
		"landing.js": "text/javascript; charset=utf-8", "landing.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		mux.Handle("GET /static/"+name, compress(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeFileFS(w, r, static, path.Join("static", name))
		})))
	}
}
