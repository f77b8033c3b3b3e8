package remote

import (
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
)

// write2 holds the additions of remote write 2.0
// (https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/): a description per series and the
// start times of counters.
type write2 struct {
	describe func(name string) metadata.Metadata
	started  func(hash uint64) (int64, bool)
	refused  atomic.Bool // the other side supports 1.0 only
}

var headers2 = map[string]string{
	"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request",
	"X-Prometheus-Remote-Write-Version": "2.0.0",
}

// rejectsVersion2 reports whether the response to a request of remote write 2.0 shows that the server supports only 1.0. Some
// servers return an error. Others accept the request as an empty 1.0 request and do not send the headers of 2.0. After
// such a response, all requests use 1.0.
func (w *write2) rejectsVersion2(sent map[string]string, received http.Header, err error) bool {
	if w == nil || sent["X-Prometheus-Remote-Write-Version"] != headers2["X-Prometheus-Remote-Write-Version"] {
		return false
	}
	var status *statusError
	switch {
	case errors.As(err, &status):
		if status.status != http.StatusUnsupportedMediaType {
			return false
		}
	case err != nil || received.Get("X-Prometheus-Remote-Write-Samples-Written") != "":
		return false
	}
	w.refused.Store(true)
	return true
}

// encode encodes a request of 2.0.
func (w *write2) encode(req *prompb.WriteRequest) (body []byte, header map[string]string, err error) {
	symbols := writev2.NewSymbolTable()
	out := writev2.Request{Timeseries: make([]writev2.TimeSeries, 0, len(req.Timeseries))}
	b := labels.NewScratchBuilder(16)
	for i := range req.Timeseries {
		from := &req.Timeseries[i]
		ls := from.ToLabels(&b, nil)
		about := w.describe(ls.Get(model.MetricNameLabel))
		ts := writev2.TimeSeries{
			LabelsRefs: symbols.SymbolizeLabels(ls, nil),
			Metadata: writev2.Metadata{Type: writev2.FromMetadataType(about.Type), HelpRef: symbols.Symbolize(about.Help),
				UnitRef: symbols.Symbolize(about.Unit)},
		}
		start, _ := w.started(ls.Hash())
		for _, s := range from.Samples {
			sample := writev2.Sample{Value: s.Value, Timestamp: s.Timestamp}
			if start < s.Timestamp {
				sample.StartTimestamp = start
			}
			ts.Samples = append(ts.Samples, sample)
		}
		for _, h := range from.Histograms {
			if h.IsFloatHistogram() {
				ts.Histograms = append(ts.Histograms, writev2.FromFloatHistogram(0, h.Timestamp, h.ToFloatHistogram()))
			} else {
				ts.Histograms = append(ts.Histograms, writev2.FromIntHistogram(0, h.Timestamp, h.ToIntHistogram()))
			}
		}
		for _, e := range from.Exemplars {
			x := e.ToExemplar(&b, nil)
			ts.Exemplars = append(ts.Exemplars,
				writev2.Exemplar{LabelsRefs: symbols.SymbolizeLabels(x.Labels, nil), Value: x.Value, Timestamp: x.Ts})
		}
		out.Timeseries = append(out.Timeseries, ts)
	}
	out.Symbols = symbols.Symbols()
	raw, err := out.Marshal()
	if err != nil {
		return nil, nil, err
	}
	return s2.EncodeSnappy(nil, raw), headers2, nil
}
