package webconfig

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// identity creates a self-signed certificate for 127.0.0.1.
func identity(t *testing.T, dir, name string, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name+".crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, filepath.Join(dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// again makes the next check read the files.
func (c *Config) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = time.Time{}
}

// serve returns the address of a server with the configuration.
func serve(t *testing.T, c *Config) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "in") })
	srv := &http.Server{Handler: c.Handler(h), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go srv.Serve(c.Listener(ln))
	t.Cleanup(func() { _ = srv.Close() })
	return ln.Addr().String()
}

func ask(t *testing.T, c *http.Client, target, user, password string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	resp, err := c.Do(r)
	if err == nil {
		_ = resp.Body.Close()
	}
	return resp, err
}

func hashed(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func TestUsers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "web.yml")
	write(t, file, "basic_auth_users: {prom: "+hashed(t, "one")+"}\nhttp_server_config: {headers: {X-Frame-Options: deny}}\n")
	var log bytes.Buffer
	c, err := Open(file, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if !c.Closed() || c.TLS() {
		t.Errorf("closed %v, TLS %v", c.Closed(), c.TLS())
	}
	base := "http://" + serve(t, c)
	code := func(user, password string) int {
		t.Helper()
		resp, err := ask(t, http.DefaultClient, base, user, password)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Header.Get("X-Frame-Options") != "deny" {
			t.Error("the header is missing")
		}
		return resp.StatusCode
	}
	for range 2 { // the second time the verified password is cached
		if code("prom", "one") != 200 || code("prom", "two") != 401 || code("", "") != 401 || code("other", "one") != 401 ||
			code("prom", strings.Repeat("x", 100)) != 401 {
			t.Error("the wrong ones get in, or the right one does not")
		}
	}
	// A new password is valid at once, the old one is not.
	write(t, file, "basic_auth_users: {prom: "+hashed(t, "two")+"}\nhttp_server_config: {headers: {X-Frame-Options: deny}}\n")
	c.again()
	if code("prom", "one") != 401 || code("prom", "two") != 200 {
		t.Error("the new password does not hold")
	}
	write(t, file, "basic_auth_user: {}")
	c.again()
	if code("prom", "two") != 200 || code("", "") != 401 || !strings.Contains(log.String(), "field basic_auth_user not found") {
		t.Errorf("a file that became wrong: %s", log.String())
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "web.yml")
	first := identity(t, dir, "server", 1)
	friend := identity(t, dir, "friend", 2)
	identity(t, dir, "stranger", 3)
	text := "tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: friend.crt, client_auth_type: " +
		"RequireAndVerifyClientCert, client_allowed_sans: [friend]}\n"
	write(t, file, text)
	c, err := Open(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if !c.Closed() || !c.TLS() {
		t.Errorf("closed %v, TLS %v", c.Closed(), c.TLS())
	}
	addr := serve(t, c)
	try := func(client string, trust *x509.Certificate) error {
		t.Helper()
		pool := x509.NewCertPool()
		pool.AddCert(trust)
		conf := &tls.Config{RootCAs: pool}
		if client != "" {
			pair, err := tls.LoadX509KeyPair(filepath.Join(dir, client+".crt"), filepath.Join(dir, client+".key"))
			if err != nil {
				t.Fatal(err)
			}
			conf.Certificates = []tls.Certificate{pair}
		}
		tr := &http.Transport{TLSClientConfig: conf}
		defer tr.CloseIdleConnections()
		_, err := ask(t, &http.Client{Transport: tr}, "https://"+addr, "", "")
		return err
	}
	if err := try("friend", first); err != nil {
		t.Error(err)
	}
	if try("", first) == nil || try("stranger", first) == nil {
		t.Error("a client without the right certificate got in")
	}
	// A new certificate is used without a restart.
	second := identity(t, dir, "server", 4)
	c.again()
	if err := try("friend", second); err != nil {
		t.Error(err)
	}
	if try("friend", first) == nil {
		t.Error("the old certificate is still shown")
	}
	write(t, file, strings.Replace(text, "[friend]", "[other]", 1))
	c.again()
	if try("friend", second) == nil {
		t.Error("a name that is not on the list got in")
	}
	if friend.SerialNumber.Int64() != 2 {
		t.Error("serial")
	}
}

func TestWrongFiles(t *testing.T) {
	dir := t.TempDir()
	identity(t, dir, "server", 1)
	identity(t, dir, "other", 2)
	pair := "cert_file: server.crt, key_file: server.key"
	for text, want := range map[string]string{
		"rate_limit: {interval: 1s}":                                                   "field rate_limit not found",
		"http_server_config: {http2: true}":                                            "http2 is not taken",
		"basic_auth_users: {a: secret}":                                                "htpasswd -nBC 10 a",
		"tls_server_config: {}":                                                        "cert_file is missing",
		"tls_server_config: {cert_file: server.crt}":                                   "key_file is missing",
		"tls_server_config: {cert_file: server.crt, key_file: other.key}":              "cert and key: ",
		"tls_server_config: {cert_file: none.crt, key_file: server.key}":               "no such file",
		"tls_server_config: {" + pair + ", min_version: SSL3}":                         "min_version: SSL3 is unknown",
		"tls_server_config: {" + pair + ", client_auth_type: Yes}":                     "client_auth_type: Yes is unknown",
		"tls_server_config: {" + pair + ", client_ca_file: server.crt}":                "without client_auth_type",
		"tls_server_config: {" + pair + ", client_auth_type: VerifyClientCertIfGiven}": "needs client_ca_file",
		"tls_server_config: {" + pair + ", cipher_suites: [TLS_NULL]}":                 "cipher_suites: TLS_NULL is unknown",
		"tls_server_config: {" + pair + ", curve_preferences: [X]}":                    "curve_preferences: X is unknown",
		"tls_server_config: {" + pair + ", cert: x}":                                   "cert and cert_file are both given",
	} {
		file := filepath.Join(dir, "web.yml")
		write(t, file, text)
		if _, err := Open(file, nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) &&
			!strings.Contains(want, "no such file") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if strings.Contains(fmt.Sprint(Open(filepath.Join(dir, "web.yml"), nil)), "PRIVATE") {
		t.Error("a key is in the error")
	}
	write(t, filepath.Join(dir, "web.yml"), "")
	if c, err := Open(filepath.Join(dir, "web.yml"), nil); err != nil || c.Closed() || c.TLS() {
		t.Errorf("an empty file: %v", err)
	}
}

func TestLocalHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:9870": true, "127.0.0.1:1": true, "127.8.9.1": true, "[::1]:80": true, "[::1]": true, "::1": true,
		"": false, "evil.example": false, "localhost.evil.example:9870": false, "10.0.0.1:9870": false, "0.0.0.0": false,
	} {
		if got := LocalHost(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// Responses over TLS make browsers stay with TLS; the file may set another policy.
func TestStrictTransport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yml")
	for text, want := range map[string]string{
		"{}\n": "max-age=15768000",
		"http_server_config: {headers: {Strict-Transport-Security: max-age=60}}\n": "max-age=60",
	} {
		write(t, file, text)
		c, err := Open(file, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		loopback := strings.TrimPrefix(want, "max-age=15768000") // a browser would keep to TLS for everything on localhost
		for target, want := range map[string]string{"https://node/": want, "https://127.0.0.1/": loopback,
			"https://localhost:9870/": loopback, "http://node/": strings.TrimPrefix(want, "max-age=15768000")} {
			w := httptest.NewRecorder()
			c.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
			if got := w.Header().Get("Strict-Transport-Security"); got != want {
				t.Errorf("%s with %q: %q, want %q", target, text, got, want)
			}
		}
	}
}
