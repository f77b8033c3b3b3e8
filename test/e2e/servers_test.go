//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"reckon/store/storetest"
	"reckon/web/client"
)

// takeover is by when another server leads.
const takeover = 15 * time.Second

// member is one of several servers over one store; its database and its store are reached by
// wires that can be cut.
type member struct {
	*up
	db, series *wire
}

// servers are several servers over one store of series and one PostgreSQL.
type servers struct {
	t      *testing.T
	list   []*member
	store  seriesStore
	dbHost string
}

// seriesStore is the place where series are: the addresses of its processes, which members reach in turn, and how its URL is written.
type seriesStore struct {
	processes      []string
	prefix, suffix string
}

// of is the process that a member reaches.
func (s seriesStore) of(member int) string { return s.processes[member%len(s.processes)] }

// startServers starts several servers over one Prometheus.
func startServers(t *testing.T, n int, args ...string) *servers {
	t.Helper()
	return startServersOver(t, n, seriesStore{processes: []string{storetest.Prometheus(t)}, suffix: "?timeout=5s"}, args...)
}

func startServersOver(t *testing.T, n int, series seriesStore, args ...string) *servers {
	t.Helper()
	fresh, start := storetest.Postgres(t, "pgx")
	start()
	u, err := url.Parse(fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &servers{t: t, dbHost: u.Host, store: series}
	for i := range n {
		m := &member{db: newWire(t), series: newWire(t)}
		m.db.lead(u.Host)
		m.series.lead(series.of(i))
		at := *u
		at.Host = m.db.ln.Addr().String()
		m.up = startServe(t, t.TempDir(), append([]string{"--set", "member=http://HERE", "--insecure", "--store", series.prefix + m.series.url() + series.suffix, "--catalogue", at.String(), "--retention", "24h"}, args...)...)
		s.list = append(s.list, m)
	}
	return s
}

// leader is the member that states that it leads; nil for none, and an error for two.
func (s *servers) leader(but ...*member) (*member, error) {
	var found *member
	for _, m := range s.list {
		if leading, _ := m.leads(); !leading {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s and %s lead", found.addr, m.addr)
		}
		found = m
	}
	for _, b := range but {
		if found == b {
			return nil, nil
		}
	}
	return found, nil
}

func (m *member) leads() (bool, error) {
	c := http.Client{Timeout: time.Second}
	resp, err := c.Get(m.url("/metrics"))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return strings.Contains(string(text), "\nreckon_server_leads 1\n"), err
}

// next waits until another than the one before leads, and reports how long that took.
func (s *servers) next(before *member) (*member, time.Duration) {
	s.t.Helper()
	begin := time.Now()
	for time.Since(begin) < time.Minute {
		m, err := s.leader(before)
		if err != nil {
			s.t.Fatal(err)
		}
		if m != nil {
			return m, time.Since(begin)
		}
		pause(100 * time.Millisecond)
	}
	s.t.Fatal("nobody leads after a minute")
	return nil, 0
}

// hook counts the notifications of each alert.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	came   map[string]int // by status and name
	marked int
	before func() // an answer; may be nil
}

func newHook(t *testing.T) *hook {
	h := &hook{came: map[string]int{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct {
			Alerts []struct {
				Status              string
				Labels, Annotations map[string]string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.before != nil {
			h.before()
		}
		for _, a := range m.Alerts {
			h.came[a.Status+" "+a.Labels["alertname"]]++
			if a.Annotations["sent_again"] != "" {
				h.marked++
			}
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) count(what string) (n, marked int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.came[what], h.marked
}

func (h *hook) config(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "am.yml")
	text := fmt.Sprintf("route: {receiver: hook, group_by: [alertname], group_wait: 1s, group_interval: 1s, repeat_interval: 1h}\nreceivers: [{name: hook, webhook_configs: [{url: %q, send_resolved: true}]}]\n", h.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Three servers over one store take over from each other after a kill, after a minute of standing
// still and after a cut without a word, while late data of two hours come in: usage is what the
// counters report, nothing twice and nothing lost, and an alert that lasts is sent once.
func TestServers(t *testing.T) {
	h := newHook(t)
	rules := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(rules, []byte("groups: [{name: e2e, interval: 1s, rules: [{alert: Lasts, expr: vector(1), labels: {severity: warning}}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServers(t, 3, "--set", "rules="+rules, "--set", "alertmanager-config="+h.config(t))
	first, _ := s.next(nil)
	until(t, "the alert is sent", func() error {
		if n, _ := h.count("firing Lasts"); n == 0 {
			return fmt.Errorf("nothing came")
		}
		return nil
	})
	// An agent that reaches the servers by one address, as by a balancer.
	door := newWire(t)
	door.lead(s.list[0].addr)
	sender := lateData(t, door, 2*time.Hour)
	hurt := map[*member]bool{}
	away := func(m *member) { // whoever is well takes the alerts
		hurt[m] = true
		for _, x := range s.list {
			if !hurt[x] {
				door.lead(x.addr)
				return
			}
		}
	}
	took := func(what string, d time.Duration) {
		t.Logf("%s: another server led after %.1f s", what, d.Seconds())
		if d > takeover {
			t.Errorf("%s: another server led after %s, not within %s", what, d, takeover)
		}
	}

	pause(10 * time.Second)
	away(first)
	kill(t, first.cmd, syscall.SIGKILL)
	second, d := s.next(first)
	took("killed", d)

	away(second)
	kill(t, second.cmd, syscall.SIGSTOP)
	stopped := time.Now()
	third, d := s.next(second)
	took("stopped", d)
	pause(time.Until(stopped.Add(time.Minute)))
	kill(t, second.cmd, syscall.SIGCONT)
	until(t, "the one that was stopped follows", func() error {
		if leading, err := second.leads(); leading || err != nil {
			return fmt.Errorf("leads %t, %v", leading, err)
		}
		return nil
	})
	if now, err := s.leader(); err != nil || now != third {
		t.Errorf("after the one that was stopped woke: %v", err)
	}
	delete(hurt, second)

	away(third)
	third.db.hold()
	third.series.hold()
	fourth, d := s.next(third)
	took("cut off", d)
	if fourth != second {
		t.Errorf("%s leads", fourth.addr)
	}
	third.db.lead(s.dbHost)
	third.series.lead(s.store.of(0))

	if err := sender.Wait(); err != nil {
		t.Errorf("the sender: %v\n%s", err, fourth.out)
	}
	proven(t, fourth.up)
	if n, marked := h.count("firing Lasts"); n < 1 || n-marked > 1 {
		t.Errorf("the alert was sent %d times, %d of them marked", n, marked)
	} else {
		t.Logf("the alert was sent %d times, %d of them marked", n, marked)
	}
	if n, _ := h.count("resolved Lasts"); n != 0 {
		t.Errorf("the end of an alert that lasts was sent %d times", n)
	}
	// Every member answers the same.
	var want, got client.UsageList
	for i, m := range []*member{fourth, third} {
		into := &want
		if i > 0 {
			into = &got
		}
		if err := get(m.url("/api/reckon/v1/usage?since=6h&by=site"), into); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := cpu(want), cpu(got); a == 0 || a != b {
		t.Errorf("one says %g CPU seconds, the other %g", a, b)
	}
	var list struct{ Data struct{ Groups []any } }
	if err := get(third.url("/api/v1/rules"), &list); err != nil || len(list.Data.Groups) != 1 {
		t.Errorf("rules asked of one that follows: %v, %v", list, err)
	}
}

// lateData sends, in a sixtieth of its length, what four nodes measured five hours ago.
func lateData(t *testing.T, door *wire, length time.Duration) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program(t, "reckon"), "simulate", "--nodes", "4", "--site", "s7", "--seed", "7",
		"--from", time.Now().Add(-5*time.Hour).UTC().Format(time.RFC3339), "--for", length.String(), "--speed", "60x", "--push", door.url())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestServersOverMimir runs two servers over three Mimirs that share a ring, each server with another of them. While late data
// come in, one Mimir is killed, which belongs to the server that follows, and then the leader: the other leads within 15 s,
// nothing is lost and nothing counted twice.
func TestServersOverMimir(t *testing.T) {
	ring := storetest.MimirRing(t)
	store := seriesStore{prefix: "mimir+", suffix: "?tenant=physics&histograms=native&timeout=10s"}
	for _, m := range ring {
		store.processes = append(store.processes, m.Address)
	}
	s := startServersOver(t, 2, store)
	first, _ := s.next(nil)
	follower := 0
	if s.list[0] == first {
		follower = 1
	}
	second := s.list[follower]
	door := newWire(t)
	door.lead(first.addr)
	sender := lateData(t, door, time.Hour)

	pause(15 * time.Second)
	if err := ring[follower].Process.Kill(); err != nil { // without leaving the ring
		t.Fatal(err)
	}
	second.series.lead(ring[2].Address) // as a balancer does
	pause(10 * time.Second)
	door.lead(second.addr)
	kill(t, first.cmd, syscall.SIGKILL)
	third, d := s.next(first)
	t.Logf("killed: another server led after %.1f s", d.Seconds())
	if third != second || d > takeover {
		t.Errorf("%s led after %s, want %s within %s", third.addr, d, second.addr, takeover)
	}
	if err := sender.Wait(); err != nil {
		t.Errorf("the sender: %v\n%s", err, second.out)
	}
	proven(t, second.up)
}

// TestServersKilledWhileSending: a leader that is killed after the receiver has an alert and before it
// could note that leaves the next one in doubt: it sends the alert once more, marked.
func TestServersKilledWhileSending(t *testing.T) {
	h := newHook(t)
	rules := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(rules, []byte("groups: [{name: e2e, interval: 1s, rules: [{alert: Lasts, expr: vector(1), labels: {severity: warning}}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var s *servers
	ready := make(chan struct{})
	var killed *member
	h.before = func() { // the lock of the hook is held
		<-ready
		if killed != nil {
			return
		}
		var err error
		if killed, err = s.leader(); err != nil || killed == nil {
			t.Errorf("an alert came and nobody leads: %v", err)
			return
		}
		kill(t, killed.cmd, syscall.SIGKILL)
		_ = killed.cmd.Wait() // killed
	}
	s = startServers(t, 2, "--set", "rules="+rules, "--set", "alertmanager-config="+h.config(t))
	close(ready)
	until(t, "the alert is sent again", func() error {
		if n, marked := h.count("firing Lasts"); n < 2 || marked < 1 {
			return fmt.Errorf("sent %d times, %d of them marked", n, marked)
		}
		return nil
	})
	pause(20 * time.Second) // ten evaluations and groups more
	if n, marked := h.count("firing Lasts"); n != 2 || marked != 1 {
		t.Errorf("the alert was sent %d times, %d of them marked; want once and once more, marked", n, marked)
	}
}

func cpu(u client.UsageList) (sum float64) {
	for _, r := range u.Rows {
		if r.CPUSeconds != nil {
			sum += *r.CPUSeconds
		}
	}
	return sum
}

// proven waits until usage is what the counters report, exactly, and in whole.
func proven(t *testing.T, m *up) {
	t.Helper()
	var p client.Proof
	look := func() error {
		resp, err := http.PostForm(m.url("/api/reckon/v1/prove"), url.Values{"mend": {"false"}})
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			return err
		}
		if p.Differing > 0 || p.NodeHours == 0 || math.Abs(p.Accounted-1) > 1e-9 || len(p.LeftOut) > 0 {
			return fmt.Errorf("%d figures differ in %d hours of nodes, accounted %.12f, left out %v", p.Differing, p.NodeHours, p.Accounted, p.LeftOut)
		}
		return nil
	}
	// Hours that got late samples are made again after a rest that is fifty times as long as that took.
	err := look()
	for end := time.Now().Add(15 * time.Minute); err != nil && time.Now().Before(end); err = look() {
		pause(2 * time.Second)
	}
	if err != nil {
		t.Fatalf("usage is not what the counters say: %v", err)
	}
	t.Logf("%d hours of nodes: accounted %.10f", p.NodeHours, p.Accounted)
}

func kill(t *testing.T, c *exec.Cmd, with syscall.Signal) {
	t.Helper()
	if err := c.Process.Signal(with); err != nil {
		t.Fatal(err)
	}
}
