package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"

	promremote "github.com/prometheus/prometheus/storage/remote"
)

// victoria accesses VictoriaMetrics. It has no remote read but exports raw samples as JSON lines
// (https://docs.victoriametrics.com/#how-to-export-data-in-json-line-format).
type victoria struct{ prometheus }

func (v *victoria) read(ctx context.Context, mint, maxt int64, ms []*labels.Matcher) (storage.SeriesSet, error) {
	params := rangeParams(mint, maxt, ensureNameMatcher(ms))
	in, _, err := v.web.sendRequest(ctx, http.MethodGet, v.conf.api+"/export?"+params.Encode(), nil, nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	res, err := parseExport(in)
	if err != nil {
		return nil, err
	}
	return promremote.FromQueryResult(true, res), nil
}

// ensureNameMatcher adds a name matcher to a selector that would be empty.
func ensureNameMatcher(ms []*labels.Matcher) []*labels.Matcher {
	if len(ms) > 0 {
		return ms
	}
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+")}
}

// maxLineBytes is the maximum length of one line, which is one series, in bytes.
const maxLineBytes = 256 << 20

// parseExport reads lines of JSON.
func parseExport(in io.Reader) (*prompb.QueryResult, error) {
	res := &prompb.QueryResult{}
	at := map[uint64]*prompb.TimeSeries{} // a long series may come in several lines
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLineBytes)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		l, err := parseExportLine(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("the export holds a line that cannot be read: %w: %.60q", err, lines.Bytes())
		}
		if len(l.Values) != len(l.Timestamps) {
			return nil, fmt.Errorf("the export has %d values and %d times of one series", len(l.Values), len(l.Timestamps))
		}
		ls := labels.FromMap(l.Metric)
		ts := at[ls.Hash()]
		if ts == nil {
			ts = &prompb.TimeSeries{Labels: prompb.FromLabels(ls, nil)}
			at[ls.Hash()] = ts
			res.Timeseries = append(res.Timeseries, ts)
		}
		for i, t := range l.Timestamps {
			if n := len(ts.Samples); n > 0 && ts.Samples[n-1].Timestamp >= t {
				continue // the server keeps duplicates
			}
			ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: t, Value: l.Values[i]})
		}
	}
	return res, lines.Err()
}

// exportedSeries is one line of an export.
type exportedSeries struct {
	Metric     map[string]string `json:"metric"`
	Values     jsonFloats        `json:"values"`
	Timestamps []int64           `json:"timestamps"`
}

// bareNaN matches a NaN without quotes. Some releases write it for values that are neither numbers nor staleness markers.
var bareNaN = regexp.MustCompile(`([\[,])NaN`)

func parseExportLine(raw []byte) (l exportedSeries, err error) {
	if err = json.Unmarshal(raw, &l); err == nil || !bytes.Contains(raw, []byte("NaN")) {
		return l, err
	}
	l = exportedSeries{}
	values := max(0, bytes.LastIndex(raw, []byte(`"values":[`))) // a label may hold the same text
	rest := bareNaN.ReplaceAll(raw[values:], []byte(`$1"NaN"`))
	return l, json.Unmarshal(slices.Concat(raw[:values], rest), &l)
}

// jsonFloats decodes numbers from JSON. A null is a staleness marker, and "Infinity" is infinity.
type jsonFloats []float64

func (f *jsonFloats) UnmarshalJSON(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '[' || raw[len(raw)-1] != ']' {
		return errors.New("values are no list")
	}
	raw = bytes.TrimSpace(raw[1 : len(raw)-1])
	if len(raw) == 0 {
		return nil
	}
	for one := range bytes.SplitSeq(raw, []byte(",")) {
		switch text := string(bytes.Trim(bytes.TrimSpace(one), `"`)); text {
		case "null":
			*f = append(*f, math.Float64frombits(value.StaleNaN))
		default:
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return fmt.Errorf("a value: %w", err)
			}
			*f = append(*f, v)
		}
	}
	return nil
}
