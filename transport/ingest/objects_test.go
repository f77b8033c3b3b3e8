package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/prompb"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"google.golang.org/protobuf/encoding/protowire"

	"reckon/transport/limits"
)

// repeat is a message with n fields num with content body.
func repeat(num protowire.Number, body []byte, n int) []byte {
	one := protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), body)
	return bytes.Repeat(one, n)
}

// nested wraps body into fields, the innermost first.
func nested(body []byte, nums ...protowire.Number) []byte {
	for _, num := range nums {
		body = repeat(num, body, 1)
	}
	return body
}

// A request of some megabytes, decompressed, must not take hundreds of them in memory:
// the allocations of each of these are measured, and each is refused with an explanation.
func TestBombs(t *testing.T) {
	const many = 8 << 20 // 16 MB and more of messages of two bytes
	label := repeat(1, nil, maxLabels+1)
	for _, c := range []struct {
		name, kind string
		plain      []byte
		text       string
	}{
		{"empty series", kind1, repeat(req1Series, nil, many), "empty series"},
		{"empty descriptions", kind1, repeat(req1Metadata, nil, many), "empty description"},
		{"descriptions", kind1, repeat(req1Metadata, []byte{1 << 3, 0}, maxMetadata+1), "more than 100000 descriptions"},
		{"series", kind1, repeat(req1Series, []byte{8 << 3, 1}, maxSeries+1), "more than 2000000 series"},
		{"series of 2.0", kind2, repeat(reqSeries, []byte{8 << 3, 1}, maxSeries+1), "more than 2000000 series"},
		{"labels", kind1, repeat(req1Series, label, 1), "more than 1000 labels"},
		{"samples", kind1, repeat(req1Series, repeat(series1Samples, nil, many), 1), "more than 1000000 samples"},
		{"exemplars", kind1, repeat(req1Series, repeat(series1Ex, nil, many), 1), "more than 10000 exemplars"},
		{"labels of an exemplar", kind1, repeat(req1Series, repeat(series1Ex, repeat(exemplarLabels, nil, many), 1), 1), "more than 128 labels"},
		{"histograms", kind1, repeat(req1Series, repeat(series1Histo, nil, many), 1), "more than 100000 histograms"},
		{"a histogram", kind1, repeat(req1Series, repeat(series1Histo, make([]byte, maxHistogramBytes+1), 1), 1), "more than 1048576 bytes"},
		{"symbols", kind2, repeat(reqSymbols, nil, many), "more than 500000 symbols"},
		{"empty series of 2.0", kind2, repeat(reqSeries, nil, many), "empty series"},
		{"labels of 2.0", kind2, repeat(reqSeries, nested(make([]byte, many), seriesRefs), 1), "more than 1000 labels"},
		{"an exemplar of 2.0", kind2, repeat(reqSeries, nested(make([]byte, maxExemplarBytes+1), seriesExemplars), 1), "more than 16384 bytes"},
		{"samples of 2.0", kind2, repeat(reqSeries, repeat(seriesSamples, nil, many), 1), "more than 1000000 samples"},
		{"histograms of 2.0", kind2, repeat(reqSeries, repeat(seriesHistograms, nil, many), 1), "more than 100000 histograms"},
		{"OTLP resources", otlpProto, repeat(1, nil, many), "objects"},
		{"OTLP metrics", otlpProto, nested(repeat(2, nil, many), 2, 1), "objects"},
		{"OTLP points", otlpProto, nested(repeat(1, nil, many), 7, 2, 2, 1), "objects"},
		{"OTLP attributes", otlpProto, nested(repeat(7, nil, many), 1, 5, 2, 2, 1), "objects"},
		{"OTLP values", otlpProto, nested(repeat(1, nil, many), 5, 2, 7, 1, 5, 2, 2, 1), "objects"},
		{"OTLP buckets", otlpProto, nested(nested(make([]byte, many*2), bucketCounts), 8, 1, 10, 2, 2, 1), "objects"},
		{"OTLP text", otlpJSON, []byte(`{"resourceMetrics":[` + strings.Repeat("{},", many/4) + `{}]}`), "objects"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Store: openStore(t)}
			h, body := Handler(o), s2.EncodeSnappy(nil, c.plain)
			encoding := "snappy"
			if strings.HasPrefix(c.name, "OTLP") {
				h, body, encoding = OTLP(o), zip(c.plain), "gzip"
			}
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
			r.Header.Set("Content-Type", c.kind)
			r.Header.Set("Content-Encoding", encoding)
			w := httptest.NewRecorder()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			h.ServeHTTP(w, r)
			runtime.ReadMemStats(&after)
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), c.text) {
				t.Errorf("%d %.200s, want 400 and %q", w.Code, w.Body, c.text)
			}
			// The decompressed size, twice for the growth of buffers, and the limit for decoding.
			most := uint64(4*len(c.plain) + 128<<20)
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("%d MB were allocated for a request of %d bytes, %d MB unpacked", took>>20, len(body), len(c.plain)>>20)
			}
		})
	}
}

// The maximum number of objects is accepted.
func TestObjectsAllowed(t *testing.T) {
	if _, err := checkRequestV1(repeat(req1Series, repeat(series1Labels, []byte{10, 1, 'a'}, maxLabels), 1)); err != nil {
		t.Error(err)
	}
	if _, err := checkRequestV1(repeat(req1Metadata, []byte{1 << 3, 0}, maxMetadata)); err != nil {
		t.Error(err)
	}
	resources := maxObjectBytes / otlpMessageShape().fields[1].size
	if _, err := checkOTLP(repeat(1, nil, resources)); err != nil {
		t.Error(err)
	}
	if _, err := checkOTLP(repeat(1, nil, resources+1)); err == nil {
		t.Error("one object more is taken")
	}
	deep := func(n int) []byte {
		var value []byte
		for range n {
			value = nested(value, 1, 5) // an array of one
		}
		return nested(value, 2, 1, 1, 1) // of an attribute of a resource
	}
	if _, err := checkOTLP(deep(maxNesting/2 - 3)); err != nil {
		t.Error(err)
	}
	if _, err := checkOTLP(deep(maxNesting)); err == nil {
		t.Error("values are nested without a bound")
	}
}

// The memory of the objects of a request is at most the amount computed before they are decoded;
// slices that grow hold up to twice their pointers.
func TestObjectSizes(t *testing.T) {
	const many = 100_000
	for name, path := range map[string][]protowire.Number{
		"resources": {1}, "scopes": {2, 1}, "metrics": {2, 2, 1}, "gauge points": {1, 5, 2, 2, 1}, "sum points": {1, 7, 2, 2, 1}, "histograms": {1, 9, 2, 2, 1},
		"exponential histograms": {1, 10, 2, 2, 1}, "summaries": {1, 11, 2, 2, 1}, "quantiles": {6, 1, 11, 2, 2, 1}, "exemplars": {5, 1, 5, 2, 2, 1},
		"attributes": {7, 1, 5, 2, 2, 1}, "values": {1, 5, 2, 7, 1, 5, 2, 2, 1}, "pairs": {1, 6, 2, 7, 1, 5, 2, 2, 1}, "attributes of a resource": {1, 1, 1}, "metadata": {12, 2, 2, 1},
	} {
		body := nested(repeat(path[0], nil, many), path[1:]...)
		want, err := checkOTLP(body)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		req := pmetricotlp.NewExportRequest()
		if err := req.UnmarshalProto(body); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(req)
		if took := int(after.HeapAlloc) - int(before.HeapAlloc); took > want+many*8 {
			t.Errorf("%s: %d bytes each, %d are counted", name, took/many, want/many)
		}
	}
}

// Large requests are stored like small ones, by each protocol, and their memory is freed.
func TestLargeRequests(t *testing.T) {
	now := time.Now()
	long := strings.Repeat("x", 3*largeBuffer)
	one := sample1("large", now, 1)
	one.Labels = append(one.Labels, prompb.Label{Name: "long", Value: "short"})
	plain1, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{one}, Metadata: []prompb.MetricMetadata{{MetricFamilyName: "large", Help: long}}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	md := otlpRequest(now)
	md.Metrics().ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).SetDescription(long)
	proto, err := md.MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	text, err := md.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string]func(Options) *httptest.ResponseRecorder{
		"remote write 1.0": func(o Options) *httptest.ResponseRecorder {
			return send(Handler(o), kind1, s2.EncodeSnappy(nil, plain1))
		},
		"OTLP":         func(o Options) *httptest.ResponseRecorder { return sendOTLP(OTLP(o), otlpProto, "gzip", zip(proto)) },
		"OTLP as JSON": func(o Options) *httptest.ResponseRecorder { return sendOTLP(OTLP(o), otlpJSON, "gzip", zip(text)) },
		"OTLP in two members": func(o Options) *httptest.ResponseRecorder {
			return sendOTLP(OTLP(o), otlpProto, "gzip", append(zip(proto[:len(proto)-10]), zip(proto[len(proto)-10:])...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			help := ""
			o := Options{Store: s, Memory: limits.NewMemory(8 << 20), Describe: func(_ string, m metadata.Metadata) error {
				if len(m.Help) > len(help) {
					help = m.Help
				}
				return nil
			}}
			for range 3 {
				if w := send(o); w.Code/100 != 2 {
					t.Fatalf("%d %.200s", w.Code, w.Body)
				}
			}
			if help != long {
				t.Errorf("the help has %d bytes, want %d", len(help), len(long))
			}
			if n := o.Memory.AddReceived(0); n != 0 {
				t.Errorf("%d bytes are still counted as being received", n)
			}
			free, err := o.Memory.Reserve(t.Context(), 8<<20)
			if err != nil {
				t.Fatal(err)
			}
			free()
		})
	}
	if w := sendOTLP(OTLP(Options{Store: openStore(t)}), otlpProto, "gzip", zip(proto)[:1000]); w.Code != http.StatusBadRequest {
		t.Errorf("a body that is cut off: %d %s", w.Code, w.Body)
	}
}

func zip(plain []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(plain)
	_ = z.Close()
	return b.Bytes()
}

// Slow bodies delay no other senders: as many of them as there are slots, and more, are
// open while others are stored.
func TestSlowSenders(t *testing.T) {
	for name, handler := range map[string]func(Options) http.Handler{"remote write": Handler, "OTLP": OTLP} {
		t.Run(name, func(t *testing.T) {
			kind := kind1
			if name == "OTLP" {
				kind = otlpProto
			}
			h := handler(Options{Store: openStore(t), MaxConcurrent: 2})
			var writers []*io.PipeWriter
			done := make(chan int)
			for range 5 {
				pr, pw := io.Pipe()
				writers = append(writers, pw)
				r := httptest.NewRequest(http.MethodPost, "/", pr)
				r.Header.Set("Content-Type", kind)
				go func() {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					done <- w.Code
				}()
				if _, err := pw.Write([]byte{0}); err != nil { // the handler reads it
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(nil))
			r.Header.Set("Content-Type", kind)
			if name == "remote write" {
				body, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{sample1("a", time.Now(), 1)}}).Marshal()
				if err != nil {
					t.Fatal(err)
				}
				r.Body = io.NopCloser(bytes.NewReader(s2.EncodeSnappy(nil, body)))
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code/100 != 2 {
				t.Errorf("%d %s while others send slowly", w.Code, w.Body)
			}
			for _, pw := range writers {
				_ = pw.CloseWithError(fmt.Errorf("cut off"))
				if code := <-done; code != http.StatusBadRequest {
					t.Errorf("a body that was cut off: %d", code)
				}
			}
		})
	}
}

// Large requests leave a slot for a middle-sized one, and both together one for a small one, however many of them wait.
func TestSmallBesideLarge(t *testing.T) {
	h := newHandler(Options{Store: openStore(t), MaxConcurrent: 4}, "remote_write")
	var leave []func()
	for _, c := range []struct{ size, fit int }{{largeBuffer + 1, 2}, {largeBuffer, 1}, {middleBuffer + 1, 0}} {
		for i := range c.fit + 1 {
			if i == c.fit {
				short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				if _, err := h.acquireSlots(short, c.size); err == nil {
					t.Fatalf("request %d of %d bytes has a slot", i, c.size)
				}
				cancel()
				continue
			}
			l, err := h.acquireSlots(t.Context(), c.size)
			if err != nil {
				t.Fatalf("request %d of %d bytes: %v", i, c.size, err)
			}
			leave = append(leave, l)
		}
	}
	body, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{sample1("a", time.Now(), 1)}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if w := send(h, kind1, s2.EncodeSnappy(nil, body)); w.Code != http.StatusNoContent {
		t.Errorf("%d %s beside larger requests", w.Code, w.Body)
	}
	if l, err := h.acquireSlots(t.Context(), middleBuffer); err != nil {
		t.Error(err)
	} else {
		l()
	}
	for _, l := range leave {
		l()
	}
	for i, s := range h.slots {
		if len(s) > 0 {
			t.Errorf("%d slots of kind %d are held in the end", len(s), i)
		}
	}
	l, err := newHandler(Options{Store: openStore(t), MaxConcurrent: 1}, "remote_write").acquireSlots(t.Context(), largeBuffer+1)
	if err != nil {
		t.Fatal("a large request found no slot where there is one")
	}
	l()
}

// The bodies being received have a common limit, and the bytes of completed ones are released.
func TestReceivingBound(t *testing.T) {
	h := newHandler(Options{Store: openStore(t), MaxReceiving: 1000}, "remote_write")
	pr, pw := io.Pipe()
	r := httptest.NewRequest(http.MethodPost, "/", pr)
	first := make(chan int)
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		first <- w.Code
	}()
	if _, err := pw.Write(make([]byte, 900)); err != nil {
		t.Fatal(err)
	}
	if _, err := pw.Write(nil); err != nil { // returns when the first was counted
		t.Fatal(err)
	}
	if w := send(h, kind1, make([]byte, 200)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("beyond the bound: %d %s", w.Code, w.Body)
	}
	_ = pw.Close()
	<-first
	if n := h.Memory.AddReceived(0); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
	if w := send(h, kind1, s2.EncodeSnappy(nil, nil)); w.Code != http.StatusNoContent {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}
