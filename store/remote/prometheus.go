package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gogo/protobuf/proto"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"

	promremote "github.com/prometheus/prometheus/storage/remote"
)

// prometheus is a server with the protocols of Prometheus, such as Mimir, Cortex and Thanos.
type prometheus struct {
	conf *settings
	web  *serverClient
	two  *write2 // nil for 1.0
}

// checkValue implements peer: any value is accepted.
func (p *prometheus) checkValue(float64) error { return nil }

// encode implements peer by remote write 1.0, or by 2.0 if it is configured and the server accepts it.
func (p *prometheus) encode(w *prompb.WriteRequest) (body []byte, header map[string]string, err error) {
	if p.two != nil && !p.two.refused.Load() {
		return p.two.encode(w)
	}
	raw, err := proto.Marshal(w)
	if err != nil {
		return nil, nil, err
	}
	return s2.EncodeSnappy(nil, raw), map[string]string{
		"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf", "X-Prometheus-Remote-Write-Version": "0.1.0",
	}, nil
}

// read implements peer by remote read, in a stream of chunks if the other side supports it.
func (p *prometheus) read(ctx context.Context, mint, maxt int64, ms []*labels.Matcher) (storage.SeriesSet, error) {
	if p.conf.read == "" {
		return p.rangeQuery(ctx, mint, maxt, ms)
	}
	q, err := promremote.ToQuery(mint, maxt, ms, nil)
	if err != nil {
		return nil, err
	}
	raw, err := proto.Marshal(&prompb.ReadRequest{Queries: []*prompb.Query{q}, AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{
		prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES,
	}})
	if err != nil {
		return nil, err
	}
	in, header, err := p.web.sendRequest(ctx, http.MethodPost, p.conf.read, map[string]string{
		"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf", "X-Prometheus-Remote-Read-Version": "0.1.0",
	}, s2.EncodeSnappy(nil, raw))
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(header.Get("Content-Type"), "application/x-streamed-protobuf") {
		chunks := promremote.NewChunkedReader(in, config.DefaultChunkedReadLimit, nil)
		return promremote.NewChunkedSeriesSet(chunks, in, mint, maxt, func(error) {}), nil
	}
	defer in.Close()
	res, err := readSamples(in, p.conf.maxBytes)
	if err != nil {
		return nil, err
	}
	return promremote.FromQueryResult(true, res), nil
}

// readSamples reads the response to one query, of at most maxBytes bytes.
func readSamples(in io.Reader, maxBytes int64) (*prompb.QueryResult, error) {
	packed, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	n, err := s2.DecodedLen(packed)
	if err != nil {
		return nil, fmt.Errorf("the answer is not packed by snappy: %w", err)
	}
	if int64(n) > maxBytes {
		return nil, fmt.Errorf("the response is larger than %d MiB; narrow the query", maxBytes>>20)
	}
	plain, err := s2.Decode(nil, packed)
	if err != nil {
		return nil, fmt.Errorf("the answer is not packed by snappy: %w", err)
	}
	var resp prompb.ReadResponse
	if err := proto.Unmarshal(plain, &resp); err != nil {
		return nil, fmt.Errorf("the answer is no prometheus.ReadResponse: %w", err)
	}
	if len(resp.Results) != 1 {
		return nil, fmt.Errorf("the answer is to %d queries, not to one", len(resp.Results))
	}
	return resp.Results[0], nil
}

// query calls the query API and decodes the data field of the response.
func (p *prometheus) query(ctx context.Context, path string, q url.Values, into any) error {
	in, _, err := p.web.sendRequest(ctx, http.MethodPost, p.conf.api+path,
		map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
		[]byte(q.Encode()))
	if err != nil {
		return err
	}
	defer in.Close()
	return decodeData(in, into)
}

func (p *prometheus) getJSON(ctx context.Context, path string, q url.Values, into any) error {
	in, _, err := p.web.sendRequest(ctx, http.MethodGet, p.conf.api+path+"?"+q.Encode(), nil, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	return decodeData(in, into)
}

func decodeData(in io.Reader, into any) error {
	body := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(in).Decode(&body); err != nil {
		return fmt.Errorf("the answer is not that of the query API of Prometheus: %w", err)
	}
	if body.Status != "success" {
		return fmt.Errorf("the query API answers %s: %s", body.Status, body.Error)
	}
	return nil
}

// formatSeconds formats a time for the query API.
func formatSeconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }

func rangeParams(mint, maxt int64, ms []*labels.Matcher) url.Values {
	q := url.Values{"start": {formatSeconds(max(mint, 0))}, "end": {formatSeconds(min(maxt, 1<<45))}}
	if len(ms) > 0 {
		q.Set("match[]", formatSelector(ms))
	}
	return q
}

func (p *prometheus) labelValues(ctx context.Context, name string, mint, maxt int64, ms []*labels.Matcher) (list []string, err error) {
	return list, p.getJSON(ctx, "/label/"+url.PathEscape(name)+"/values", rangeParams(mint, maxt, ms), &list)
}

func (p *prometheus) labelNames(ctx context.Context, mint, maxt int64, ms []*labels.Matcher) (list []string, err error) {
	return list, p.getJSON(ctx, "/labels", rangeParams(mint, maxt, ms), &list)
}

// rangeQuery reads samples with a range selector of the query API, for servers without remote read. The result has
// neither staleness markers nor native histograms.
func (p *prometheus) rangeQuery(ctx context.Context, mint, maxt int64, ms []*labels.Matcher) (storage.SeriesSet, error) {
	var data struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Metric map[string]string `json:"metric"`
			Values []apiSample       `json:"values"`
		} `json:"result"`
	}
	q := url.Values{"query": {fmt.Sprintf("%s[%dms]", formatSelector(ms), maxt-mint+1)}, "time": {formatSeconds(maxt)}}
	if err := p.query(ctx, "/query", q, &data); err != nil {
		return nil, err
	}
	if data.ResultType != "matrix" {
		return nil, fmt.Errorf("the query API answers with a %s, not with a matrix", data.ResultType)
	}
	res := &prompb.QueryResult{}
	for _, r := range data.Result {
		ts := &prompb.TimeSeries{Labels: prompb.FromLabels(labels.FromMap(r.Metric), nil)}
		for _, v := range r.Values {
			if v.t >= mint && v.t <= maxt {
				ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: v.t, Value: v.v})
			}
		}
		if len(ts.Samples) > 0 {
			res.Timeseries = append(res.Timeseries, ts)
		}
	}
	return promremote.FromQueryResult(true, res), nil
}

// apiSample is [seconds, "value"].
type apiSample struct {
	t int64
	v float64
}

func (p *apiSample) UnmarshalJSON(raw []byte) error {
	at, v, ok := strings.Cut(strings.Trim(string(raw), "[] "), ",")
	t, err := strconv.ParseFloat(strings.TrimSpace(at), 64)
	if !ok || err != nil {
		return errors.New("a sample is not a time and a value")
	}
	if p.v, err = strconv.ParseFloat(strings.Trim(strings.TrimSpace(v), `"`), 64); err != nil {
		return fmt.Errorf("a sample: %w", err)
	}
	p.t = int64(t*1000 + 0.5)
	return nil
}
