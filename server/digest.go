package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"reckon/internal/durable"
	"reckon/server/alerting"
	"reckon/store"
	"reckon/web/client"
	"reckon/web/report"
)

// The weekly digest goes out on Mondays at this hour, by the clock of this machine.
const (
	digestDay  = time.Monday
	digestHour = 7
	// digestLate is the time after which a server that was down no longer sends a digest.
	digestLate = 24 * time.Hour
	// digestLasts is the time that its alert lasts: longer than group_wait of any sensible route.
	digestLasts = 2 * time.Hour
)

// digests sends each owner the report on their past week.
type digests struct {
	file     string // when it was sent last
	note     func(file string, text []byte) error
	external string
	owners   func(ctx context.Context, since, until time.Time) ([]string, error)
	report   func(ctx context.Context, owner string, since, until time.Time) (client.OwnerReport, error)
	send     func(alerting.Digest, time.Time)
}

// lastDigestTime returns the last Monday morning up to a time.
func lastDigestTime(now time.Time) time.Time {
	at := time.Date(now.Year(), now.Month(), now.Day(), digestHour, 0, 0, 0, now.Location())
	for at.After(now) || at.Weekday() != digestDay {
		at = at.AddDate(0, 0, -1)
	}
	return at
}

// sendDue sends the digest that is due, once: a restart repeats none.
func (d *digests) sendDue(ctx context.Context, now time.Time) error {
	due := lastDigestTime(now)
	if now.Sub(due) > digestLate {
		return nil
	}
	sent, err := os.ReadFile(d.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read when digests were sent: %w", err)
	}
	if last, err := time.Parse(time.RFC3339, strings.TrimSpace(string(sent))); err == nil && !last.Before(due) {
		return nil
	}
	since := due.AddDate(0, 0, -7)
	owners, err := d.owners(ctx, since, due)
	if err != nil {
		return err
	}
	// Noted before it is sent: a digest that is missing harms less than one that comes each minute.
	if err := d.note(d.file, []byte(now.UTC().Format(time.RFC3339)+"\n")); err != nil {
		return fmt.Errorf("note that digests were sent: %w", err)
	}
	var failed []error
	for _, owner := range owners {
		r, err := d.report(ctx, owner, since, due)
		if err != nil {
			failed = append(failed, fmt.Errorf("digest of %s: %w", owner, err))
			continue
		}
		r.Server = strings.TrimRight(d.external, "/")
		d.send(alerting.Digest{Owner: owner, Summary: "Your week: " + report.Subject(&r), Text: report.Text(&r), Page: r.Page(), Week: due},
			now.Add(digestLasts))
	}
	return errors.Join(failed...)
}

// noteDigests records when digests were sent, also for the next leader if there are several servers.
func (s *Server) noteDigests(file string, text []byte) error {
	if m := s.config.member; m != nil {
		if err := m.lease.Files(m.epoch).Put(filepath.Base(file), text); err != nil {
			return err
		}
	}
	return durable.Replace(file, text, 0o640)
}

// runDigests checks each minute whether a digest is due.
func (s *Server) runDigests(ctx context.Context) error {
	c, err := client.New("", client.WithHTTP(s.InProcessClient()))
	if err != nil {
		return err
	}
	d := &digests{
		file: filepath.Join(s.config.Data, "alerts", "digest"), note: s.noteDigests, external: s.config.Alerts.External,
		owners: func(ctx context.Context, since, until time.Time) ([]string, error) {
			list, err := c.Usage(ctx, client.UsageQuery{Since: since, Until: until, Span: "whole", By: []string{"owner"}})
			if err != nil {
				return nil, err
			}
			var out []string
			for i := range list.Rows {
				// Owners with an allocation. Others are services, and people who only looked.
				if u := &list.Rows[i]; u.Owner != "" && u.HeldCoreSeconds != nil && *u.HeldCoreSeconds > 0 {
					out = append(out, u.Owner)
				}
			}
			return out, nil
		},
		report: c.OwnerReport, send: s.alerts.SendDigest,
	}
	return store.Repeat(ctx, 0, time.Minute, 0, func(ctx context.Context) error { return d.sendDue(ctx, time.Now()) },
		func(err error) { s.log.Error("digests could not be sent", "err", err) })
}
