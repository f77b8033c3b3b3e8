package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"

	"reckon/access/auth"
)

// Access configures access to the server.
type Access struct {
	// Insecure grants the role admin to everybody who can reach the address.
	Insecure bool
	// Public shows data without names to visitors who are not signed in.
	Public bool
	// WebConfig is a file in the format of Prometheus's exporter-toolkit: TLS, client certificates,
	// and users with bcrypt passwords, who are admin. It is reread while the server runs.
	WebConfig string
	// OIDC is a file with an auth.ProviderConfig.
	OIDC string
	// Kubernetes is a file with an auth.ClusterConfig: the service accounts that are let in.
	Kubernetes string
	// Proxies are the networks of trusted reverse proxies, such as 10.0.0.0/8 or 127.0.0.1, which
	// report the origin of a request.
	Proxies []string
	// TrustLoopback makes all local users admin while there are no users. Without it the kernel
	// identifies the user of each connection.
	TrustLoopback bool
	// Socket is the flag of the Unix socket of the API: a path, auto or none (Config.APISocket).
	Socket string
	// Origins are the origins of other sites with pages that may show static/widget.js (api.Options).
	Origins []string
	// Limits is the file of limits for senders, sites and viewers (limits.Config). Empty means the defaults.
	Limits string
}

// openAccess opens the file of users and tokens. It returns an error if the server listens on an address that other
// machines can reach but requires no password.
func (s *Server) openAccess(ctx context.Context) error {
	c := s.config.Access
	users, err := s.openUsers(ctx)
	if err != nil {
		return err
	}
	// Requests forwarded by another member come from its machine, whoever sent them, so connections
	// authenticate no user.
	local := isLoopback(s.ln.Addr()) && s.config.member == nil
	s.authn = &auth.Authenticator{Users: users, Public: c.Public, Insecure: c.Insecure, Local: local, Logger: s.log}
	if s.authn.Proxies, err = parseProxies(c.Proxies); err != nil {
		return err
	}
	if s.authn.Local && !c.TrustLoopback {
		s.peers = newPeers()
		s.authn.Peer = s.peers.sender
	}
	for _, o := range c.Origins {
		if u, err := url.Parse(o); err != nil || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return fmt.Errorf("widget-origins %q is not an origin such as https://ondemand.example", o)
		}
	}
	basic := 0
	if c.WebConfig != "" {
		if basic, s.tls, err = countWebUsers(c.WebConfig); err != nil {
			return err
		}
		s.authn.Basic = basic > 0
	}
	if c.OIDC != "" {
		if s.authn.OIDC, err = openProvider(ctx, c.OIDC); err != nil {
			return err
		}
	}
	if c.Kubernetes != "" {
		if s.authn.Cluster, err = openCluster(c.Kubernetes, s.log); err != nil {
			return err
		}
	}
	admin, err := users.HasAdmin(ctx)
	if err != nil {
		return err
	}
	if !s.authn.Local && !admin && basic == 0 && s.authn.OIDC == nil && s.authn.Cluster == nil && !c.Insecure {
		return fmt.Errorf(
			"other machines can reach %s without a password: make an administrator with `reckon user add NAME --role admin "+
				"--data %s`, or let everybody who reaches it see and change everything with --insecure",
			cmp.Or(s.config.Listen, s.ln.Addr().String()), s.config.Data)
	}
	if !s.authn.Local && !s.tls && !c.Insecure && len(c.Proxies) == 0 && s.config.member == nil {
		s.log.Warn(
			"passwords, tokens and sessions cross the network in the clear: give certificates by web-config, or listen on a loopback "+
				"address behind a proxy with TLS that trusted-proxy names", "address", s.ln.Addr().String())
	}
	return users.Trim(ctx)
}

// parseProxies reads addresses and networks.
func parseProxies(list []string) (out []netip.Prefix, err error) {
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			ip, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("trusted-proxy %q is neither an address nor a network such as 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(ip, ip.BitLen())
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// readStrict reads a file into to. An unknown field is an error.
func readStrict(flag, file string, to any) error {
	text, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	defer text.Close()
	dec := yaml.NewDecoder(text)
	dec.KnownFields(true)
	if err := dec.Decode(to); err != nil {
		return fmt.Errorf("%s %s: %w", flag, file, err)
	}
	return nil
}

func openCluster(file string, log *slog.Logger) (*auth.Cluster, error) {
	var c auth.ClusterConfig
	if err := readStrict("kubernetes-config", file, &c); err != nil {
		return nil, err
	}
	cluster, err := auth.NewCluster(c, os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"), time.Now, log)
	if err != nil {
		return nil, fmt.Errorf("kubernetes-config %s: %w", file, err)
	}
	return cluster, nil
}

func openProvider(ctx context.Context, file string) (*auth.Provider, error) {
	var c auth.ProviderConfig
	if err := readStrict("oidc-config", file, &c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	p, err := auth.NewProvider(ctx, c, nil, time.Now)
	if err != nil {
		return nil, fmt.Errorf("oidc-config %s: %w", file, err)
	}
	return p, nil
}

// countWebUsers checks a web configuration and counts its users.
func countWebUsers(file string) (users int, tls bool, err error) {
	if err := web.Validate(file); err != nil {
		return 0, false, fmt.Errorf("--web-config %s: %w", file, err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, false, fmt.Errorf("--web-config: %w", err)
	}
	var c struct {
		Users map[string]string `yaml:"basic_auth_users"`
		TLS   map[string]any    `yaml:"tls_server_config"`
	}
	if err := yaml.Unmarshal(raw, &c); err != nil {
		return 0, false, fmt.Errorf("--web-config %s: %w", file, err)
	}
	return len(c.Users), len(c.TLS) > 0, nil
}

// isLoopback reports whether only this machine reaches an address.
func isLoopback(a net.Addr) bool {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// serveHTTP serves on the listener, by TLS if the web configuration reports it.
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
