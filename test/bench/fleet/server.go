package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"reckon/transport/push"
)

// server is a program that takes remote write.
type server struct {
	name  string // of the endpoint, too
	path  string
	args  func(addr, data string) []string
	write string // path of remote write
	ready string
	end   push.Endpoint

	addr, data string
	cmd        *exec.Cmd
	exited     chan error
	stderr     bytes.Buffer
}

// servers are the programs that are here, and why others are not.
func servers(o options, dir string) (out []*server, missing []string) {
	config := filepath.Join(dir, "prometheus.yml")
	_ = os.WriteFile(config, []byte("storage:\n  tsdb:\n    out_of_order_time_window: 7d\n"), 0o600) // it says so itself if it is not there
	reckon := func(name, bin string) *server {
		return &server{name: name, path: filepath.Join(bin, "reckon"), write: "/api/v1/write", ready: "/readyz", args: func(a, d string) []string {
			return []string{"serve", "--listen", a, "--data", d}
		}, end: push.Endpoint{Protocol: "2.0"}}
	}
	list := []*server{reckon("reckon", o.bin)}
	if o.against != "" {
		list = append(list, reckon("before", o.against))
	}
	for _, s := range append(list,
		&server{name: "Prometheus", path: "prometheus", write: "/api/v1/write", ready: "/-/ready", args: func(a, d string) []string {
			return []string{"--config.file=" + config, "--storage.tsdb.path=" + d, "--web.listen-address=" + a, "--web.enable-remote-write-receiver",
				"--enable-feature=native-histograms", "--storage.tsdb.retention.time=90d", "--log.level=error",
				"--web.max-connections=8192"} // it takes 512 by default: the nodes behind those would wait for ever
		}, end: push.Endpoint{Protocol: "1.0", Histograms: "native"}},
		&server{name: "VictoriaMetrics", path: "victoria-metrics", write: "/api/v1/write", ready: "/health", args: func(a, d string) []string {
			return []string{"-httpListenAddr=" + a, "-storageDataPath=" + d, "-retentionPeriod=3", "-loggerLevel=ERROR"}
		}, end: push.Endpoint{Protocol: "1.0", Histograms: "classic"}},
	) {
		if !strings.Contains(strings.ToLower(s.name), strings.ToLower(o.only)) && s.name != "before" {
			continue
		}
		path, err := exec.LookPath(s.path)
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s (%v)", s.name, err))
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			missing = append(missing, fmt.Sprintf("%s (%v)", s.name, err))
			continue
		}
		s.path, s.data = path, filepath.Join(dir, s.name)
		out = append(out, s)
	}
	return out, missing
}

// start starts it on a free port, or on the one that it had.
func (s *server) start(ctx context.Context) error {
	if s.addr == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.addr = l.Addr().String()
		if err := l.Close(); err != nil {
			return err
		}
	}
	s.end.URL, s.end.Name = "http://"+s.addr+s.write, s.name
	cmd := exec.Command(s.path, s.args(s.addr, s.data)...)
	s.stderr.Reset()
	cmd.Stderr = &s.stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait(); close(exited) }()
	s.exited = exited
	deadline := time.After(2 * time.Minute)
	for {
		if resp, err := http.Get("http://" + s.addr + s.ready); err == nil {
			resp.Body.Close()
			if resp.StatusCode/100 == 2 {
				return nil
			}
		}
		select {
		case err := <-exited:
			return fmt.Errorf("%s ended at once: %v %s", s.name, err, firstLine(s.stderr.String()))
		case <-deadline:
			return fmt.Errorf("%s is not ready after two minutes", s.name)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop ends it, kindly.
func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.exited:
	case <-time.After(time.Minute):
		_ = s.cmd.Process.Kill() // likewise
		<-s.exited
	}
	s.cmd = nil
}

// cpu is the CPU time that it has used (proc_pid_stat(5), fields 14 and 15).
func (s *server) cpu() time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory is its resident memory in bytes.
func (s *server) memory() int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(raw))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// bytesOf is what a directory takes on disk.
func bytesOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		n += info.Size()
		return nil
	})
	return n, err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line[:min(len(line), 200)]
}

// machine is what the figures were measured on.
func machine() string {
	raw, _ := os.ReadFile("/proc/cpuinfo")
	model := "unknown processor"
	for line := range strings.Lines(string(raw)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			model = strings.TrimSpace(v)
			break
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d cores of %s, kernel %s", runtime.NumCPU(), model, strings.TrimSpace(string(kernel)))
}
