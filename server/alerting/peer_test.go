package alerting

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// peer is a real Alertmanager, as a distribution has it.
type peer struct {
	t          *testing.T
	tool, addr string
	conf, data string
	kill       func()
}

// newPeer starts one, or skips.
func newPeer(t *testing.T, config string) *peer {
	t.Helper()
	tool, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		t.Skip("no Alertmanager here; apt-get install prometheus-alertmanager")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, tool: tool, addr: ln.Addr().String(), conf: config, data: t.TempDir()}
	_ = ln.Close()
	p.start()
	return p
}

func (p *peer) url() string { return "http://" + p.addr }

func (p *peer) start() {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	// It writes what it reported every quarter of an hour by default.
	cmd := exec.CommandContext(ctx, p.tool, "--config.file", p.conf, "--storage.path", p.data, "--data.maintenance-interval=100ms",
		"--web.listen-address", p.addr, "--cluster.listen-address=")
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	done := false
	p.kill = func() {
		if !done {
			done = true
			cancel() // SIGKILL
			_ = cmd.Wait()
		}
	}
	p.t.Cleanup(p.kill)
	until(p.t, func() bool { return p.ask("/-/ready") })
}

func (p *peer) ask(path string) bool {
	resp, err := http.Get(p.url() + path)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// written waits until what was reported by now is in the file of the Alertmanager. It is
// noted some time after the receiver has answered, so two writings are awaited after a
// message that came later.
func (p *peer) written() {
	p.t.Helper()
	for range 2 {
		before, _ := os.Stat(filepath.Join(p.data, "nflog"))
		until(p.t, func() bool {
			now, err := os.Stat(filepath.Join(p.data, "nflog"))
			return err == nil && now.Size() > 0 && (before == nil || now.ModTime().After(before.ModTime()))
		})
	}
}

// Both sides are killed or stopped in turn while an alert fires: its begin and its end
// come once.
func TestRealAlertmanagerOverRestarts(t *testing.T) {
	h, b := newHook(t), newBench(t)
	p := newPeer(t, h.config(t))
	marks := 0
	mark := func(s *Service) { // what comes after everything that was sent before
		t.Helper()
		marks++
		id := s.SendTest(time.Now(), "root")
		until(t, func() bool {
			list, _ := s.TestDeliveries(t.Context(), id)
			return len(list) == 1 && list[0].Arrived && list[0].Receiver == "hook"
		})
		s.put(simple(fmt.Sprint("Mark", marks)))
		h.wait(t, fmt.Sprint("firing Mark", marks))
		p.written()
	}
	again := func(s *Service, name string) { // the alert is there anew after a restart
		t.Helper()
		until(t, func() bool {
			list, err := s.sinks[0].(*remoteManagers).fetchAlerts(t.Context(), s.sinks[0].urls()[0], "alertname="+name)
			return err == nil && len(list) == 1
		})
	}
	o := Options{Rules: []string{write(t, "r.yml", rulesText)}, Alertmanagers: []string{p.url()}, Resend: 3 * time.Second}
	b.set(1)
	s, stop := b.start(o)
	h.wait(t, "firing Broken")
	mark(s)

	p.kill()
	id := s.SendTest(time.Now(), "root")
	if list, _ := s.TestDeliveries(t.Context(), id); len(list) != 1 || list[0].Error == "" {
		t.Errorf("an Alertmanager that is gone answers %+v", list)
	}
	p.start()
	again(s, "Broken")
	mark(s)

	stop()
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	b.open()
	b.set(1)
	restart := time.Now()
	s, stop = b.start(o)
	until(t, func() bool { return evaluated(t, b, "ALERTS", restart) })
	mark(s)

	p.kill() // the end is reported to nobody at first
	b.set(0)
	ended := time.Now()
	until(t, func() bool { return evaluated(t, b, "test:broken:sum", ended) })
	p.start()
	h.wait(t, "resolved Broken")
	mark(s)
	p.kill()
	p.start()
	mark(s)
	stop()
	if f, r := h.count("firing Broken"), h.count("resolved Broken"); f != 1 || r != 1 {
		t.Errorf("the begin came %d times and the end %d times:\n%s", f, r, h.text())
	}
}
