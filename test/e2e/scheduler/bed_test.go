//go:build e2e

// Package scheduler runs real schedulers of Kubernetes 1.34 beside a real etcd and kube-apiserver: ours with the plugin, and the stock one
// with the extender. Nodes are objects without a kubelet, for only where pods are bound counts.
//
// `make e2e` runs it where K8SBED_CACHE holds the programs of the bed (test/e2e/beds/k8s/README.md).
package scheduler

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// bed is an etcd and a kube-apiserver of our own.
type bed struct {
	t        *testing.T
	programs string
	dir      string
	api      string
	client   *http.Client
}

const token = "e2e-token"

func newBed(t *testing.T) *bed {
	t.Helper()
	cache := os.Getenv("K8SBED_CACHE")
	if cache == "" {
		t.Skip("K8SBED_CACHE names no folder with the programs of Kubernetes; test/e2e/beds/k8s/README.md says how they are built")
	}
	b := &bed{t: t, programs: filepath.Join(cache, "k8s-1.34"), dir: t.TempDir(),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 30 * time.Second}} // its certificate is of its own making
	for _, name := range []string{"etcd", "kube-apiserver", "kube-scheduler"} {
		if _, err := os.Stat(filepath.Join(b.programs, name)); err != nil {
			t.Skipf("%v: run test/e2e/beds/k8s/build.sh control with this K8SBED_CACHE", err)
		}
	}
	client, peer, api := freePort(t), freePort(t), freePort(t)
	etcd := fmt.Sprintf("http://127.0.0.1:%d", client)
	peers := fmt.Sprintf("http://127.0.0.1:%d", peer)
	b.start("etcd", filepath.Join(b.programs, "etcd"), "--data-dir", filepath.Join(b.dir, "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--unsafe-no-fsync")
	b.write("tokens.csv", token+",admin,admin,system:masters\n")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b.write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	b.api = fmt.Sprintf("https://127.0.0.1:%d", api)
	b.start("kube-apiserver", filepath.Join(b.programs, "kube-apiserver"), "--etcd-servers", etcd, "--secure-port", fmt.Sprint(api), "--bind-address", "127.0.0.1",
		"--cert-dir", filepath.Join(b.dir, "certs"), "--service-account-issuer", "https://e2e", "--service-account-key-file", b.path("sa.key"), "--service-account-signing-key-file", b.path("sa.key"),
		"--token-auth-file", b.path("tokens.csv"), "--authorization-mode", "AlwaysAllow", "--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition", "--service-cluster-ip-range", "10.96.0.0/24")
	b.write("kubeconfig", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":%q}}]}`, b.api, token))
	b.until("the API server is ready", 3*time.Minute, func() bool { return b.ask(http.MethodGet, "/readyz", nil, nil) == nil })
	return b
}

func (b *bed) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bed) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// start runs a program until the function that it returns is called, or the test ends; what it writes is shown when the test fails.
func (b *bed) start(name, program string, args ...string) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		_ = cmd.Wait()
		if text := out.Bytes(); b.t.Failed() {
			b.t.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// ask speaks JSON with the API server.
func (b *bed) ask(method, path string, body, into any) error {
	var r io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.api+path, r)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s, %w", method, path, res.Status, raw, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(raw, into)
}

func (b *bed) must(method, path string, body, into any) {
	b.t.Helper()
	if err := b.ask(method, path, body, into); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) until(what string, limit time.Duration, done func() bool) {
	b.t.Helper()
	for end := time.Now().Add(limit); !done(); {
		if time.Now().After(end) {
			b.t.Fatalf("not within %v: %s", limit, what)
		}
		<-time.After(200 * time.Millisecond)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
