package alerting

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"
)

// long is the time that a test waits for what must come: only what hangs takes that long.
const long = 2 * time.Minute

// until asks again until it is so.
func until(t *testing.T, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(long)
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it never became so")
		}
	}
}

// hook is a receiver of webhooks: what came, one line for each alert.
type hook struct {
	*httptest.Server
	mu       sync.Mutex
	lines    []string
	messages []string // the alerts of one request, with commas between
	fail     bool
	answer   func(lines []string) // called before a request is answered, unless nil
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Alerts []struct {
				Status string
				Labels map[string]string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		var lines, names []string
		for _, a := range m.Alerts {
			lines = append(lines, a.Status+" "+a.Labels["alertname"]+a.Labels["finding"]+a.Labels["letter"])
			names = append(names, a.Labels["alertname"])
		}
		h.lines = append(h.lines, lines...)
		h.messages = append(h.messages, strings.Join(names, ","))
		if h.fail {
			http.Error(w, "no", http.StatusBadRequest)
		}
		answer := h.answer
		h.mu.Unlock()
		if answer != nil {
			answer(lines)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}

// count reports how often a line came.
func (h *hook) count(line string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lines {
		if l == line {
			n++
		}
	}
	return n
}

// wait waits until a line has come.
func (h *hook) wait(t *testing.T, line string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(long)
	for h.count(line) == 0 {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s did not come; until now:\n%s", line, h.text())
		}
	}
}

func (h *hook) config(t *testing.T) string {
	return write(t, "am.yml", fmt.Sprintf(`
route: {receiver: hook, group_by: [alertname, finding], group_wait: 10ms, group_interval: 50ms, repeat_interval: 1h}
receivers: [{name: hook, webhook_configs: [{url: %q, send_resolved: true}]}]
`, h.URL))
}

// posted keeps the bodies of requests.
type posted struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func newPosted(t *testing.T, status int) *posted {
	k := &posted{}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		k.mu.Lock()
		k.bodies = append(k.bodies, string(raw))
		k.mu.Unlock()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(k.Close)
	return k
}

// has reports whether one body holds all the words.
func (k *posted) has(words ...string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return holds(k.bodies, words)
}

func holds(texts, words []string) bool {
	for _, text := range texts {
		all := true
		for _, w := range words {
			all = all && strings.Contains(text, w)
		}
		if all {
			return true
		}
	}
	return false
}

// post is a mail server (RFC 5321) that takes everything: what came, as recipients, a
// line break and the message.
type post struct {
	addr string
	mu   sync.Mutex
	came []string
}

func newPost(t *testing.T) *post {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &post{addr: ln.Addr().String()}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Go(func() { p.talk(c) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); open.Wait() })
	return p
}

func (p *post) talk(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(long))
	r := bufio.NewReader(c)
	say := func(text string) { _, _ = io.WriteString(c, text+"\r\n") }
	say("220 here")
	var to []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		switch verb, _, _ := strings.Cut(strings.ToUpper(line), " "); verb {
		case "RCPT":
			_, address, _ := strings.Cut(line, ":")
			to = append(to, strings.Trim(address, "<>"))
			say("250 yes")
		case "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(line)
			}
			p.mu.Lock()
			p.came = append(p.came, strings.Join(to, " ")+"\n"+text.String())
			p.mu.Unlock()
			to = nil
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 yes")
		}
	}
}

// mails are those to somebody, oldest first.
func (p *post) mails(t *testing.T, to string) (out []*mail.Message) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.came {
		rcpt, text, _ := strings.Cut(m, "\n")
		if rcpt != to {
			continue
		}
		msg, err := mail.ReadMessage(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, msg)
	}
	return out
}

// subjects are the subjects of the mails to somebody, oldest first.
func (p *post) subjects(t *testing.T, to string) (out []string) {
	t.Helper()
	for _, m := range p.mails(t, to) {
		out = append(out, m.Header.Get("Subject"))
	}
	return out
}
