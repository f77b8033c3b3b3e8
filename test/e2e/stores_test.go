//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver of the suite's PostgreSQL

	"reckon/store/storetest"
	"reckon/web/client"
)

// cli runs reckon against a server and returns what it printed.
func (u *up) cli(args ...string) (stdout, stderr string, err error) {
	u.t.Helper()
	cmd := exec.Command(program(u.t, "reckon"), append([]string{"--server", "http://" + u.addr}, args...)...)
	var out, bad bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &bad
	err = cmd.Run()
	return out.String(), bad.String(), err
}

// TestStores runs the same program, with one line of configuration changed, over each kind of
// store: it gives the same kinds of answers. Then the store is killed and its disk wiped: the
// answers report what they lack, and go on when it is there again.
func TestStores(t *testing.T) {
	for _, kind := range []struct {
		name, program, ready string
		args                 func(testing.TB) func(addr, dir string) []string
		address              string
		database             bool
		postgres             bool
	}{
		{name: "prometheus and postgres", program: "prometheus", ready: "/-/ready", address: "http://ADDR", postgres: true,
			args: func(tb testing.TB) func(string, string) []string { return storetest.PrometheusArgs(tb) }},
		{name: "victoriametrics", program: "victoria-metrics", ready: "/health", address: "victoriametrics+http://ADDR",
			args: func(testing.TB) func(string, string) []string { return storetest.VictoriaArgs }},
		{name: "mimir", program: "mimir", ready: "/ready", args: storetest.MimirArgs, address: "mimir+http://ADDR?tenant=physics&histograms=native"},
		{name: "influxdb 1", program: "influxd", ready: "/ping", address: "influxdb+http://ADDR/reckon", database: true, args: storetest.InfluxArgs},
		{name: "address of influxdb 2", program: "influxd18", ready: "/ping", database: true, args: storetest.InfluxArgs, address: "influxdb2+http://ADDR/org/reckon"},
		{name: "line protocol of influxdb 2", program: "influxd", ready: "/ping", database: true, args: storetest.InfluxArgs,
			address: "influxdb2+http://ADDR/org/reckon?write=" + url.QueryEscape("/write?precision=ms&db=reckon")},
	} {
		t.Run(kind.name, func(t *testing.T) {
			addr, dir := storetest.FreeAddress(t), filepath.Join(t.TempDir(), "peer")
			begin := func() func() {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				stop := storetest.PeerAt(t, addr, dir, kind.program, kind.ready, kind.args(t))
				if kind.database {
					storetest.InfluxDatabase(t, addr, "reckon")
				}
				return stop
			}
			stop := begin()
			config := filepath.Join(t.TempDir(), "reckon.yaml")
			text := "export: 1s\nretention: 24h\nstore: " + strings.Replace(kind.address, "ADDR", addr, 1) + "\n"
			if kind.postgres {
				fresh, run := storetest.Postgres(t, "pgx")
				run()
				text += "catalogue: " + fresh(t) + "\n"
			}
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			u := startUp(t, t.TempDir(), "--config", config)
			answersWhole(t, u)

			stop()
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			until(t, "it is said that the store is away", func() error {
				out, bad, err := u.cli("jobs")
				if err != nil || !strings.Contains(bad, "incomplete: ") || !strings.Contains(out, "WORKLOAD") {
					return fmt.Errorf("%v %s", err, bad)
				}
				return nil
			})
			begin()
			answersWhole(t, u)
		})
	}
}

// TestStoreHangs stops a store in the middle of what it does, as a machine without memory
// or a lost disk do: nobody who asks waits for its timeout, everybody is notified, and when it
// goes on what agents measured meanwhile is there.
func TestStoreHangs(t *testing.T) {
	addr := storetest.FreeAddress(t)
	p, _ := storetest.PeerProcess(t, addr, t.TempDir(), "prometheus", "/-/ready", storetest.PrometheusArgs(t))
	u := startUp(t, t.TempDir(), "--store", "http://"+addr+"?timeout=1h", "--export", "1s", "--retention", "24h")
	answersWhole(t, u)
	var list client.WorkloadList
	if err := get(u.url("/api/reckon/v1/workloads?limit=1&sort=-cpu_seconds&running=true"), &list); err != nil || len(list.Workloads) == 0 {
		t.Fatalf("%v %v", list, err)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Signal(syscall.SIGCONT) }()
	for _, args := range [][]string{{"job", list.Workloads[0].ID}, {"nodes"}, {"query", "up"}, {"findings"}, {"fit", "--cores", "1"}} {
		_, bad, _ := u.cli(args...) // within an hour: with the timeout the test would be ended
		if args[0] != "findings" && !strings.Contains(bad, "not available") {
			t.Errorf("reckon %v does not say that the store hangs: %s", args, bad)
		}
		if strings.Contains(bad, "no node has reported") {
			t.Errorf("reckon %v says what is not so: %s", args, bad)
		}
	}
	until(t, "it is said that the store hangs", func() error {
		if _, bad, err := u.cli("jobs"); err != nil || !strings.Contains(bad, "incomplete: ") {
			return fmt.Errorf("%v %s", err, bad)
		}
		return nil
	})
	hung := time.Now()
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	answersWhole(t, u)
	until(t, "what was measured while it hung is there", func() error {
		q := url.Values{"query": {"count_over_time(reckon_agent_ticks_total[10s])"}, "time": {fmt.Sprint(hung.Unix())}}
		var res struct{ Data struct{ Result []any } }
		if err := get(u.url("/api/v1/query?"+q.Encode()), &res); err != nil || len(res.Data.Result) == 0 {
			return fmt.Errorf("%v %v", res, err)
		}
		return nil
	})
}

// TestStoreFull fills the disk of the store, whatever it does then: everybody is notified, and
// when there is room again and it runs, everything goes on.
func TestStoreFull(t *testing.T) {
	for name, c := range map[string]struct {
		program, ready, address string
		database                bool
		args                    func(string, string) []string
	}{
		"prometheus":      {"prometheus", "/-/ready", "http://ADDR", false, storetest.PrometheusArgs(t)},
		"victoriametrics": {"victoria-metrics", "/health", "victoriametrics+http://ADDR", false, storetest.VictoriaArgs},
		"influxdb":        {"influxd", "/ping", "influxdb+http://ADDR/reckon", true, storetest.InfluxArgs(t)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "peer")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
				t.Skipf("a disk of its own cannot be had: %v", err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
			addr := storetest.FreeAddress(t)
			_, stop := storetest.PeerProcess(t, addr, dir, c.program, c.ready, c.args)
			if c.database {
				storetest.InfluxDatabase(t, addr, "reckon")
			}
			u := startUp(t, t.TempDir(), "--store", strings.Replace(c.address, "ADDR", addr, 1), "--export", "1s", "--retention", "24h")
			answersWhole(t, u)
			fill := filepath.Join(dir, "fill")
			f, err := os.Create(fill)
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
			_ = f.Close()
			until(t, "it is said that the store takes nothing", func() error {
				if _, bad, err := u.cli("jobs"); err != nil || !strings.Contains(bad, "incomplete: ") {
					return fmt.Errorf("%v %s", err, bad)
				} else if !strings.Contains(bad, "no space left") && !strings.Contains(bad, "nothing listens") {
					t.Logf("it says %s", bad)
				}
				return nil
			})
			if err := os.Remove(fill); err != nil {
				t.Fatal(err)
			}
			resp, err := http.Get("http://" + addr + c.ready)
			if err == nil {
				_ = resp.Body.Close()
			}
			// Where it gave up somebody starts it again. InfluxDB 1.6 runs and goes on refusing.
			if err != nil || c.program == "influxd" {
				stop()
				storetest.PeerProcess(t, addr, dir, c.program, c.ready, c.args)
			}
			answersWhole(t, u)
		})
	}
}

// answersWhole waits until every question is answered whole.
func answersWhole(t *testing.T, u *up) {
	t.Helper()
	until(t, "questions are answered", func() error {
		var list client.WorkloadList
		if err := get(u.url("/api/reckon/v1/workloads?limit=1&sort=-cpu_seconds&running=true"), &list); err != nil {
			return err
		}
		if len(list.Workloads) == 0 || len(list.Missing) > 0 {
			return fmt.Errorf("%d workloads, missing %v", list.Total, list.Missing)
		}
		var d client.WorkloadDetail
		if err := get(u.url("/api/reckon/v1/workloads/"+list.Workloads[0].ID), &d); err != nil {
			return err
		}
		if len(d.Missing) > 0 || len(d.Profile) == 0 || d.CPUSeconds == nil || d.CoresP95 == nil {
			return fmt.Errorf("%s: missing %v, %d lines in its profile, CPU %v, p95 %v", d.ID, d.Missing, len(d.Profile), d.CPUSeconds, d.CoresP95)
		}
		for _, args := range [][]string{
			{"jobs"}, {"job", d.ID}, {"nodes"}, {"usage"}, {"fit", "--cores", "1"},
			{"query", "sum by (mode) (rate(reckon_workload_cpu_seconds_total[1m]))"},
			{"query", "histogram_quantile(0.9, sum(reckon_workload_cores))"},
		} {
			out, bad, err := u.cli(args...)
			if err != nil || strings.Contains(bad, "incomplete") || strings.TrimSpace(out) == "" {
				return fmt.Errorf("reckon %v: %v: %s%s", args, err, bad, out)
			}
			if args[0] == "nodes" && !strings.Contains(out, " up ") {
				return errors.New("no node is up: " + out)
			}
		}
		return nil
	})
}

// TestMoveHouse measures into the embedded store, backs it up, restores it elsewhere, and
// migrates that to VictoriaMetrics: each time the same workloads are there.
func TestMoveHouse(t *testing.T) {
	vm := storetest.Victoria(t)
	data := t.TempDir()
	u := startUp(t, data, "--export", "1s")
	answersWhole(t, u)
	file := filepath.Join(t.TempDir(), "b.tar.zst")
	if out, bad, err := u.cli("backup", file); err != nil || !strings.Contains(out, "checked") {
		t.Fatalf("backup: %v: %s%s", err, out, bad)
	}
	u.stop(syscall.SIGTERM)
	reckon := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(program(t, "reckon"), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("reckon %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	reckon("restore", file, "--data", restored)
	s := startServe(t, restored)
	until(t, "the restored catalogue is read", func() error {
		if s.total() == 0 {
			return errors.New("no workloads")
		}
		return nil
	})
	want := s.total()
	s.stop(syscall.SIGTERM)
	for range 2 { // the second finds everything there
		if out := reckon("migrate", "--data", restored, "--store", "victoriametrics+http://"+vm); !strings.Contains(out, "each looked up there") {
			t.Errorf("migrate: %s", out)
		}
	}
	moved := startServe(t, t.TempDir(), "--store", "victoriametrics+http://"+vm, "--retention", "48h")
	until(t, fmt.Sprintf("all %d workloads are built from the other store", want), func() error {
		if n := moved.total(); n < want {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
}

// total is the number of workloads.
func (u *up) total() int {
	var list client.WorkloadList
	if err := get(u.url("/api/reckon/v1/workloads?limit=1"), &list); err != nil {
		return 0
	}
	return list.Total
}
