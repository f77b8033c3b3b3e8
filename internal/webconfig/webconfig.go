// Package webconfig serves HTTP with a web configuration of Prometheus's exporters: TLS,
// client certificates, users with bcrypt passwords
// (https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md).
//
// It is for the agent: the toolkit itself would add client_golang, protobuf and oauth2 (3
// MB). All settings of the file are supported except rate_limit and http2, which are
// refused by name. Certificates and users are read again while the program runs; if a
// file becomes invalid, the previous settings remain in use and an error is logged.
//
// A Config is safe for concurrent use.
package webconfig

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"
)

// configFile is the content of the configuration file.
type configFile struct {
	TLS *struct {
		Cert        string   `yaml:"cert"`
		Key         string   `yaml:"key"`
		ClientCA    string   `yaml:"client_ca"`
		CertFile    string   `yaml:"cert_file"`
		KeyFile     string   `yaml:"key_file"`
		ClientAuth  string   `yaml:"client_auth_type"`
		ClientCAs   string   `yaml:"client_ca_file"`
		AllowedSANs []string `yaml:"client_allowed_sans"`
		Ciphers     []string `yaml:"cipher_suites"`
		Curves      []string `yaml:"curve_preferences"`
		Min         string   `yaml:"min_version"`
		Max         string   `yaml:"max_version"`
		Prefer      bool     `yaml:"prefer_server_cipher_suites"` // ignored by Go since 1.18
	} `yaml:"tls_server_config"`
	HTTP struct {
		HTTP2   *bool             `yaml:"http2"`
		Headers map[string]string `yaml:"headers"`
	} `yaml:"http_server_config"`
	Users map[string]string `yaml:"basic_auth_users"`
}

// loadedConfig is the configuration with the contents of all files that it names.
type loadedConfig struct {
	tls     *tls.Config // nil: plain HTTP
	users   map[string][]byte
	headers map[string]string
}

// Config is a web configuration that is read again when it changes.
type Config struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	state   loadedConfig
	read    time.Time
	problem string
	known   map[[32]byte]struct{} // recently verified passwords of the present users
	slow    sync.Mutex            // one password is checked at a time: bcrypt is slow by design
}

// Open reads a file.
func Open(path string, log *slog.Logger) (*Config, error) {
	s, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	return &Config{path: path, log: log, state: s, read: time.Now(), known: map[[32]byte]struct{}{}}, nil
}

// Closed reports whether every request needs a password or a certificate.
func (c *Config) Closed() bool {
	s := c.currentState()
	return len(s.users) > 0 || s.tls != nil && s.tls.ClientAuth >= tls.RequireAnyClientCert
}

// TLS reports whether the listener uses TLS.
func (c *Config) TLS() bool { return c.currentState().tls != nil }

// checkInterval is the minimum interval between checks of the files.
const checkInterval = time.Second

// currentState returns the loaded configuration. It reads the files again if the last check is more than a second ago.
func (c *Config) currentState() loadedConfig {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read) < checkInterval {
		return c.state
	}
	s, err := readConfig(c.path)
	c.read = time.Now()
	if err == nil && (s.tls == nil) != (c.state.tls == nil) {
		err = errors.New("TLS is switched on or off by a start only")
	}
	switch {
	case err == nil:
		if !isEqual(s.users, c.state.users) {
			clear(c.known)
		}
		c.state, c.problem = s, ""
	case err.Error() != c.problem:
		c.problem = err.Error()
		c.log.Error("the web configuration became invalid; the previous one remains in use", "file", c.path, "err", err)
	}
	return c.state
}

func isEqual(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if !bytes.Equal(v, b[k]) {
			return false
		}
	}
	return true
}

// Listener wraps a listener in TLS, if configured.
func (c *Config) Listener(ln net.Listener) net.Listener {
	if c.currentState().tls == nil {
		return ln
	}
	return tls.NewListener(ln, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.currentState().tls, nil },
	})
}

// unknownUserHash is a password hash for unknown names, so that checking them takes as long as for known names.
var unknownUserHash = sync.OnceValue(func() []byte {
	h, _ := bcrypt.GenerateFromPassword([]byte("nobody"), bcrypt.DefaultCost) // fails on long passwords only
	return h
})

// LocalHost reports whether a Host header (RFC 9110, section 7.2) names this machine by a loopback
// address or as localhost. In a DNS rebinding attack, a page on the internet resolves its own name
// to 127.0.0.1, and the header then has that name.
func LocalHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback() || name == "localhost"
}

// strictTransport is the default Strict-Transport-Security header (RFC 6797) of responses over TLS. Browsers then use
// TLS for half a year after each response. The web configuration file may set another value.
const strictTransport = "max-age=15768000"

// StrictTransport sets the Strict-Transport-Security header on a response over TLS. It does not for a loopback address,
// because the browser would then require TLS for all servers on localhost.
func StrictTransport(h http.Header, r *http.Request) {
	if r.TLS != nil && !LocalHost(r.Host) {
		h.Set("Strict-Transport-Security", strictTransport)
	}
}

// Handler requires a password, if the file has users, and sets the headers of the file.
func (c *Config) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := c.currentState()
		StrictTransport(w.Header(), r)
		for k, v := range s.headers {
			w.Header().Set(k, v)
		}
		if len(s.users) > 0 && !c.checkPassword(s, r) {
			w.Header().Set("WWW-Authenticate", `Basic charset="UTF-8"`)
			http.Error(w, "this address needs a name and a password", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (c *Config) checkPassword(s loadedConfig, r *http.Request) bool {
	name, password, ok := r.BasicAuth()
	if !ok || len(password) > 72 { // bcrypt's limit
		return false
	}
	key := sha256.Sum256([]byte(name + "\x00" + password))
	c.mu.Lock()
	_, known := c.known[key]
	c.mu.Unlock()
	if known {
		return true
	}
	hash, exists := s.users[name]
	if !exists {
		hash = unknownUserHash()
	}
	c.slow.Lock()
	err := bcrypt.CompareHashAndPassword(hash, []byte(password))
	c.slow.Unlock()
	if err != nil || !exists {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if isEqual(s.users, c.state.users) {
		c.known[key] = struct{}{}
	}
	return true
}

func readConfig(path string) (loadedConfig, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return loadedConfig{}, err
	}
	var f configFile
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return loadedConfig{}, fmt.Errorf("%s: %w", path, err)
	}
	s := loadedConfig{users: map[string][]byte{}, headers: f.HTTP.Headers}
	if f.HTTP.HTTP2 != nil {
		return s, fmt.Errorf("%s: http_server_config.http2 is not taken here: the agent speaks HTTP/1.1", path)
	}
	for name, hash := range f.Users {
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return s, fmt.Errorf("%s: basic_auth_users: the value for %s is not a bcrypt hash; create one with `htpasswd -nBC 10 %s`", path,
				name, name)
		}
		s.users[name] = []byte(hash)
	}
	if f.TLS != nil {
		if s.tls, err = f.tlsConfig(filepath.Dir(path)); err != nil {
			return s, fmt.Errorf("%s: tls_server_config: %w", path, err)
		}
	}
	return s, nil
}

var (
	tlsVersions = map[string]uint16{"": 0, "TLS10": tls.VersionTLS10, "TLS11": tls.VersionTLS11, "TLS12": tls.VersionTLS12,
		"TLS13": tls.VersionTLS13}
	tlsCurves = map[string]tls.CurveID{"CurveP256": tls.CurveP256, "CurveP384": tls.CurveP384, "CurveP521": tls.CurveP521,
		"X25519": tls.X25519, "X25519MLKEM768": tls.X25519MLKEM768}
	clientAuthTypes = map[string]tls.ClientAuthType{
		"": tls.NoClientCert, "NoClientCert": tls.NoClientCert, "RequestClientCert": tls.RequestClientCert,
		"RequireAnyClientCert":    tls.RequireAnyClientCert,
		"VerifyClientCertIfGiven": tls.VerifyClientCertIfGiven, "RequireAndVerifyClientCert": tls.RequireAndVerifyClientCert,
	}
)

func (f *configFile) tlsConfig(dir string) (*tls.Config, error) {
	t := f.TLS
	cert, err := readValue(dir, "cert", t.Cert, t.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := readValue(dir, "key", t.Key, t.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cert and key: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	var ok [3]bool
	c.MinVersion, ok[0] = tlsVersions[t.Min]
	c.MaxVersion, ok[1] = tlsVersions[t.Max]
	c.ClientAuth, ok[2] = clientAuthTypes[t.ClientAuth]
	for i, given := range []string{"min_version: " + t.Min, "max_version: " + t.Max, "client_auth_type: " + t.ClientAuth} {
		if !ok[i] {
			return nil, fmt.Errorf("%s is unknown", given)
		}
	}
	if c.MinVersion == 0 {
		c.MinVersion = tls.VersionTLS12
	}
	for _, name := range t.Curves {
		id, ok := tlsCurves[name]
		if !ok {
			return nil, fmt.Errorf("curve_preferences: %s is unknown", name)
		}
		c.CurvePreferences = append(c.CurvePreferences, id)
	}
	for _, name := range t.Ciphers {
		i := slices.IndexFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("cipher_suites: %s is unknown or insecure", name)
		}
		c.CipherSuites = append(c.CipherSuites, tls.CipherSuites()[i].ID)
	}
	if t.ClientCA == "" && t.ClientCAs == "" {
		if c.ClientAuth >= tls.VerifyClientCertIfGiven {
			return nil, fmt.Errorf("client_auth_type: %s needs client_ca_file", t.ClientAuth)
		}
		return c, nil
	}
	if t.ClientAuth == "" {
		return nil, errors.New("client_ca_file is given without client_auth_type; write RequireAndVerifyClientCert")
	}
	ca, err := readValue(dir, "client_ca", t.ClientCA, t.ClientCAs)
	if err != nil {
		return nil, err
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(ca) {
		return nil, errors.New("client_ca: there is no certificate in it")
	}
	if len(t.AllowedSANs) > 0 {
		c.VerifyConnection = func(cs tls.ConnectionState) error { return checkNames(t.AllowedSANs, cs.PeerCertificates) }
	}
	return c, nil
}

// checkNames checks the names of a client's certificate against a list.
func checkNames(names []string, certs []*x509.Certificate) error {
	if len(certs) == 0 {
		return errors.New("the client shows no certificate")
	}
	has := slices.Concat(certs[0].DNSNames, certs[0].EmailAddresses)
	for _, ip := range certs[0].IPAddresses {
		has = append(has, ip.String())
	}
	for _, u := range certs[0].URIs {
		has = append(has, u.String())
	}
	if !slices.ContainsFunc(has, func(n string) bool { return slices.Contains(names, n) }) {
		return fmt.Errorf("the certificate is for %s; none is in client_allowed_sans", strings.Join(has, ", "))
	}
	return nil
}

// readValue returns a value given in the file itself or in another file.
func readValue(dir, what, text, path string) ([]byte, error) {
	switch {
	case text != "" && path != "":
		return nil, fmt.Errorf("%s and %s_file are both given", what, what)
	case text != "":
		return []byte(text), nil
	case path == "":
		return nil, fmt.Errorf("%s_file is missing", what)
	case !filepath.IsAbs(path):
		path = filepath.Join(dir, path)
	}
	return os.ReadFile(path)
}
