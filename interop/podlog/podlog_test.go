package podlog

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/answer"
	"reckon/figure/wire"
)

var start = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// apiServer responds with ten lines per container, a second apart, like an API server.
type apiServer struct{ status int }

func (s apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.Header.Get("Authorization") != "Bearer secret" || q.Get("timestamps") != "true" || q.Get("sinceTime") != "2026-11-22T09:00:00Z" {
		http.Error(w, `{"message":"Unauthorized"}`, http.StatusUnauthorized)
		return
	}
	if s.status != 0 {
		http.Error(w, `{"message":"pods \"a\" is forbidden: cannot get pods/log"}`, s.status)
		return
	}
	pod, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods/")
	if pod = strings.TrimSuffix(pod, "/log"); !ok || pod == "gone" {
		http.Error(w, `{"message":"pods \"gone\" not found"}`, http.StatusNotFound)
		return
	}
	first := 0
	if n, err := strconv.Atoi(q.Get("tailLines")); err == nil && n < 10 {
		first = 10 - n
	}
	for i := first; i < 10; i++ {
		fmt.Fprintf(w, "%s %s/%s says  %d\n", start.Add(time.Duration(i)*time.Second).Format(time.RFC3339Nano), pod, q.Get("container"), i)
	}
	fmt.Fprint(w, "2026-11-22T09:00")
}

// open returns a client of a server, with a service account folder.
func open(t *testing.T, s apiServer) *Client {
	t.Helper()
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"token": []byte("secret\n"), "ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(host, port, dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func place(pods ...string) *answer.LogPlace {
	return &answer.LogPlace{Namespace: "shop", Pods: pods, From: start, To: start.Add(time.Minute), Containers: map[string][]string{"a": {"app", "proxy"}}}
}

func texts(list []wire.LogLine) (out []string) {
	for _, l := range list {
		out = append(out, l.Pod+"/"+l.Container+": "+l.Text)
	}
	return out
}

func TestLogs(t *testing.T) {
	c := open(t, apiServer{})
	until := place("b")
	until.To = start.Add(1500 * time.Millisecond)
	for what, x := range map[string]struct {
		place   *answer.LogPlace
		first   bool
		limit   int
		want    string
		more    bool
		missing string
	}{
		"the last of two containers": {place("a"), false, 2, "a/app: a/app says  9; a/proxy: a/proxy says  9", true, ""},
		"the first of them":          {place("a"), true, 3, "a/app: a/app says  0; a/proxy: a/proxy says  0; a/app: a/app says  1", true, ""},
		"a pod with one container":   {place("b"), true, 1, "b/: b/ says  0", true, ""},
		"all of it":                  {until, true, 2, "b/: b/ says  0; b/: b/ says  1", false, ""},
		"to its end":                 {until, false, 100, "b/: b/ says  0; b/: b/ says  1", false, ""},
		"a pod that is gone":         {place("b", "gone"), true, 1, "b/: b/ says  0", true, "gone"},
	} {
		logs, err := c.Logs(t.Context(), x.place, x.first, x.limit)
		if got := strings.Join(texts(logs.Lines), "; "); err != nil || got != x.want || logs.More != x.more || strings.Join(logs.Missing, ",") != x.missing || logs.Source != "kubernetes" {
			t.Errorf("%s: %s, more %v, missing %v, %v", what, got, logs.More, logs.Missing, err)
		}
	}
	if _, err := c.Logs(t.Context(), &answer.LogPlace{Unit: "nginx.service"}, true, 1); !errors.Is(err, answer.ErrNotFound) {
		t.Errorf("a unit: %v", err)
	}
}

func TestRefused(t *testing.T) {
	if _, err := open(t, apiServer{http.StatusForbidden}).Logs(t.Context(), place("b"), true, 1); err == nil || !strings.Contains(err.Error(), "grant the server's account get on pods/log") || !strings.Contains(err.Error(), "cannot get pods/log") {
		t.Errorf("403: %v", err)
	}
	if _, err := open(t, apiServer{http.StatusInternalServerError}).Logs(t.Context(), place("b"), true, 1); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("500: %v", err)
	}
	c := open(t, apiServer{})
	c.tokenFile += "-away"
	if _, err := c.Logs(t.Context(), place("b"), true, 1); err == nil || !strings.Contains(err.Error(), "token-away") {
		t.Errorf("no token: %v", err)
	}
	if _, err := New("", "", t.TempDir()); err == nil || !strings.Contains(err.Error(), "no pod of Kubernetes") {
		t.Errorf("elsewhere: %v", err)
	}
	if _, err := New("h", "1", t.TempDir()); err == nil {
		t.Error("a folder without ca.crt")
	}
}

// TestManyContainers: one question causes a limited number of requests.
func TestManyContainers(t *testing.T) {
	c := open(t, apiServer{})
	for n, cut := range map[int]bool{maxContainers: false, maxContainers + 1: true} {
		var pods []string
		for i := range n {
			pods = append(pods, fmt.Sprint("p", i))
		}
		logs, err := c.Logs(t.Context(), place(pods...), true, 5000)
		if err != nil || len(logs.Lines) != 10*maxContainers || (len(logs.Missing) > 0) != cut {
			t.Errorf("%d pods: %d lines, missing %v, %v", n, len(logs.Lines), logs.Missing, err)
		}
	}
}

// TestLongLine: a line of 10 MB is truncated, and all lines after it are returned.
func TestLongLine(t *testing.T) {
	at := start.Format(time.RFC3339Nano)
	log := at + " before\n" + at + " " + strings.Repeat("x", 10<<20) + "\n" + at + " after\n" + at + " last"
	lines, more, err := parseLog(strings.NewReader(log), &answer.LogPlace{From: start, To: start.Add(time.Hour)}, wire.LogLine{Pod: "a"}, true, 10)
	if err != nil || more || len(lines) != 4 {
		t.Fatalf("%d lines, %v, %v", len(lines), more, err)
	}
	if lines[0].Text != "before" || len(lines[1].Text) != maxLine-len(at)-1 || strings.Trim(lines[1].Text, "x") != "" || lines[2].Text != "after" || lines[3].Text != "last" {
		t.Errorf("%q, %d bytes, %q, %q", lines[0].Text, len(lines[1].Text), lines[2].Text, lines[3].Text)
	}
}
