package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/access"
	"reckon/access/auth"
	"reckon/metric"
	"reckon/transport/push"
	"reckon/web/client"
)

// opened is a server without sensors that takes samples.
func opened(t *testing.T, c Config) *Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c.Receive, c.OutOfOrder = true, time.Hour
	s, err := Open(ctx, c)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

const password = "correct horse battery"

func users(t *testing.T, dir string) *auth.Users {
	t.Helper()
	k, err := auth.Open(dir, auth.Options{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func asked(t *testing.T, c *http.Client, target string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestOthersNeedAPassword: an address that others reach is refused without users.
func TestOthersNeedAPassword(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(t.Context(), Config{Listen: "0.0.0.0:0", Data: dir})
	if err == nil || !strings.Contains(err.Error(), "reckon user add") || !strings.Contains(err.Error(), "--insecure") {
		t.Fatalf("%v", err)
	}
	k := users(t, dir)
	if err := k.AddUser(t.Context(), auth.User{Name: "alice", Role: access.User}, password); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Listen: "0.0.0.0:0", Data: dir}); err == nil {
		t.Fatal("users without an administrator are enough")
	}
	if err := k.AddUser(t.Context(), auth.User{Name: "root", Role: access.Admin}, password); err != nil {
		t.Fatal(err)
	}
	s := opened(t, Config{Listen: "0.0.0.0:0", Data: dir})
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	base := "http://127.0.0.1:" + port
	c := http.DefaultClient
	for _, path := range []string{"/api/reckon/v1/workloads", "/api/reckon/v1/nodes", "/api/v1/query?query=up", "/api/v1/status/tsdb"} {
		if code, text := asked(t, c, base+path); code != http.StatusUnauthorized {
			t.Errorf("%s answers a stranger with %d %s", path, code, text)
		}
		if code, text := asked(t, c, base+path, "Authorization", basicAuth("root", password)); code != http.StatusOK {
			t.Errorf("%s answers root with %d %s", path, code, text)
		}
	}
	if code, _ := asked(t, c, base+"/api/v1/status/tsdb", "Authorization", basicAuth("alice", password)); code != http.StatusForbidden {
		t.Errorf("a user sees the labels of all: %d", code)
	}
	if code, _ := asked(t, c, base+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz answers %d", code)
	}
	// The process itself needs no password.
	inside, err := client.New("", client.WithHTTP(s.InProcessClient()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inside.Workloads(t.Context(), client.Filter{}); err != nil {
		t.Error(err)
	}
}

func basicAuth(name, password string) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(name, password)
	return r.Header.Get("Authorization")
}

// TestClusterNeedsNoUser: where service accounts are let in a server starts without a user, and
// whoever sends no token gets nothing.
func TestClusterNeedsNoUser(t *testing.T) {
	dir := t.TempDir()
	api := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(api.Close)
	ca, file := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "kubernetes.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})))
	write(file, "agents: [reckon/reckon-agent]\nca_file: "+ca+"\n")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	c := Config{Listen: "0.0.0.0:0", Data: filepath.Join(dir, "data"), Access: Access{Kubernetes: file}}
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no pod of a cluster") {
		t.Fatalf("outside of a cluster: %v", err)
	}
	u, err := url.Parse(api.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", u.Hostname())
	t.Setenv("KUBERNETES_SERVICE_PORT", u.Port())
	s := opened(t, c)
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	const path = "/api/reckon/v1/workloads"
	if code, text := asked(t, http.DefaultClient, "http://127.0.0.1:"+port+path); code != http.StatusUnauthorized {
		t.Errorf("a stranger gets %d %s", code, text)
	}
	// The API server knows nothing here: nobody can report it, which an agent takes for "later".
	if code, text := asked(t, http.DefaultClient, "http://127.0.0.1:"+port+path, "Authorization", "Bearer eyJ.x.y"); code != http.StatusInternalServerError || !strings.Contains(text, "API server") {
		t.Errorf("a token that cannot be checked: %d %s", code, text)
	}
	write(file, "agents: [reckon/reckon-agent]\naudiences: x\n")
	c.Data = filepath.Join(dir, "other")
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "audiences") {
		t.Errorf("an unknown field: %v", err)
	}
}

func TestInsecureIsWished(t *testing.T) {
	s := opened(t, Config{Listen: "0.0.0.0:0", Data: t.TempDir(), Access: Access{Insecure: true}})
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if code, text := asked(t, http.DefaultClient, "http://127.0.0.1:"+port+"/api/reckon/v1/workloads"); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}

// TestLoopback: this machine needs no password until there is a user, but a page of
// another site does not get in by a name that leads here.
func TestLoopback(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, Config{Listen: "127.0.0.1:0", Data: dir})
	base, c := "http://"+s.Addr(), http.DefaultClient
	const path = "/api/reckon/v1/workloads"
	if code, text := asked(t, c, base+path); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	for _, host := range []string{"evil.example", "evil.example:9870", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example"} {
		if code, text := asked(t, c, base+path, "Host", host); code != http.StatusForbidden || !strings.Contains(text, "localhost") {
			t.Errorf("for the name %s: %d %s", host, code, text)
		}
	}
	for _, host := range []string{"localhost", "localhost:1234", "[::1]:9870", "127.0.0.1"} {
		if code, _ := asked(t, c, base+path, "Host", host); code != http.StatusOK {
			t.Errorf("for the name %s: %d", host, code)
		}
	}
	if code, _ := asked(t, c, base+path, "Authorization", "Bearer rkn_x.y"); code != http.StatusUnauthorized {
		t.Errorf("a wrong token is overlooked: %d", code)
	}
	withUsers := t.TempDir()
	k := users(t, withUsers)
	if err := k.AddUser(t.Context(), auth.User{Name: "alice", Role: access.User}, password); err != nil {
		t.Fatal(err)
	}
	base = "http://" + opened(t, Config{Listen: "127.0.0.1:0", Data: withUsers}).Addr()
	if code, _ := asked(t, c, base+path); code != http.StatusUnauthorized {
		t.Errorf("with a user, a stranger on this machine gets %d", code)
	}
	if code, _ := asked(t, c, base+path, "Authorization", basicAuth("alice", password)); code != http.StatusOK {
		t.Errorf("alice gets %d", code)
	}
}

// TestAgentsSpeakForThemselves: a token of an agent sends for its nodes only, and sees
// nothing; the agent keeps the samples that were refused for it.
func TestAgentsSpeakForThemselves(t *testing.T) {
	dir := t.TempDir()
	k := users(t, dir)
	if err := k.AddUser(t.Context(), auth.User{Name: "root", Role: access.Admin}, password); err != nil {
		t.Fatal(err)
	}
	s := opened(t, Config{Listen: "127.0.0.1:0", Data: dir})
	token, err := k.AddToken(t.Context(), auth.Token{Kind: auth.Agent, Scope: access.Scope{Site: "lab", Nodes: []string{"n1"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	load := &metric.Desc{Name: "node_load1", Help: "Load.", Kind: metric.Gauge}
	send := func(node, file string) push.Status {
		p, err := push.Open(push.Config{
			Endpoints: []push.Endpoint{{URL: "http://" + s.Addr(), TokenFile: file}}, QueueDir: t.TempDir(), Labels: map[string]string{"site": "lab", "node": node},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		b := &metric.Batch{Time: time.Now()}
		b.Add(metric.NewSeries(load), 1)
		if err := p.Put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		p.Flush(t.Context()) // tries once
		return p.Status()[0]
	}
	if st := send("n1", file); st.Sent != 1 {
		t.Errorf("its own node: %+v", st)
	}
	if st := send("n2", file); st.Sent != 0 || st.Refused != 0 {
		t.Errorf("another node: %+v", st)
	}
	if st := send("n1", ""); st.Sent != 0 || st.Refused != 0 {
		t.Errorf("without a token: %+v", st)
	}
	if code, _ := asked(t, http.DefaultClient, "http://"+s.Addr()+"/api/v1/query?query=node_load1", "Authorization", "Bearer "+token); code != http.StatusUnauthorized {
		t.Errorf("an agent sees something: %d", code)
	}
	if code, text := asked(t, http.DefaultClient, "http://"+s.Addr()+"/api/v1/query?query=count(node_load1)", "Authorization", basicAuth("root", password)); code != http.StatusOK || !strings.Contains(text, `"1"`) {
		t.Errorf("%d %s", code, text)
	}
}

// TestAuditLog: who sees all and looks at the work of others is noted, once for a while;
// own work and machines are nobody's business.
func TestAuditLog(t *testing.T) {
	dir := t.TempDir()
	k := users(t, dir)
	for name, role := range map[string]access.Role{"root": access.Admin, "sue": access.Support, "alice": access.User} {
		if err := k.AddUser(t.Context(), auth.User{Name: name, Role: role}, password); err != nil {
			t.Fatal(err)
		}
	}
	s := opened(t, Config{Listen: "127.0.0.1:0", Data: dir})
	for range 3 {
		for _, name := range []string{"sue", "alice"} {
			for _, path := range []string{"/api/reckon/v1/workloads?owner=bob", "/api/v1/query?query=reckon_workload_info", "/api/v1/query?query=node_load1", "/api/reckon/v1/nodes"} {
				asked(t, http.DefaultClient, "http://"+s.Addr()+path, "Authorization", basicAuth(name, password))
			}
		}
		asked(t, http.DefaultClient, "http://"+s.Addr()+"/api/reckon/v1/workloads?owner=sue", "Authorization", basicAuth("sue", password))
	}
	entries, err := k.Entries(t.Context(), "", "", time.Time{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprint(e.Viewer, " ", e.Action, " ", e.Owner))
	}
	if len(got) != 2 || got[0] != "sue query " || got[1] != "sue workloads bob" {
		t.Errorf("%q", got)
	}
}

// TestTLS serves by the web configuration of Prometheus's exporters, and takes a new
// certificate while it runs.
func TestTLS(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	first := certificate(t, dir, 1)
	file := filepath.Join(dir, "web.yml")
	if err := os.WriteFile(file, []byte("tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := opened(t, Config{Listen: "127.0.0.1:0", Data: data, Access: Access{WebConfig: file}})
	trusts := func(pool *x509.CertPool) *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	}
	const path = "/api/reckon/v1/workloads"
	if code, text := asked(t, trusts(first), "https://"+s.Addr()+path); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	if code, _ := asked(t, http.DefaultClient, "http://"+s.Addr()+path); code != http.StatusBadRequest {
		t.Errorf("without TLS: %d", code)
	}
	if got := s.URL(); got != "https://"+s.Addr() {
		t.Errorf("it says that it is at %s", got)
	}
	second := certificate(t, dir, 2)
	if code, text := asked(t, trusts(second), "https://"+s.Addr()+path); code != http.StatusOK {
		t.Errorf("after the certificate was replaced: %d %s", code, text)
	}
	if _, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Access: Access{WebConfig: filepath.Join(dir, "none.yml")}}); err == nil || !strings.Contains(err.Error(), "none.yml") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// certificate writes a self-signed pair for 127.0.0.1 and returns a pool that trusts it.
func certificate(t *testing.T, dir string, serial int64) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "reckon"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return pool
}

// TestURL: a server on all addresses names the machine, since nobody can ask for [::].
func TestURL(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Skip("not available here: ", err)
	}
	for listen, want := range map[string]string{"127.0.0.1:0": "127.0.0.1", ":0": name, "[::1]:0": "[::1]"} {
		s, err := Open(t.Context(), Config{Listen: listen, Data: t.TempDir(), Access: Access{Insecure: true}})
		if err != nil {
			t.Log(listen, err) // a machine without IPv6
			continue
		}
		_, port, _ := net.SplitHostPort(s.Addr())
		if got := s.URL(); got != "http://"+want+":"+port {
			t.Errorf("%s: %s", listen, got)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}
