package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"

	"reckon/access"
	"reckon/access/auth"
)

// Access says who may reach the server.
type Access struct {
	// Insecure lets everybody in who reaches the address, as admin.
	Insecure bool
	// Public shows what has no names to those who are not signed in.
	Public bool
	// WebConfig is a file in the form of Prometheus's exporter-toolkit: TLS, client
	// certificates and users with bcrypt passwords, who are admin. It is read again while
	// the server runs.
	WebConfig string
	// OIDC is a file with an auth.ProviderConfig.
	OIDC string
	// Limits is a file that bounds what senders, sites and viewers take (limits.Config);
	// empty is for the defaults.
	Limits string
}

// gate knows who is who.
type gate struct {
	keeper *auth.Keeper
	front  *auth.Front
	config Access
	local  bool // only this machine reaches the address
	listen string

	mu    sync.Mutex
	seen  map[string]time.Time // what the audit log has said lately
	asked time.Time            // when it was last seen whether there are users
	users bool
}

// openGate opens the file of users and tokens, and refuses an address that others reach
// while nobody needs a password.
func (s *Server) openGate(ctx context.Context) error {
	c := s.config.Access
	keeper, err := auth.Open(s.config.Data, auth.Options{})
	if err != nil {
		return err
	}
	s.gate = &gate{keeper: keeper, config: c, local: loopback(s.ln.Addr()), listen: s.ln.Addr().String(), seen: map[string]time.Time{}}
	s.gate.front = &auth.Front{Keeper: keeper, Public: c.Public, Logger: s.log}
	basic := 0
	if c.WebConfig != "" {
		if basic, err = webUsers(c.WebConfig); err != nil {
			return err
		}
		s.gate.front.Basic = basic > 0
	}
	if c.OIDC != "" {
		if s.gate.front.OIDC, err = openProvider(ctx, c.OIDC); err != nil {
			return err
		}
	}
	admin, err := keeper.HasAdmin(ctx)
	if err != nil {
		return err
	}
	if !s.gate.local && !admin && basic == 0 && s.gate.front.OIDC == nil && !c.Insecure {
		return fmt.Errorf("others reach the address %s, and nobody needs a password: make an administrator with `reckon user add NAME --role admin --data %s`, or let everybody who reaches it see and change everything with --insecure",
			s.gate.listen, s.config.Data)
	}
	return keeper.Trim(ctx)
}

func openProvider(ctx context.Context, file string) (*auth.Provider, error) {
	text, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--oidc-config: %w", err)
	}
	defer text.Close()
	dec := yaml.NewDecoder(text)
	dec.KnownFields(true)
	var c auth.ProviderConfig
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("--oidc-config %s: %w", file, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	p, err := auth.NewProvider(ctx, c, nil, time.Now)
	if err != nil {
		return nil, fmt.Errorf("--oidc-config %s: %w", file, err)
	}
	return p, nil
}

// webUsers checks a web configuration and counts its users.
func webUsers(file string) (int, error) {
	if err := web.Validate(file); err != nil {
		return 0, fmt.Errorf("--web-config %s: %w", file, err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("--web-config: %w", err)
	}
	var c struct {
		Users map[string]string `yaml:"basic_auth_users"`
	}
	if err := yaml.Unmarshal(raw, &c); err != nil {
		return 0, fmt.Errorf("--web-config %s: %w", file, err)
	}
	return len(c.Users), nil
}

// loopback reports whether only this machine reaches an address.
func loopback(a net.Addr) bool {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// viewer says who sends a request. Who says nothing is admin where only this machine
// reaches the server and no user was made, or where it was wished so.
func (g *gate) viewer(r *http.Request) (access.Viewer, error) {
	if v := access.From(r.Context()); v.Role > access.Nobody {
		return v, nil // from within this process: nothing that comes by the network carries one
	}
	v, err := g.front.Viewer(r)
	if err != nil || v.Role > access.Nobody || v.Writes != nil || r.Header.Get("Authorization") != "" {
		if err != nil || v.Role > access.Public || v.Writes != nil {
			return v, err
		}
	}
	open, err := g.open(r.Context())
	if err != nil {
		return access.Viewer{}, access.Refuse(http.StatusInternalServerError, "the log of the server says more", errors.New("the file of users could not be read"))
	}
	if !open {
		return v, nil
	}
	if g.local && !g.config.Insecure {
		// A page on the internet can give its name the address 127.0.0.1 and then ask here.
		if err := here(r.Host); err != nil {
			return access.Viewer{}, err
		}
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return access.Viewer{}, access.Refuse(http.StatusForbidden, "", errors.New("the request comes from a page of another site"))
	}
	return access.Viewer{Role: access.Admin}, nil
}

// here refuses names that are not of this machine.
func here(host string) error {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() || name == "localhost" || name == "[::1]" {
		return nil
	}
	return access.Refuse(http.StatusForbidden, "ask for http://localhost or http://127.0.0.1; to let others in give it another address with --listen and make a user", fmt.Errorf("this server answers this machine only, not for the name %.100q", host))
}

// open reports whether who says nothing is let in as admin. Users may be made while the
// server runs.
func (g *gate) open(ctx context.Context) (bool, error) {
	if g.config.Insecure {
		return true, nil
	}
	if !g.local || g.front.OIDC != nil || g.front.Basic {
		return false, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); now.Sub(g.asked) > time.Second {
		users, err := g.keeper.Users(ctx)
		if err != nil {
			return false, err
		}
		g.users, g.asked = len(users) > 0, now
	}
	return !g.users, nil
}

// allow says for which nodes a sender may send.
func (g *gate) allow(ctx context.Context) (func(site, node string) bool, error) {
	v := access.From(ctx)
	if v.Writes == nil && v.Changes() {
		return nil, nil // for all: no series need be looked at
	}
	return v.MayWrite, nil
}

// again is for how long the same look is noted once: pages ask anew every few seconds.
const again = 10 * time.Minute

// audit notes who looked at whose work.
func (g *gate) audit(log func(error)) func(r *http.Request, action, object, owner string) {
	return func(r *http.Request, action, object, owner string) {
		v := access.From(r.Context())
		key := v.Name + "\x00" + action + "\x00" + object
		now := time.Now()
		g.mu.Lock()
		last, known := g.seen[key]
		if !known && len(g.seen) > 10_000 {
			clear(g.seen)
		}
		fresh := known && now.Sub(last) < again
		if !fresh {
			g.seen[key] = now
		}
		g.mu.Unlock()
		if fresh {
			return
		}
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			host = r.RemoteAddr
		}
		if err := g.keeper.Audit(context.WithoutCancel(r.Context()), v, action, object, owner, host); err != nil {
			log(err)
		}
	}
}

// Inside is an HTTP client that asks this server within the process, as admin, whatever
// the network needs to be let in.
func (s *Server) Inside() *http.Client { return &http.Client{Transport: inside{s}} }

type inside struct{ s *Server }

// RoundTrip implements http.RoundTripper.
func (t inside) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &recorded{header: http.Header{}, code: http.StatusOK}
	ctx := access.With(r.Context(), access.Viewer{Role: access.Admin})
	t.s.http.Handler.ServeHTTP(w, r.Clone(ctx))
	return &http.Response{
		Status: http.StatusText(w.code), StatusCode: w.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// recorded keeps what a handler writes.
type recorded struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *recorded) Header() http.Header         { return a.header }
func (a *recorded) WriteHeader(code int)        { a.code = code }
func (a *recorded) Write(p []byte) (int, error) { return a.body.Write(p) }

// serveHTTP serves on the listener, by TLS if the web configuration says so.
func (s *Server) serveHTTP() error {
	file := s.config.Access.WebConfig
	if file == "" {
		return s.http.Serve(s.ln)
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	return web.Serve(s.ln, s.http, &web.FlagConfig{WebConfigFile: &file}, s.log)
}
