package api

import (
	"context"
	"net/http"
	"strings"

	"reckon/access"
	"reckon/web/client"
)

// Alerts sends test alerts. Alerts and rules themselves are
// served at /api/v1/alerts and /api/v1/rules, as by Prometheus.
type Alerts interface {
	// Test sends a test alert; the error explains why no receiver can be reached.
	Test(ctx context.Context, by string) (client.AlertTest, error)
	// Arrived returns the state of a test; the error matches answer.ErrNotFound if there is no
	// such test.
	Arrived(ctx context.Context, id string) (client.AlertTest, error)
}

func (s *server) alertRoutes() []route {
	return []route{{
		path: "/api/reckon/v1/alerts/test", method: http.MethodPost, summary: "Send a test alert through the whole path",
		doc:    "It ends by itself. Ask for its id how far it has come.",
		answer: client.AlertTest{}, fails: []int{400, 401, 403, 404, 503}, role: access.Admin, handle: s.testAlert,
	}, {
		path: "/api/reckon/v1/alerts/test/{id...}", summary: "How far a test alert has come",
		params: []param{{name: "id", schema: schema{"type": "string"}, inPath: true,
			doc: "As the test was answered; last: the latest notification of each receiver since the start."}},
		answer: client.AlertTest{}, fails: []int{400, 401, 403, 404, 503}, role: access.Support, handle: s.testedAlert,
	}}
}

func (s *server) testAlert(w http.ResponseWriter, r *http.Request, _ *query) error {
	return s.answerTest(w, func(a Alerts) (client.AlertTest, error) { return a.Test(r.Context(), access.From(r.Context()).Name) })
}

func (s *server) testedAlert(w http.ResponseWriter, r *http.Request, _ *query) error {
	return s.answerTest(w, func(a Alerts) (client.AlertTest, error) {
		return a.Arrived(r.Context(), strings.Trim(r.PathValue("id"), "/"))
	})
}

func (s *server) answerTest(w http.ResponseWriter, ask func(Alerts) (client.AlertTest, error)) error {
	if s.Alerts == nil {
		return fail(http.StatusNotFound, "ask a server that was started with rules", "this server sends no alerts")
	}
	t, err := ask(s.Alerts)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, t)
	return nil
}

// alertmanager mounts the API of an Alertmanager in this process, for silences and for
// amtool: readable by viewers who see all, writable by admins.
func (s *server) alertmanager(mux *http.ServeMux) {
	if s.Alertmanager == nil {
		return
	}
	// Messages link to Alertmanager's own pages.
	mux.Handle("GET /alertmanager/{$}", http.RedirectHandler("/alerts", http.StatusFound))
	mux.Handle("/alertmanager/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		least := access.Admin
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			least = access.Support
		}
		atLeast(least, s.Alertmanager).ServeHTTP(w, r)
	}))
}
