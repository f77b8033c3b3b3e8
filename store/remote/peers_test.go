package remote

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"

	"reckon/store"
	"reckon/store/storetest"
)

// natives are the native histograms of the suite.
var natives = []string{"suite_cores"}

func openAt(tb testing.TB, address string) *Store {
	tb.Helper()
	s, err := Open(Options{URL: address, Natives: natives})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func TestPrometheus(t *testing.T) {
	storetest.Series(t, func(tb testing.TB) store.Series { return openAt(tb, "http://"+storetest.Prometheus(tb)) })
}

func TestPrometheusNative(t *testing.T) {
	storetest.Series(t, func(tb testing.TB) store.Series {
		return openAt(tb, "http://"+storetest.Prometheus(tb, "--enable-feature=native-histograms")+"?histograms=native")
	}, storetest.Limits{LateNative: "Prometheus 2.42 takes them in order only"})
}

// TestPrometheusByQueries reads by the query API, as from servers without remote read.
func TestPrometheusByQueries(t *testing.T) {
	storetest.Series(t, func(tb testing.TB) store.Series {
		return openAt(tb, "http://"+storetest.Prometheus(tb)+"?read=query")
	}, storetest.Limits{Staleness: "the query API leaves markers out"})
}

// flushed makes written samples visible at once: VictoriaMetrics does after a second.
type flushed struct{ *Store }

func (f flushed) Querier(mint, maxt int64) (storage.Querier, error) {
	tick := time.NewTicker(50 * time.Millisecond) // another flush may be under way
	defer tick.Stop()
	for range 4 {
		if err := f.Flush(context.Background()); err != nil {
			return nil, err
		}
		<-tick.C
	}
	return f.Store.Querier(mint, maxt)
}

func TestVictoria(t *testing.T) {
	storetest.Series(t, func(tb testing.TB) store.Series {
		return flushed{openAt(tb, "victoriametrics+http://"+storetest.Victoria(tb))}
	}, storetest.Limits{Conflict: "VictoriaMetrics takes any value", Digits: "it keeps decimal numbers"})
}

func TestInflux1(t *testing.T) {
	addr := storetest.Influx(t)
	n := 'a'
	storetest.Series(t, func(tb testing.TB) store.Series {
		storetest.InfluxDatabase(tb, addr, string(n))
		n++
		return openAt(tb, "influxdb+http://"+addr+"/"+string(n-1))
	}, storetest.Limits{Staleness: "InfluxDB has no NaN", Conflict: "the later value replaces the earlier one"})
}

// TestLineProtocol writes and reads InfluxDB 1.x in the way of 2.x.
func TestLineProtocol(t *testing.T) {
	addr := storetest.Influx(t)
	n := 'a'
	storetest.Series(t, func(tb testing.TB) store.Series {
		name := string(n)
		storetest.InfluxDatabase(tb, addr, name)
		n++
		return openAt(tb, "influxdb2+http://"+addr+"/org/"+name+"?write="+url.QueryEscape("/write?precision=ms&db="+name))
	}, storetest.Limits{Staleness: "InfluxDB has no NaN", Conflict: "the later value replaces the earlier one"})
}

// TestRealLineProtocol writes to the address of 2.x, which InfluxDB 1.8 has too: the
// address is not changed for the test.
func TestRealLineProtocol(t *testing.T) {
	addr := storetest.Influx18(t)
	n := 'a'
	storetest.Series(t, func(tb testing.TB) store.Series {
		storetest.InfluxDatabase(tb, addr, string(n))
		n++
		return openAt(tb, "influxdb2+http://"+addr+"/org/"+string(n-1))
	}, storetest.Limits{Staleness: "InfluxDB has no NaN", Conflict: "the later value replaces the earlier one"})
}

// TestInfluxTokens: requests without the token are rejected at either address.
func TestInfluxTokens(t *testing.T) {
	addr := storetest.Peer(t, "influxd18", "/ping", func(addr, dir string) []string {
		args := storetest.InfluxArgs(t)(addr, dir)
		text, err := os.ReadFile(args[1])
		must(t, err)
		must(t, os.WriteFile(args[1], []byte(strings.Replace(string(text), "[http]\n", "[http]\nauth-enabled = true\n", 1)), 0o600))
		return args
	})
	ask := func(auth, q string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/query", strings.NewReader(url.Values{"q": {q}}.Encode()))
		must(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if auth != "" {
			req.Header.Set("Authorization", auth)
		}
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		if raw, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || strings.Contains(string(raw), "error") {
			t.Fatalf("%s: %s %s %v", q, resp.Status, raw, err)
		}
	}
	ask("", "CREATE USER reckon WITH PASSWORD 's3cret' WITH ALL PRIVILEGES")
	ask("Token reckon:s3cret", "CREATE DATABASE d")
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte("reckon:s3cret\n"), 0o600))
	with := "?token_file=" + url.QueryEscape(token)
	for name, address := range map[string]string{
		"line protocol": "influxdb2+http://" + addr + "/org/d", "prometheus": "influxdb+http://" + addr + "/d",
	} {
		t.Run(name, func(t *testing.T) {
			if err := openAt(t, address).Append(t.Context(), nil, gaugeBatch(storetest.Now(), name)); err == nil || !strings.Contains(err.Error(), "token_file=FILE") {
				t.Errorf("without a token: %v", err)
			}
			if name == "prometheus" { // 1.x has users there
				with = "?username=reckon&password_file=" + url.QueryEscape(password(t))
			}
			s := openAt(t, address+with)
			must(t, s.Append(t.Context(), nil, gaugeBatch(storetest.Now(), name)))
			if got := storetest.Read(t, s, storetest.Now().Add(-hour), storetest.Now().Add(hour),
				storetest.MatchName(gauge.Name)); len(got) == 0 {
				t.Error("nothing is read")
			}
		})
	}
}

// TestLabels queries the names and values of labels of every kind of server.
func TestLabels(t *testing.T) {
	influx := func(tb testing.TB) string {
		addr := storetest.Influx(tb)
		storetest.InfluxDatabase(tb, addr, "d")
		return "influxdb+http://" + addr + "/d"
	}
	for name, open := range map[string]func(testing.TB) string{
		"prometheus":      func(tb testing.TB) string { return "http://" + storetest.Prometheus(tb) },
		"victoriametrics": func(tb testing.TB) string { return "victoriametrics+http://" + storetest.Victoria(tb) },
		"influxdb":        influx,
	} {
		t.Run(name, func(t *testing.T) {
			s := openAt(t, open(t))
			must(t, s.Append(t.Context(), map[string]string{"site": "here"}, gaugeBatch(time.Now(), "sda", "sdb")))
			if s.conf.kind == kindVictoria {
				_, err := flushed{Store: s}.Querier(0, 1)
				must(t, err)
			}
			labelsAre(t, s)
			at, ok := s.Oldest()
			if !ok || time.Since(at) < 0 || (name == "prometheus" && time.Since(at) > 5*time.Hour) {
				t.Errorf("oldest %s, %v", at, ok)
			}
		})
	}
}

func labelsAre(t *testing.T, s *Store) {
	t.Helper()
	now := time.Now()
	q, err := s.Querier(now.Add(-time.Hour).UnixMilli(), now.Add(time.Hour).UnixMilli())
	must(t, err)
	defer q.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	values, _, err := q.LabelValues(ctx, "device", nil, storetest.MatchName("suite_gauge_bytes"))
	must(t, err)
	same(t, values, "sda", "sdb")
	values, _, err = q.LabelValues(ctx, "__name__", nil)
	must(t, err)
	same(t, values, "suite_gauge_bytes")
	values, _, err = q.LabelValues(ctx, "device", nil, storetest.MatchName("none"))
	must(t, err)
	same(t, values)
	names, _, err := q.LabelNames(ctx, &storage.LabelHints{Limit: 10})
	must(t, err)
	same(t, names, "__name__", "device", "site")
}
