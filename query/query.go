// Package query turns series into answers: the rows of the workload catalogue, the
// profile of one workload over time, the state of the nodes, and PromQL.
//
// It sees the contract of package store and the query interfaces of Prometheus only,
// so that it works the same over the embedded database and over a remote one.
//
// What a workload used is read from its counters, which hold the total since its
// start: the total of a series is its last value plus what was lost where it fell,
// that is, where the counter began anew. No value is extrapolated. What has no
// samples is absent (nil), never zero. Times are UTC, figures SI base units.
//
// Everything here is safe for concurrent use.
package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Options are common to the views.
type Options struct {
	// Gone is for how long a workload or node may be silent before it counts as ended
	// or down; 0 is 5 min. It should be a few export intervals.
	Gone time.Duration
}

// Views answers questions about workloads and nodes from any store of series.
type Views struct {
	q    storage.Queryable
	gone time.Duration
}

// New returns views over q.
func New(q storage.Queryable, o Options) *Views {
	if o.Gone <= 0 {
		o.Gone = 5 * time.Minute
	}
	return &Views{q: q, gone: o.Gone}
}

// Selection names a workload in a time.
type Selection struct {
	Site     string // empty is any
	ID       string
	From, To time.Time
}

func (s Selection) matchers() []*labels.Matcher {
	ms := []*labels.Matcher{equal("workload", s.ID)}
	if s.Site != "" {
		ms = append(ms, equal("site", s.Site))
	}
	return ms
}

func equal(name, v string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, name, v)
}

// oneOf matches any of the values; the database looks such an alternation up instead
// of matching it.
func oneOf(name string, values []string) *labels.Matcher {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quoteMeta(v)
	}
	return labels.MustNewMatcher(labels.MatchRegexp, name, strings.Join(quoted, "|"))
}

func quoteMeta(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// each calls f for every series that matches, with an iterator over its samples from
// one time to another, both inclusive.
func each(ctx context.Context, q storage.Queryable, from, to time.Time, f func(labels.Labels, chunkenc.Iterator) error, ms ...*labels.Matcher) error {
	querier, err := q.Querier(from.UnixMilli(), to.UnixMilli())
	if err != nil {
		return fmt.Errorf("query series: %w", err)
	}
	defer querier.Close()
	set := querier.Select(ctx, false, &storage.SelectHints{Start: from.UnixMilli(), End: to.UnixMilli()}, ms...)
	var it chunkenc.Iterator
	for set.Next() {
		s := set.At()
		it = s.Iterator(it)
		if err := f(s.Labels(), it); err != nil {
			return err
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("read series %s: %w", s.Labels(), err)
		}
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("query series: %w", err)
	}
	return nil
}

// names are the labels that views look at.
type names struct {
	metric, site, node, workload, kind, part, owner string
	rest                                            map[string]string
}

// read splits a label set; wanted names the labels to keep in rest.
func (n *names) read(l labels.Labels, wanted ...string) {
	*n = names{rest: n.rest}
	clear(n.rest)
	l.Range(func(lb labels.Label) {
		switch lb.Name {
		case model.MetricNameLabel:
			n.metric = lb.Value
		case "site":
			n.site = lb.Value
		case "node":
			n.node = lb.Value
		case "workload":
			n.workload = lb.Value
		case "kind":
			n.kind = lb.Value
		case "part":
			n.part = lb.Value
		case "owner":
			n.owner = lb.Value
		default:
			if slices.Contains(wanted, lb.Name) {
				if n.rest == nil {
					n.rest = map[string]string{}
				}
				n.rest[lb.Name] = lb.Value
			}
		}
	})
}

// last returns the newest sample of a series of numbers that is no staleness marker,
// and whether the series ended with one.
func last(it chunkenc.Iterator) (t int64, v float64, ended, ok bool) {
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

func ptr(v float64) *float64 { return &v }
