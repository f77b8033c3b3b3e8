package api

import (
	"context"
	"net/http"
	"strings"

	"reckon/access"
	"reckon/web/client"
)

// Alerts sends test alerts and manages receivers. It does not list alerts and rules, which are served at /api/v1/alerts
// and /api/v1/rules as by Prometheus.
type Alerts interface {
	// Test sends a test alert; the error explains why no receiver can be reached.
	Test(ctx context.Context, by string) (client.AlertTest, error)
	// Arrived returns the state of a test. If there is no such test, the error matches answer.ErrNotFound.
	Arrived(ctx context.Context, id string) (client.AlertTest, error)
	// Receivers returns the receivers. Receive adds one from the parameters of a request, or
	// removes one by its id; errors match answer.ErrInvalid.
	Receivers() client.AlertReceivers
	Receive(add map[string]string, remove, by string) error
}

func (s *server) alertRoutes() []route {
	return []route{{
		path: "/api/reckon/v1/alerts/test", method: http.MethodPost, summary: "Send a test alert through the whole path",
		doc:    "It ends by itself. Ask for its id how far it has come.",
		answer: client.AlertTest{}, fails: []int{400, 401, 403, 404, 503}, role: access.Admin, handle: s.startAlertTest,
	}, {
		path: "/api/reckon/v1/alerts/test/{id...}", summary: "How far a test alert has come",
		params: []param{{name: "id", schema: schema{"type": "string"}, inPath: true,
			doc: "As the test was answered; last: the latest notification of each receiver since the start."}},
		answer: client.AlertTest{}, fails: []int{400, 401, 403, 404, 503}, role: access.Support, handle: s.serveAlertTest,
	}, {
		path: "/api/reckon/v1/alerts/receivers", summary: "Who is notified of alerts",
		doc:    "Those that were set up on the page Alerts, and whom each firing alert goes to. Addresses and passwords are never shown.",
		answer: client.AlertReceivers{}, fails: []int{400, 401, 403, 404}, role: access.Support, handle: s.serveReceivers,
	}, {
		path: "/api/reckon/v1/alerts/receivers/change", method: http.MethodPost, summary: "Add or remove a receiver of alerts",
		doc: "Possible where neither the setting alertmanager nor alertmanager-config is given. A receiver hears of the alerts that " +
			"`reckon docs alerts` lists, and of every rule of your own.",
		params: receiverParams, answer: client.AlertReceivers{}, fails: []int{400, 401, 403, 404}, role: access.Admin,
		handle: s.serveReceivers,
	}}
}

// receiverParams describe a receiver.
var receiverParams = []param{
	{name: "kind", doc: "Kind of the one to be added.", schema: enumSchema("slack", "teams", "email", "webhook")},
	{name: "url", doc: "Address of slack, teams or webhook.", schema: schema{"type": "string"}},
	{name: "channel", doc: "slack: another channel than the address has.", schema: schema{"type": "string"}},
	{name: "to", doc: "email: addresses, with commas between them.", schema: schema{"type": "string"}},
	{name: "from", doc: "email: address of the sender.", schema: schema{"type": "string"}},
	{name: "smarthost", doc: "email: mail server, HOST:PORT.", schema: schema{"type": "string"}},
	{name: "user", doc: "email: name at the mail server.", schema: schema{"type": "string"}},
	{name: "password", doc: "email: password at the mail server.", schema: schema{"type": "string"}},
	{name: "plain", doc: "email: without TLS.", schema: schema{"type": "boolean"}},
	{name: "remove", doc: "Id of the one to be removed.", schema: schema{"type": "string"}},
}

func (s *server) serveReceivers(w http.ResponseWriter, r *http.Request, q *query) error {
	if s.Alerts == nil {
		return errNoAlerts
	}
	add := map[string]string{}
	for _, p := range receiverParams {
		if v, ok := q.get(p.name); ok {
			add[p.name] = v
		}
	}
	remove := add["remove"]
	delete(add, "remove")
	if delete(add, "plain"); q.isTrue("plain") {
		add["plain"] = "true"
	}
	if q.err != nil {
		return q.err
	}
	if r.Method == http.MethodPost {
		if err := s.Alerts.Receive(add, remove, access.From(r.Context()).Called()); err != nil {
			return err
		}
	}
	writeJSON(w, http.StatusOK, s.Alerts.Receivers())
	return nil
}

var errNoAlerts = newError(http.StatusNotFound, "ask a server that was started with rules", "this server sends no alerts")

func (s *server) startAlertTest(w http.ResponseWriter, r *http.Request, _ *query) error {
	return s.writeAlertTest(w, func(a Alerts) (client.AlertTest, error) {
		return a.Test(r.Context(), access.From(r.Context()).Called())
	})
}

func (s *server) serveAlertTest(w http.ResponseWriter, r *http.Request, _ *query) error {
	return s.writeAlertTest(w, func(a Alerts) (client.AlertTest, error) {
		return a.Arrived(r.Context(), strings.Trim(r.PathValue("id"), "/"))
	})
}

func (s *server) writeAlertTest(w http.ResponseWriter, ask func(Alerts) (client.AlertTest, error)) error {
	if s.Alerts == nil {
		return errNoAlerts
	}
	t, err := ask(s.Alerts)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, t)
	return nil
}

// mountAlertmanager mounts the API of the Alertmanager in this process, which is used for silences and by amtool. Viewers
// who may see everything may read it, and admins may write.
func (s *server) mountAlertmanager(mux *http.ServeMux) {
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
		requireRole(least, s.Alertmanager).ServeHTTP(w, r)
	}))
}
