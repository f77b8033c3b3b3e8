package alerting

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/notifier"

	"reckon/figure/wire"
)

// Finding is an open case of misuse as alerts report it.
type Finding struct {
	ID, Rule, Severity          string
	Site, Node, Owner, Workload string
	Text                        string
	Found                       time.Time
	// Quiet means that a user acknowledged or muted it. It is not reported again, and a reported
	// one does not end because of it.
	Quiet bool
}

// toAlert returns an alert that lasts until the given time unless it is reported again.
func (f *Finding) toAlert(until time.Time, pageURL string) *notifier.Alert {
	return &notifier.Alert{
		Labels: newLabels("alertname", findingName, "finding", f.ID, "rule", f.Rule, "severity", cmp.Or(f.Severity, "warning"),
			"site", f.Site, "node", f.Node, "owner", f.Owner, "workload", f.Workload),
		Annotations: newLabels("summary", f.Text, "page", pageURL, "runbook",
			"Talk to the owner; acknowledge it there when that is done, or mute it with a reason."), GeneratorURL: pageURL,
		StartsAt: f.Found,
		EndsAt:   until,
	}
}

// Follow reports new findings, and the end of findings that were reported before, once each.
func (s *Service) Follow(ctx context.Context, now time.Time) error {
	s.following.Lock() // keeps notifications in the order of the readings
	defer s.following.Unlock()
	list, err := s.o.Findings(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	open, changed := map[string]bool{}, false
	var out []*notifier.Alert
	for i := range list {
		f := &list[i]
		a := f.toAlert(now.Add(4*s.o.Resend), strings.TrimRight(s.o.External, "/")+"/findings")
		if f.Quiet && s.firing[f.ID] == nil {
			continue
		}
		open[f.ID] = true
		changed = changed || s.firing[f.ID] == nil
		s.firing[f.ID] = a
		out = append(out, a)
	}
	for id, a := range s.firing {
		if open[id] {
			continue
		}
		if a.EndsAt.After(now) {
			a.EndsAt, changed = now, true
		}
		out = append(out, a)
		if now.Sub(a.EndsAt) > 15*time.Minute { // reported often enough that it ended, as rules do
			delete(s.firing, id)
			changed = true
		}
	}
	if changed {
		if err := saveFindings(stateFiles{s.o.Dir, s.o.Shared}, s.firing); err != nil { // before they are reported
			s.log.Error("notified findings could not be saved; a restart may end them", "err", err)
		}
	}
	s.put(out...)
	return nil
}

// Delivery is the progress of a test.
type Delivery = wire.AlertDelivery

// LastTest replaces the id of a test in requests for the latest notification of each receiver since the start.
const LastTest = "last"

// SendTest sends an alert that ends by itself through the whole pipeline. Arrived reports its progress.
func (s *Service) SendTest(now time.Time, by string) (id string) {
	id = ulid.Make().String()
	host, _ := os.Hostname()
	s.mu.Lock()
	s.tests[id] = now
	for old, at := range s.tests {
		if now.Sub(at) > time.Hour {
			delete(s.tests, old)
		}
	}
	s.mu.Unlock()
	s.put(&notifier.Alert{
		Labels: newLabels("alertname", testName, testLabel, id, "severity", "info", "sender", by),
		Annotations: newLabels("summary", "Test alert of the reckon server on "+host+" ("+s.o.External+"), sent by "+
			cmp.Or(by, "a user without login")+". Nothing is wrong, and it ends by itself"),
		StartsAt: now, EndsAt: now.Add(3 * time.Minute), GeneratorURL: s.o.External,
	})
	return id
}

// TestDeliveries returns the deliveries of a test alert, including pending ones. It returns false if no test has this id.
func (s *Service) TestDeliveries(ctx context.Context, id string) ([]Delivery, bool) {
	s.mu.Lock()
	_, known := s.tests[id]
	s.mu.Unlock()
	if !known && (id != LastTest || s.inside == nil) {
		return nil, false
	}
	out := []Delivery{}
	for _, k := range s.sinks {
		out = append(out, k.check(ctx, id)...)
	}
	if s.contacts != nil { // all are integrations of one receiver
		for _, r := range s.contacts.receivers() {
			for i := range out {
				if out[i].Receiver == contactsName && out[i].Integration == r.Integration {
					out[i].Receiver = r.Where
				}
			}
		}
	}
	return out, true
}
