// Package series reads time series through the query interface of Prometheus: it iterates
// over matching series, splits label sets, and sums counters across their resets. The
// catalogue's builder and the views of package query share it, and it works the same over
// the embedded database and over a remote one.
//
// No value is extrapolated; times are Unix milliseconds. Functions are safe for concurrent
// use, a [Labels] is not.
package series

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series/courtesy"
)

// Equal matches one value of a label.
func Equal(name, v string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, name, v)
}

// OneOf returns a regular expression matcher for any of the values. The database looks up each value of such an
// alternation in its index instead of testing every label value.
func OneOf(name string, values []string) *labels.Matcher {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = escapeValue(v)
	}
	return labels.MustNewMatcher(labels.MatchRegexp, name, strings.Join(quoted, "|"))
}

func escapeValue(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// ForEach calls f for every matching series in label order, with an iterator over its samples in
// [from, to]. The iterator is valid until f returns.
func ForEach(ctx context.Context, q storage.Queryable, from, to time.Time, f func(labels.Labels, chunkenc.Iterator) error,
	ms ...*labels.Matcher) error {
	return eachSeries(ctx, q, true, from, to, f, ms)
}

// EachUnordered is like [ForEach] but calls f in any order. It is several times as fast for many series, because it does not sort.
func EachUnordered(ctx context.Context, q storage.Queryable, from, to time.Time, f func(labels.Labels, chunkenc.Iterator) error,
	ms ...*labels.Matcher) error {
	return eachSeries(ctx, q, false, from, to, f, ms)
}

// cancelCheckInterval is the number of series after which a reader checks whether its caller still waits.
const cancelCheckInterval = 1024

func eachSeries(ctx context.Context, q storage.Queryable, ordered bool, from, to time.Time, f func(labels.Labels, chunkenc.Iterator) error,
	ms []*labels.Matcher) error {
	querier, err := q.Querier(from.UnixMilli(), to.UnixMilli())
	if err != nil {
		return fmt.Errorf("query series: %w", err)
	}
	defer querier.Close()
	turn := courtesy.Enter(ctx)
	defer turn.Leave()
	// The ends are cut off here, because the database would build a list of exclusions per series.
	selecting, stream := WithStream(ctx)
	set := querier.Select(selecting, ordered, &storage.SelectHints{Start: from.UnixMilli(), End: to.UnixMilli(), DisableTrimming: true},
		ms...)
	var it chunkenc.Iterator
	within := timeRange{from: from.UnixMilli(), to: to.UnixMilli()}
	for read := 1; set.Next(); read++ {
		if read%cancelCheckInterval == 0 && ctx.Err() != nil {
			return fmt.Errorf("query series: %w", ctx.Err())
		}
		s := set.At()
		it = s.Iterator(it)
		within.Iterator, within.begun = it, false
		l := s.Labels()
		if err := f(l, &within); err != nil {
			return err
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("read series %s: %w", l, err)
		}
		stream.Done(l)
		turn.Step()
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("query series: %w", err)
	}
	return nil
}

// Labels are the labels that most readers use, and selected others in Rest.
type Labels struct {
	Metric, Site, Node, Workload, Kind, Part, Owner string
	Rest                                            map[string]string
}

// Read splits a label set; wanted names the labels to store in Rest. The map of Rest is reused.
func (n *Labels) Read(l labels.Labels, wanted ...string) {
	*n = Labels{Rest: n.Rest}
	clear(n.Rest)
	l.Range(func(lb labels.Label) {
		switch lb.Name {
		case model.MetricNameLabel:
			n.Metric = lb.Value
		case "site":
			n.Site = lb.Value
		case "node":
			n.Node = lb.Value
		case "workload":
			n.Workload = lb.Value
		case "kind":
			n.Kind = lb.Value
		case "part":
			n.Part = lb.Value
		case "owner":
			n.Owner = lb.Value
		default:
			if slices.Contains(wanted, lb.Name) {
				if n.Rest == nil {
					n.Rest = map[string]string{}
				}
				n.Rest[lb.Name] = lb.Value
			}
		}
	})
}

// Last returns the time and value of the newest sample that is not a staleness marker. ended reports whether a
// staleness marker follows that sample. ok is false if there is no sample.
func Last(it chunkenc.Iterator) (t int64, v float64, ended, ok bool) {
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		at, x := it.At()
		if value.IsStaleNaN(x) {
			ended = true
			continue
		}
		t, v, ended, ok = at, x, false, true
	}
	return t, v, ended, ok
}

// Total returns the increase of a counter since it began, which is its last value plus the last value before each
// reset. ok is false if there is no sample.
func Total(it chunkenc.Iterator) (total float64, ok bool) {
	var last float64
	eachNumber(it, func(v float64) {
		if ok && v < last {
			total += last
		}
		last, ok = v, true
	})
	return total + last, ok
}

// Max returns the largest value of a gauge; false if there is no sample.
func Max(it chunkenc.Iterator) (most float64, ok bool) {
	eachNumber(it, func(v float64) {
		if !ok || v > most {
			most = v
		}
		ok = true
	})
	return most, ok
}

// eachNumber calls f for each sample of a series of numbers.
func eachNumber(it chunkenc.Iterator, f func(v float64)) {
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		if _, v := it.At(); !math.IsNaN(v) { // staleness markers are NaN too
			f(v)
		}
	}
}
