package alerting

import (
	"time"

	"github.com/prometheus/prometheus/notifier"
)

// DigestName is the name of the alert with the weekly report for one owner.
const DigestName = "WeeklyDigest"

// Digest is the weekly report on one owner.
type Digest struct {
	Owner, Summary, Text, Page string
	Week                       time.Time // its end
}

// SendDigest sends a digest; it ends by itself.
func (s *Service) SendDigest(d Digest, until time.Time) {
	s.put(&notifier.Alert{
		Labels:      newLabels("alertname", DigestName, "owner", d.Owner, "severity", "info", "week", d.Week.Format(time.DateOnly)),
		Annotations: newLabels("summary", d.Summary, "description", d.Text, "page", d.Page, "runbook", "It is of your own work only."),
		StartsAt:    time.Now(), EndsAt: until, GeneratorURL: d.Page,
	})
}
