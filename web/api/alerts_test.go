package api_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"reckon/access"
	"reckon/web/api"
	"reckon/web/client"
)

type fakeAlerts struct{}

func (fakeAlerts) Test(context.Context, string) (client.AlertTest, error) {
	return client.AlertTest{ID: "t1"}, nil
}

func (fakeAlerts) Arrived(_ context.Context, id string) (client.AlertTest, error) {
	return client.AlertTest{ID: id, Deliveries: []client.AlertDelivery{{Alertmanager: "embedded", Receiver: "hook", Integration: "webhook[0]", Arrived: true}}}, nil
}

func (fakeAlerts) Receivers() client.AlertReceivers { return client.AlertReceivers{From: "page"} }

func (fakeAlerts) Receive(map[string]string, string, string) error { return nil }

// TestReceiverWithoutTLS: mail without TLS is asked for in the words of all yes-and-no parameters, and other words are refused.
func TestReceiverWithoutTLS(t *testing.T) {
	got := map[string]string{}
	h := asViewer(api.Options{Alerts: heard{got: got}})
	for value, want := range map[string]int{"true": http.StatusOK, "1": http.StatusOK, "false": http.StatusOK, "maybe": http.StatusBadRequest} {
		clear(got)
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/api/reckon/v1/alerts/receivers/change?kind=email&plain="+value, nil)
		r.Header.Set("X-Test-Viewer", "admin")
		h.ServeHTTP(w, r)
		if yes := got["plain"] == "true"; w.Code != want || yes != (value == "true" || value == "1") {
			t.Errorf("%s: %d, %v", value, w.Code, got)
		}
	}
}

// heard keeps what was asked for.
type heard struct {
	fakeAlerts
	got map[string]string
}

func (h heard) Receive(add map[string]string, _, _ string) error {
	maps.Copy(h.got, add)
	return nil
}

// TestAlertmanagerLink: what a message links to as Alertmanager's page is the page of alerts.
func TestAlertmanagerLink(t *testing.T) {
	h := api.New(api.Options{Alerts: fakeAlerts{}, Alertmanager: http.NotFoundHandler()})
	for _, path := range []string{"/alertmanager", "/alertmanager/"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code == http.StatusTemporaryRedirect { // of the multiplexer: the slash
			path, w = w.Header().Get("Location"), httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		}
		if w.Code != http.StatusFound || w.Header().Get("Location") != "/alerts" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
}

// TestAlertsByRole: admins send tests and silences; viewers who see all may read them.
func TestAlertsByRole(t *testing.T) {
	inside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for _, c := range []struct {
		method, path string
		least        access.Role
	}{
		{http.MethodPost, "/api/reckon/v1/alerts/test", access.Admin},
		{http.MethodGet, "/api/reckon/v1/alerts/test/t1", access.Support},
		{http.MethodGet, "/api/reckon/v1/alerts/receivers", access.Support},
		{http.MethodPost, "/api/reckon/v1/alerts/receivers/change?remove=x", access.Admin},
		{http.MethodGet, "/alertmanager/api/v2/silences", access.Support},
		{http.MethodPost, "/alertmanager/api/v2/silences", access.Admin},
		{http.MethodDelete, "/alertmanager/api/v2/silence/x", access.Admin},
	} {
		for _, role := range []access.Role{access.Public, access.User, access.Support, access.Admin} {
			h := api.New(api.Options{Alerts: fakeAlerts{}, Alertmanager: inside, Viewer: func(*http.Request) (access.Viewer, error) {
				return access.Viewer{Role: role, Name: "x"}, nil
			}})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, strings.NewReader("")))
			if open := w.Code == http.StatusOK; open != (role >= c.least) {
				t.Errorf("%s %s answers %s with %d", c.method, c.path, role, w.Code)
			}
		}
	}
}
