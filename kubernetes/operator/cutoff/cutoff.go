// Package cutoff separates a program from an API server in tests. It cuts the connections between
// them and restarts the server, so that earlier watches are too old (410 Gone).
package cutoff

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Relay forwards connections until it is cut. It is safe for concurrent use.
type Relay struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	open  map[net.Conn]bool
	isCut bool
}

// New returns a relay to an address (HOST:PORT) until the end of the test.
func New(t *testing.T, to string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{listener: l, to: to, open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		l.Close()
		r.Cut()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.forward(c)
		}
	}()
	return r
}

func (r *Relay) forward(c net.Conn) {
	defer c.Close()
	onward, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer onward.Close()
	r.mu.Lock()
	if r.isCut {
		r.mu.Unlock()
		return
	}
	r.open[c] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, c)
	}()
	go func() {
		_, _ = io.Copy(onward, c)
		onward.Close()
	}()
	_, _ = io.Copy(c, onward)
}

// Addr returns the address that the relay listens on.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Cut closes all connections and refuses new ones.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isCut = true
	for c := range r.open {
		c.Close()
	}
}

// Restore forwards connections again after a cut.
func (r *Relay) Restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isCut = false
}

// RestartAPIServer kills the API server of this test (envtest) and starts it again. Its watch cache
// starts empty. ready reports whether the server responds.
func (r *Relay) RestartAPIServer(t *testing.T, ready func() bool) {
	t.Helper()
	pid, args := findAPIServer(t)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the API server is gone", func() bool {
		c, err := net.Dial("tcp", r.to)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	again := exec.Command(args[0], args[1:]...)
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = again.Process.Kill()
		_ = again.Wait()
	})
	waitUntil(t, "the API server is back", ready)
}

func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline, tick := time.After(3*time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within three minutes", what)
		case <-tick.C:
		}
	}
}

// findAPIServer finds the child of this test that is the API server.
func findAPIServer(t *testing.T) (pid int, args []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, stat := range all {
		raw, err := os.ReadFile(stat)
		if err != nil || !bytes.Contains(raw, []byte("(kube-apiserver)")) {
			continue
		}
		fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
		if parent, err := strconv.Atoi(string(fields[1])); err != nil || parent != os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(stat), "cmdline"))
		if err != nil {
			continue
		}
		for _, a := range bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0}) {
			args = append(args, string(a))
		}
		if pid, err = strconv.Atoi(filepath.Base(filepath.Dir(stat))); err != nil {
			t.Fatal(err)
		}
		return pid, args
	}
	t.Fatal("no API server runs as a child of this test")
	return 0, nil
}
