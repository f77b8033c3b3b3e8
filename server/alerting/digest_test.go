package alerting

import (
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"os"
	"strings"
	"testing"
	"time"
)

// TestDigestByMail: with the example of deploy/alerts, changed according to its comment, each owner gets
// the report on their own week by SMTP, once, and nobody else's: from the Alertmanager inside and
// from a real one.
func TestDigestByMail(t *testing.T) {
	raw, err := os.ReadFile("../../deploy/alerts/alertmanager.yml")
	if err != nil {
		t.Fatal(err)
	}
	try := func(t *testing.T, start func(config string) *Service) {
		p := newPost(t)
		route, rest, ok := strings.Cut(string(raw), `- alertname="WeeklyDigest"`)
		if !ok {
			t.Fatal("the example has no route for digests")
		}
		rest = strings.Replace(strings.Replace(rest, "receiver: nobody", "receiver: digest", 1), "group_wait: 30s", "group_wait: 100ms", 1)
		s := start(write(t, "am.yml", strings.ReplaceAll(route+`- alertname="WeeklyDigest"`+rest, "localhost:25", p.addr)))
		week := time.Now().Truncate(time.Second)
		for _, owner := range []string{"alice", "bob", "Not A Name"} {
			s.SendDigest(Digest{Owner: owner, Summary: "Your week: 2 core-hours used by " + owner, Text: owner + ", 2026-11-16 to 2026-11-23\n\nUsed       2 core-hours\nä <b>", Page: "https://reckon.example/owner?name=" + owner, Week: week}, week.Add(time.Hour))
		}
		until(t, func() bool { return p.count() >= 2 })
		for _, owner := range []string{"alice", "bob"} {
			to := owner + "@example.org"
			if got := p.subjects(t, to); len(got) != 1 || got[0] != "Your week: 2 core-hours used by "+owner {
				t.Errorf("mails to %s: %q", to, got)
				continue
			}
			text, html := p.parts(t, to)
			if want := owner + ", 2026-11-16 to 2026-11-23\n\nUsed       2 core-hours\nä <b>"; strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")) != want {
				t.Errorf("to %s: %q", to, text)
			}
			if !strings.Contains(html, "Used       2 core-hours") || strings.Contains(html, "<b>") {
				t.Errorf("to %s: %q", to, html)
			}
		}
		if n := p.count(); n != 2 {
			t.Errorf("%d mails, want 2: a name that is no address gets none", n)
		}
	}
	t.Run("embedded", func(t *testing.T) {
		try(t, func(config string) *Service {
			s, _ := newBench(t).start(Options{Config: config})
			return s
		})
	})
	t.Run("real", func(t *testing.T) {
		try(t, func(config string) *Service {
			peer := newPeer(t, config)
			s, _ := newBench(t).start(Options{Alertmanagers: []string{peer.url()}})
			return s
		})
	})
}

func (p *post) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.came)
}

// parts are the plain and the HTML text of the first mail to somebody.
func (p *post) parts(t *testing.T, to string) (text, html string) {
	t.Helper()
	mails := p.mails(t, to)
	if len(mails) == 0 {
		return "", ""
	}
	_, params, err := mime.ParseMediaType(mails[0].Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	all := multipart.NewReader(mails[0].Body, params["boundary"])
	for part, err := all.NextPart(); err != io.EOF; part, err = all.NextPart() {
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader = part // NextPart decodes quoted-printable, and removes its header then
		if part.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
			r = quotedprintable.NewReader(part)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/html") {
			html = string(raw)
		} else {
			text = string(raw)
		}
	}
	return text, html
}
