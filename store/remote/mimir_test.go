package remote

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"reckon/store"
	"reckon/store/storetest"
)

// mimir gives a Prometheus the paths and the behaviour of Mimir
// (https://grafana.com/docs/mimir/latest/references/http-api/): a tenant is required, a
// token too, and a tenant sees only its own data.
func mimir(tb testing.TB, tenants map[string]string) *httptest.Server {
	tb.Helper()
	proxies := map[string]http.Handler{}
	for tenant, addr := range tenants {
		proxies[tenant] = storetest.Forward(addr)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		to := proxies[r.Header.Get("X-Scope-OrgID")]
		switch {
		case password != "s3cret":
			http.Error(w, "invalid token", http.StatusUnauthorized)
		case to == nil:
			http.Error(w, "no org id", http.StatusUnauthorized)
		case r.URL.Path == "/api/v1/push":
			r.URL.Path = "/api/v1/write"
			to.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, "/prometheus/"):
			r.URL.Path = strings.TrimPrefix(r.URL.Path, "/prometheus")
			to.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	tb.Cleanup(srv.Close)
	return srv
}

func password(tb testing.TB) string {
	file := filepath.Join(tb.TempDir(), "password")
	must(tb, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	return file
}

func TestMimir(t *testing.T) {
	file := password(t)
	storetest.Series(t, func(tb testing.TB) store.Series {
		srv := mimir(tb, map[string]string{"physics": storetest.Prometheus(tb)})
		return openAt(tb, "mimir+"+srv.URL+"?tenant=physics&username=reckon&password_file="+url.QueryEscape(file))
	})
}

// TestTenants: samples of one tenant are invisible to another, and to a client without a tenant.
func TestTenants(t *testing.T) {
	file := password(t)
	srv := mimir(t, map[string]string{"a": storetest.Prometheus(t), "b": storetest.Prometheus(t)})
	open := func(tenant string) *Store {
		return openAt(t, "mimir+"+srv.URL+"?username=reckon&password_file="+url.QueryEscape(file)+tenant)
	}
	a, b, nobody := open("&tenant=a"), open("&tenant=b"), open("")
	must(t, a.Append(t.Context(), nil, gaugeBatch(storetest.Now(), "sda")))
	count := func(s *Store) int {
		return len(storetest.Read(t, s, storetest.Now().Add(-hour), storetest.Now().Add(hour), storetest.MatchName(gauge.Name)))
	}
	if count(a) != 1 || count(b) != 0 {
		t.Errorf("tenant a has %d series and b %d, want 1 and 0", count(a), count(b))
	}
	if err := nobody.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "does not let us in") {
		t.Errorf("without a tenant: %v", err)
	}
}

// TestRealMimir runs the suite against a Mimir, once by the tenant header and with native
// histograms, once with classic ones.
func TestRealMimir(t *testing.T) {
	addr := storetest.Mimir(t)
	var n atomic.Int64
	for name, histograms := range map[string]string{"classic": "", "native": "&histograms=native"} {
		t.Run(name, func(t *testing.T) {
			storetest.Series(t, func(tb testing.TB) store.Series {
				return openAt(tb, fmt.Sprintf("mimir+http://%s?tenant=suite%d%s", addr, n.Add(1), histograms))
			})
		})
	}
}

// TestRealTenants is TestTenants against a Mimir.
func TestRealTenants(t *testing.T) {
	addr := storetest.Mimir(t)
	open := func(tenant string) *Store { return openAt(t, "mimir+http://"+addr+tenant) }
	a, b := open("?tenant=a"), open("?tenant=b")
	nobody := openAt(t, "http://"+addr+"?write=/api/v1/push&read=/prometheus/api/v1/read&api=/prometheus/api/v1")
	must(t, a.Append(t.Context(), nil, gaugeBatch(storetest.Now(), "sda")))
	must(t, b.Append(t.Context(), nil, gaugeBatch(storetest.Now(), "sdb", "sdc")))
	for s, want := range map[*Store]string{a: "sda", b: "sdb sdc"} {
		got := storetest.Read(t, s, storetest.Now().Add(-hour), storetest.Now().Add(hour), storetest.MatchName(gauge.Name))
		for _, device := range strings.Fields(want) {
			found := false
			for k := range got {
				found = found || strings.Contains(k, `"`+device+`"`)
			}
			if !found || len(got) != len(strings.Fields(want)) {
				t.Errorf("a tenant reads %v, want %s", got, want)
			}
		}
	}
	if err := nobody.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "tenant=NAME") {
		t.Errorf("without a tenant: %v", err)
	}
}

// flaky is a server that fails on demand.
type flaky struct {
	*httptest.Server
	to     http.Handler
	broken atomic.Pointer[http.HandlerFunc]
	asked  atomic.Int64
}

func newFlaky(tb testing.TB, addr string) *flaky {
	tb.Helper()
	f := &flaky{to: storetest.Forward(addr)}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		if h := f.broken.Load(); h != nil {
			raw, _ := io.ReadAll(r.Body) // so that a disconnect of the client is detected
			r.Body = io.NopCloser(bytes.NewReader(raw))
			(*h)(w, r)
			return
		}
		f.to.ServeHTTP(w, r)
	}))
	tb.Cleanup(func() {
		f.broken.Store(nil)
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func (f *flaky) fail(h http.HandlerFunc) { f.broken.Store(&h) }
