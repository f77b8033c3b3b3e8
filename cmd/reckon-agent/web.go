package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"reckon/access"
	"reckon/access/peer"
	"reckon/cmd/settings"
	"reckon/internal/webconfig"
	"reckon/metric"
	"reckon/workload/users"
)

// webOptions determine who may read /metrics.
type webOptions struct {
	config   string
	insecure bool
	users    []string
}

func (o *webOptions) register(s *settings.Set) {
	s.Flags.StringVar(&o.config, "web-config", "",
		"file with TLS certificates and users of /metrics, in the form of Prometheus's web configuration; read again while the agent runs")
	s.Keys.StringSliceVar(&o.users, "metrics-users", nil,
		"users of this machine who see everyone's work at /metrics, in addition to root and system accounts")
	s.Flags.BoolVar(&o.insecure, "insecure", false, "let everybody who reaches the address read /metrics")
}

// metricsListener is the listener for /metrics.
type metricsListener struct {
	net.Listener
	config *webconfig.Config // nil: plain HTTP without authentication
	local  bool              // no password is required, and only this machine can connect
	names  *users.Table      // names of requesting users; nil if none is looked up
	all    []string          // users who see all work
}

func (o *webOptions) openListener(listen string, log *slog.Logger) (*metricsListener, error) {
	var d metricsListener
	var err error
	if o.config != "" {
		if d.config, err = webconfig.Open(o.config, log); err != nil {
			return nil, fmt.Errorf("--web-config: %w", err)
		}
	}
	if d.Listener, err = net.Listen("tcp", listen); err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --listen", listen, err)
	}
	addr, _ := d.Addr().(*net.TCPAddr)
	open := d.config == nil || !d.config.Closed()
	d.local = open && !o.insecure
	if d.local && (addr == nil || !addr.IP.IsLoopback()) {
		at := d.Addr()
		_ = d.Close()
		return nil, fmt.Errorf(
			"others reach the address %s, and what users run could be read without a password: name users or client certificates in "+
				"--web-config, push instead (--push URL), or let everybody read with --insecure", at)
	}
	if d.filtersByUser() {
		d.names, d.all = users.New("/"), o.users
	}
	if d.config != nil {
		d.Listener = d.config.Listener(d.Listener)
	}
	return &d, nil
}

func (d *metricsListener) address() string {
	if d.config != nil && d.config.TLS() {
		return "https://" + d.Addr().String()
	}
	return "http://" + d.Addr().String()
}

func (d *metricsListener) guardHandler(h http.Handler) http.Handler {
	if d.filtersByUser() {
		h = requirePeer(h)
	}
	if d.local {
		h = requireLocalHost(h)
	}
	if d.config == nil {
		return h
	}
	return d.config.Handler(h)
}

// requireLocalHost rejects requests for host names other than this machine's loopback names.
func requireLocalHost(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !webconfig.LocalHost(r.Host) {
			http.Error(
				w, fmt.Sprintf(
					"this agent answers this machine only, not for the name %.100q; ask for http://localhost or http://127.0.0.1, or "+
						"start it with --insecure", r.Host), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// filtersByUser reports whether the visible series depend on the user of a connection. As in ps(1) with hidepid,
// users see only their own.
func (d *metricsListener) filtersByUser() bool { return d.local && d.config == nil }

type peerUserKey struct{}

// withPeer adds the user at the other end of a connection to its context, because the kernel knows the user only
// while the connection exists.
func (d *metricsListener) withPeer(ctx context.Context, c net.Conn) context.Context {
	if !d.filtersByUser() {
		return ctx
	}
	uid, err := peer.UID(c)
	if err != nil {
		return ctx
	}
	d.names.Name(uid) // looked up in the background, where the machine asks a directory
	return context.WithValue(ctx, peerUserKey{}, uid)
}

// requirePeer refuses senders that the kernel cannot identify, such as those in another network namespace.
func requirePeer(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, known := r.Context().Value(peerUserKey{}).(uint32); !known && r.URL.Path == "/metrics" {
			http.Error(w, "the kernel does not name the user who asks, as of a container; name users in --web-config", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// seriesFilter returns a function that reports whether the sender of a request may see a series. Root, the agent's
// user, system accounts (such as Prometheus's) and members of metrics-users may see all series. Other users may see
// their own work and the machine's series.
func (d *metricsListener) seriesFilter(r *http.Request) func(*metric.Series) bool {
	uid, known := r.Context().Value(peerUserKey{}).(uint32)
	if !d.filtersByUser() || known && (uid < firstUserID("/etc/login.defs") || int(uid) == os.Geteuid()) {
		return nil
	}
	v := access.Viewer{Role: access.User, Name: d.names.Name(uid)}
	if known && slices.Contains(d.all, v.Name) {
		return nil
	}
	return func(s *metric.Series) bool {
		return v.SeesSeries(func(label string) string {
			if label == "__name__" {
				return s.Desc.Name
			}
			if i := slices.Index(s.Desc.Labels, label); i >= 0 && i < len(s.Values) {
				return s.Values[i]
			}
			return ""
		})
	}
}

// firstUserID returns the first id of people (UID_MIN of login.defs(5)), or 1000 if unknown.
func firstUserID(file string) uint32 {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "UID_MIN" {
			if n, err := strconv.ParseUint(f[1], 10, 32); err == nil {
				return uint32(n)
			}
		}
	}
	return 1000
}
