package alerting

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"reckon/figure/wire"
)

// TestContactsOfOneHost: receivers of one host have different names, on the page and in the deliveries of a test.
func TestContactsOfOneHost(t *testing.T) {
	hook, other := newHook(t), newHook(t)
	s, _ := newBench(t).start(Options{Loopback: true})
	for _, url := range []string{hook.URL + "/a", hook.URL + "/b", other.URL} {
		if err := s.SetContact(&Contact{AlertReceiver: wire.AlertReceiver{Kind: "webhook"}, URL: url}, "", "alice"); err != nil {
			t.Fatal(err)
		}
	}
	host := strings.TrimPrefix(hook.URL, "http://")
	want := []string{host, host + " (2)", strings.TrimPrefix(other.URL, "http://")}
	for i, r := range s.Receivers().Receivers {
		if r.Where != want[i] {
			t.Errorf("receiver %d is %q, want %q", i, r.Where, want[i])
		}
	}
	list, _ := s.TestDeliveries(t.Context(), s.SendTest(time.Now(), "root"))
	var got []string
	for _, d := range list {
		got = append(got, d.Receiver)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("a test goes to %q, want %q", got, want)
	}
}

// TestContacts: receivers that were set up on the page hear tests, alerts and their ends, also after a restart, until they are removed.
// Their addresses stay in a file that only its user reads.
func TestContacts(t *testing.T) {
	hook, slack, teams, mails := newHook(t), newPosted(t, http.StatusOK), newPosted(t, http.StatusOK), newPost(t)
	b := newBench(t)
	s, stop := b.start(Options{Loopback: true})
	if s.Reachable() == nil || s.Handler() == nil {
		t.Error("somebody is notified before anybody was set up, or there are no silences")
	}
	for _, c := range []Contact{{URL: hook.URL + "/secret-path"}, {URL: slack.URL, Channel: "#ops"}, {URL: teams.URL},
		{To: "ops@example.org", From: "reckon@example.org", Smarthost: mails.addr, Plain: true}} {
		c.Kind = map[string]string{hook.URL + "/secret-path": "webhook", slack.URL: "slack", teams.URL: "teams", "": "email"}[c.URL]
		if err := s.SetContact(&c, "", "alice"); err != nil {
			t.Fatalf("%s: %v", c.Kind, err)
		}
	}
	if err := s.Reachable(); err != nil {
		t.Error(err)
	}
	arrived := func(s *Service) {
		t.Helper()
		id := s.SendTest(time.Now(), "root")
		until(t, func() bool {
			list, _ := s.TestDeliveries(t.Context(), id)
			for _, d := range list {
				if d.Error != "" {
					t.Fatalf("%s: %s", d.Integration, d.Error)
				}
				if !d.Arrived {
					return false
				}
			}
			return len(list) == 4
		})
	}
	arrived(s)
	list := s.Receivers()
	raw, err := json.Marshal(list)
	if err != nil || len(list.Receivers) != 4 || list.From != "page" || strings.Contains(string(raw), "secret-path") {
		t.Errorf("%v, %s", err, raw)
	}
	if r := list.Receivers[3]; r.Kind != "email" || r.Where != "ops@example.org by 127.0.0.1" || r.By != "alice" || r.Integration != "email[0]" {
		t.Errorf("%+v", r)
	}
	if !slack.has("ReckonTest", "#ops") || !teams.has("ReckonTest") || len(mails.subjects(t, "ops@example.org")) != 1 || hook.count("firing ReckonTest") != 1 {
		t.Error("a receiver did not hear the test once:", hook.text())
	}
	for name, want := range map[string]string{"NodeDown": "operators", "DiskFull": "operators", "Finding": "nobody"} {
		if got := s.inside.routes.Match(model.LabelSet{"alertname": model.LabelValue(name)}); got[0].RouteOpts.Receiver != want {
			t.Errorf("%s goes to %s, want %s", name, got[0].RouteOpts.Receiver, want)
		}
	}

	stop()
	kept, err := os.Stat(filepath.Join(b.dir, "alerts", "receivers.json"))
	if err != nil || kept.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", kept, err)
	}
	s, stop = b.start(Options{Loopback: true})
	arrived(s)
	for _, r := range s.Receivers().Receivers {
		if err := s.SetContact(nil, r.ID, "bob"); err != nil {
			t.Error(err)
		}
	}
	if s.Reachable() == nil || s.SetContact(nil, "x", "bob") == nil {
		t.Error("a removed receiver is there, or one that never was is removed")
	}
	stop()
	s, _ = b.start(Options{Config: write(t, "am.yml", apiConfig)})
	if s.SetContact(&Contact{}, "", "bob") == nil || s.Receivers().From != "file" {
		t.Error("the page changes the receivers of a file")
	}
}

// TestContactsRefused: what can not work, or reaches into the machine, is refused with the reason, and nothing is kept.
func TestContactsRefused(t *testing.T) {
	s, _ := newBench(t).start(Options{})
	for want, c := range map[string]Contact{
		"kind":                  {},
		"whole address":         {URL: "hooks.example.org"},
		"alert-loopback":        {URL: "http://127.0.0.1:9/"},
		"alert-loopback allows": {URL: "http://[fe80::1]/"},
		"HOST:PORT":             {Smarthost: "mail", To: "a@b", From: "c@d"},
		"addresses":             {Smarthost: "mail:25", To: "nobody", From: "c@d"},
	} {
		switch {
		case c.URL != "":
			c.Kind = "webhook"
		case c.Smarthost != "":
			c.Kind = "email"
		}
		if err := s.SetContact(&c, "", "bob"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
	if list := s.Receivers(); len(list.Receivers) != 0 {
		t.Errorf("%+v", list)
	}
}

// TestContactsHearOwnRules: an alert of the user's own rules reaches a receiver of the page. Each alert that fires has the list of its receivers.
func TestContactsHearOwnRules(t *testing.T) {
	hook, b := newHook(t), newBench(t)
	rules := strings.NewReplacer("Broken", "LoadHigh").Replace(rulesText) + `
      - alert: AgentSilent
        expr: test_broken > 0
`
	b.set(1)
	s, _ := b.start(Options{Rules: []string{write(t, "r.yml", rules)}, Loopback: true})
	sent := func() map[string]string {
		out := map[string]string{}
		for _, a := range s.Receivers().Sent {
			out[a.Labels["alertname"]] = strings.Join(a.To, " ")
		}
		return out
	}
	until(t, func() bool { return len(sent()) == 2 })
	if got := sent(); got["LoadHigh"] != "" || got["AgentSilent"] != "" {
		t.Errorf("without a receiver: %v", got)
	}
	c := Contact{URL: hook.URL}
	c.Kind = "webhook"
	if err := s.SetContact(&c, "", "alice"); err != nil {
		t.Fatal(err)
	}
	if got := sent(); got["LoadHigh"] != strings.TrimPrefix(hook.URL, "http://") || got["AgentSilent"] != "" {
		t.Errorf("with a receiver: %v", got)
	}
	hook.wait(t, "firing LoadHigh")
	if strings.Contains(hook.text(), "AgentSilent") {
		t.Errorf("a warning that stays on the pages was sent:\n%s", hook.text())
	}
}

// TestSentNow: a receiver that an alert goes to, but not now, is named with the reason.
func TestSentNow(t *testing.T) {
	hook, b := newHook(t), newBench(t)
	rules := strings.NewReplacer("Broken", "LoadHigh").Replace(rulesText) + `
      - alert: AgentSilent
        expr: test_broken > 0
`
	b.set(1)
	s, _ := b.start(Options{Rules: []string{write(t, "r.yml", rules)}, Config: write(t, "am.yml", `
route:
  receiver: day
  routes:
    - {receiver: day, active_time_intervals: [past], continue: true}
    - {receiver: night, mute_time_intervals: [ever], continue: true}
    - {receiver: both, mute_time_intervals: [ever], continue: true}
    - {receiver: both}
receivers: `+strings.NewReplacer("'", `"`, "URL", hook.URL).Replace(`[{'name':'day','webhook_configs':[{'url':'URL'}]},
  {'name':'night','webhook_configs':[{'url':'URL'}]}, {'name':'both','webhook_configs':[{'url':'URL'}]}]`)+`
time_intervals:
  - {name: past, time_intervals: [{years: ['1971']}]}
  - {name: ever, time_intervals: [{years: ['2000:2999']}]}
inhibit_rules:
  - {source_matchers: [alertname="LoadHigh"], target_matchers: [alertname="AgentSilent"]}
`)})
	want := map[string]string{
		"LoadHigh": "both, day (not now: outside of past), night (not now: mute time ever)",
		"AgentSilent": "both (not now: another alert inhibits it), day (not now: another alert inhibits it), " +
			"night (not now: another alert inhibits it)",
	}
	holds := func() bool {
		got := map[string]string{}
		for _, a := range s.Receivers().Sent {
			got[a.Labels["alertname"]] = strings.Join(a.To, ", ")
		}
		return maps.Equal(got, want)
	}
	until(t, holds)
	req := httptest.NewRequest(http.MethodPost, Prefix+"/api/v2/silences", strings.NewReader(fmt.Sprintf(
		`{"matchers":[{"name":"alertname","value":"LoadHigh","isRegex":false}],"startsAt":%q,"endsAt":%q,"createdBy":"me","comment":"x"}`,
		time.Now().Add(-time.Minute).Format(time.RFC3339), time.Now().Add(time.Hour).Format(time.RFC3339))))
	req.Header.Set("Content-Type", "application/json")
	s.Handler().ServeHTTP(httptest.NewRecorder(), req)
	want["LoadHigh"] = "both (not now: silenced), day (not now: silenced), night (not now: silenced)"
	until(t, holds)
}
