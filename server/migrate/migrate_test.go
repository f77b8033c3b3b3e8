package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/metric"
	"reckon/store"
	"reckon/store/remote"
	"reckon/store/storetest"
	"reckon/store/tsdb"
)

var (
	gauge  = &metric.Desc{Name: "m_bytes", Help: "A gauge.", Kind: metric.Gauge, Unit: metric.Bytes, Labels: []string{"device"}}
	native = &metric.Desc{Name: "m_cores", Help: "A distribution.", Kind: metric.NativeHistogram, Unit: metric.Cores, Labels: []string{"device"}}
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source fills a store with three hours of series that come and go.
func source(t *testing.T) (*tsdb.Store, Options) {
	t.Helper()
	s, err := tsdb.Open(tsdb.Options{Dir: t.TempDir(), OutOfOrder: 24 * time.Hour})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	begin := storetest.Now().Add(-3 * time.Hour)
	var h metric.Histogram
	for k := range 180 {
		var b metric.Batch
		b.Reset(begin.Add(time.Duration(k) * time.Minute))
		for d := range 5 {
			b.Add(metric.NewSeries(gauge, fmt.Sprint("d", d)), float64(k*d)/3)
		}
		h.Observe(float64(k) / 7)
		b.AddHistogram(metric.NewSeries(native, "all"), &h)
		b.Samples = append(b.Samples, metric.Sample{Series: metric.NewSeries(gauge, fmt.Sprint("short", k)), Value: 1, Last: true})
		must(t, s.Append(t.Context(), map[string]string{"node": "n1"}, &b))
	}
	st, err := s.Status()
	must(t, err)
	return s, Options{From: s, Oldest: st.Oldest, Newest: st.Newest, State: t.TempDir()}
}

func open(t testing.TB, address string) *remote.Store {
	t.Helper()
	s, err := remote.Open(remote.Options{URL: address, Natives: []string{native.Name}})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func all(t *testing.T, q storage.Queryable, o *Options) map[string][]storetest.Point {
	t.Helper()
	out := storetest.Read(t, q, o.Oldest, o.Newest, storetest.MatchName(gauge.Name))
	for k, v := range storetest.Read(t, q, o.Oldest, o.Newest, storetest.MatchName(native.Name)) {
		out[k] = v
	}
	return out
}

func same(t *testing.T, got, want map[string][]storetest.Point) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d series, want %d", len(got), len(want))
	}
	for k, w := range want {
		g := got[k]
		if len(g) != len(w) {
			t.Fatalf("%s has %d samples, want %d", k, len(g), len(w))
		}
		for i := range w {
			if g[i].T != w[i].T || g[i].Stale != w[i].Stale || g[i].Count != w[i].Count || g[i].V-w[i].V > 1e-9 || w[i].V-g[i].V > 1e-9 {
				t.Fatalf("%s: %+v, want %+v", k, g[i], w[i])
			}
		}
	}
}

// TestBrokenOff copies through a server that fails again and again: the copy goes on where it
// was, ends whole, and has nothing twice.
func TestBrokenOff(t *testing.T) {
	for name, start := range map[string]func(testing.TB) (addr, kind string){
		"prometheus":      func(tb testing.TB) (string, string) { return storetest.Prometheus(tb), "" },
		"victoriametrics": func(tb testing.TB) (string, string) { return storetest.Victoria(tb), "victoriametrics+" },
	} {
		t.Run(name, func(t *testing.T) {
			addr, kind := start(t)
			to := storetest.Forward(addr)
			var asked, broken atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/write") && asked.Add(1)%3 == 0 {
					// Taken, but nobody hears of it: the worst moment to be cut off.
					broken.Add(1)
					rec := httptest.NewRecorder()
					to.ServeHTTP(rec, r)
					panic(http.ErrAbortHandler)
				}
				to.ServeHTTP(w, r)
			}))
			defer srv.Close()
			from, o := source(t)
			var r Result
			var err error
			runs := 0
			for ; runs < 60; runs++ {
				o.To = open(t, kind+srv.URL) // as after a restart
				if r, err = Run(t.Context(), o); err == nil {
					break
				}
				if !errors.Is(err, store.ErrUnavailable) {
					t.Fatal(err)
				}
			}
			must(t, err)
			if broken.Load() == 0 || runs == 0 {
				t.Errorf("it was broken off %d times in %d runs: nothing was tested", broken.Load(), runs)
			}
			want := all(t, from, &o)
			same(t, all(t, o.To, &o), want)
			if total := samples(want); r.Samples != int64(total) || r.LeftOut != 0 {
				t.Errorf("%+v, want %d samples", r, total)
			}
			if kind != "" {
				same(t, exported(t, addr, &o), want)
			}
			again, err := Run(t.Context(), o)
			must(t, err)
			if again.Sent > r.Sent || again.Samples != r.Samples {
				t.Errorf("a second run: %+v after %+v", again, r)
			}
		})
	}
}

// exported is the content of VictoriaMetrics in raw form: it would keep what came twice.
func exported(t *testing.T, addr string, o *Options) map[string][]storetest.Point {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/api/v1/export?match[]=" + url.QueryEscape(gauge.Name))
	must(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		if ts := strings.Index(line, `"timestamps":[`); ts > 0 {
			times := strings.Split(strings.TrimRight(line[ts+len(`"timestamps":[`):], "]}\n"), ",")
			seen := map[string]bool{}
			for _, at := range times {
				if seen[at] {
					t.Fatalf("a sample is there twice: %.200s", line)
				}
				seen[at] = true
			}
		}
	}
	return all(t, o.To, o)
}

func samples(m map[string][]storetest.Point) (n int) {
	for _, p := range m {
		n += len(p)
	}
	return n
}

// TestConflict: what somebody else wrote there is not overwritten, nor taken for ours.
func TestConflict(t *testing.T) {
	_, o := source(t)
	to := open(t, "http://"+storetest.Prometheus(t))
	o.To = to
	var b metric.Batch
	b.Reset(o.Oldest.Add(61 * time.Minute).Truncate(time.Second))
	b.Add(metric.NewSeries(gauge, "d1"), -5)
	must(t, to.Append(t.Context(), map[string]string{"node": "n1"}, &b))
	r, err := Run(t.Context(), o)
	if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), `device="d1"`) || r.Differ != 1 || !r.To.Equal(o.Newest) {
		t.Errorf("over other figures: %+v, %v", r, err)
	}
}

// What a store of decimal numbers makes of floating-point dust is no other figure; anything
// larger is counted, and the rest is copied all the same.
func TestCompare(t *testing.T) {
	one := func(v ...float64) map[uint64]*windowSeries {
		s := &windowSeries{labels: labels.FromStrings("__name__", "c")}
		for i := range v {
			s.samples = append(s.samples, windowSample{t: int64(i), v: v[i]})
		}
		return map[uint64]*windowSeries{1: s}
	}
	for name, tt := range map[string]struct {
		have, there map[uint64]*windowSeries
		missing     int64
		differ      int64
	}{
		"dust of a sum":              {one(8.67e-18, 1), one(0, 1), 0, 0},
		"dust alone":                 {one(9.9e-13), one(0), 0, 0},
		"small, and no dust":         {one(1.1e-12), one(0), 0, 1},
		"small beside large":         {one(1e-6, 1e6), one(0, 1e6), 0, 0},
		"not so small beside large":  {one(1.1e-5, 1e6), one(0, 1e6), 0, 1},
		"the eleventh digit":         {one(1 + 0.9e-11), one(1), 0, 0},
		"the tenth digit":            {one(1 + 1.1e-10), one(1), 0, 1},
		"another value, one missing": {one(1, 2, 3), one(1, 5), 1, 1},
		"infinite":                   {one(math.Inf(1), 1), one(math.Inf(1), 2), 0, 1},
	} {
		missing, differ, first := compareSamples(tt.have, tt.there)
		if missing != tt.missing || differ != tt.differ || (first != "") != (differ > 0) {
			t.Errorf("%s: %d missing, %d differ: %s", name, missing, differ, first)
		}
		if _, again, _ := compareSamples(tt.have, tt.there); again != 0 {
			t.Errorf("%s: counted again", name)
		}
	}
}

func TestCancelled(t *testing.T) {
	_, o := source(t)
	o.To = open(t, "http://127.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
