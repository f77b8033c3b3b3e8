//go:build e2e

// Package e2e runs the real programs against the real machine and, where one is
// installed, real peers. `make e2e` runs it; each test reports what it needs and skips
// with the reason when that is not there.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"reckon/store/storetest"
	"reckon/web/client"
)

// build compiles the programs once for all tests.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "reckon-e2e-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir, "reckon/cmd/reckon", "reckon/cmd/reckon-agent", "reckon/test/e2e/load")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return dir, nil
})

func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

func TestMain(m *testing.M) {
	if text := os.Getenv(bookWork); text != "" {
		if err := bookMain(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if dir, err := build(); err == nil {
		_ = os.RemoveAll(dir)
	}
	removeBase()
	os.Exit(code)
}

// up is a running `reckon up`.
type up struct {
	t    *testing.T
	addr string
	data string
	cmd  *exec.Cmd
	out  *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
func (l *lockedBuffer) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// startUp starts `reckon up` on a free port and waits until it is ready.
func startUp(t *testing.T, data string, args ...string) *up {
	t.Helper()
	return start(t, "up", data, args)
}

// startServe starts `reckon serve` in the same way.
func startServe(t *testing.T, data string, args ...string) *up {
	t.Helper()
	return start(t, "serve", data, args)
}

func start(t *testing.T, command, data string, args []string, change ...func(*exec.Cmd)) *up {
	t.Helper()
	addr := storetest.FreeAddress(t)
	u := &up{t: t, addr: addr, data: data, out: new(lockedBuffer)}
	args = slices.Clone(args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "HERE", addr)
	}
	u.cmd = exec.Command(program(t, "reckon"), append([]string{command, "--listen", addr, "--data", data}, args...)...)
	u.cmd.Stdout, u.cmd.Stderr = u.out, u.out
	for _, f := range change {
		f(u.cmd)
	}
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.stop(syscall.SIGTERM) })
	u.wait("/readyz", 30*time.Second)
	return u
}

func (u *up) url(path string) string { return "http://" + u.addr + path }

func (u *up) wait(path string, limit time.Duration) {
	u.t.Helper()
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		if resp, err := http.Get(u.url(path)); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		pause(100 * time.Millisecond)
	}
	u.t.Fatalf("%s was not ready within %v; it said:\n%s", path, limit, u.out)
}

// stop ends the program by its pid and returns when it is gone.
func (u *up) stop(sig syscall.Signal) {
	if u.cmd.ProcessState != nil {
		return
	}
	_ = u.cmd.Process.Signal(sig)
	done := make(chan struct{})
	go func() { _ = u.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		_ = u.cmd.Process.Kill()
		<-done
	}
}

// pause waits: these tests watch real time pass.
func pause(d time.Duration) { <-time.After(d) }

func (u *up) workloads(query string) []client.Workload {
	u.t.Helper()
	var list client.WorkloadList
	u.get("/api/reckon/v1/workloads?"+query, &list)
	return list.Workloads
}

func (u *up) get(path string, v any) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, u.url(path), nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		u.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		u.t.Fatalf("GET %s: %s: %s", path, resp.Status, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		u.t.Fatalf("GET %s: %v in %.300s", path, err, body)
	}
}

// prom evaluates an instant query to one number per series.
func (u *up) prom(expr string) map[string]float64 { return u.promAt(expr, 0) }

// promAt evaluates it at a time, seconds since the Unix epoch; 0 is now.
func (u *up) promAt(expr string, at float64) map[string]float64 {
	return u.promOf(expr, at, "workload")
}

// promBy evaluates an instant query to one number for each value of a label.
func (u *up) promBy(expr, label string) map[string]float64 { return u.promOf(expr, 0, label) }

func (u *up) promOf(expr string, at float64, label string) map[string]float64 {
	u.t.Helper()
	params := url.Values{"query": {expr}}
	if at != 0 {
		params.Set("time", strconv.FormatFloat(at, 'f', 3, 64))
	}
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
				Value  [2]any            `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	u.get("/api/v1/query?"+params.Encode(), &answer)
	out := map[string]float64{}
	for _, r := range answer.Data.Result {
		var v float64
		fmt.Sscan(r.Value[1].(string), &v)
		out[r.Metric[label]] += v
	}
	return out
}
