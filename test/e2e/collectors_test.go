//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"reckon/store/storetest"
)

// TestPrometheusAgent runs the configuration of deploy/collectors in a real Prometheus in agent mode between an agent and
// a server, and asks the server for what it brought.
func TestPrometheusAgent(t *testing.T) {
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not here; apt-get install prometheus")
	}
	u := startServe(t, t.TempDir())
	listen := storetest.FreeAddress(t)
	spawn(t, program(t, "reckon-agent"), "--listen", listen, "--node", "collected")
	text, err := os.ReadFile("../../deploy/collectors/prometheus-agent.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text = []byte(strings.NewReplacer("127.0.0.1:9871", listen, "RECKON:9870", u.addr, "15s", "1s").Replace(string(text)))
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	spawn(t, prometheus, "--enable-feature=agent", "--config.file="+config, "--storage.agent.path="+filepath.Join(dir, "wal"), "--web.listen-address="+storetest.FreeAddress(t))
	deadline := time.Now().Add(90 * time.Second)
	for time.Now().Before(deadline) {
		for _, v := range u.prom(`sum(rate(reckon_workload_cpu_seconds_total{node="collected"}[10s]))`) {
			if v > 0 {
				return
			}
		}
		pause(time.Second)
	}
	t.Errorf("the server has nothing of the agent; it has %v", u.prom(`count by (__name__, node) ({__name__=~"reckon_agent.*"})`))
}

// spawn runs a program until the test ends.
func spawn(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	out := new(lockedBuffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, out)
		}
	})
}
