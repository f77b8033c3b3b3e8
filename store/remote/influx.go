package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"

	promremote "github.com/prometheus/prometheus/storage/remote"
)

// checkFinite returns an error for values that InfluxDB cannot store.
func checkFinite(v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return errUnsupportedValue
	}
	return nil
}

// influx1 accesses InfluxDB 1.x through its Prometheus endpoints
// (https://docs.influxdata.com/influxdb/v1/supported_protocols/prometheus/). A metric becomes a
// measurement with its labels as tags and its value as the field "value".
type influx1 struct {
	prometheus
	ql influxQL
}

func (i *influx1) checkValue(v float64) error { return checkFinite(v) }

func (i *influx1) read(ctx context.Context, mint, maxt int64, ms []*labels.Matcher) (storage.SeriesSet, error) {
	set, err := i.prometheus.read(ctx, mint, maxt, dropEmptyMatchers(ms))
	if err != nil {
		return nil, err
	}
	return &matchingSet{SeriesSet: set, ms: ms}, nil
}

func (i *influx1) labelValues(ctx context.Context, name string, mint, maxt int64, ms []*labels.Matcher) ([]string, error) {
	return i.ql.labelValues(ctx, name, mint, maxt, ms)
}

func (i *influx1) labelNames(ctx context.Context, mint, maxt int64, ms []*labels.Matcher) ([]string, error) {
	return i.ql.labelNames(ctx, mint, maxt, ms)
}

// dropEmptyMatchers drops matchers that an absent label satisfies, because InfluxDB treats them differently.
func dropEmptyMatchers(ms []*labels.Matcher) []*labels.Matcher {
	return slices.DeleteFunc(slices.Clone(ms), func(m *labels.Matcher) bool { return m.Matches("") })
}

// matchingSet drops the series that do not match.
type matchingSet struct {
	storage.SeriesSet
	ms []*labels.Matcher
}

func (f *matchingSet) Next() bool {
next:
	for f.SeriesSet.Next() {
		ls := f.At().Labels()
		for _, m := range f.ms {
			if !m.Matches(ls.Get(m.Name)) {
				continue next
			}
		}
		return true
	}
	return false
}

// influx2 accesses InfluxDB 2.x. It writes samples as line protocol
// (https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/) in the form that
// InfluxDB 1.x uses for Prometheus, and reads them with InfluxQL. For InfluxQL, the bucket needs a
// DBRP mapping.
type influx2 struct{ influxQL }

func (i *influx2) checkValue(v float64) error { return checkFinite(v) }

// encode implements peer.
func (i *influx2) encode(w *prompb.WriteRequest) (body []byte, header map[string]string, err error) {
	var b bytes.Buffer
	for k := range w.Timeseries {
		ts := &w.Timeseries[k]
		var head strings.Builder
		for _, l := range ts.Labels {
			if l.Name == model.MetricNameLabel {
				head.WriteString(measurementEscaper.Replace(l.Value))
			}
		}
		for _, l := range ts.Labels {
			if l.Name != model.MetricNameLabel && l.Value != "" {
				head.WriteString("," + tagEscaper.Replace(l.Name) + "=" + escapeTagEnd(tagEscaper.Replace(l.Value)))
			}
		}
		for _, s := range ts.Samples {
			b.WriteString(head.String())
			b.WriteString(" value=")
			b.WriteString(strconv.FormatFloat(s.Value, 'g', -1, 64))
			b.WriteByte(' ')
			b.WriteString(strconv.FormatInt(s.Timestamp, 10))
			b.WriteByte('\n')
		}
	}
	return b.Bytes(), map[string]string{"Content-Type": "text/plain; charset=utf-8"}, nil
}

// Names and tags of line protocol cannot contain line breaks. A backslash escapes only the characters listed here.
var (
	measurementEscaper = strings.NewReplacer(",", `\,`, " ", `\ `, "\n", "\u2424", "\r", "\u240d")
	tagEscaper         = strings.NewReplacer(",", `\,`, " ", `\ `, "=", `\=`, "\n", "\u2424", "\r", "\u240d")
)

// escapeTagEnd keeps a backslash at the end of a tag from escaping the next character.
func escapeTagEnd(s string) string {
	if strings.HasSuffix(s, `\`) {
		return s + "\u200b"
	}
	return s
}

// influxQL queries InfluxDB 1.x and 2.x at /query with InfluxQL
// (https://docs.influxdata.com/influxdb/v1/query_language/).
type influxQL struct {
	conf *settings
	web  *serverClient
}

type influxSeries struct {
	Name    string              `json:"name"`
	Tags    map[string]string   `json:"tags"`
	Columns []string            `json:"columns"`
	Values  [][]json.RawMessage `json:"values"`
}

func (i *influxQL) query(ctx context.Context, text string) ([]influxSeries, error) {
	q := url.Values{"db": {i.conf.database}, "epoch": {"ms"}, "q": {text}}
	in, _, err := i.web.sendRequest(ctx, http.MethodGet, i.conf.api+"?"+q.Encode(), nil, nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var a struct {
		Error   string
		Results []struct {
			Error  string
			Series []influxSeries
		}
	}
	if err := json.NewDecoder(in).Decode(&a); err != nil {
		return nil, fmt.Errorf("the answer is not that of InfluxDB: %w", err)
	}
	var out []influxSeries
	for _, r := range a.Results {
		if r.Error != "" {
			return nil, fmt.Errorf("%s says %q", i.conf.shown, r.Error)
		}
		out = append(out, r.Series...)
	}
	if a.Error != "" {
		return nil, fmt.Errorf("%s says %q", i.conf.shown, a.Error)
	}
	return out, nil
}

func quoteIdent(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func quoteString(s string) string {
	return `'` + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + `'`
}

func quoteRegex(s string) string { return "/" + strings.ReplaceAll(s, "/", `\/`) + "/" }

// fromClause writes the FROM clause: the selected measurements.
func fromClause(ms []*labels.Matcher) string {
	for _, m := range ms {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return quoteIdent(m.Value)
		}
	}
	for _, m := range ms {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchRegexp {
			return quoteRegex("^(?:" + m.Value + ")$")
		}
	}
	return "/.+/"
}

// whereConditions writes the conditions for the other matchers, which an absent tag does not satisfy.
func whereConditions(ms []*labels.Matcher) (conds []string) {
	for _, m := range dropEmptyMatchers(ms) {
		switch {
		case m.Name == model.MetricNameLabel:
		case m.Type == labels.MatchEqual:
			conds = append(conds, quoteIdent(m.Name)+" = "+quoteString(m.Value))
		case m.Type == labels.MatchRegexp:
			conds = append(conds, quoteIdent(m.Name)+" =~ "+quoteRegex("^(?:"+m.Value+")$"))
		}
	}
	return conds
}

// read implements peer.
func (i *influxQL) read(ctx context.Context, mint, maxt int64, ms []*labels.Matcher) (storage.SeriesSet, error) {
	conds := append(whereConditions(ms), fmt.Sprintf("time >= %dms", max(mint, 0)), fmt.Sprintf("time <= %dms", min(maxt, 1<<43)))
	series, err := i.query(ctx, `SELECT "value" FROM `+fromClause(ms)+" WHERE "+strings.Join(conds, " AND ")+" GROUP BY *")
	if err != nil {
		return nil, err
	}
	res := &prompb.QueryResult{}
	for _, s := range series {
		b := labels.NewBuilder(labels.EmptyLabels())
		for k, v := range s.Tags {
			b.Set(k, strings.TrimSuffix(strings.NewReplacer("\u2424", "\n", "\u240d", "\r").Replace(v), "\u200b"))
		}
		b.Set(model.MetricNameLabel, s.Name)
		ts := &prompb.TimeSeries{Labels: prompb.FromLabels(b.Labels(), nil)}
		for _, row := range s.Values {
			if len(row) != 2 {
				return nil, fmt.Errorf("a row of %s has %d columns, not a time and a value", s.Name, len(row))
			}
			t, err1 := strconv.ParseInt(string(row[0]), 10, 64)
			v, err2 := strconv.ParseFloat(string(row[1]), 64)
			if err1 != nil || err2 != nil {
				return nil, fmt.Errorf("a row of %s is %s, %s, not a time and a value", s.Name, row[0], row[1])
			}
			ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: t, Value: v})
		}
		res.Timeseries = append(res.Timeseries, ts)
	}
	return &matchingSet{SeriesSet: promremote.FromQueryResult(true, res), ms: ms}, nil
}

// columnValues returns the values of one column of all rows.
func columnValues(series []influxSeries, column int) (out []string) {
	for _, s := range series {
		for _, row := range s.Values {
			var v string
			if len(row) > column && json.Unmarshal(row[column], &v) == nil {
				out = append(out, v)
			}
		}
	}
	return out
}

// labelValues implements peer. InfluxDB does not restrict it by time.
func (i *influxQL) labelValues(ctx context.Context, name string, _, _ int64, ms []*labels.Matcher) ([]string, error) {
	cond := ""
	if c := whereConditions(ms); len(c) > 0 {
		cond = " WHERE " + strings.Join(c, " AND ")
	}
	if name == model.MetricNameLabel {
		with := ""
		if f := fromClause(ms); strings.HasPrefix(f, "/") {
			with = " WITH MEASUREMENT =~ " + f
		} else {
			with = " WITH MEASUREMENT = " + f
		}
		series, err := i.query(ctx, "SHOW MEASUREMENTS"+with+cond)
		return columnValues(series, 0), err
	}
	series, err := i.query(ctx, "SHOW TAG VALUES FROM "+fromClause(ms)+" WITH KEY = "+quoteIdent(name)+cond)
	return columnValues(series, 1), err
}

func (i *influxQL) labelNames(ctx context.Context, _, _ int64, ms []*labels.Matcher) ([]string, error) {
	cond := ""
	if c := whereConditions(ms); len(c) > 0 {
		cond = " WHERE " + strings.Join(c, " AND ")
	}
	series, err := i.query(ctx, "SHOW TAG KEYS FROM "+fromClause(ms)+cond)
	return append(columnValues(series, 0), model.MetricNameLabel), err
}
