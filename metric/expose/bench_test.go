package expose

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"reckon/metric"
)

// manySamples is a page of 1,000 workloads with ten series each, one of them a
// histogram.
func manySamples() *metric.Batch {
	descs := []*metric.Desc{}
	for i := range 9 {
		descs = append(descs, &metric.Desc{Name: fmt.Sprintf("reckon_workload_figure%d_seconds_total", i), Help: "A figure.",
			Kind: metric.Counter, Unit: metric.Seconds, Labels: []string{"workload", "kind", "part", "owner", "mode"}})
	}
	b := &metric.Batch{}
	for w := range 1000 {
		id := fmt.Sprintf("slurm/%d", 4711+w)
		for i, d := range descs {
			s := metric.NewSeries(d, id, "slurm", "step_0", "alice", "user")
			s.Created = 1_700_000_000_123
			b.Add(s, float64(w*i)+0.125*float64(i))
		}
		h := &metric.Histogram{}
		for k := range 20 {
			h.Observe(float64(k) / 3)
		}
		b.AddHistogram(metric.NewSeries(coresDesc, id), h)
	}
	return b
}

func BenchmarkAppend10k(b *testing.B) {
	batch := manySamples()
	for name, f := range map[string]Format{"text": Text, "openmetrics": OpenMetrics, "protobuf": Protobuf} {
		b.Run(name, func(b *testing.B) {
			e := NewEncoder(Options{Labels: map[string]string{"site": "s", "node": "n1"}})
			page := e.Append(nil, f, batch)
			b.ReportAllocs()
			b.SetBytes(int64(len(page)))
			for b.Loop() {
				page = e.Append(page[:0], f, batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(batch.Samples)), "ns/sample")
		})
	}
}

func TestNoAllocationAfterWarmUp(t *testing.T) {
	batch := manySamples()
	for _, f := range []Format{Text, OpenMetrics, Protobuf} {
		e := NewEncoder(Options{Labels: map[string]string{"site": "s", "node": "n1"}})
		page := e.Append(nil, f, batch)
		if n := testing.AllocsPerRun(5, func() { page = e.Append(page[:0], f, batch) }); n != 0 {
			t.Errorf("format %d: %v allocations per page", f, n)
		}
	}
}

// FuzzPageIsReadable: whatever a producer puts into names, help, labels and values, Prometheus's own
// parser reads each format back, with the label value unchanged except for bytes
// that no parser accepts.
func FuzzPageIsReadable(f *testing.F) {
	f.Add("reckon_x_total", "help", "label", "value", 1.5, uint8(2))
	f.Add("", hostile, "le", hostile, math.Inf(-1), uint8(3))
	f.Add("a{}", "# EOF\n", "__name__", "\\", math.NaN(), uint8(1))
	f.Fuzz(func(t *testing.T, name, help, label, value string, v float64, kind uint8) {
		d := &metric.Desc{Name: name, Help: help, Kind: metric.Kind(kind%3 + 1), Unit: metric.Seconds, Labels: []string{label}}
		b := &metric.Batch{}
		s := metric.NewSeries(d, value)
		if d.Kind == metric.NativeHistogram {
			h := &metric.Histogram{}
			h.Observe(v)
			b.AddHistogram(s, h)
		} else {
			b.Add(s, v)
		}
		for _, format := range []Format{Text, OpenMetrics, Protobuf} {
			page := NewEncoder(Options{Labels: map[string]string{label: help}}).Append(nil, format, b)
			got, err := parse(page, format)
			if err != nil {
				t.Fatalf("format %d: %v\n%q", format, err, page)
			}
			if len(got.values)+len(got.hists) == 0 {
				t.Fatalf("format %d: nothing in %q", format, page)
			}
		}
		page := NewEncoder(Options{}).Append(nil, Text, b)
		p := expfmt.NewTextParser(model.LegacyValidation)
		if _, err := p.TextToMetricFamilies(bytes.NewReader(page)); err != nil {
			t.Fatalf("expfmt: %v\n%q", err, page)
		}
	})
}

// BenchmarkScrape answers requests for a page of 30,000 samples, about as many as 2,000 process groups have.
func BenchmarkScrape(b *testing.B) {
	var samples []metric.Sample
	for range 3 {
		samples = append(samples, manySamples().Samples...)
	}
	h := Handler(func(batch *metric.Batch) error {
		batch.Samples = append(batch.Samples, samples...)
		return nil
	}, Options{Labels: map[string]string{"site": "s", "node": "n1"}})
	for _, encoding := range []string{"identity", "gzip"} {
		b.Run(encoding, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.Header.Set("Accept-Encoding", encoding)
			b.ReportAllocs()
			for b.Loop() {
				runtime.GC() // as many times as pass between two scrapes
				runtime.GC()
				h.ServeHTTP(&nowhere{}, r)
			}
		})
	}
}

// nowhere is a client that reads everything.
type nowhere struct {
	head http.Header
	n    int // bytes
}

func (n *nowhere) Header() http.Header {
	if n.head == nil {
		n.head = http.Header{}
	}
	return n.head
}

func (n *nowhere) Write(b []byte) (int, error) {
	n.n += len(b)
	return len(b), nil
}

func (*nowhere) WriteHeader(int) {}
