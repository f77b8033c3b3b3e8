package server

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"reckon/answer"
	"reckon/server/alerting"
	"reckon/store"
	"reckon/web/api"
	"reckon/web/client"
	"reckon/web/promapi"
)

// Alerts configures the evaluated rules and the destinations of alerts.
type Alerts struct {
	Rules         []string // files, or default, or none; empty is default
	Alertmanagers []string // addresses
	Config        string   // of the Alertmanager in this process; empty for none
	External      string   // base URL of this server in links; empty for the listening address
	Loopback      bool     // receivers that are set up on the page may be on this machine
	Digest        string   // weekly: owners get the report on their week by the route of WeeklyDigest; none or empty for none
}

// openAlerts reads rules and receivers.
func (s *Server) openAlerts(ctx context.Context) (err error) {
	c := s.config.Alerts
	if c.External == "" {
		c.External = s.URL()
	}
	s.config.Alerts.External = c.External
	if !s.leads() {
		return nil // asked of the leader
	}
	o := alerting.Options{
		Engine: s.engine, Parser: s.engine.Parser(), Queryable: s.series, Appendable: s.leaderSeries(),
		Rules: c.Rules, Alertmanagers: c.Alertmanagers, Config: c.Config, Loopback: c.Loopback,
		External: c.External,
		Dir:      filepath.Join(s.config.Data, "alerts"), Findings: s.openFindings, Logger: s.log,
	}
	if m := s.config.member; m != nil {
		if err := m.fetchAlerts(ctx, o.Dir); err != nil {
			return err
		}
		o.Shared = sharedAlerts{m.lease.Files(m.epoch), m}
	}
	s.alerts, err = alerting.Open(s.courtesy.Background(ctx), o)
	return err
}

// runAlerts evaluates rules until ctx ends. At each SIGHUP it reads the rules and the targets again.
func (s *Server) runAlerts(ctx context.Context) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				if err := s.alerts.Reload(); err != nil {
					s.log.Error("rules and receivers stay as they were", "err", err)
				}
				if s.scraper != nil {
					s.scraper.Reload()
				}
			}
		}
	}()
	return s.alerts.Run(ctx)
}

// openFindings returns the cases of misuse that last.
func (s *Server) openFindings(ctx context.Context) ([]alerting.Finding, error) {
	now := time.Now()
	rows, _, err := s.catalogue.Findings(ctx, store.FindingFilter{States: []string{store.FindingNew, store.FindingOpen}, Now: now})
	if err != nil {
		return nil, fmt.Errorf("read findings: %w", err)
	}
	out := make([]alerting.Finding, len(rows))
	for i := range rows {
		r := &rows[i]
		out[i] = alerting.Finding{
			ID: r.ID, Rule: r.Rule, Severity: alertSeverity(r.Severity), Site: r.Site, Node: r.Node, Owner: r.Owner, Workload: r.Workload,
			Text: r.Text, Found: r.Found, Quiet: !r.AckAt.IsZero() || r.MutedUntil.After(now),
		}
	}
	return out, nil
}

// alertSeverity returns the alert severity for the severity of a finding. It is never critical, because a finding is about
// waste and needs no immediate action.
func alertSeverity(severity string) string {
	if severity == "low" {
		return "info"
	}
	return "warning"
}

// mountAlerts adds the alerts part of the HTTP API.
func (s *Server) mountAlerts(o *api.Options, p *promapi.Options) {
	if s.alerts == nil {
		return
	}
	p.Rules, p.Alertmanagers = s.alerts, s.alerts
	o.Alerts, o.Alertmanager = alertTests{s.alerts}, s.alerts.Handler()
}

type alertTests struct{ service *alerting.Service }

func (a alertTests) Test(ctx context.Context, by string) (client.AlertTest, error) {
	if err := a.service.Reachable(); err != nil {
		return client.AlertTest{}, answer.Busy("see `reckon docs alerts`", err)
	}
	return a.Arrived(ctx, a.service.SendTest(time.Now(), by))
}

func (a alertTests) Arrived(ctx context.Context, id string) (client.AlertTest, error) {
	list, ok := a.service.TestDeliveries(ctx, id)
	if !ok {
		return client.AlertTest{}, answer.NotFound("tests are known for an hour, until the server stops",
			fmt.Errorf("no test alert %q was sent", id))
	}
	return client.AlertTest{ID: id, Deliveries: list}, nil
}

func (a alertTests) Receivers() client.AlertReceivers { return a.service.Receivers() }

func (a alertTests) Receive(add map[string]string, remove, by string) error {
	var c *alerting.Contact
	if len(add) > 0 {
		c = &alerting.Contact{URL: add["url"], Channel: add["channel"], To: add["to"], Smarthost: add["smarthost"], From: add["from"],
			User: add["user"], Password: add["password"], Plain: add["plain"] == "true"}
		c.Kind = add["kind"]
	}
	if err := a.service.SetContact(c, remove, by); err != nil {
		return answer.Invalid("see `reckon docs alerts`", err)
	}
	return nil
}
