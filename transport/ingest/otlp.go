package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	translate "github.com/prometheus/prometheus/storage/remote/otlptranslator/prometheusremotewrite"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	recseries "reckon/internal/series"
)

// otlp is the receiver of OpenTelemetry metrics (https://opentelemetry.io/docs/specs/otlp/#otlphttp). It accepts
// protobuf and JSON, plain or gzipped, and translates them as Prometheus does.
//
// Sums and histograms with delta temporality are accumulated ([deltas]). Those with unspecified temporality are
// rejected. The response then is a partial success that names them, and the rest of the request is stored.
type otlp struct {
	*handler
	converters sync.Pool
	deltas     deltas
}

// OTLP returns the receiver of OpenTelemetry metrics, to be mounted at /api/v1/otlp/v1/metrics and /v1/metrics.
//
// The resource attributes site and node become labels of every series. node defaults to host.name. Both must be within
// the scope of the sender's token.
func OTLP(o Options) http.Handler {
	h := &otlp{handler: newHandler(o, "otlp"), deltas: deltas{total: map[hash128]*deltaSeries{}, most: maxDeltas}}
	h.converters.New = func() any { return translate.NewPrometheusConverter(nil) }
	return h
}

// ServeHTTP implements http.Handler.
func (h *otlp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, kind, err := h.serve(w, r)
	if err != nil {
		var s *statusError
		if !errors.As(err, &s) {
			s = storeError(err)
			if s.code == http.StatusInternalServerError {
				s.code, s.after = http.StatusServiceUnavailable, 5*time.Second // senders of OTLP drop requests that are answered by 500
			}
			h.Logger.Error("OTLP metrics could not be stored; the sender keeps them", "from", r.RemoteAddr, "err", err)
		} else {
			h.Logger.Debug("OTLP metrics refused", "from", r.RemoteAddr, "status", s.code, "err", s.text)
		}
		if s.after > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(s.after.Seconds())))
		}
		h.Stats.countRequest(h.protocol, s.code)
		http.Error(w, s.text, s.code)
		return
	}
	h.Stats.countRequest(h.protocol, http.StatusOK)
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(answer) // an error means that the sender went away
}

const (
	otlpProto = "application/x-protobuf"
	otlpJSON  = "application/json"
)

func (h *otlp) serve(w http.ResponseWriter, r *http.Request) (answer []byte, contentType string, err error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, "", newStatusError(http.StatusMethodNotAllowed, "OTLP is a POST of metrics; to read them see /api/v1/query")
	}
	contentType, _, err = mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || contentType != otlpProto && contentType != otlpJSON {
		return nil, "", newStatusError(http.StatusUnsupportedMediaType, "unsupported content type %q; send %s or %s",
			r.Header.Get("Content-Type"),
			otlpProto, otlpJSON)
	}
	who, err := h.identifySender(r)
	if err != nil {
		return nil, "", err
	}
	buf := h.buffers.Get().(*buffers)
	defer h.recycle(buf)
	if err := h.receive(w, r, buf); err != nil {
		return nil, "", err
	}
	turn, err := h.unpackOTLP(r.Context(), r.Header.Get("Content-Encoding"), buf)
	if err != nil {
		return nil, "", err
	}
	defer turn.releaseAll()
	req, err := decodeOTLP(r.Context(), contentType, buf.plain, turn)
	if err != nil {
		return nil, "", err
	}
	in := h.newWriter(r.Context(), who)
	defer in.abandon()
	resp := pmetricotlp.NewExportResponse()
	_, err = h.storeMetrics(r.Context(), in, req.Metrics())
	if err != nil {
		var s *statusError
		if in.refused == 0 || !errors.As(err, &s) || s.code != http.StatusBadRequest {
			return nil, "", err
		}
		resp.PartialSuccess().SetRejectedDataPoints(int64(in.refused))
		resp.PartialSuccess().SetErrorMessage(s.text)
		h.Logger.Debug("OTLP metrics refused in part", "from", r.RemoteAddr, "err", s.text)
	}
	if contentType == otlpJSON {
		answer, err = resp.MarshalJSON()
	} else {
		answer, err = resp.MarshalProto()
	}
	return answer, contentType, err
}

// decodeOTLP decodes a request, after its objects were counted.
func decodeOTLP(ctx context.Context, contentType string, body []byte, slot *requestSlot) (req pmetricotlp.ExportRequest, err error) {
	req = pmetricotlp.NewExportRequest()
	took, decode := 0, req.UnmarshalProto
	if contentType == otlpJSON {
		decode = req.UnmarshalJSON
		if took = jsonObjectBytes * (bytes.Count(body, []byte{'{'}) + bytes.Count(body, []byte{'['})); took > maxObjectBytes {
			err = tooManyObjects()
		}
	} else {
		took, err = checkOTLP(body)
	}
	if err == nil {
		if busy := slot.reserveDecode(ctx, took > largeObjects); busy != nil {
			return req, busy
		}
		err = decode(body)
	}
	if err != nil {
		return req, newStatusError(http.StatusBadRequest, "the body is no ExportMetricsServiceRequest: %v", err)
	}
	return req, nil
}

// unpackOTLP decompresses the body into buf.plain, after it has reserved memory and a slot.
func (h *otlp) unpackOTLP(ctx context.Context, encoding string, buf *buffers) (*requestSlot, error) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		t, err := h.reserveFor(ctx, buf, 0)
		buf.plain = buf.body
		return t, err
	case "gzip":
	default:
		return nil, newStatusError(http.StatusUnsupportedMediaType, "unsupported content encoding %q; send gzip or none", encoding)
	}
	_, most := h.Sizes()
	// The trailer (RFC 1952) has the size of the last of possibly several members. If that is too
	// small, decompression is repeated with the maximum size.
	size := int64(0)
	if n := len(buf.body); n >= 4 {
		size = int64(binary.LittleEndian.Uint32(buf.body[n-4:]))
	}
	for size = min(size, most); ; size = most {
		t, err := h.reserveFor(ctx, buf, int(size))
		if err != nil {
			return nil, err
		}
		whole, err := gunzip(buf)
		if whole && err == nil {
			return t, nil
		}
		t.releaseAll()
		switch {
		case err != nil:
			return nil, newStatusError(http.StatusBadRequest, "the body is not packed by gzip: %v", err)
		case size == most:
			return nil, newStatusError(http.StatusRequestEntityTooLarge,
				"the request is larger than %d bytes unpacked; send fewer metrics at a time", most)
		}
	}
}

// gunzip decompresses buf.body into buf.plain. complete reports whether all of it fit.
func gunzip(buf *buffers) (complete bool, err error) {
	z, err := gzip.NewReader(bytes.NewReader(buf.body))
	if err != nil {
		return false, err
	}
	n, err := io.ReadFull(z, buf.plain)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && n < len(buf.plain):
		buf.plain = buf.plain[:n]
	case err != nil:
		return false, err
	}
	var more [1]byte
	if _, err = io.ReadFull(z, more[:]); errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// promotedAttributes are the resource attributes that become labels of every series.
var promotedAttributes = config.OTLPConfig{PromoteResourceAttributes: []string{"site", "node"}}

// storeMetrics translates and stores a request.
func (h *otlp) storeMetrics(ctx context.Context, in *requestWriter, md pmetric.Metrics) (result, error) {
	for i := range md.ResourceMetrics().Len() {
		rm := md.ResourceMetrics().At(i)
		if in.who.own == nil {
			setNodeAttribute(rm.Resource().Attributes())
		}
		for j := range rm.ScopeMetrics().Len() {
			rm.ScopeMetrics().At(j).Metrics().RemoveIf(func(m pmetric.Metric) bool { return refuseUnspecified(in, m) })
		}
	}
	delta, some := splitDeltas(md)
	to := &otlpAppender{requestWriter: in}
	err := h.translate(ctx, md, to)
	if some && err == nil && to.failed == nil {
		to.deltas = &h.deltas
		err = h.translate(ctx, delta, to)
	}
	switch {
	case to.failed != nil:
		return in.finish(to.failed)
	case ctx.Err() != nil:
		return in.finish(ctx.Err())
	case err != nil:
		in.addRefused(reasonInvalid, 1, "%v", err)
	}
	return in.finish(nil)
}

// translate converts the metrics of md to samples and adds them to an appender.
func (h *otlp) translate(ctx context.Context, md pmetric.Metrics, appender storage.AppenderV2) error {
	c := h.converters.Get().(*translate.PrometheusConverter)
	defer h.converters.Put(c)
	c.Reset(appender)
	defer c.Reset(nil)
	_, err := c.FromMetrics(ctx, md, translate.Settings{
		AddMetricSuffixes: true, PromoteResourceAttributes: translate.NewPromoteResourceAttributes(promotedAttributes),
		LookbackDelta: 5 * time.Minute, LabelNameUnderscoreSanitization: true,
	})
	return err
}

func setNodeAttribute(attributes pcommon.Map) {
	if _, there := attributes.Get("node"); there {
		return
	}
	if host, there := attributes.Get("host.name"); there && host.AsString() != "" {
		attributes.PutStr("node", host.AsString())
	}
}

// refuseUnspecified reports whether a metric has an unspecified temporality, and records it as refused.
func refuseUnspecified(in *requestWriter, m pmetric.Metric) bool {
	var kind pmetric.AggregationTemporality
	var points int
	switch m.Type() {
	case pmetric.MetricTypeSum:
		kind, points = m.Sum().AggregationTemporality(), m.Sum().DataPoints().Len()
	case pmetric.MetricTypeHistogram:
		kind, points = m.Histogram().AggregationTemporality(), m.Histogram().DataPoints().Len()
	case pmetric.MetricTypeExponentialHistogram:
		kind, points = m.ExponentialHistogram().AggregationTemporality(), m.ExponentialHistogram().DataPoints().Len()
	default:
		return false
	}
	if kind == pmetric.AggregationTemporalityCumulative || kind == pmetric.AggregationTemporalityDelta {
		return false
	}
	in.addRefused(reasonInvalid, points, "%s has no aggregation temporality; send cumulative or delta points", m.Name())
	return true
}

// targetInfo is the name of the metric that holds the attributes of a resource. It is not accumulated.
const targetInfo = "target_info"

var deltaReasons = map[deltaState]string{
	deltaLate: "a later delta of the series is added up already; give each sender attributes of its own, or send cumulative points",
	deltaFull: fmt.Sprintf(
		"%d series of delta temporality are added up already; set OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=cumulative at the "+
			"sender", maxDeltas),
	deltaNaN:          "it is no number, and the sum would be none for ever",
	deltaIncompatible: "its buckets cannot be added to those before",
}

// otlpAppender adapts the writer to Prometheus's translation of OTLP. It skips samples that can never be accepted and
// records the error, so that only other failures end a request.
type otlpAppender struct {
	*requestWriter
	deltas *deltas // accumulates samples; nil if they are cumulative already
	failed error
}

// Append implements storage.AppenderV2.
func (a *otlpAppender) Append(ref storage.SeriesRef, ls labels.Labels, start, t int64, v float64, ih *histogram.Histogram,
	fh *histogram.FloatHistogram, o storage.AOptions) (storage.SeriesRef, error) {
	if a.failed != nil {
		return 0, a.failed
	}
	if a.who.own != nil && ls.Get(model.MetricNameLabel) == targetInfo {
		return ref, nil // made by the translation, of the resource
	}
	ls, ok, err := a.checkLabels(ls, 1)
	if a.failed = err; err != nil || !ok {
		return ref, err
	}
	ok, err = a.isAccepted(&knownSeries{ls: ls}, 1, false)
	if a.failed = err; err != nil {
		return 0, err
	}
	if !ok {
		return ref, nil
	}
	if err := recseries.CheckSound(ih, fh); err != nil {
		a.failed = a.classifyError(&requestSeries{ls: ls}, t, err)
		return ref, a.failed
	}
	if a.deltas != nil && ls.Get(model.MetricNameLabel) != targetInfo && t <= a.latest && !value.IsStaleNaN(v) {
		if ih != nil {
			fh, ih = ih.ToFloat(nil), nil
		}
		var state deltaState
		if start, v, fh, state = a.deltas.add(a.h.Clock(), ls, start, t, v, fh); state != deltaAdded {
			a.addRefused(reasonDelta, 1, "%s at %s: %s", ls, time.UnixMilli(t).UTC().Format(time.RFC3339), deltaReasons[state])
			return ref, nil
		}
	}
	s := requestSeries{ls: ls, ref: ref}
	defer a.finishSeries(&s)
	if ih != nil || fh != nil {
		a.failed = a.storeHistogram(&s, t, ih, fh)
	} else {
		switch o.Metadata.Type {
		case model.MetricTypeCounter, model.MetricTypeHistogram, model.MetricTypeSummary:
		default:
			start = 0 // a gauge has no initial zero
		}
		if ls.Has(model.QuantileLabel) {
			start = 0
		}
		a.failed = a.storeSample(&s, start, t, v)
	}
	for _, e := range o.Exemplars {
		a.storeExemplar(&s, e)
	}
	if a.failed == nil {
		a.addMetadata(o.MetricFamilyName, o.Metadata)
	}
	return s.ref, a.failed
}

// Commit implements storage.AppenderV2; finish commits.
func (a *otlpAppender) Commit() error { return nil }

// Rollback implements storage.AppenderV2; finish rolls back.
func (a *otlpAppender) Rollback() error { return nil }
