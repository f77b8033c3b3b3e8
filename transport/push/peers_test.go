package push

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/metric"
)

// peer starts a third-party server and returns its address. It skips the test if the
// Debian package is not installed.
func peer(t *testing.T, program, ready string, args func(addr, dir string) []string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed (Debian package %s)", program, program)
	}
	if testing.Short() {
		t.Skip("starts " + program)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	cmd := exec.Command(path, args(addr, t.TempDir())...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", program, log.String())
		}
	})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 600 {
		if resp, err := http.Get("http://" + addr + ready); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return addr
			}
		}
		<-tick.C
	}
	t.Fatalf("%s did not become ready", program)
	return ""
}

func prometheus(t *testing.T, more ...string) string {
	return peer(t, "prometheus", "/-/ready", func(addr, dir string) []string {
		config := filepath.Join(dir, "prometheus.yml")
		if err := os.WriteFile(config, []byte("global: {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return append([]string{"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + addr, "--log.level=warn"}, more...)
	})
}

// ask returns the value of an instant query, and false when it has none.
func ask(t *testing.T, addr, query string, at time.Time) (string, bool) {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/api/v1/query?" + url.Values{"query": {query}, "time": {fmt.Sprint(at.Unix())}, "nocache": {"1"}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	var a struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatalf("%s: %v: %s", query, err, raw)
	}
	if len(a.Data.Result) == 0 {
		return "", false
	}
	return a.Data.Result[0].Value[1].(string), true
}

func awaitValue(t *testing.T, addr, query, want string, at time.Time) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	got := ""
	for range 300 {
		if got, _ = ask(t, addr, query, at); got == want {
			return
		}
		<-tick.C
	}
	t.Fatalf("%s is %q, want %q", query, got, want)
}

// fourBatches queues a minute of one workload that ends.
func fourBatches(t *testing.T, p *Pusher, end time.Time) {
	t.Helper()
	cpu := metric.NewSeries(cpuDesc, "slurm/1", "alice", "user")
	mem := metric.NewSeries(memDesc, "slurm/1")
	cores := metric.NewSeries(coresDesc, "slurm/1", "")
	h := &metric.Histogram{}
	for i := range 4 {
		b := &metric.Batch{Time: end.Add(time.Duration(i-3) * 15 * time.Second)}
		h.Observe(1.5)
		b.Add(cpu, float64(10*i))
		b.Add(mem, 1e6)
		b.AddHistogram(cores, h)
		for k := range b.Samples {
			b.Samples[k].Last = i == 3 && k == 1
		}
		if err := p.Put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRealPrometheus(t *testing.T) {
	for _, native := range []bool{false, true} {
		t.Run(fmt.Sprintf("native histograms %v", native), func(t *testing.T) {
			args := []string{"--web.enable-remote-write-receiver"}
			if native {
				args = append(args, "--enable-feature=native-histograms")
			}
			addr := prometheus(t, args...)
			// In both cases native histograms are configured: a server that does not
			// accept them gets classic ones instead.
			p := pusher(t, t.TempDir(), Endpoint{URL: "http://" + addr, Histograms: "native"})
			if f := p.Check(t.Context())[0]; f.Problem != "" || f.Protocol == "" {
				t.Fatalf("%+v", f)
			}
			end := time.Now().Truncate(time.Second)
			fourBatches(t, p, end)
			start(t, p)
			settled(t, p)
			awaitValue(t, addr, `increase(reckon_workload_cpu_seconds_total{node="n1",site="lab",owner="alice"}[45s] @ `+fmt.Sprint(end.Unix())+`) > bool 19`, "1", end)
			cores := `reckon_workload_cores_count`
			if native {
				cores = `histogram_count(reckon_workload_cores)`
			}
			awaitValue(t, addr, cores, "4", end)
			awaitValue(t, addr, `count_over_time(reckon_workload_memory_bytes[5m])`, "4", end.Add(2*time.Second))
			if v, ok := ask(t, addr, `reckon_workload_memory_bytes`, end.Add(2*time.Second)); ok {
				t.Errorf("the series that ended still has the value %s", v)
			}
			if s := p.Status()[0]; s.Refused != 0 || s.Lost != 0 || s.Sent != 13 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestRealPrometheusWithoutReceiver(t *testing.T) {
	addr := prometheus(t)
	p := pusher(t, t.TempDir(), Endpoint{URL: "http://" + addr})
	if f := p.Check(t.Context())[0]; !strings.Contains(f.Problem, "start it with --web.enable-remote-write-receiver") {
		t.Errorf("%+v", f)
	}
}

func TestRealVictoriaMetrics(t *testing.T) {
	addr := peer(t, "victoria-metrics", "/health", func(addr, dir string) []string {
		return []string{"-storageDataPath=" + dir, "-httpListenAddr=" + addr, "-loggerLevel=WARN", "-memory.allowedPercent=5", "-search.latencyOffset=0s"}
	})
	p := pusher(t, t.TempDir(), Endpoint{URL: "http://" + addr})
	if f := p.Check(t.Context())[0]; f.Problem != "" || f.Protocol != "1.0" {
		t.Fatalf("%+v", f)
	}
	end := time.Now().Add(-5 * time.Second).Truncate(time.Second)
	fourBatches(t, p, end)
	start(t, p)
	settled(t, p)
	awaitValue(t, addr, `last_over_time(reckon_workload_cpu_seconds_total{node="n1",site="lab",owner="alice"}[5m])`, "30", end)
	awaitValue(t, addr, `reckon_workload_cores_count`, "4", end)
	awaitValue(t, addr, `reckon_workload_cores_bucket{le="2"}`, "4", end)
	if v, ok := ask(t, addr, `reckon_workload_memory_bytes`, end.Add(2*time.Second)); ok {
		t.Errorf("the series that ended still has the value %s", v)
	}
	if s := p.Status()[0]; s.Refused != 0 || s.Lost != 0 || s.Protocol != "1.0" {
		t.Errorf("%+v", s)
	}
	wrong := pusher(t, t.TempDir(), Endpoint{URL: "http://" + addr + "/write/here"})
	if f := wrong.Check(t.Context())[0]; !strings.Contains(f.Problem, "write --push http://"+addr+"/api/v1/write") {
		t.Errorf("%+v", f)
	}
}
