package planted

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// value and told are a sentence of the API.
type value struct {
	Text, Unit string
	Value      *float64
}

type told struct {
	Template string
	Values   []value
}

// text fills the values into the template.
func (s *told) text() string {
	i := 0
	return regexp.MustCompile(`\{[^}]*\}`).ReplaceAllStringFunc(s.Template, func(string) string {
		i++
		if i > len(s.Values) {
			return "?"
		}
		return s.Values[i-1].Text
	})
}

// agree compares the numbers of a sentence with what it shows of them.
func agree(t *testing.T, text string, values []value) {
	t.Helper()
	for _, v := range values {
		if !strings.Contains(text, v.Text) {
			t.Errorf("%q does not show %q", text, v.Text)
		}
		if v.Value == nil {
			continue
		}
		shown, rounding, err := parseAmount(v.Text)
		if room := rounding + 0.06*shown; err != nil || *v.Value < shown-room || *v.Value > shown+room {
			t.Errorf("%q: %q stands for %v %s", text, v.Text, *v.Value, v.Unit)
		}
	}
}

var tags = regexp.MustCompile(`<(?:script|style)[^>]*>[^<]*</(?:script|style)>|<[^>]*>`)

// page is the text of a page in a browser, false where there is no browser.
func (s *site) page(t *testing.T, path string, shows func(string) bool) (string, bool) {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil {
			program = at
		}
	}
	if program == "" {
		return "", false
	}
	text := ""
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000",
			"--user-data-dir="+t.TempDir(), "--dump-dom", s.base+path)
		cmd.Env = s.env()
		out, _ := cmd.Output()
		cancel()
		text = spaces.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(string(out), "")), " ")
		if shows(text) {
			break
		}
	}
	return text, true
}

// checkPages compares what API and pages show with what commands show, which is compared with what was planted.
func (s *site) checkPages(t *testing.T, p *plan) {
	for _, id := range []string{"unit/web.service", "unit/fifth.service", "unit/hush.service", "deployment/shop/cart", "slurm/" + p.last("sim").name} {
		if strings.HasPrefix(id, "slurm/") {
			id = "slurm/" + jobID(p.last("sim"))
		}
		status, body := s.get("/api/reckon/v1/workloads/" + id)
		var got struct {
			Advice struct {
				Why       []string
				Sentences []told
			}
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || len(got.Advice.Why) == 0 {
			t.Errorf("%s: %d, %v: %s", id, status, err, body)
			continue
		}
		command := spaces.ReplaceAllString(s.ask("rightsize", id), " ")
		for i, why := range got.Advice.Why {
			if !strings.Contains(command, why) {
				t.Errorf("%s: the command does not show %q", id, why)
			}
			agree(t, why, got.Advice.Sentences[i].Values)
			if text := got.Advice.Sentences[i].text(); text != why {
				t.Errorf("%s: the sentence %q is %q by its values", id, why, text)
			}
		}
		shows := func(text string) bool { return strings.Contains(text, got.Advice.Why[0]) }
		if text, ok := s.page(t, "/workload?id="+url.QueryEscape(id), shows); ok {
			for _, why := range got.Advice.Why {
				if !strings.Contains(text, why) {
					t.Errorf("%s: its page does not show %q:\n%s", id, why, text)
				}
			}
		}
	}
	_, body := s.get("/api/reckon/v1/findings?rule=anomaly")
	var list struct {
		Findings []struct {
			Text, Owner string
			Values      []value
		}
	}
	check(t, json.Unmarshal([]byte(body), &list))
	command, of := s.ask("anomalies"), map[string]int{}
	for _, f := range list.Findings {
		of[f.Owner]++
		agree(t, f.Text, f.Values)
		if !strings.Contains(command, f.Text) {
			t.Errorf("the command does not show %q", f.Text)
		}
	}
	if len(list.Findings) < 9 {
		t.Errorf("%d anomalies by the API: %s", len(list.Findings), body)
	}
	if text, ok := s.page(t, "/findings", func(text string) bool { return strings.Contains(text, "unusual") }); ok {
		for _, f := range list.Findings {
			shown := f.Text
			if n := of[f.Owner]; f.Owner != "" && n > 1 { // in one line, which opens
				shown = fmt.Sprintf("%s: unusual × %d", f.Owner, n)
			}
			if !strings.Contains(text, shown) {
				t.Errorf("the page of findings does not show %q:\n%s", f.Text, text)
			}
		}
	}
}
