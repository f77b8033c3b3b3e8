package alerting

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/notifier"
)

// receivers are one of each kind that people use.
type receivers struct {
	hook             *hook
	slack, pagerduty *posted
	mail             *post
	config           string

	mu       sync.Mutex
	findings []Finding
}

func (r *receivers) find(list ...Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = list
}

// options lets the service see the findings.
func (r *receivers) options(o Options) Options {
	o.Rules, o.Findings = []string{"none"}, func(context.Context) ([]Finding, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.findings, nil
	}
	return o
}

func newReceivers(t *testing.T) *receivers {
	r := &receivers{hook: newHook(t), slack: newPosted(t, http.StatusOK), pagerduty: newPosted(t, http.StatusAccepted), mail: newPost(t)}
	r.config = write(t, "am.yml", fmt.Sprintf(`
global: {smtp_smarthost: %q, smtp_from: reckon@example.org, smtp_require_tls: false, slack_api_url: %q, pagerduty_url: %q}
route:
  receiver: all
  group_by: [alertname, batch, finding]
  group_wait: 1s
  group_interval: 300ms
  repeat_interval: 1h
  routes:
    - {receiver: all, matchers: [alertname!=""], continue: true}
    - {receiver: owner, matchers: ['owner=~"[a-z_][a-z0-9_.-]*"', 'alertname=~"Finding|JobIdleOnGPUs"'], group_by: [owner, alertname, finding]}
receivers:
  - name: all
    webhook_configs: [{url: %q, send_resolved: true}]
    slack_configs: [{channel: '#ops', send_resolved: true, title: '{{ .Status }} {{ .CommonLabels.alertname }}', text: '{{ .CommonAnnotations.summary }}'}]
    pagerduty_configs: [{routing_key: the-key, send_resolved: true}]
    email_configs: [{to: ops@example.org, send_resolved: true}]
  - name: owner
    email_configs: [{to: '{{ .CommonLabels.owner }}@example.org', send_resolved: true, headers: {subject: '{{ .Status }} {{ .CommonAnnotations.summary }}'}}]
inhibit_rules:
  - {source_matchers: [alertname="NodeDown"], target_matchers: [alertname="Batch"], equal: [node]}
`, r.mail.addr, r.slack.URL, r.pagerduty.URL, r.hook.URL))
	return r
}

// Every way out works, through the Alertmanager inside and through a real one: a test
// arrives, groups come together, silences and inhibition hold, ends are reported, and an
// owner is notified directly.
func TestReceivers(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		r := newReceivers(t)
		s, _ := newBench(t).start(r.options(Options{Config: r.config}))
		r.try(t, s, func(body string) int {
			req := httptest.NewRequest(http.MethodPost, Prefix+"/api/v2/silences", strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, req)
			return w.Code
		}, []string{"email[0]", "pagerduty[0]", "slack[0]", "webhook[0]"})
	})
	t.Run("real", func(t *testing.T) {
		r := newReceivers(t)
		p := newPeer(t, r.config)
		s, _ := newBench(t).start(r.options(Options{Alertmanagers: []string{p.url()}}))
		r.try(t, s, func(body string) int {
			resp, err := http.Post(p.url()+"/api/v2/silences", "application/json", bytes.NewBufferString(body))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			return resp.StatusCode
		}, []string{""})
	})
}

func (r *receivers) try(t *testing.T, s *Service, silence func(string) int, by []string) {
	id := s.SendTest(time.Now(), "root")
	until(t, func() bool {
		list, _ := s.TestDeliveries(t.Context(), id)
		var have []string
		for _, d := range list {
			if d.Arrived {
				have = append(have, d.Integration)
			}
		}
		slices.Sort(have)
		return slices.Equal(have, by)
	})
	summary := "Test alert of the reckon server on "
	r.hook.wait(t, "firing ReckonTest")
	until(t, func() bool { return r.slack.has(summary, "#ops", "firing ReckonTest") })
	until(t, func() bool { return r.pagerduty.has("the-key", `"event_action":"trigger"`, "ReckonTest", summary) })
	until(t, func() bool { return len(r.mail.subjects(t, "ops@example.org")) > 0 })
	if got := r.mail.subjects(t, "ops@example.org")[0]; !strings.HasPrefix(got, "[FIRING:1] ReckonTest") {
		t.Errorf("subject %q", got)
	}

	// Three in one group come in one message, but for the one silenced and the one that
	// another alert explains.
	now := time.Now()
	if code := silence(fmt.Sprintf(`{"matchers":[{"name":"letter","value":"S","isRegex":false,"isEqual":true}],"startsAt":%q,"endsAt":%q,"createdBy":"me","comment":"x"}`,
		now.Add(-time.Minute).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))); code != http.StatusOK {
		t.Fatalf("silence: %d", code)
	}
	down := recent("NodeDown", "node", "n1")
	s.put(down)
	r.hook.wait(t, "firing NodeDown")
	batch := []*notifier.Alert{
		recent("Batch", "node", "n2", "letter", "A"), recent("Batch", "node", "n2", "letter", "B"),
		recent("Batch", "node", "n2", "letter", "S"), recent("Batch", "node", "n1", "letter", "I"),
	}
	s.put(batch...)
	r.hook.wait(t, "firing BatchA")
	r.hook.wait(t, "firing BatchB")
	for i := range batch {
		batch[i] = over(batch[i])
	}
	s.put(batch...)
	r.hook.wait(t, "resolved BatchA")
	r.hook.wait(t, "resolved BatchB")
	until(t, func() bool { return r.slack.has("resolved Batch") })
	until(t, func() bool { return r.pagerduty.has(`"event_action":"resolve"`, "Batch") })
	until(t, func() bool {
		return slices.ContainsFunc(r.mail.subjects(t, "ops@example.org"), func(s string) bool { return strings.HasPrefix(s, "[RESOLVED] Batch") })
	})
	if r.hook.count("firing BatchS")+r.hook.count("firing BatchI") != 0 {
		t.Errorf("a silence or inhibition does not hold:\n%s", r.hook.text())
	}
	r.hook.mu.Lock()
	if !slices.Contains(r.hook.messages, "Batch,Batch") {
		t.Errorf("a group came in pieces: %q", r.hook.messages)
	}
	r.hook.mu.Unlock()

	// The owner of a job is reported his finding and of its end, and nobody else is.
	r.find(Finding{ID: "f1", Rule: "over-share", Owner: "alice", Text: "slurm/1 of alice wastes 3 cores", Found: time.Now()}, Finding{ID: "f2", Rule: "over-share", Text: "a node", Found: time.Now()},
		Finding{ID: "f3", Rule: "over-share", Owner: "x@elsewhere.org, bob", Text: "a name that is no name", Found: time.Now()})
	if err := s.Follow(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	r.hook.wait(t, "firing Findingf1")
	r.hook.wait(t, "firing Findingf2")
	r.hook.wait(t, "firing Findingf3")
	until(t, func() bool { return len(r.mail.subjects(t, "alice@example.org")) == 1 })
	r.find()
	if err := s.Follow(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	r.hook.wait(t, "resolved Findingf1")
	until(t, func() bool { return len(r.mail.subjects(t, "alice@example.org")) == 2 })
	want := []string{"firing slurm/1 of alice wastes 3 cores", "resolved slurm/1 of alice wastes 3 cores"}
	if got := r.mail.subjects(t, "alice@example.org"); !slices.Equal(got, want) {
		t.Errorf("alice was notified %q", got)
	}
	r.mail.mu.Lock()
	defer r.mail.mu.Unlock()
	for _, m := range r.mail.came {
		if to, _, _ := strings.Cut(m, "\n"); to != "ops@example.org" && to != "alice@example.org" {
			t.Errorf("a mail went to %s", to)
		}
	}
}

// recent is an alert that has just begun, so that its group waits for others.
func recent(name string, more ...string) *notifier.Alert {
	a := simple(name, more...)
	a.StartsAt = time.Now()
	return a
}
