package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	accesspeer "reckon/access/peer"
	"reckon/agent/external/promtext"
	"reckon/metric"
)

// The socket accepts figures from scripts by HTTP over a unix socket, in the Prometheus text
// format. The kernel identifies the process at the other end (unix(7), SO_PEERCRED) and thereby the
// owner of the figures, so that no process can claim to be another.

// Limits on requests through the socket.
const (
	pushBody            = 64 << 10
	pushSeries          = 500
	maxPushConns        = 256                // open at one time
	maxPushConnsPerUser = 32                 // of one user
	defaultPushKeep     = time.Hour          // for how long a figure stands unless stated otherwise
	maxPushKeep         = 7 * 24 * time.Hour //
	pushRate            = 50.0               // requests per second of one user
	pushBurst           = 500.0
)

// Socket is the socket that programs send figures to. It is served until Close.
type Socket struct {
	Path string

	agent  *Agent
	ln     net.Listener
	http   *http.Server
	served chan struct{} // closed when no more is accepted
	mu     sync.Mutex
	rates  map[uint32]*requestBucket
}

// requestBucket holds the number of requests that a user may still send.
type requestBucket struct {
	left float64
	at   time.Time
}

// ErrSocketTaken means that another agent listens at the path.
var ErrSocketTaken = errors.New("another agent listens there")

// Listen creates a unix socket at path and accepts figures from all users of this machine. It replaces the socket file
// of an earlier agent.
func (a *Agent) Listen(path string) (*Socket, error) {
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("listen at %s: %w", path, ErrSocketTaken)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the socket for own metrics: %w", err)
	}
	if st, err := os.Lstat(path); err == nil && st.Mode()&fs.ModeSocket != 0 {
		_ = os.Remove(path) // if it cannot be removed, listening fails with the reason
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen at %s for own metrics: %w", path, err)
	}
	if err := os.Chmod(path, 0o666); err != nil { //nolint:gosec // the sender is known from the kernel
		_ = ln.Close()
		return nil, fmt.Errorf("open %s to all users: %w", path, err)
	}
	return a.ListenOn(ln), nil
}

// ListenOn accepts figures at a unix socket that another program has opened, such as systemd.
func (a *Agent) ListenOn(ln net.Listener) *Socket {
	s := &Socket{Path: ln.Addr().String(), agent: a, ln: ln, served: make(chan struct{}), rates: map[uint32]*requestBucket{}}
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serve), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 5 * time.Second,
		MaxHeaderBytes: 8 << 10, ConnContext: withPeer,
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(&limitedListener{Listener: ln, users: map[uint32]int{}}) // until Close
	}()
	return s
}

// Close stops listening and removes the socket, unless another program opened it.
func (s *Socket) Close() error {
	err := s.http.Close()
	_ = s.ln.Close() // closed already, unless serving had not begun
	<-s.served
	return err
}

// limitedListener limits the number of open connections, in total and per user, so that one user cannot keep out others. It
// closes a connection beyond the limit at once.
type limitedListener struct {
	net.Listener
	mu    sync.Mutex
	users map[uint32]int
	all   int
}

// sender identifies the other end of a connection. elsewhere is set for root of a container, which has the credentials
// of the host's root. Its figures belong to the container.
type sender struct {
	unix.Ucred
	elsewhere bool
}

// peerConn is a connection with a known process at the other end.
type peerConn struct {
	net.Conn
	cred sender
	free func()
}

func (p *peerConn) Close() error {
	defer p.free()
	return p.Conn.Close()
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		cred := credentials(c)
		if l.acquire(cred.Uid) {
			return &peerConn{Conn: c, cred: cred, free: sync.OnceFunc(func() { l.release(cred.Uid) })}, nil
		}
		_ = c.Close()
	}
}

func (l *limitedListener) acquire(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= maxPushConns || l.users[uid] >= maxPushConnsPerUser {
		return false
	}
	l.all++
	l.users[uid]++
	return true
}

func (l *limitedListener) release(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.users[uid]--; l.users[uid] == 0 {
		delete(l.users, uid)
	}
}

// credentials returns the credentials of the other end, without a process id if the kernel does not report it.
func credentials(c net.Conn) (cred sender) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return cred
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return cred
	}
	_ = raw.Control(func(fd uintptr) {
		if got, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			cred.Ucred = *got
		}
	})
	cred.elsewhere = cred.Uid == 0 && !accesspeer.Home(u)
	return cred
}

type peerKey struct{}

// withPeer adds the process at the other end of a connection to a context.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if p, ok := c.(*peerConn); ok {
		return context.WithValue(ctx, peerKey{}, p.cred)
	}
	return ctx
}

const pushHelp = `POST lines of the Prometheus text format, such as: loss{phase="train"} 0.31
They become figures of the workload that sends them. Parameters: add=1 adds to what was
sent before, for=10m is for how long a figure stands (1h), if its workload does not end before.
`

func (s *Socket) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD, POST")
			http.Error(w, "POST figures", http.StatusMethodNotAllowed)
			return
		}
		_, _ = io.WriteString(w, pushHelp)
		return
	}
	code, err := s.receive(w, r)
	if err != nil {
		http.Error(w, err.Error(), code)
	}
}

func (s *Socket) receive(w http.ResponseWriter, r *http.Request) (code int, err error) {
	cred, ok := r.Context().Value(peerKey{}).(sender)
	if !ok || cred.Pid <= 0 {
		return http.StatusForbidden, errors.New(
			"the agent does not see the process that sends: it is in another process namespace; mount the socket into the container " +
				"only where the agent runs with the host's processes")
	}
	if !s.countRequest(cred.Uid) {
		w.Header().Set("Retry-After", "1")
		return http.StatusTooManyRequests, fmt.Errorf("more than %g requests a second; send several lines at a time", pushRate)
	}
	req := &pushedFigures{pid: cred.Pid, uid: cred.Uid, elsewhere: cred.elsewhere, keep: defaultPushKeep}
	for name, values := range r.URL.Query() {
		switch name {
		case "add":
			if req.add, err = strconv.ParseBool(values[0]); err != nil {
				return http.StatusBadRequest, fmt.Errorf("add=%.20q: write 1 or 0", values[0])
			}
		case "for":
			if req.keep, err = time.ParseDuration(values[0]); err != nil || req.keep < 0 || req.keep > maxPushKeep {
				return http.StatusBadRequest, fmt.Errorf("for=%.20q: write a time such as 90s, 10m or 2h, 168h at most", values[0])
			}
		default:
			return http.StatusBadRequest, fmt.Errorf("there is no parameter %.50q; add and for are known", name)
		}
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, pushBody))
	if err != nil {
		return http.StatusRequestEntityTooLarge, fmt.Errorf("more than %d KiB at a time", pushBody>>10)
	}
	if req.figures, err = promtext.NewPage(promtext.Rules{MaxSeries: pushSeries, Strict: true}).Read(text); err != nil {
		return http.StatusBadRequest, err
	}
	if len(req.figures) == 0 {
		return http.StatusBadRequest, errors.New("there is no figure; write NAME{label=\"value\"} NUMBER, with a number that is not NaN")
	}
	if req.add {
		for _, f := range req.figures {
			f.Series.Desc.Kind = metric.Counter // no consumer has seen it yet
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	of, err := s.agent.push(ctx, req)
	var no refusedPush
	switch {
	case errors.As(err, &no):
		return http.StatusUnprocessableEntity, no
	case err != nil:
		return http.StatusServiceUnavailable, err
	}
	_, err = fmt.Fprintf(w, "%d for %s\n", len(req.figures), of.displayName())
	return http.StatusInternalServerError, err
}

// countRequest counts a request of a user.
func (s *Socket) countRequest(uid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rates) > 1000 {
		clear(s.rates)
	}
	return takeToken(s.rates, uid, time.Now(), pushBurst, pushRate)
}

// takeToken takes a token from the bucket of a key and reports whether there was one. The bucket has up to most tokens
// and gets perSecond new ones.
func takeToken[K comparable](rates map[K]*requestBucket, key K, now time.Time, capacity, perSecond float64) bool {
	b := rates[key]
	if b == nil {
		b = &requestBucket{left: capacity, at: now}
		rates[key] = b
	}
	b.left = min(capacity, b.left+perSecond*now.Sub(b.at).Seconds())
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// DefaultSocket returns the default path of the socket for figures. It is the machine's socket for root and the user's
// socket otherwise, or empty if XDG_RUNTIME_DIR is not set.
func DefaultSocket(getenv func(string) string) string {
	if os.Geteuid() == 0 {
		return SystemSocket
	}
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "reckon-push", "push.sock")
	}
	return ""
}

// SystemSocket is the socket of an agent that root runs.
const SystemSocket = "/run/reckon-push/push.sock"
