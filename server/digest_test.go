package server

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/server/alerting"
	"reckon/server/cluster"
	"reckon/store/storetest"
	"reckon/web/client"
)

// TestDigests: each owner gets one digest a week, with their own report and no other; a restart repeats
// none, a server that was away for a day sends none late, and an owner with a report that fails keeps no other from theirs.
func TestDigests(t *testing.T) {
	monday := time.Date(2026, 11, 23, digestHour, 0, 0, 0, time.Local)
	var sent []string
	f := func(v float64) *float64 { return &v }
	d := &digests{
		file: filepath.Join(t.TempDir(), "digest"), external: "https://reckon.example/",
		note: func(file string, text []byte) error { return os.WriteFile(file, text, 0o600) },
		owners: func(context.Context, time.Time, time.Time) ([]string, error) {
			return []string{"alice", "broken", "bob"}, nil
		},
		report: func(_ context.Context, owner string, since, until time.Time) (client.OwnerReport, error) {
			if owner == "broken" {
				return client.OwnerReport{}, errors.New("no answer")
			}
			return client.OwnerReport{Owner: owner, Since: since, Until: until, Used: client.Usage{UsageFigures: client.UsageFigures{CPUSeconds: f(7200), HeldCoreSeconds: f(10800)}}, FailedTotal: 1}, nil
		},
		send: func(x alerting.Digest, until time.Time) {
			if !strings.HasPrefix(x.Text, x.Owner+", 2026-11-") || x.Page != "https://reckon.example/owner?name="+x.Owner || !until.After(monday) {
				t.Errorf("%+v until %v", x, until)
			}
			sent = append(sent, x.Owner+": "+x.Summary)
		},
	}
	for _, c := range []struct {
		at   time.Time
		want int
	}{
		{monday.Add(-time.Second), 0},                 // the one of the week before is late by now
		{monday.Add(time.Minute), 2},                  // due
		{monday.Add(2 * time.Minute), 2},              // sent
		{monday.Add(7*24*time.Hour - 1), 2},           // the next is not due
		{monday.Add(8*24*time.Hour + 1), 2},           // it was due more than a day ago
		{monday.Add(14*24*time.Hour + digestLate), 4}, // due for just a day
	} {
		before := len(sent)
		if err := d.sendDue(t.Context(), c.at); (err != nil) != (len(sent) > before) || err != nil && !strings.Contains(err.Error(),
			"digest of broken") {
			t.Errorf("%v: %v", c.at, err)
		}
		if len(sent) != c.want {
			t.Errorf("%v: %d digests, want %d: %v", c.at, len(sent), c.want, sent)
		}
	}
	if len(sent) > 0 && sent[0] != "alice: Your week: 2 core-hours used, 1 allocated and not used, 1 job failed" {
		t.Error(sent[0])
	}
	if _, err := os.Stat(d.file); err != nil {
		t.Error(err)
	}
}

// TestDigestsOfTheNextLeader: what a leader noted keeps the next one from sending it again, and a leader that
// cannot note it sends none.
func TestDigestsOfTheNextLeader(t *testing.T) {
	fresh, start := storetest.Postgres(t, "pgx")
	start()
	monday := time.Date(2026, 11, 23, digestHour, 1, 0, 0, time.Local)
	sent := 0
	at := fresh(t)
	lead := func(name string) (*membership, *digests) {
		db, err := sql.Open("pgx", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		m := &membership{}
		if m.lease, err = cluster.Open(t.Context(), cluster.Options{DB: db, Member: name, Address: "http://" + name}); err != nil {
			t.Fatal(err)
		}
		if m.epoch = m.lease.Epoch(); m.epoch == 0 {
			t.Fatalf("%s does not lead", name)
		}
		dir := filepath.Join(t.TempDir(), "alerts")
		if err := m.fetchAlerts(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		s := &Server{config: Config{member: m}}
		return m, &digests{
			file: filepath.Join(dir, "digest"), note: s.noteDigests,
			owners: func(context.Context, time.Time, time.Time) ([]string, error) { return []string{"alice"}, nil },
			report: func(context.Context, string, time.Time, time.Time) (client.OwnerReport, error) {
				return client.OwnerReport{}, nil
			},
			send: func(alerting.Digest, time.Time) { sent++ },
		}
	}
	first, d := lead("one")
	if err := d.sendDue(t.Context(), monday); err != nil || sent != 1 {
		t.Fatalf("the first leader sent %d, %v", sent, err)
	}
	if err := first.lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, next := lead("two")
	if err := next.sendDue(t.Context(), monday.Add(time.Minute)); err != nil || sent != 1 {
		t.Errorf("after the second leader %d were sent, %v", sent, err)
	}
	if err := d.sendDue(t.Context(), monday.AddDate(0, 0, 7)); !errors.Is(err, cluster.ErrNotLeading) || sent != 1 {
		t.Errorf("one that leads no more sent %d, %v", sent, err)
	}
}
