package push

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"reckon/metric"
)

var (
	cpuDesc = &metric.Desc{Name: "reckon_workload_cpu_seconds_total", Help: "CPU time.", Kind: metric.Counter, Unit: metric.Seconds,
		Labels: []string{"workload", "owner", "mode"}}
	memDesc   = &metric.Desc{Name: "reckon_workload_memory_bytes", Help: "Memory.", Kind: metric.Gauge, Unit: metric.Bytes, Labels: []string{"workload"}}
	coresDesc = &metric.Desc{Name: "reckon_workload_cores", Help: "Cores.", Kind: metric.NativeHistogram, Unit: metric.Cores, Labels: []string{"workload", "node"}}
	at        = time.UnixMilli(1_800_000_000_123)
	external  = map[string]string{"site": "lab", "node": "n1"}
)

func histogram(values ...float64) *metric.Histogram {
	h := &metric.Histogram{}
	for _, v := range values {
		h.Observe(v)
	}
	return h
}

func batch() *metric.Batch {
	b := &metric.Batch{Time: at}
	cpu := metric.NewSeries(cpuDesc, "slurm/1", "alice", "user")
	cpu.Created = at.UnixMilli() - 5000
	b.Add(cpu, 12.5)
	b.Add(metric.NewSeries(memDesc, "unit/a\xff"), 1e9)
	b.Samples[1].Last = true
	cores := metric.NewSeries(coresDesc, "slurm/1", "")
	cores.Created = at.UnixMilli() - 5000
	b.AddHistogram(cores, histogram(0, 0.3, 1, 1.5, 2.5, 64))
	b.AddHistogram(metric.NewSeries(coresDesc, "slurm/2", "other"), histogram(1))
	b.Samples[3].Last = true
	b.AddHistogram(metric.NewSeries(coresDesc, "slurm/3", ""), histogram())
	return b
}

func requests(t testing.TB, e *Encoder, b *metric.Batch) (out [][]byte, samples int) {
	t.Helper()
	err := e.Encode(b, func(r []byte, n int) error {
		out = append(out, slices.Clone(r))
		samples += n
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, samples
}

// read2 decodes a request with Prometheus's own code, and checks the requirements of the
// specification.
func read2(t testing.TB, raw []byte) (*writev2.Request, map[string]writev2.TimeSeries) {
	t.Helper()
	var req writev2.Request
	if err := proto.Unmarshal(raw, &req); err != nil {
		t.Fatal(err)
	}
	if len(req.Symbols) == 0 || req.Symbols[0] != "" {
		t.Fatalf("the first symbol is not empty: %q", req.Symbols)
	}
	b := labels.NewScratchBuilder(0)
	out := map[string]writev2.TimeSeries{}
	for _, ts := range req.Timeseries {
		ls, err := ts.ToLabels(&b, req.Symbols)
		if err != nil {
			t.Fatal(err)
		}
		if !ls.IsValid(model.UTF8Validation) {
			t.Fatalf("%v is not valid", ls)
		}
		if _, twice := ls.HasDuplicateLabelNames(); twice {
			t.Fatalf("%v has a label twice", ls)
		}
		names := []string{}
		ls.Range(func(l labels.Label) { names = append(names, l.Name) })
		if !slices.IsSorted(names) {
			t.Fatalf("%v is not sorted", names)
		}
		out[ls.String()] = ts
	}
	return &req, out
}

func TestRequestIsReadByPrometheus(t *testing.T) {
	out, n := requests(t, NewEncoder(external, Filter{}), batch())
	if len(out) != 1 || n != 7 {
		t.Fatalf("%d requests, %d samples", len(out), n)
	}
	req, got := read2(t, out[0])
	if len(got) != 5 {
		t.Fatalf("%d series", len(got))
	}
	cpu, ok := got[`{__name__="reckon_workload_cpu_seconds_total", mode="user", node="n1", owner="alice", site="lab", workload="slurm/1"}`]
	if !ok {
		t.Fatalf("no CPU time in %v", got)
	}
	if s := cpu.Samples[0]; len(cpu.Samples) != 1 || s.Value != 12.5 || s.Timestamp != at.UnixMilli() || s.StartTimestamp != at.UnixMilli()-5000 {
		t.Errorf("%+v", cpu.Samples)
	}
	if m, err := cpu.ToMetadata(req.Symbols); err != nil || m.Type != model.MetricTypeCounter || m.Help != "CPU time." || m.Unit != "seconds" {
		t.Errorf("%+v, %v", m, err)
	}
	mem := got[`{__name__="reckon_workload_memory_bytes", node="n1", site="lab", workload="unit/a`+"\ufffd"+`"}`]
	if len(mem.Samples) != 2 || mem.Samples[0].StartTimestamp != 0 || !value.IsStaleNaN(mem.Samples[1].Value) || mem.Samples[1].Timestamp != at.UnixMilli()+1 {
		t.Errorf("%+v", mem.Samples)
	}
	cores := got[`{__name__="reckon_workload_cores", node="n1", site="lab", workload="slurm/1"}`]
	if len(cores.Histograms) != 1 || cores.Histograms[0].StartTimestamp != at.UnixMilli()-5000 {
		t.Fatalf("%+v", cores.Histograms)
	}
	h := cores.Histograms[0].ToIntHistogram()
	if err := h.Validate(); err != nil {
		t.Error(err)
	}
	want := histogram(0, 0.3, 1, 1.5, 2.5, 64)
	if h.Count != 6 || h.ZeroCount != 1 || h.Sum != want.Sum || h.Schema != metric.HistogramSchema || h.ZeroThreshold != want.ZeroThreshold() {
		t.Errorf("%v", h)
	}
	for it := h.PositiveBucketIterator(); it.Next(); {
		if b := it.At(); b.Count != want.Buckets[b.Index-want.Offset] {
			t.Errorf("bucket %d holds %d", b.Index, b.Count)
		}
	}
	last := got[`{__name__="reckon_workload_cores", node="other", site="lab", workload="slurm/2"}`]
	if len(last.Histograms) != 2 || !value.IsStaleNaN(last.Histograms[1].Sum) {
		t.Errorf("%+v", last.Histograms)
	}
	if empty := got[`{__name__="reckon_workload_cores", node="n1", site="lab", workload="slurm/3"}`]; len(empty.Histograms) != 1 || empty.Histograms[0].ToIntHistogram().Validate() != nil {
		t.Errorf("%+v", empty.Histograms)
	}
}

func TestLargeBatchesAreSplit(t *testing.T) {
	b := &metric.Batch{Time: at}
	for i := range 2*maxSeries + 1 {
		b.Add(metric.NewSeries(memDesc, "unit/"+strings.Repeat("x", i%50)+string(rune('a'+i%26))), float64(i))
	}
	out, n := requests(t, NewEncoder(external, Filter{}), b)
	if len(out) != 3 || n != 2*maxSeries+1 {
		t.Fatalf("%d requests, %d samples", len(out), n)
	}
	total := 0
	for _, r := range out {
		req, _ := read2(t, r)
		total += len(req.Timeseries)
	}
	if total != n {
		t.Errorf("%d series", total)
	}
}

func read1(t testing.TB, raw []byte) map[string]prompb.TimeSeries {
	t.Helper()
	var req prompb.WriteRequest
	if err := proto.Unmarshal(raw, &req); err != nil {
		t.Fatal(err)
	}
	out := map[string]prompb.TimeSeries{}
	b := labels.NewScratchBuilder(0)
	for _, ts := range req.Timeseries {
		names := []string{}
		for _, l := range ts.Labels {
			names = append(names, l.Name)
		}
		if !slices.IsSorted(names) {
			t.Errorf("labels are not sorted: %v", names)
		}
		out[ts.ToLabels(&b, nil).String()] = ts
	}
	return out
}

func TestLegacyNative(t *testing.T) {
	out, _ := requests(t, NewEncoder(external, Filter{}), batch())
	l := v1Converter{native: true}
	raw, err := l.convert(out[0])
	if err != nil {
		t.Fatal(err)
	}
	got := read1(t, raw)
	if len(got) != 5 {
		t.Fatalf("%d series", len(got))
	}
	_, two := read2(t, out[0])
	for ls, want := range two {
		have, ok := got[ls]
		if !ok || len(have.Samples) != len(want.Samples) || len(have.Histograms) != len(want.Histograms) {
			t.Errorf("%s: %+v, want %+v", ls, have, want)
			continue
		}
		for i, s := range want.Samples {
			if math.Float64bits(have.Samples[i].Value) != math.Float64bits(s.Value) || have.Samples[i].Timestamp != s.Timestamp {
				t.Errorf("%s: %+v, want %+v", ls, have.Samples[i], s)
			}
		}
		for i, h := range want.Histograms {
			if g, w := have.Histograms[i].ToIntHistogram(), h.ToIntHistogram(); !g.Equals(w) || have.Histograms[i].Timestamp != h.Timestamp {
				t.Errorf("%s: %v, want %v", ls, g, w)
			}
		}
	}
}

func TestLegacyClassic(t *testing.T) {
	out, _ := requests(t, NewEncoder(external, Filter{}), batch())
	var l v1Converter
	for range 2 { // the second time with the buffers of the first
		raw, err := l.convert(out[0])
		if err != nil {
			t.Fatal(err)
		}
		got := read1(t, raw)
		for le, want := range map[string]float64{"0.25": 1, "0.5": 2, "1": 3, "2": 4, "4": 5, "32": 5, "64": 6, "+Inf": 6} {
			ls := `{__name__="reckon_workload_cores_bucket", le="` + le + `", node="n1", site="lab", workload="slurm/1"}`
			if ts, ok := got[ls]; !ok || len(ts.Samples) != 1 || ts.Samples[0].Value != want {
				t.Errorf("%s: %+v, want %v", ls, ts.Samples, want)
			}
		}
		for suffix, want := range map[string]float64{"_sum": 69.3, "_count": 6} {
			ts := got[`{__name__="reckon_workload_cores`+suffix+`", node="n1", site="lab", workload="slurm/1"}`]
			if len(ts.Samples) != 1 || math.Abs(ts.Samples[0].Value-want) > 1e-9 {
				t.Errorf("%s: %+v, want %v", suffix, ts.Samples, want)
			}
		}
		// A histogram series that ends, ends in each of its buckets.
		n := 0
		for ls, ts := range got {
			if strings.Contains(ls, "slurm/2") {
				n++
				if len(ts.Samples) != 2 || !value.IsStaleNaN(ts.Samples[1].Value) || value.IsStaleNaN(ts.Samples[0].Value) {
					t.Errorf("%s: %+v", ls, ts.Samples)
				}
			}
		}
		if n < 4 {
			t.Errorf("%d series of slurm/2", n)
		}
	}
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		keep, drop []string
		want       int
	}{
		{nil, nil, 5},
		{[]string{"reckon_workload_*"}, nil, 5},
		{[]string{"node_*"}, nil, 0},
		{nil, []string{"*_cores"}, 2},
		{[]string{`{workload="slurm/*"}`}, nil, 4},
		{[]string{`reckon_workload_c*{workload="slurm/?", owner="alice"}`}, nil, 1},
		{[]string{"*"}, []string{`*{workload="slurm/1"}`}, 3},
		{nil, []string{`*{owner=""}`}, 1},
	} {
		f, err := NewFilter(c.keep, c.drop)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := requests(t, NewEncoder(external, f), batch())
		n := 0
		for _, r := range out {
			req, _ := read2(t, r)
			n += len(req.Timeseries)
		}
		if n != c.want {
			t.Errorf("keep %q, drop %q: %d series, want %d", c.keep, c.drop, n, c.want)
		}
	}
	for _, bad := range []string{"a{b", `a{b="c}`, `a{=""}`, `a{b}`, "a[b]", `a{b="[c]"}`} {
		if _, err := NewFilter([]string{bad}, nil); err == nil || !strings.Contains(err.Error(), strconv.Quote(bad)) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestNoAllocationAfterWarmUp(t *testing.T) {
	b := batch()
	b.Samples[1].Series.Values[0] = "unit/a" // valid UTF-8
	e := NewEncoder(external, Filter{})
	emit := func([]byte, int) error { return nil }
	if err := e.Encode(b, emit); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { _ = e.Encode(b, emit) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// For any content of a queue, the conversion ends, and if it accepts a request, the
// result is one that Prometheus can read.
func FuzzLegacy(f *testing.F) {
	out, _ := requests(f, NewEncoder(external, Filter{}), batch())
	f.Add(out[0], true)
	f.Add(out[0], false)
	f.Add([]byte{}, false)
	f.Add(bytes.Repeat([]byte{0x2a, 1}, 20), false)
	f.Fuzz(func(t *testing.T, raw []byte, native bool) {
		l := v1Converter{native: native}
		got, err := l.convert(raw)
		if err != nil {
			return
		}
		var valid writev2.Request
		if proto.Unmarshal(raw, &valid) != nil {
			return // Prometheus is stricter; it matters only that ours ended
		}
		var req prompb.WriteRequest
		if err := proto.Unmarshal(got, &req); err != nil {
			t.Fatalf("%v: %x", err, got)
		}
	})
}

func BenchmarkEncode10k(b *testing.B) {
	all := &metric.Batch{Time: at}
	for i := range 1000 {
		id := "slurm/" + strings.Repeat("1", i%7) + string(rune('0'+i%10))
		for _, mode := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
			all.Add(metric.NewSeries(cpuDesc, id, "alice", mode), float64(i))
		}
		all.AddHistogram(metric.NewSeries(coresDesc, id, ""), histogram(0, 0.3, 1, 1.5, 2.5, 64))
	}
	e := NewEncoder(external, Filter{})
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n = 0
		_ = e.Encode(all, func(r []byte, _ int) error { n += len(r); return nil })
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(all.Samples)), "ns/sample")
	b.ReportMetric(float64(n)/float64(len(all.Samples)), "B/sample")
}
