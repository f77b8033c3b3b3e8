package alerting

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A real Alertmanager takes alerts, and is killed and started in between: nothing that
// fires is lost, and the receiver is told of each end.
func TestRealAlertmanager(t *testing.T) {
	tool, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		t.Skip("no Alertmanager here; apt-get install prometheus-alertmanager")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	h, b := newHook(t), newBench(t)
	config, data := h.config(t), t.TempDir()
	start := func() (kill func()) {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, tool, "--config.file", config, "--storage.path", data, "--web.listen-address", addr, "--cluster.listen-address=")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool {
			resp, err := http.Get(fmt.Sprintf("http://%s/-/ready", addr))
			if err != nil {
				return false
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
		return func() {
			cancel() // kills it
			_ = cmd.Wait()
		}
	}
	kill := start()
	b.set(1)
	s, _ := b.start(Options{Rules: []string{write(t, "r.yml", rulesText)}, Alertmanagers: []string{"http://" + addr}})
	h.wait(t)
	id := s.Test(time.Now(), "root")
	until(t, func() bool {
		list, _ := s.Arrived(t.Context(), id)
		return len(list) == 1 && list[0].Arrived && list[0].Receiver == "hook"
	})
	h.wait(t)
	kill()
	if list, _ := s.Arrived(t.Context(), id); len(list) != 1 || list[0].Error == "" {
		t.Errorf("an Alertmanager that is gone answers %+v", list)
	}
	defer start()()
	b.set(1)
	// It hears again within a minute that the alert lasts; a second test shows the way is open.
	id = s.Test(time.Now(), "root")
	until(t, func() bool {
		list, _ := s.Arrived(t.Context(), id)
		return len(list) == 1 && list[0].Arrived
	})
	b.set(0)
	until(t, func() bool { return strings.Contains(h.text(), "resolved Broken") || value(t, b, "ALERTS") == 0 })
}
