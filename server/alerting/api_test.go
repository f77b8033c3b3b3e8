package alerting

import (
	"encoding/json"
	amconfig "github.com/prometheus/alertmanager/config"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/silence"
	"github.com/prometheus/client_golang/prometheus"
)

const apiConfig = `
route:
  receiver: all
  group_by: [alertname]
  group_wait: 1h
  routes:
    - {receiver: night, matchers: [shift="night"], group_by: [node], mute_time_intervals: [ever]}
receivers:
  - {name: all, webhook_configs: [{url: 'http://127.0.0.1:1/'}]}
  - {name: night, webhook_configs: [{url: 'http://127.0.0.1:1/'}]}
time_intervals: [{name: ever, time_intervals: [{}]}]
inhibit_rules:
  - {source_matchers: [alertname="NodeDown"], target_matchers: [alertname="Batch"], equal: [node]}
`

func call(t *testing.T, h http.Handler, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, Prefix+"/api/v2"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestAPI holds that alerts and silences of others are taken, and wrong ones refused.
func TestAPI(t *testing.T) {
	e, err := openEmbedded(func() (*amconfig.Config, error) { return readConfig(write(t, "am.yml", apiConfig)) }, stateFiles{dir: t.TempDir()}, "http://127.0.0.1:9870", time.Minute, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	now := time.Now().UTC()
	stamp := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339Nano) }
	if e.api != nil {
		t.Error("the API was made before it was asked for anything")
	}
	for _, post := range []struct {
		path, body string
		code       int
	}{
		{"/alerts", `[{"labels":{"alertname":"NodeDown","node":"n1","empty":""},"annotations":{"summary":"x"},"generatorURL":"http://g/"},
			{"labels":{"alertname":"Batch","node":"n1","shift":"night"},"startsAt":"` + stamp(-time.Hour) + `"},
			{"labels":{"alertname":"Batch","node":"n2"},"endsAt":"` + stamp(time.Hour) + `"},
			{"labels":{"alertname":"Disk","node":"n3"},"startsAt":"` + stamp(-2*time.Hour) + `","endsAt":"` + stamp(-time.Hour) + `"}]`, 200},
		{"/alerts", `[{"labels":{"alertname":"Kept"}},{"labels":{}}]`, 400},
		{"/alerts", `{`, 400},
		{"/silences", `{"matchers":[{"name":"alertname","value":"Bat.*","isRegex":true},{"name":"node","value":"n1","isRegex":false,"isEqual":false}],"startsAt":"` + stamp(-time.Minute) + `","endsAt":"` + stamp(time.Hour) + `","createdBy":"me","comment":"x"}`, 200},
		{"/silences", `{"matchers":[{"name":"a","value":"b","isRegex":false,"isEqual":true}],"startsAt":"` + stamp(time.Hour) + `","endsAt":"` + stamp(2*time.Hour) + `","createdBy":"me","comment":"later","annotations":{"k":"v"}}`, 200},
		{"/silences", `{"matchers":[{"name":"a","value":"b","isRegex":false}],"startsAt":"` + stamp(2*time.Hour) + `","endsAt":"` + stamp(time.Hour) + `","createdBy":"me","comment":"backwards"}`, 400},
		{"/silences", `{"matchers":[{"name":"a","value":"b","isRegex":false}],"startsAt":"` + stamp(-2*time.Hour) + `","endsAt":"` + stamp(-time.Hour) + `","createdBy":"me","comment":"over"}`, 400},
		{"/silences", `{"matchers":[{"name":"a","value":"(","isRegex":true}],"startsAt":"` + stamp(0) + `","endsAt":"` + stamp(time.Hour) + `","createdBy":"me","comment":"no regexp"}`, 400},
		{"/silences", `{"matchers":[],"startsAt":"` + stamp(0) + `","endsAt":"` + stamp(time.Hour) + `","createdBy":"me","comment":"everything"}`, 422},
		{"/silences", `{"id":"00000000-0000-0000-0000-000000000000","matchers":[{"name":"a","value":"b","isRegex":false}],"startsAt":"` + stamp(0) + `","endsAt":"` + stamp(time.Hour) + `","createdBy":"me","comment":"unknown"}`, 404},
	} {
		if code, body := call(t, e, http.MethodPost, post.path, post.body); code != post.code {
			t.Errorf("POST %s %.60s: %d %s, want %d", post.path, post.body, code, body, post.code)
		}
	}
	awaitGroups(t, e)
	q := url.QueryEscape
	for path, want := range map[string]int{ // fingerprints or states of silences in the answer
		"/alerts": 4, "/alerts?silenced=false": 3, "/alerts?inhibited=false": 3, "/alerts?receiver=ni.*": 1, "/alerts?receiver=ni": 0,
		"/alerts?filter=" + q(`node!="n1"`): 2, "/alerts?filter=" + q(`alertname=~"B.*"`) + "&filter=" + q(`node="n2"`): 1,
		"/alerts/groups?receiver=all": 3,
		"/silences":                   2, "/silences?pending=false": 1, "/silences?filter=" + q(`alertname=~"Bat.*"`): 1, "/silences?filter=" + q(`alertname="Bat.*"`): 0,
	} {
		code, body := call(t, e, http.MethodGet, path, "")
		if n := strings.Count(body, `"fingerprint"`) + strings.Count(body, `"createdBy"`); code != http.StatusOK || n != want {
			t.Errorf("GET %s: %d, %d entries, want %d: %s", path, code, n, want, body)
		}
	}
	var list []struct{ ID string }
	_, body := call(t, e, http.MethodGet, "/silences", "")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) != 2 {
		t.Fatalf("%d silences, %v: %s", len(list), err, body)
	}
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{http.MethodGet, "/silence/" + list[0].ID, 200}, {http.MethodDelete, "/silence/" + list[0].ID, 200}, {http.MethodDelete, "/silence/" + list[0].ID, 200},
		{http.MethodGet, "/silence/00000000-0000-0000-0000-000000000000", 404}, {http.MethodDelete, "/silence/00000000-0000-0000-0000-000000000000", 404},
		{http.MethodGet, "/alerts?filter=" + q(`{{{`), 400}, {http.MethodGet, "/alerts?receiver=" + q("("), 400},
	} {
		if code, body := call(t, e, c.method, c.path, ""); code != c.code {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, code, body, c.code)
		}
	}
	// What was set and ended is on the disk: a start after a kill knows it.
	again, err := silence.New(silence.Options{SnapshotFile: filepath.Join(e.dir, "silences"), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	for state, want := range map[silence.SilenceState]int{silence.SilenceStatePending: 1, silence.SilenceStateExpired: 1} {
		if kept, _, err := again.Query(t.Context(), silence.QState(state)); err != nil || len(kept) != want {
			t.Errorf("%d silences are %s on the disk, want %d: %v", len(kept), state, want, err)
		}
	}
}

// awaitGroups waits until the alerts are in groups.
func awaitGroups(t *testing.T, e *embeddedManager) {
	t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); {
		if _, body := call(t, e, http.MethodGet, "/alerts/groups", ""); strings.Count(body, `"fingerprint"`) == 4 {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("the alerts came into no group")
}
