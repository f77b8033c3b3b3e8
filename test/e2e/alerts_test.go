//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"reckon/store/storetest"
)

// told is a receiver of webhooks: what came, one line for each alert.
type told struct {
	*httptest.Server
	mu    sync.Mutex
	lines []string
}

func newTold(t *testing.T) *told {
	h := &told{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
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
		defer h.mu.Unlock()
		for _, a := range m.Alerts {
			h.lines = append(h.lines, a.Status+" "+a.Labels["alertname"])
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *told) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}

func (h *told) wait(t *testing.T, line string) {
	t.Helper()
	for end := time.Now().Add(6 * time.Minute); time.Now().Before(end); pause(100 * time.Millisecond) {
		if strings.Contains(h.text(), line) {
			return
		}
	}
	t.Fatalf("%s did not come; until now:\n%s", line, h.text())
}

func (h *told) config(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "am.yml")
	text := fmt.Sprintf(`
route: {receiver: hook, group_by: [alertname, reckon_test], group_wait: 1s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: hook, webhook_configs: [{url: %q, send_resolved: true}]}]
`, h.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// ending is a file with a rule that fires until a time.
func ending(t *testing.T, end time.Time) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yml")
	text := fmt.Sprintf(`
groups:
  - name: e2e
    interval: 1s
    rules:
      - {alert: Ending, expr: 'vector(1) unless (vector(time()) > %d)', labels: {severity: warning}, annotations: {summary: x}}
`, end.Unix())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// tested runs `reckon alerts test` and returns what it printed.
func (u *up) tested() string {
	u.t.Helper()
	out, err := exec.Command(program(u.t, "reckon"), "--server", u.url(""), "alerts", "test").CombinedOutput()
	if err != nil {
		u.t.Fatalf("reckon alerts test: %v\n%s\n%s", err, out, u.out)
	}
	return string(out)
}

// The program is killed while an alert fires: begin and end come once, from the
// Alertmanager inside.
func TestAlertsOverKill(t *testing.T) {
	t.Parallel()
	program(t, "reckon") // is built before the clock runs
	h, data := newTold(t), t.TempDir()
	args := []string{"--set", "alertmanager-config=" + h.config(t), "--set", "rules=" + ending(t, time.Now().Add(time.Minute))}
	u := startServe(t, data, args...)
	h.wait(t, "firing Ending")
	if said := u.tested(); !strings.Contains(said, "webhook[0]") || !strings.Contains(said, "yes") {
		t.Errorf("alerts test said\n%s", said)
	}
	u.stop(syscall.SIGKILL)
	u = startServe(t, data, args...)
	u.tested()
	h.wait(t, "resolved Ending")
	u.stop(syscall.SIGKILL)
	startServe(t, data, args...).tested()
	if got := h.text(); strings.Count(got, "firing Ending") != 1 || strings.Count(got, "resolved Ending") != 1 {
		t.Errorf("told:\n%s", got)
	}
}

// The same with a real Alertmanager, which is killed too.
func TestAlertsOverKillOfEither(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		t.Skip("no Alertmanager here; apt-get install prometheus-alertmanager")
	}
	h, kept, addr := newTold(t), t.TempDir(), storetest.FreeAddress(t)
	config := h.config(t)
	peer := func() (kill func()) {
		cmd := exec.Command(tool, "--config.file", config, "--storage.path", kept, "--data.maintenance-interval=100ms", "--web.listen-address", addr, "--cluster.listen-address=")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p := &up{t: t, addr: addr, cmd: cmd, out: new(lockedBuffer)}
		t.Cleanup(func() { p.stop(syscall.SIGKILL) })
		p.wait("/-/ready", 2*time.Minute)
		return func() { p.stop(syscall.SIGKILL) }
	}
	program(t, "reckon")
	kill := peer()
	data := t.TempDir()
	args := []string{"--set", "alertmanager=http://" + addr, "--set", "rules=" + ending(t, time.Now().Add(2*time.Minute))}
	u := startServe(t, data, args...)
	h.wait(t, "firing Ending")
	if said := u.tested(); !strings.Contains(said, "hook") || !strings.Contains(said, "yes") {
		t.Errorf("alerts test said\n%s", said)
	}
	h.wait(t, "firing ReckonTest")
	pause(time.Second) // it writes ten times a second what it reported
	kill()
	kill = peer()
	u.tested()
	u.stop(syscall.SIGKILL)
	u = startServe(t, data, args...)
	u.tested()
	h.wait(t, "resolved Ending")
	pause(time.Second)
	kill()
	peer()
	u.stop(syscall.SIGKILL)
	u = startServe(t, data, args...)
	u.tested()
	if got := h.text(); strings.Count(got, "firing Ending") != 1 || strings.Count(got, "resolved Ending") != 1 {
		t.Errorf("told:\n%s", got)
	}
}
