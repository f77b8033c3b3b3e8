package main

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubectlScript responds like kubectl, and records its arguments.
const kubectlScript = `#!/bin/sh
echo "$@" >>"$FAKE/asked"
case "$*" in
*"get configmap"*) cat "$FAKE/ca" ;;
*"create token"*) [ ! -e "$FAKE/forbidden" ] || { echo 'error: serviceaccounts "reckon" is forbidden' >&2; exit 1; }; echo made-token ;;
*port-forward*) [ ! -e "$FAKE/none" ] || { echo 'Error from server (NotFound): services "reckon" not found' >&2; exit 1; }
  echo "Forwarding from $(cat "$FAKE/address") -> 9870"; exec sleep 60 ;;
esac
`

// TestKubectlPlugin runs commands like kubectl: through a forwarded port, with the CA of the chart and a token
// created for the call.
func TestKubectlPlugin(t *testing.T) {
	var shown []string
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"workloads":[]}`))
	})
	secure, plain := httptest.NewTLSServer(answer), httptest.NewServer(answer)
	defer secure.Close()
	defer plain.Close()
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	own := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(own, []byte("own-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		args   []string
		server *httptest.Server
		file   string // exists while it runs
		code   int
		token  string // sent to the server
		errs   string
		asked  []string
	}{
		"jobs": {[]string{"jobs"}, secure, "", 0, "Bearer made-token", "", []string{
			"--namespace=reckon get configmap reckon-ca", "--namespace=reckon create token reckon --audience=reckon", "--namespace=reckon port-forward --address=127.0.0.1 service/reckon :https"}},
		"elsewhere": {[]string{"-n", "mon", "--context", "c1", "--service=usage", "jobs", "--kind", "pod"}, secure, "", 0, "Bearer made-token", "", []string{
			"--namespace=mon --context=c1 get configmap usage-ca", "create token usage", "service/usage"}},
		"a token of one's own":   {[]string{"jobs", "--token-file", own}, secure, "", 0, "Bearer own-token", "", nil},
		"without TLS":            {[]string{"jobs"}, plain, "", 0, "", "", []string{"service/reckon :http"}},
		"may not make tokens":    {[]string{"jobs"}, secure, "forbidden", 1, "", `kubectl-reckon: make a token: error: serviceaccounts "reckon" is forbidden; or give one of your own with --token-file`, nil},
		"no such service":        {[]string{"jobs"}, secure, "none", 1, "", `kubectl forwards no port to service/reckon in the namespace reckon: Error from server (NotFound)`, nil},
		"an unknown option":      {[]string{"--nope", "jobs"}, secure, "", 2, "", "write kubectl reckon [-n NAMESPACE]", nil},
		"help asks no cluster":   {[]string{"jobs", "--help"}, secure, "", 0, "", "", []string{}},
		"a server that is named": {[]string{"jobs", "--server", plain.URL}, secure, "", 0, "", "", []string{}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string, mode os.FileMode) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
					t.Fatal(err)
				}
			}
			write("kubectl", kubectlScript, 0o700)
			write("address", tt.server.Listener.Addr().String(), 0o600)
			if ca := authority; tt.server == secure {
				write("ca", ca, 0o600)
			} else {
				write("ca", "", 0o600)
			}
			if tt.file != "" {
				write(tt.file, "", 0o600)
			}
			t.Setenv("FAKE", dir)
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			t.Setenv("TMPDIR", dir)
			shown = nil
			var out, errs bytes.Buffer
			code := executePlugin(t.Context(), deps{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}, tt.args)
			if code != tt.code || !strings.Contains(errs.String(), tt.errs) {
				t.Errorf("exit %d, want %d: %s%s", code, tt.code, out.String(), errs.String())
			}
			for _, s := range shown {
				if s != tt.token {
					t.Errorf("the server is shown %q, want %q", s, tt.token)
				}
			}
			if (tt.token != "" || what == "without TLS") && len(shown) == 0 {
				t.Errorf("the server was not asked: %s", errs.String())
			}
			asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
			for _, want := range tt.asked {
				if !strings.Contains(string(asked), want) {
					t.Errorf("kubectl was asked %q, not %q", asked, want)
				}
			}
			if tt.asked != nil && len(tt.asked) == 0 && len(asked) > 0 {
				t.Errorf("kubectl was asked %q", asked)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "kubectl-reckon-*")); len(left) > 0 {
				t.Errorf("the token stays on the disk: %v", left)
			}
		})
	}
}
