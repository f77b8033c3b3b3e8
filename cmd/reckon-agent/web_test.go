package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"reckon/metric"
	"reckon/metric/expose"
)

func TestOthersNeedAPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yml")
	users := "basic_auth_users: {prom: $2y$04$2Yt4Jr0yX1xvZ0yKX0C0TO8JQJ2n7bI6rjW1o4h1mY3cVw0b7Nf2S}"
	if err := os.WriteFile(file, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		listen string
		o      webOptions
		bad    string
	}{
		{"127.0.0.1:0", webOptions{}, ""},
		{"[::1]:0", webOptions{}, ""},
		{"0.0.0.0:0", webOptions{}, "others reach the address"},
		{":0", webOptions{}, "--web-config"},
		{":0", webOptions{insecure: true}, ""},
		{":0", webOptions{config: file}, ""},
		{":0", webOptions{config: file + "x"}, "--web-config"},
	} {
		d, err := c.o.openListener(c.listen, slog.New(slog.DiscardHandler))
		if c.listen == "[::1]:0" && err != nil {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s %+v: %v", c.listen, c.o, err)
		}
		if err != nil {
			continue
		}
		if !strings.HasPrefix(d.address(), "http://") {
			t.Errorf("at %s", d.address())
		}
		w := httptest.NewRecorder()
		d.guardHandler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost:9000/other", nil))
		if want := map[bool]int{true: 401, false: 404}[c.o.config != ""]; w.Code != want {
			t.Errorf("%s %+v answers %d", c.listen, c.o, w.Code)
		}
		// A name that a foreign DNS server resolves to 127.0.0.1.
		w = httptest.NewRecorder()
		d.guardHandler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://evil.example/metrics", nil))
		if want := !c.o.insecure && c.o.config == ""; (w.Code == http.StatusForbidden) != want {
			t.Errorf("%s %+v answers %d to another name", c.listen, c.o, w.Code)
		}
		_ = d.Close()
	}
}

// On the loopback address without a password each user sees their own work, and a stranger nothing.
func TestUsersSeeTheirOwn(t *testing.T) {
	d, err := (&webOptions{users: []string{"48713"}}).openListener("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	cpu := &metric.Desc{Name: "reckon_workload_cpu_seconds_total", Kind: metric.Counter, Labels: []string{"workload", "owner"}}
	up := &metric.Desc{Name: "reckon_node_cores", Kind: metric.Gauge}
	h := d.guardHandler(expose.Handler(func(b *metric.Batch) error {
		b.Add(metric.NewSeries(cpu, "group/n/1", "root"), 1)
		b.Add(metric.NewSeries(cpu, "group/n/2", "48711"), 2)
		b.Add(metric.NewSeries(up), 4)
		return nil
	}, expose.Options{Keep: d.seriesFilter}))
	srv := &http.Server{Handler: h, ConnContext: d.withPeer}
	go func() { _ = srv.Serve(d) }()
	defer srv.Close()
	ask := func(args ...string) string {
		t.Helper()
		args = append(args, "curl", "-sS", "http://"+d.Addr().String()+"/metrics")
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Skipf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	user := []string{"setpriv", "--reuid=48711", "--regid=48711", "--clear-groups"}
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	for _, c := range []struct {
		who  []string
		sees []bool // root's, the user's, the machine's
	}{{[]string{"env"}, []bool{true, true, true}}, {user, []bool{false, true, true}},
		{append(user[:len(user):len(user)], "unshare", "-U", "-r"), []bool{false, true, true}},
		{[]string{"setpriv", "--reuid=48713", "--regid=48713", "--clear-groups"}, []bool{true, true, true}},
		{[]string{"setpriv", "--reuid=121", "--regid=121", "--clear-groups"}, []bool{true, true, true}}} {
		text := ask(c.who...)
		for i, what := range []string{`owner="root"`, `owner="48711"`, "reckon_node_cores 4"} {
			if strings.Contains(text, what) != c.sees[i] {
				t.Errorf("%v sees %s: %v\n%s", c.who, what, !c.sees[i], text)
			}
		}
	}
	w := httptest.NewRecorder() // of a connection of an unknown user
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost:9000/metrics", nil))
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "--web-config") {
		t.Errorf("a stranger: %d %s", w.Code, w.Body)
	}
}
