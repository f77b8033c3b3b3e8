package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"golang.org/x/sys/unix"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/client"
	"reckon/server"
)

// accessFlags adds the flags of a server for access control.
func accessFlags(cmd *cobra.Command, a *server.Access) {
	f := cmd.Flags()
	f.StringVar(&a.WebConfig, "web-config", "", "file with TLS certificates and the like, in the form of Prometheus's web configuration; read again while the server runs")
	f.StringVar(&a.OIDC, "oidc-config", "", "configuration file for sign-in by OpenID Connect")
	f.StringVar(&a.Kubernetes, "kubernetes-config", "", "file that names the service accounts of a Kubernetes cluster that are let in, see doc/guides/access.md")
	f.StringVar(&a.Limits, "limits", "", "file that bounds what senders, sites and viewers take, see doc/guides/access.md")
	f.StringSliceVar(&a.Proxies, "trusted-proxy", nil, "address or network of a reverse proxy that is believed about whom a request comes from (X-Forwarded-For, X-Forwarded-Proto); can be given again")
	f.BoolVar(&a.TrustLoopback, "trust-loopback", false, "while there are no users, let everybody on this machine see and change everything, as releases before did, instead of asking the kernel who it is")
	f.BoolVar(&a.Public, "public", false, "show totals, without names, to those who are not signed in")
	f.StringVar(&a.Socket, "api-socket", "auto", "Unix socket on which each user of this machine sees their own work without a token: a path, auto ("+client.Sockets("")[0]+" where it can be made, else one of the user) or none")
	f.BoolVar(&a.Insecure, "insecure", false, "let everybody who reaches the address see and change everything")
}

// apiSocket returns the path of the Unix socket to create, empty for none, and whether it was requested explicitly.
func apiSocket(flag string, getenv func(string) string) (path string, wanted bool) {
	switch flag {
	case "none":
		return "", false
	case "auto":
	default:
		return flag, true
	}
	system := client.Sockets("")[0]
	if os.Geteuid() == 0 || unix.Access(filepath.Dir(system), unix.W_OK) == nil {
		return system, false
	}
	if list := client.Sockets(getenv("XDG_RUNTIME_DIR")); len(list) > 1 {
		return list[0], false
	}
	return "", false
}

// answeringSocket returns the address of a server on this machine that responds on a Unix socket; empty if there is none.
func answeringSocket(getenv func(string) string) string {
	for _, path := range client.Sockets(getenv("XDG_RUNTIME_DIR")) {
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = c.Close()
			return "unix:" + path
		}
	}
	return ""
}

// connection holds the flags for connecting to a server.
type connection struct {
	server, tokenFile, caFile string
}

func (c *connection) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&c.server, "server", "", "address of the reckon server, or unix:PATH (default RECKON_SERVER, else a Unix socket of this machine that answers, else "+client.DefaultServer+")")
	f.StringVar(&c.tokenFile, "token-file", "", "file with a token for it (default RECKON_TOKEN_FILE, else reckon/token in the configuration of the user)")
	f.StringVar(&c.caFile, "ca-file", "", "certificates to trust besides those of the system (default RECKON_CA_FILE)")
}

// options returns the client options for authentication.
func (g *globals) options() ([]client.Option, error) {
	var out []client.Option
	token, err := g.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		out = append(out, client.WithToken(token))
	}
	file := g.caFile
	if file == "" {
		file = g.getenv("RECKON_CA_FILE")
	}
	if file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca-file %s holds no certificate in PEM form", file)
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		out = append(out, client.WithHTTP(&http.Client{Transport: transport}))
	}
	return out, nil
}

// token reads the token of the user: never from an argument or an environment variable, which others
// can see.
func (g *globals) token() (string, error) {
	file, named := g.tokenFile, true
	if file == "" {
		file = g.getenv("RECKON_TOKEN_FILE")
	}
	if file == "" {
		named = false
		dir := g.getenv("XDG_CONFIG_HOME")
		if home := g.getenv("HOME"); dir == "" && home != "" {
			dir = filepath.Join(home, ".config")
		}
		if dir == "" {
			return "", nil
		}
		file = filepath.Join(dir, "reckon", "token")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		if !named && errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", fmt.Errorf("the file of the token: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s holds no token; it is one line, as `reckon token create` prints it", file)
	}
	return text, nil
}
