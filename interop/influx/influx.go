// Package influx writes forecasts to InfluxDB in line protocol (https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/),
// in the schema of the storage service of GLACIATION: measurement forecasting; tags metricId, aggregation_interval (seconds),
// forecasting_model, forecasting_time (the day on which it was made) and input_size (the maximum number of hours it is based on); fields
// forecasting_value, forecasting_upper and forecasting_lower. The time of a point is the start of its hour, in seconds. Writing a
// forecast again changes nothing.
//
// A [Writer] is safe for concurrent use.
package influx

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"reckon/store"
)

const (
	// batch is the number of points per request.
	batch = 5000
	// timeout is the time limit of a request.
	timeout = 30 * time.Second
)

// Writer writes to one bucket.
type Writer struct {
	address   string
	tokenFile string
	inputSize int
	client    *http.Client
}

// New returns a writer to an address such as http://HOST:8086/api/v2/write?org=ORG&bucket=BUCKET. The option
// token_file=FILE names a file with a token. InfluxDB 1 uses /write?db=DATABASE. inputSize is the maximum number of
// past hours that a forecast uses.
func New(address string, inputSize int) (*Writer, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no address of InfluxDB; give http://HOST:8086/api/v2/write?org=ORG&bucket=BUCKET", address)
	}
	q := u.Query()
	if q.Get("bucket") == "" && q.Get("db") == "" {
		return nil, fmt.Errorf("%s names no bucket; add bucket=NAME behind a ?, or db=NAME for /write of InfluxDB 1", u.Redacted())
	}
	w := &Writer{tokenFile: q.Get("token_file"), inputSize: inputSize, client: &http.Client{Timeout: timeout}}
	q.Del("token_file")
	q.Set("precision", "s")
	u.RawQuery = q.Encode()
	if u.Path == "" || u.Path == "/" {
		u.Path = "/api/v2/write"
	}
	w.address = u.String()
	return w, nil
}

// Write sends forecasts. After an error, some may have been written. It is safe to send all of them again.
func (w *Writer) Write(ctx context.Context, list []store.Forecast) error {
	var b bytes.Buffer
	points := 0
	for i := range list {
		n := w.appendForecast(&b, &list[i])
		if points += n; points >= batch {
			if err := w.post(ctx, b.Bytes()); err != nil {
				return err
			}
			points = 0
			b.Reset()
		}
	}
	if points == 0 {
		return nil
	}
	return w.post(ctx, b.Bytes())
}

// appendForecast appends the lines of a forecast and returns their number. NaN values have no line.
func (w *Writer) appendForecast(b *bytes.Buffer, f *store.Forecast) int {
	id := strings.Join([]string{f.Subject, f.Site, f.Name, f.Figure}, "/")
	model := cmp.Or(strings.Join(f.Models, "+"), "none")
	tags := fmt.Sprintf("forecasting,aggregation_interval=%d,forecasting_model=%s,forecasting_time=%s,input_size=%d,metricId=%s",
		int64(f.Step.Seconds()), escapeTag(model), f.Made.UTC().Format(time.DateOnly), w.inputSize, escapeTag(id))
	n := 0
	for i, v := range f.Point {
		if !isFinite(v) || !isFinite(f.Low[i]) || !isFinite(f.High[i]) {
			continue
		}
		at := f.Made.Add(time.Duration(i) * f.Step).Unix()
		fmt.Fprintf(b, "%s forecasting_lower=%s,forecasting_upper=%s,forecasting_value=%s %d\n", tags, formatNumber(f.Low[i]),
			formatNumber(f.High[i]),
			formatNumber(v), at)
		n++
	}
	return n
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// escapeTag escapes a tag value.
func escapeTag(s string) string {
	return strings.NewReplacer(",", `\,`, "=", `\=`, " ", `\ `, "\n", " ").Replace(s)
}

func (w *Writer) post(ctx context.Context, lines []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address, bytes.NewReader(lines))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if w.tokenFile != "" {
		token, err := os.ReadFile(w.tokenFile)
		if err != nil {
			return fmt.Errorf("token for InfluxDB: %w", err)
		}
		r.Header.Set("Authorization", "Token "+strings.TrimSpace(string(token)))
	}
	res, err := w.client.Do(r)
	if err != nil {
		return fmt.Errorf("write forecasts: %w", err)
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 500)) // it may explain the status
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("write forecasts: InfluxDB answers %s: %s", res.Status, strings.TrimSpace(string(said)))
	}
	return nil
}
