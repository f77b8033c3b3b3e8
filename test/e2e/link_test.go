//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/store/storetest"
)

// link is between an agent and a server, and applies a fault to each request and its answer.
type link struct {
	to    atomic.Value // the server's address
	fault atomic.Value // func(n int64) fault
	n     atomic.Int64
	sent  atomic.Int64 // requests that reached the server
}

// fault is what happens to a request and its answer.
type fault struct {
	late          time.Duration // the answer
	before, after bool          // the connection is cut before the request is passed on, or after
	twice         bool          // the request is passed on twice
	date          time.Duration // added to the answer's
}

func (l *link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f := l.fault.Load().(func(int64) fault)(l.n.Add(1))
	if f.before {
		panic(http.ErrAbortHandler)
	}
	var resp *http.Response
	for range map[bool]int{false: 1, true: 2}[f.twice] {
		req, _ := http.NewRequest(r.Method, "http://"+l.to.Load().(string)+r.URL.RequestURI(), bytes.NewReader(body))
		req.Header = r.Header.Clone()
		again, err := http.DefaultTransport.RoundTrip(req)
		if err != nil { // the server is away
			panic(http.ErrAbortHandler)
		}
		defer again.Body.Close()
		if l.sent.Add(1); resp == nil {
			resp = again
		}
	}
	if f.after {
		panic(http.ErrAbortHandler)
	}
	time.Sleep(f.late) //nolint:forbidigo // the fault itself
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil && f.date != 0 {
		w.Header().Set("Date", at.Add(f.date).UTC().Format(http.TimeFormat))
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// deaf listens at an address and lets the kernel drop the packets by which connections begin, until the function that it returns is
// called: its queue is full (tcp(7), listen(2)).
func deaf(t *testing.T) (ln net.Listener, hear func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	queue := func(n int) {
		raw, err := ln.(*net.TCPListener).SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), n) })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	queue(0)
	fill, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return ln, func() { queue(128); _ = fill.Close() }
}

// metric is one series of a page of /metrics.
func metricOf(page, series string) (float64, bool) {
	for s := bufio.NewScanner(strings.NewReader(page)); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), series+" "); ok {
			v, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return v, err == nil
		}
	}
	return 0, false
}

// TestBadLink has an agent send to a server over a link that drops the packets by which connections begin, answers 5 to 60 s late, is cut
// before and after requests, sends them twice, and has the server restarted meanwhile. The store then has each value that the agent's own
// /metrics had, once, and within a quarter of a second of when it had it.
func TestBadLink(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	server := startServe(t, data)
	l := new(link)
	l.to.Store(server.addr)
	l.fault.Store(func(n int64) fault { // the first answer comes after 24 s, the packets of its connection have been lost before
		if n == 1 {
			return fault{late: 24 * time.Second}
		}
		return fault{}
	})
	ln, hear := deaf(t)
	proxy := &http.Server{Handler: l}
	go func() { _ = proxy.Serve(ln) }()
	t.Cleanup(func() { _ = proxy.Close() })

	at := storetest.FreeAddress(t)
	agent := exec.Command(program(t, "reckon-agent"), "--listen", at, "--export", "1s", "--node", "edge", "--push", "http://"+ln.Addr().String(),
		"--set", "push-queue="+filepath.Join(t.TempDir(), "queue"), "--set", "push-socket=none", "--state", filepath.Join(t.TempDir(), "state"))
	said := new(lockedBuffer)
	agent.Stdout, agent.Stderr = said, said
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Signal(syscall.SIGTERM); _ = agent.Wait() })

	var mu sync.Mutex
	seen, done := map[float64]time.Time{}, make(chan struct{}) // when /metrics had a value for the first time
	var polls sync.WaitGroup
	polls.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			resp, err := http.Get("http://" + at + "/metrics")
			if err != nil {
				continue
			}
			page, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if v, ok := metricOf(string(page), `reckon_agent_ticks_total{node="edge"}`); ok {
				mu.Lock()
				if _, known := seen[v]; !known {
					seen[v] = time.Now()
				}
				mu.Unlock()
			}
		}
	})
	pause(20 * time.Second) // by then the first packets were sent three times
	hear()
	pause(35 * time.Second)
	for _, phase := range []struct {
		long time.Duration
		do   func(n int64) fault
	}{
		{30 * time.Second, func(int64) fault { return fault{late: 5 * time.Second} }},
		{65 * time.Second, func(int64) fault { return fault{late: time.Minute} }},
		{20 * time.Second, func(n int64) fault { return fault{before: n%3 == 0, after: n%3 == 1} }},
		{15 * time.Second, func(int64) fault { return fault{twice: true} }},
	} {
		l.fault.Store(phase.do)
		pause(phase.long)
	}
	l.fault.Store(func(int64) fault { return fault{} })
	for range 3 { // restarts while the agent sends
		server.stop(syscall.SIGTERM)
		pause(2 * time.Second)
		server = startServe(t, data)
		l.to.Store(server.addr)
		pause(4 * time.Second)
	}
	until(t, "the queue is empty", func() error {
		resp, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		page, _ := io.ReadAll(resp.Body)
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "reckon_agent_push_queue_requests{") && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				return fmt.Errorf("%s", line)
			}
			if strings.HasPrefix(line, "reckon_agent_push_clock_behind_seconds{") && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				t.Errorf("a clock that is right was corrected: %s", line)
			}
		}
		return nil
	})
	pause(3 * time.Second)
	close(done)
	polls.Wait()

	var answer struct {
		Data struct {
			Result []struct{ Values [][2]any }
		}
	}
	resp, err := http.Get(server.url("/api/v1/query?query=" + url.QueryEscape(`reckon_agent_ticks_total{node="edge"}[30m]`)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Data.Result) != 1 {
		t.Fatalf("%v: %d series", err, len(answer.Data.Result))
	}
	stored, bad, most := map[float64]bool{}, 0, time.Duration(0)
	var last time.Time
	for _, s := range answer.Data.Result[0].Values {
		v, _ := strconv.ParseFloat(s[1].(string), 64)
		when := time.UnixMicro(int64(s[0].(float64) * 1e6))
		if stored[v] && v != 0 {
			t.Errorf("%v is stored twice", v)
		}
		stored[v] = true
		first, ok := seen[v]
		if off := first.Sub(when); ok && off > 12*time.Second || ok && off < -12*time.Second {
			bad++
		} else if ok {
			most = max(most, off.Abs())
		}
		last = when
	}
	missing := 0
	for v, at := range seen {
		if !stored[v] && at.Before(last) {
			missing++
		}
	}
	t.Logf("%d values at /metrics, %d stored; %d are missing, %d are shifted, the others stand within %s; %d requests reached the server",
		len(seen), len(stored), missing, bad, most, l.sent.Load())
	if missing > 0 || bad > 0 || len(seen) < 150 || most > 2*time.Second {
		t.Errorf("%d missing, %d shifted, at most %s; the agent said:\n%.3000s", missing, bad, most, said)
	}
}

// TestWrongClockOnSlowLink: a clock that is 5 s off is reported within two minutes though each answer takes 3 s.
func TestWrongClockOnSlowLink(t *testing.T) {
	server := startServe(t, t.TempDir())
	l := new(link)
	l.to.Store(server.addr)
	l.fault.Store(func(int64) fault { return fault{late: 3 * time.Second, date: -5 * time.Second} })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &http.Server{Handler: l}
	go func() { _ = proxy.Serve(ln) }()
	t.Cleanup(func() { _ = proxy.Close() })
	agent := exec.Command(program(t, "reckon-agent"), "--listen", storetest.FreeAddress(t), "--export", "15s", "--node", "edge", "--push",
		"http://"+ln.Addr().String(), "--set", "push-queue="+filepath.Join(t.TempDir(), "queue"), "--set", "push-socket=none", "--state", filepath.Join(t.TempDir(), "state"))
	said := new(lockedBuffer)
	agent.Stdout, agent.Stderr = said, said
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Signal(syscall.SIGTERM); _ = agent.Wait() })
	began := time.Now()
	for !strings.Contains(said.String(), "the clock of this machine differs") {
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("the clock is not reported: %s", said)
		}
		pause(time.Second)
	}
	t.Logf("reported after %.0f s", time.Since(began).Seconds())
}
