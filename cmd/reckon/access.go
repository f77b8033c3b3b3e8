package main

import (
	"cmp"
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

	"reckon/web/client"
)

// chooseSocket returns the path of the Unix socket to create, empty for none, and whether it was requested explicitly.
func chooseSocket(flag string, getenv func(string) string) (path string, requested bool) {
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

// findSocket returns the address of a server on this machine that responds on a Unix socket; "" if there is none.
func findSocket(getenv func(string) string) string {
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

func (c *connection) addFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&c.server, "server", "",
		"address of the reckon server, or unix:PATH (default RECKON_SERVER, else a Unix socket of this machine that answers, else "+
			client.DefaultServer+")")
	f.StringVar(&c.tokenFile, "token-file", "",
		"file with a token for it (default RECKON_TOKEN_FILE, else reckon/token in the configuration of the user)")
	f.StringVar(&c.caFile, "ca-file", "", "more certificates to trust (default RECKON_CA_FILE)")
}

// clientOptions returns the client options for authentication.
func (g *globals) clientOptions() ([]client.Option, error) {
	var out []client.Option
	token, err := g.readToken()
	if err != nil {
		return nil, err
	}
	if token != "" {
		out = append(out, client.WithToken(token))
	}
	file := cmp.Or(g.caFile, g.getenv("RECKON_CA_FILE"))
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

// readToken reads the user's token from a file. It does not accept a token in an argument or an environment variable,
// because other users may see these.
func (g *globals) readToken() (string, error) {
	file, named := g.tokenFile, true
	file = cmp.Or(file, g.getenv("RECKON_TOKEN_FILE"))
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
