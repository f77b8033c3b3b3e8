// Package query reads stored series: the profile of one workload over time, its parts, programs and
// events, the state of the nodes, and PromQL. Package catalogue writes the rows of workloads.
//
// It depends only on the contract of package store and the query interfaces of Prometheus,
// so it works the same over the embedded database and over a remote one.
//
// The use of a workload is read from counters that hold the total since its
// start: the total of a series is its last value plus the value before each
// counter reset. No value is extrapolated. Figures without
// samples are absent (nil), never zero. Times are UTC, figures SI base units.
//
// Everything here is safe for concurrent use.
package query

import (
	"context"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series"
)

// Options of the views.
type Options struct {
	// Gone is the time that a workload or node may be silent before it counts as ended or down; 0 means
	// 5 min. It should be a few export intervals.
	Gone time.Duration
	// KeepNodes keeps a list of nodes that takes long to read; see [Views.NodesAsOf], and call [Views.RefreshNodes].
	KeepNodes bool
}

// Views answers questions about workloads and nodes from any store of series.
type Views struct {
	q    storage.Queryable
	gone time.Duration
	kept *nodeCache // nil without caching
}

// New returns views over q.
func New(q storage.Queryable, o Options) *Views {
	if o.Gone <= 0 {
		o.Gone = 5 * time.Minute
	}
	v := &Views{q: q, gone: o.Gone}
	if o.KeepNodes {
		v.kept = &nodeCache{wake: make(chan struct{}, 1)}
	}
	return v
}

// Selection selects a workload and a time range.
type Selection struct {
	Site string // empty for any site
	ID   string
	// Numbered are further ids under which nodes may have measured it; see [Views.Select].
	Numbered []string
	From, To time.Time
	Owners   []string // of a process group of several users, the users with series that count; none for all
}

// allIDs returns all ids under which the workload may have been measured.
func (s *Selection) allIDs() []string { return append([]string{s.ID}, s.Numbered...) }

// eachSeries calls f for every series of the workload in the time range that has one of the names. For the ids in s.Numbered, which are
// derived from the job number, it accepts only series of nodes. A scheduler may report another job under the same number.
func (v *Views) eachSeries(ctx context.Context, s Selection, from, to time.Time, names []string,
	f func(labels.Labels, chunkenc.Iterator) error) error {
	ms := []*labels.Matcher{series.OneOf("workload", s.allIDs()), series.OneOf(model.MetricNameLabel, names)}
	if s.Site != "" {
		ms = append(ms, series.Equal("site", s.Site))
	}
	if len(s.Owners) > 0 {
		ms = append(ms, series.OneOf("owner", s.Owners))
	}
	return series.ForEach(ctx, v.q, from, to, func(l labels.Labels, it chunkenc.Iterator) error {
		if len(s.Numbered) > 0 && l.Get("node") == "" && l.Get("workload") != s.ID {
			return nil
		}
		return f(l, it)
	}, ms...)
}
