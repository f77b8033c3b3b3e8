package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEndpointsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "push.yaml")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`push:
  - url: https://mimir/api/v1/push
    headers: {X-Scope-OrgID: lab}
    labels: {cluster: c1}
    keep: ['reckon_workload_*{kind="slurm"}']
    timeout: 10s
    queue: {max_bytes: 1000000, max_age: 48h}
  - url: http://other
    protocol: "1.0"
`)
	got, err := readEndpoints(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Headers["X-Scope-OrgID"] != "lab" || got[0].Timeout != 10*time.Second ||
		got[0].Queue.MaxAge != 48*time.Hour || got[1].Protocol != "1.0" {
		t.Errorf("%+v", got)
	}
	for text, want := range map[string]string{
		"push:\n  - url: http://a\n    filter: x\n": "line 3: field filter not found",
		"push: []\n":                  "lists no endpoint",
		"pusch:\n  - url: http://a\n": "field pusch not found",
		"push: [":                     "line 1",
	} {
		write(text)
		if _, err := readEndpoints(file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestMistakesInFlags(t *testing.T) {
	for want, o := range map[string]pushOptions{
		"write http://server:9870": {urls: []string{"server:9870"}},
		"need --push":              {tokenFile: "x"},
		"no such file":             {file: "/no/such"},
	} {
		err := o.buildEndpoints()
		var u *usageError
		if err == nil || !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Prometheus-Remote-Write-Samples-Written", "0")
		w.WriteHeader(http.StatusNoContent)
	}))
	defer good.Close()
	bad := httptest.NewServer(http.NotFoundHandler())
	defer bad.Close()
	o := newOptions()
	o.Tick, o.Export, o.Root, o.Source, o.Exits = time.Second, time.Second, "/", "procfs", "none"
	o.Kubelet.Address = "none" // a cluster may run here
	o.push.queue = t.TempDir()
	o.push.urls = []string{good.URL}
	var out bytes.Buffer
	if err := runCheck(context.Background(), &out, o); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, want := range []string{"reading processes by procfs", "  ok    " + good.URL, "(remote write 2.0)", "  ok    " + o.push.queue} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	out.Reset()
	o.push.urls = append(o.push.urls, bad.URL)
	o.push.queue = "/proc/nowhere"
	err := runCheck(context.Background(), &out, o)
	if err == nil || !strings.Contains(err.Error(), "2 of the above") {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"  FAIL  " + bad.URL, "there is no remote write receiver", "  FAIL  /proc/nowhere", "push-queue"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
