package push

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each common mistake is named, with the remedy.
func TestDiagnosis(t *testing.T) {
	answer := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) }
	}
	at := func(path string, h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				http.NotFound(w, r)
				return
			}
			h(w, r)
		}
	}
	write := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(writtenHeader, "0")
		w.WriteHeader(http.StatusNoContent)
	}
	only1 := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		name     string
		handler  http.HandlerFunc
		tls      bool
		edit     func(*Endpoint)
		want     []string // empty if all is well
		protocol string
	}{
		{name: "well", handler: write, protocol: "2.0"},
		{name: "well, 1.0", handler: only1, protocol: "1.0"},
		{name: "well, by TLS", handler: write, tls: true, edit: func(e *Endpoint) { e.TLS.SkipVerify = true }, protocol: "2.0"},
		{name: "wrong path", handler: at("/api/v1/push", write), want: []string{"404", "there is one at /api/v1/push", "write --push http://"}},
		{name: "no such path", handler: at("/elsewhere", write), want: []string{"nor at the usual paths"}},
		{name: "a web page", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<html>"))
		}, want: []string{"web page"}},
		{name: "a redirect", handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://other:1/write", http.StatusMovedPermanently)
		}, want: []string{"write --push http://other:1/write"}},
		{name: "Prometheus without receiver", handler: answer(404, "remote write receiver needs to be enabled with --web.enable-remote-write-receiver"),
			want: []string{"start it with --web.enable-remote-write-receiver"}},
		{name: "no token", handler: answer(401, "who?"), want: []string{"who?", "--push-token-file"}},
		{name: "wrong token", handler: answer(403, "no"), edit: func(e *Endpoint) { e.TokenFile = token }, want: []string{"refuses the token in " + token}},
		{name: "a token that sees no other path", handler: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/write" {
				http.Error(w, "sees nothing", http.StatusUnauthorized)
				return
			}
			write(w, r)
		}, edit: func(e *Endpoint) { e.TokenFile = token; e.URL += "/api/v1/wrote" }, want: []string{"401 to /api/v1/wrote", "but there is one at /api/v1/write"}},
		{name: "token file is gone", handler: write, edit: func(e *Endpoint) { e.TokenFile = token + "x" }, want: []string{token + "x", "no such file"}},
		{name: "http to a TLS server", handler: write, tls: true, edit: func(e *Endpoint) { e.URL = strings.Replace(e.URL, "https", "http", 1) },
			want: []string{"speaks TLS only; write --push https://"}},
		{name: "https to a plain server", handler: write, edit: func(e *Endpoint) { e.URL = strings.Replace(e.URL, "http", "https", 1) },
			want: []string{"speaks no TLS; write --push http://"}},
		{name: "unknown authority", handler: write, tls: true, want: []string{"authority that this machine trusts", "push-ca"}},
		{name: "name does not match", handler: write, tls: true, edit: func(e *Endpoint) { e.TLS.ServerName = "wrong.invalid"; e.TLS.CAFile = "CA" },
			want: []string{"is for example.com", "write --push https://example.com"}},
		{name: "nothing listens", edit: func(e *Endpoint) { e.URL = "http://" + closed.Addr().String() }, want: []string{"nothing listens at " + closed.Addr().String()}},
		{name: "server is broken", handler: answer(500, "oops"), want: []string{"500", "oops"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Endpoint{}
			if c.handler != nil {
				srv := httptest.NewUnstartedServer(c.handler)
				srv.Config.ErrorLog = nil
				if c.tls {
					srv.StartTLS()
				} else {
					srv.Start()
				}
				defer srv.Close()
				e.URL = srv.URL
				if c.edit != nil {
					c.edit(&e)
				}
				if e.TLS.CAFile == "CA" {
					e.TLS.CAFile = filepath.Join(t.TempDir(), "ca.pem")
					if err := os.WriteFile(e.TLS.CAFile, pemOf(srv.Certificate().Raw), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				c.edit(&e)
			}
			p := pusher(t, t.TempDir(), e)
			f := p.Check(t.Context())[0]
			if len(c.want) == 0 && f.Problem != "" || f.Protocol != c.protocol {
				t.Errorf("%+v", f)
			}
			for _, w := range c.want {
				if !strings.Contains(f.Problem, w) {
					t.Errorf("%q lacks %q", f.Problem, w)
				}
			}
		})
	}
}

func pemOf(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }
