package remote

import (
	"context"
	"net/url"
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

// TestPrometheusByQueries reads by the query API, as of servers without remote read.
func TestPrometheusByQueries(t *testing.T) {
	storetest.Series(t, func(tb testing.TB) store.Series {
		return openAt(tb, "http://"+storetest.Prometheus(tb)+"?read=query")
	}, storetest.Limits{Staleness: "the query API leaves markers out"})
}

// flushed shows what was written at once: VictoriaMetrics shows it after a second.
type flushed struct{ *Store }

func (f flushed) Querier(mint, maxt int64) (storage.Querier, error) {
	tick := time.NewTicker(50 * time.Millisecond) // a flush of its own may be under way
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

// TestLineProtocol writes and reads InfluxDB 1.x as 2.x is written and read.
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

// TestLabels asks every kind of server for names and values of labels.
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
	values, _, err := q.LabelValues(ctx, "device", nil, storetest.Named("suite_gauge_bytes"))
	must(t, err)
	same(t, values, "sda", "sdb")
	values, _, err = q.LabelValues(ctx, "__name__", nil)
	must(t, err)
	same(t, values, "suite_gauge_bytes")
	values, _, err = q.LabelValues(ctx, "device", nil, storetest.Named("none"))
	must(t, err)
	same(t, values)
	names, _, err := q.LabelNames(ctx, &storage.LabelHints{Limit: 10})
	must(t, err)
	same(t, names, "__name__", "device", "site")
}
