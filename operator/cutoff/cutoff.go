package graphfeed

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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// relay passes connections on, until it is cut.
type relay struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	open  map[net.Conn]bool
	isCut bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: to, open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		l.Close()
		r.cut()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.pass(c)
		}
	}()
	return r
}

func (r *relay) pass(c net.Conn) {
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

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isCut = true
	for c := range r.open {
		c.Close()
	}
}

func (r *relay) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isCut = false
}

// restartAPIServer kills the API server and starts it again as it was. Its cache of changes begins anew.
func (k *cluster) restartAPIServer() {
	k.t.Helper()
	pid, args := k.apiServer()
	k.must(syscall.Kill(pid, syscall.SIGKILL))
	k.until("the API server is gone", time.Minute, func() bool {
		c, err := net.Dial("tcp", k.relay.to)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	again := exec.Command(args[0], args[1:]...)
	k.must(again.Start())
	k.t.Cleanup(func() {
		_ = again.Process.Kill()
		_ = again.Wait()
	})
	k.until("the API server is back", 3*time.Minute, func() bool {
		_, err := k.c.CoreV1().Pods("").List(k.t.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
}

// apiServer finds the child of this test that is the API server.
func (k *cluster) apiServer() (pid int, args []string) {
	k.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	k.must(err)
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
		k.must(err)
		for _, a := range bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0}) {
			args = append(args, string(a))
		}
		pid, err = strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		k.must(err)
		return pid, args
	}
	k.t.Fatal("no API server runs as a child of this test")
	return 0, nil
}
