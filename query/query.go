// Package query reads: the profile of one workload over time, its parts, programs and
// events, the state of the nodes, and PromQL. What writes the rows of workloads is package
// catalogue.
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
	"time"

	"reckon/internal/series"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
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
	ms := []*labels.Matcher{series.Equal("workload", s.ID)}
	if s.Site != "" {
		ms = append(ms, series.Equal("site", s.Site))
	}
	return ms
}

func ptr(v float64) *float64 { return &v }
