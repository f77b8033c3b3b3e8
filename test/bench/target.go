package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// target is a program to measure.
type target struct {
	name string
	path string
	args func(listen string) []string
	dir  string // emptied before each run, for a data directory
}

// targets returns the programs that are here, and why others are not.
func targets(o options, dir string) (out []target, missing []string, err error) {
	// The exporter follows the processes it is told to: all of them, by name.
	config := filepath.Join(dir, "process-exporter.yml")
	if err := os.WriteFile(config, []byte("process_names:\n  - name: \"{{.Comm}}\"\n    cmdline: ['.+']\n"), 0o600); err != nil {
		return nil, nil, err
	}
	data := filepath.Join(dir, "data")
	agent, all := filepath.Join(o.bin, "reckon-agent"), filepath.Join(o.bin, "reckon")
	for _, t := range []target{
		{"reckon-agent, eBPF", agent, func(l string) []string { return []string{"--listen", l, "--source", "ebpf"} }, ""},
		{"reckon-agent, procfs", agent, func(l string) []string { return []string{"--listen", l, "--source", "procfs"} }, ""},
		{"reckon up", all, func(l string) []string { return []string{"up", "--listen", l, "--data", data} }, data},
		{"node_exporter", "prometheus-node-exporter", func(l string) []string { return []string{"--web.listen-address=" + l} }, ""},
		{"process_exporter", "prometheus-process-exporter", func(l string) []string {
			return []string{"-web.listen-address=" + l, "-config.path=" + config}
		}, ""},
	} {
		if !strings.Contains(t.name, o.only) {
			continue
		}
		if t.path, err = exec.LookPath(t.path); err != nil {
			missing = append(missing, fmt.Sprintf("%s (%v)", t.name, err))
			continue
		}
		out = append(out, t)
	}
	return out, missing, nil
}

// row is what was measured of one program.
type row struct {
	Name   string
	Rest   time.Duration // CPU time for each second, with nobody asking
	Scrape time.Duration // CPU time for each scrape, beyond that
	RSS    int64         // bytes, at the end
	Page   int           // bytes of the page, uncompressed
	Series int           // lines of it that are samples
	Note   string        // why there is nothing
}

// measure runs the program.
func (t target) measure(ctx context.Context, o options) (r row, err error) {
	if t.dir != "" {
		if err := os.RemoveAll(t.dir); err != nil {
			return r, err
		}
	}
	listen, err := freePort()
	if err != nil {
		return r, err
	}
	var stderr bytes.Buffer
	cmd := exec.Command(t.path, t.args(listen)...)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return r, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill() // likewise
			<-exited
		}
	}()
	url := "http://" + listen + "/metrics"
	if err := await(ctx, url, exited); err != nil {
		return r, fmt.Errorf("%w: %s", err, firstLine(stderr.String()))
	}
	pid := cmd.Process.Pid
	for range 3 { // caches and buffers grow
		if _, err := get(ctx, url); err != nil {
			return r, err
		}
		pause(ctx, 2*time.Second)
	}
	before, began := cpuOf(pid), time.Now()
	pause(ctx, o.rest)
	used, took := cpuOf(pid)-before, time.Since(began)
	r.Rest = time.Duration(float64(used) / took.Seconds())

	before, began = cpuOf(pid), time.Now()
	for range o.scrapes {
		page, err := get(ctx, url)
		if err != nil {
			return r, err
		}
		r.Page, r.Series = len(page), countSeries(page)
		pause(ctx, 250*time.Millisecond)
	}
	used, took = cpuOf(pid)-before, time.Since(began)
	r.Scrape = max(0, used-time.Duration(float64(r.Rest)*took.Seconds())) / time.Duration(o.scrapes)
	r.RSS, err = rssOf(pid)
	return r, err
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// await waits until the page is served and has something on it.
func await(ctx context.Context, url string, exited <-chan error) error {
	deadline := time.After(30 * time.Second)
	for {
		if page, err := get(ctx, url); err == nil && countSeries(page) > 10 {
			return nil
		}
		select {
		case err := <-exited:
			return fmt.Errorf("ended at once: %v", err)
		case <-deadline:
			return fmt.Errorf("no page at %s within 30 s", url)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

func countSeries(page []byte) (n int) {
	for line := range bytes.Lines(page) {
		if len(line) > 1 && line[0] != '#' {
			n++
		}
	}
	return n
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// firstLine is what a program said first; what follows is often a stack.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line[:min(len(line), 200)]
}
