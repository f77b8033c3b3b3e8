package alerting

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/alert"
	amapi "github.com/prometheus/alertmanager/api"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/route"
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

// upstream serves the API of Alertmanager itself over what e has.
func upstream(t *testing.T, e *embedded) http.Handler {
	t.Helper()
	a, err := amapi.New(amapi.Options{
		Alerts: e.alerts, Silences: e.silences, GroupMutedFunc: e.groups.Muted, Logger: e.log,
		RequestDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "d"}, []string{"handler", "method", "code"}),
		GroupFunc: func(ctx context.Context, of func(*dispatch.Route) bool, is func(*alert.Alert, time.Time) bool) (dispatch.AlertGroups, map[model.Fingerprint][]string, error) {
			return e.present().dispatcher.Groups(ctx, of, is)
		},
		Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Update(e.present().config, func(ctx context.Context, ls model.LabelSet) { e.present().mute(ctx, ls) })
	return a.Register(route.New(), Prefix)
}

func call(t *testing.T, h http.Handler, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, Prefix+"/api/v2"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// normal is a document whose times are equal where they are the same moment, and without
// what differs between two servers.
func normal(t *testing.T, text string) any {
	t.Helper()
	var v any
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "uptime")
			for k := range v {
				v[k] = walk(v[k])
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case string:
			if at, err := time.Parse(time.RFC3339, v); err == nil {
				return at.UTC().Truncate(time.Millisecond) // upstream writes milliseconds
			}
		}
		return v
	}
	return walk(v)
}

// Our handlers answer as those of Alertmanager do over the same alerts and silences.
func TestAPIAnswersAsAlertmanager(t *testing.T) {
	e, err := openEmbedded(write(t, "am.yml", apiConfig), files{dir: t.TempDir()}, "http://127.0.0.1:9870", time.Minute, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	theirs := upstream(t, e)
	now := time.Now().UTC()
	stamp := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339Nano) }
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
		{"/silences", `{"matchers":[],"startsAt":"` + stamp(0) + `","endsAt":"` + stamp(time.Hour) + `","createdBy":"me","comment":"everything"}`, 400},
		{"/silences", `{"id":"00000000-0000-0000-0000-000000000000","matchers":[{"name":"a","value":"b","isRegex":false}],"startsAt":"` + stamp(0) + `","endsAt":"` + stamp(time.Hour) + `","createdBy":"me","comment":"unknown"}`, 404},
	} {
		for name, h := range map[string]http.Handler{"ours": e.mux, "Alertmanager's": theirs} {
			if name != "ours" && post.code == 200 {
				continue // once is enough
			}
			if code, body := call(t, h, http.MethodPost, post.path, post.body); code != post.code && (name == "ours" || code/100 != 4) {
				t.Errorf("%s: POST %s %.60s: %d %s, want %d", name, post.path, post.body, code, body, post.code)
			}
		}
	}
	awaitGroups(t, e)
	same := func(path string) {
		t.Helper()
		code, body := call(t, e.mux, http.MethodGet, path, "")
		wantCode, want := call(t, theirs, http.MethodGet, path, "")
		if code != wantCode || (code == 200 && !reflect.DeepEqual(normal(t, body), normal(t, want))) {
			t.Errorf("GET %s: %d %s\nAlertmanager: %d %s", path, code, body, wantCode, want)
		}
	}
	q := url.QueryEscape
	for _, path := range []string{
		"/status", "/receivers", "/alerts", "/alerts?active=false", "/alerts?silenced=false", "/alerts?inhibited=false", "/alerts?receiver=ni.*", "/alerts?receiver=ni",
		"/alerts?filter=" + q(`node!="n1"`), "/alerts?filter=" + q(`shift=""`), "/alerts?filter=" + q(`shift!=""`), "/alerts?filter=" + q(`alertname=~"B.*"`) + "&filter=" + q(`node="n2"`), "/alerts?filter=" + q(`{{{`), "/alerts?receiver=" + q("("),
		"/alerts/groups", "/alerts/groups?silenced=false", "/alerts/groups?receiver=all", "/alerts/groups?muted=false", "/alerts/groups?active=false",
		"/silences", "/silences?pending=false", "/silences?filter=" + q(`alertname=~"Bat.*"`), "/silences?filter=" + q(`alertname="Bat.*"`), "/silences?filter=" + q(`node!="n1"`),
		"/silence/00000000-0000-0000-0000-000000000000",
	} {
		same(path)
	}
	var list []apiSilence
	_, body := call(t, e.mux, http.MethodGet, "/silences", "")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) != 2 {
		t.Fatalf("%d silences, %v: %s", len(list), err, body)
	}
	same("/silence/" + list[0].ID)
	for _, want := range []int{200, 200} { // one that has expired stays so
		if code, _ := call(t, e.mux, http.MethodDelete, "/silence/"+list[0].ID, ""); code != want {
			t.Errorf("DELETE: %d, want %d", code, want)
		}
	}
	if code, _ := call(t, e.mux, http.MethodGet, "/alerts?active=maybe", ""); code != 400 {
		t.Errorf("a flag that is neither true nor false: %d", code)
	}
	if code, _ := call(t, e.mux, http.MethodDelete, "/silence/00000000-0000-0000-0000-000000000000", ""); code != 404 {
		t.Errorf("DELETE of none: %d", code)
	}
	same("/silences")
	same("/silences?expired=false")
}

// awaitGroups waits until the alerts are in groups.
func awaitGroups(t *testing.T, e *embedded) {
	t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); {
		if _, body := call(t, e.mux, http.MethodGet, "/alerts/groups", ""); strings.Count(body, `"fingerprint"`) == 4 {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("the alerts came into no group")
}

func TestSNSIsRefused(t *testing.T) {
	conf := `{route: {receiver: a}, receivers: [{name: a, sns_configs: [{topic_arn: 'arn:aws:sns:us-east-2:123456789012:My-Topic'}]}]}`
	_, err := openEmbedded(write(t, "am.yml", conf), files{dir: t.TempDir()}, "http://127.0.0.1:9870", time.Minute, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "webhook_configs") {
		t.Errorf("%v", err)
	}
}
