//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"reckon/store/storetest"
	"reckon/web/client"
)

// background starts a program in a process group of its own, and ends it with the test.
func background(t *testing.T, user bool, path string, args ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(path, args...)
	out := new(lockedBuffer)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if user && os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(path), out)
		}
	})
	return cmd.Process.Pid
}

// database is a store of others that the agent pushes to.
func database(t *testing.T, name string) (addr string, pid int) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Logf("without %s, which is not installed", name)
		return "", 0
	}
	addr = storetest.FreeAddress(t)
	dir := t.TempDir()
	if name == "prometheus" {
		config := filepath.Join(dir, "prometheus.yml")
		if err := os.WriteFile(config, []byte("global: {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return addr, background(t, false, path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
			"--web.listen-address="+addr, "--web.enable-remote-write-receiver", "--log.level=warn")
	}
	return addr, background(t, false, path, "-storageDataPath="+dir, "-httpListenAddr="+addr, "-loggerLevel=WARN", "-memory.allowedPercent=5", "-search.latencyOffset=0s")
}

type answers struct {
	Data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
}

// ask returns the one series of a query.
func ask(addr, query string) (labels map[string]string, value string, err error) {
	var a answers
	if err := get("http://"+addr+"/api/v1/query?nocache=1&query="+url.QueryEscape(query), &a); err != nil {
		return nil, "", err
	}
	if len(a.Data.Result) != 1 {
		return nil, "", fmt.Errorf("%s: %d series", query, len(a.Data.Result))
	}
	return a.Data.Result[0].Metric, fmt.Sprint(a.Data.Result[0].Value[1]), nil
}

// One agent takes figures in all four ways and pushes them to three stores; the server
// scrapes besides. Everywhere they stand under the workload that they came from.
func TestOwnMetrics(t *testing.T) {
	dir := t.TempDir()
	prom, promPID := database(t, "prometheus")
	victoria, _ := database(t, "victoria-metrics")
	scrape := filepath.Join(dir, "scrape.yaml")
	agentAddr := storetest.FreeAddress(t)
	jobs := "global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: agent\n    static_configs: [{targets: ['" + agentAddr + "']}]\n"
	own := "textfile:\n  - dir: " + dir + "\ncustom:\n  - name: own_volts\n    unit: volts\n    file: " + dir + "/rig.json\n    json: supply.volts\n"
	if prom != "" {
		jobs += "  - job_name: prometheus\n    static_configs: [{targets: ['" + prom + "']}]\n"
		own += "scrape:\n  - url: http://" + prom + "\n    interval: 1s\n    keep: [prometheus_build_info, prometheus_tsdb_head_*]\n"
	}
	for name, text := range map[string]string{
		"scrape.yaml": jobs, "own.yaml": own, "rig.json": `{"supply": {"volts": 11.5}}`,
		"backup.prom": "# HELP own_backup_seconds How long the backup took.\n# TYPE own_backup_seconds gauge\nown_backup_seconds 812\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	serve := startServe(t, filepath.Join(dir, "data"), "--set", "scrape-config="+scrape)
	stores := map[string]string{"reckon": serve.addr}
	args := []string{"--listen", agentAddr, "--export", "1s", "--node", "n1", "--set", "own-metrics=" + filepath.Join(dir, "own.yaml"),
		"--set", "push-socket=" + filepath.Join(dir, "s", "push.sock"), "--set", "push-queue=" + filepath.Join(dir, "queue"), "--push", "http://" + serve.addr}
	for name, addr := range map[string]string{"prometheus": prom, "victoria-metrics": victoria} {
		if addr != "" {
			args = append(args, "--push", "http://"+addr)
			stores[name] = addr
		}
	}
	background(t, false, program(t, "reckon-agent"), args...)
	until(t, "the agent", func() error { return getOK("http://" + agentAddr + "/healthz") })

	// What nobody runs has to be where nobody can reach it.
	shared, err := os.MkdirTemp("", "reckon-own-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(shared)
	_ = os.Chmod(shared, 0o755)
	binary, err := os.ReadFile(program(t, "reckon"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shared, "reckon"), binary, 0o755); err != nil {
		t.Fatal(err)
	}
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755)
	}
	script := fmt.Sprintf(`cd /
export RECKON_SOCKET=%s/s/push.sock
%s/reckon push own_loss{phase="train"} 0.25 own_epoch 4
for i in 1 2 3; do %s/reckon push --add own_files_total 2; done
exec sleep 300`, dir, shared, shared)
	group := background(t, true, "/bin/sh", "-c", script)
	owner := "nobody"
	if os.Geteuid() != 0 {
		owner = ""
	}

	for name, addr := range stores {
		t.Run(name, func(t *testing.T) {
			for query, want := range map[string]string{
				`own_loss{phase="train",job!="agent"}`: "0.25", `own_epoch{job!="agent"}`: "4", `own_files_total{job!="agent"}`: "6",
			} {
				until(t, query, func() error {
					labels, v, err := ask(addr, query)
					if err != nil {
						return err
					}
					if v != want || labels["kind"] == "" || labels["node"] != "n1" ||
						!ofGroup(labels, group) || owner != "" && labels["owner"] != owner {
						return fmt.Errorf("%s %v, want %s of group %d", v, labels, want, group)
					}
					return nil
				})
			}
			for query, want := range map[string]string{"own_backup_seconds": "812", "own_volts": "11.5"} {
				until(t, query, func() error {
					labels, v, err := ask(addr, query+`{job!="agent"}`)
					if err == nil && (v != want || labels["workload"] != "" || labels["node"] != "n1") {
						err = fmt.Errorf("%s %v", v, labels)
					}
					return err
				})
			}
			if prom == "" {
				return
			}
			until(t, "the scrape of Prometheus by the agent", func() error {
				labels, v, err := ask(addr, `prometheus_build_info{node="n1",job!="agent"}`)
				if err == nil && (v != "1" || !ofGroup(labels, promPID) || labels["version"] == "") {
					err = fmt.Errorf("%s %v, want group %d", v, labels, promPID)
				}
				return err
			})
		})
	}
	t.Run("scraped by the server", func(t *testing.T) {
		until(t, "up of the agent", func() error {
			_, v, err := ask(serve.addr, `up{job="agent"}`)
			if err == nil && v != "1" {
				err = fmt.Errorf("up is %s", v)
			}
			return err
		})
		if prom != "" {
			until(t, "Prometheus", func() error { _, _, err := ask(serve.addr, `prometheus_build_info{job="prometheus"}`); return err })
		}
	})
}

// A socket that systemd opened is taken over, and left where it is.
func TestOwnMetricsSocketOfSystemd(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "push.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	addr := storetest.FreeAddress(t)
	cmd := exec.Command("/bin/sh", "-c", `export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"`, "sh", program(t, "reckon-agent"), "--listen", addr, "--node", "n1", "--export", "1s")
	cmd.ExtraFiles = []*os.File{file}
	out := new(lockedBuffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	_ = file.Close()
	if answer, err := client.PushOwn(t.Context(), client.Pushing{Socket: path}, []byte("own_handed 1\n")); err != nil || !strings.HasPrefix(answer, "1 for ") {
		t.Fatalf("%q %v; the agent said:\n%s", answer, err, out)
	}
	until(t, "the figure", func() error {
		if !strings.Contains(page(t, "http://"+addr+"/metrics"), "own_handed{") {
			return fmt.Errorf("it is not at /metrics")
		}
		return nil
	})
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v; the agent said:\n%s", err, out)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the socket of systemd is gone: %v", err)
	}
}

// ofGroup reports whether a series is of a process group, or of what holds it where a
// batch system or systemd is at work.
func ofGroup(labels map[string]string, group int) bool {
	return labels["kind"] != "group" && labels["workload"] != "" || strings.HasPrefix(labels["workload"], fmt.Sprintf("group/n1/%d-", group))
}

func getOK(target string) error {
	var ignored any
	if err := get(target, &ignored); err != nil && strings.Contains(err.Error(), target) || err != nil && strings.Contains(err.Error(), "connect") {
		return err
	}
	return nil
}
