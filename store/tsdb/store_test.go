package tsdb

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"reckon/metric"
	"reckon/store"
	"reckon/store/storetest"
)

func open(tb testing.TB, o Options) *Store {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	s, err := Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	storetest.Series(t, func(tb testing.TB) store.Series { return open(tb, Options{}) })
}

var (
	external = map[string]string{"site": "here", "node": "n1"}
	cpuDesc  = &metric.Desc{Name: "reckon_workload_cpu_seconds_total", Help: "CPU time.", Kind: metric.Counter, Unit: metric.Seconds,
		Labels: []string{"workload", "kind", "part", "owner", "mode"}}
)

// fleet returns n series of workloads and a batch that holds them all.
func fleet(n int) []*metric.Series {
	out := make([]*metric.Series, n)
	for i := range out {
		out[i] = metric.NewSeries(cpuDesc, fmt.Sprintf("group/node-01/%d-1760000000", i/2), "group", "", "alice", []string{"user", "system"}[i%2])
	}
	return out
}

func fill(b *metric.Batch, at time.Time, series []*metric.Series, v float64) {
	b.Reset(at)
	for _, s := range series {
		b.Add(s, v)
	}
}

func TestSteadyBatchAllocatesNoLabels(t *testing.T) {
	s := open(t, Options{Ahead: -1, OutOfOrder: -1})
	series := fleet(1000)
	var b metric.Batch
	at := storetest.Now()
	step := func() {
		at = at.Add(time.Second)
		fill(&b, at, series, float64(at.Unix()))
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		step()
	}
	// The database itself allocates for chunks and per append; labels would be thousands.
	if n := testing.AllocsPerRun(20, step); n > 300 {
		t.Errorf("%.0f allocations for a steady batch of 1000 samples", n)
	}
}

func TestCacheIsBounded(t *testing.T) {
	s := open(t, Options{})
	at := storetest.Now()
	var b metric.Batch
	for k := range 10 * sweepEvery {
		fill(&b, at.Add(time.Duration(k)*time.Second), fleet(20), 1) // new pointers each time
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.tenant(external).refs); n > 20*2*sweepEvery {
		t.Errorf("cache holds %d pointers of 20 series", n)
	}
}

func TestIdleNodesAreForgotten(t *testing.T) {
	now := storetest.Now()
	s := open(t, Options{Clock: func() time.Time { return now }})
	s.tenant(map[string]string{"node": "a"})
	now = now.Add(time.Hour)
	s.tenant(map[string]string{"node": "b"})
	s.dropIdleTenants(tenantIdleTime)
	if n := len(s.tenants); n != 1 {
		t.Errorf("%d nodes cached, want 1", n)
	}
}

func TestTooOldIsNamedAndTheRestStored(t *testing.T) {
	s := open(t, Options{OutOfOrder: time.Hour})
	now := storetest.Now()
	a, old := metric.NewSeries(cpuDesc, "unit/a", "unit", "", "root", "user"), metric.NewSeries(cpuDesc, "unit/old", "unit", "", "root", "user")
	var b metric.Batch
	fill(&b, now, []*metric.Series{a}, 1)
	if err := s.Append(t.Context(), external, &b); err != nil {
		t.Fatal(err)
	}
	fill(&b, now.Add(-5*time.Hour), []*metric.Series{old}, 1)
	err := s.Append(t.Context(), external, &b)
	var refused *AppendError
	if !errors.Is(err, store.ErrTooOld) || !errors.As(err, &refused) || refused.Refused != 1 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"1 of 1 samples refused", "5h0m0s behind", `workload="unit/old"`, "check the clock"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message %q lacks %q", err, want)
		}
	}
}

func TestFutureIsRefused(t *testing.T) {
	s := open(t, Options{})
	var b metric.Batch
	fill(&b, time.Now().Add(time.Hour), fleet(1), 1)
	if err := s.Append(t.Context(), external, &b); !errors.Is(err, store.ErrFuture) {
		t.Errorf("got %v, want ErrFuture", err)
	}
}

// A board without a clock battery: the clock jumps a year ahead, samples are written,
// and it jumps back. Nothing of the right time may be lost.
func TestClockJumpsAheadAndBack(t *testing.T) {
	now := storetest.Now()
	clock := now
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Clock: func() time.Time { return clock }})
	series := fleet(2)
	var b metric.Batch
	v := 0.0
	push := func(at time.Time) {
		t.Helper()
		v++
		clock = at
		fill(&b, at, series, v)
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatalf("at %s: %v", at, err)
		}
	}
	push(now)
	push(now.AddDate(1, 0, 0))
	for i := range 5 {
		push(now.Add(time.Duration(i+1) * time.Minute))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{Dir: dir, Clock: func() time.Time { return clock }})
	push(now.Add(10 * time.Minute))
	for k, p := range storetest.Read(t, s, now.Add(-time.Hour), now.Add(time.Hour), storetest.MatchName(cpuDesc.Name)) {
		if len(p) != 7 {
			t.Errorf("%s: %d samples of the right time, want 7", k, len(p))
		}
	}
}

func TestMetadataIsKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	var b metric.Batch
	fill(&b, storetest.Now(), fleet(1), 1)
	if err := s.Append(t.Context(), external, &b); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, Options{Dir: dir})
	m := s.Metadata()[cpuDesc.Name]
	if m.Type != model.MetricTypeCounter || m.Unit != "seconds" || m.Help != "CPU time." {
		t.Errorf("got %+v", m)
	}
	s.Close()
	if err := os.WriteFile(dir+"/metadata.json", []byte("{torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{Dir: dir})
	if len(s.Metadata()) != 0 {
		t.Error("metadata out of a torn file")
	}
}

func TestStatus(t *testing.T) {
	s := open(t, Options{})
	now := storetest.Now()
	var b metric.Batch
	fill(&b, now, fleet(10), 1)
	if err := s.Append(t.Context(), external, &b); err != nil {
		t.Fatal(err)
	}
	st, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	if st.Series != 10 || st.Appended != 10 || st.Bytes == 0 || !st.Newest.Equal(now) || !st.Oldest.Equal(now) {
		t.Errorf("got %+v", st)
	}
}

func TestLate(t *testing.T) {
	now := storetest.Now()
	s := open(t, Options{Clock: func() time.Time { return now }})
	var b metric.Batch
	for _, at := range []time.Time{now, now.Add(-time.Hour), now.Add(-2 * time.Hour), now.Add(time.Second)} {
		fill(&b, at, fleet(1), 1)
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatal(err)
		}
	}
	want := []time.Time{now.Add(-2 * time.Hour).UTC(), now.Add(-time.Hour).UTC()}
	for range 2 { // it stays until it is cleaned
		d, err := s.Dirty()
		if err != nil || len(d.Hours) != 2 || !d.Hours[0].Oldest.Equal(want[0]) || !d.Hours[1].Oldest.Equal(want[1]) {
			t.Errorf("dirty: %+v, %v", d, err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{2_000, 10_000} {
		b.Run(fmt.Sprintf("series=%d", n), func(b *testing.B) {
			s := open(b, Options{Ahead: -1, Series: n})
			series := fleet(n)
			at := storetest.Now()
			var batch metric.Batch
			v := 0.0
			step := func() {
				at, v = at.Add(15*time.Second), v+0.37
				fill(&batch, at, series, v)
				if err := s.Append(b.Context(), external, &batch); err != nil {
					b.Fatal(err)
				}
			}
			step()
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}

// BenchmarkMemory reports what a store with the given number of series holds after an
// hour of samples: heap in use per series, and the resident set of the process.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{2_000, 20_000} {
		b.Run(fmt.Sprintf("series=%d", n), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				s := open(b, Options{})
				series := fleet(n)
				var batch metric.Batch
				at := time.Now().Add(-time.Hour)
				for k := range 240 {
					fill(&batch, at.Add(time.Duration(k)*15*time.Second), series, float64(k)*1.37)
					if err := s.Append(b.Context(), external, &batch); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heap()-before)/float64(n), "heapB/series")
				b.ReportMetric(resident()/(1<<20), "rssMiB")
				runtime.KeepAlive(series)
				s.Close()
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func resident() float64 {
	var pages, rss int64
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fmt.Sscan(string(raw), &pages, &rss)
	return float64(rss) * float64(os.Getpagesize())
}
