package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"reckon/graph"
	vocabulary "reckon/graph/own"
	"reckon/query"
)

// latestValues answers the queries of series in the graph with the viewer's permissions. It implements graph.Latest.
type latestValues struct {
	engine *query.Engine
	series storage.Queryable // held to the viewer in the context
	url    func() string     // of this server
	now    func() time.Time
}

// Latest implements graph.Latest. For ended series it returns the last value.
func (l *latestValues) Latest(ctx context.Context, quads []graph.Quad, only graph.Term) (out []graph.Quad, err error) {
	for _, s := range vocabulary.SeriesOf(quads, only) {
		if !l.answers(s) {
			continue
		}
		at := l.now()
		if !s.End.IsZero() && s.End.Before(at) {
			at = s.End
		}
		value, ok, err := l.query(ctx, s.Query, at)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, vocabulary.Latest(s, value, at)...)
		}
	}
	return out, nil
}

// answers reports whether the series is in the store of this server. It is one of reckon, or of a subgraph that names this server.
func (l *latestValues) answers(s vocabulary.Series) bool {
	return strings.HasPrefix(s.Name, "reckon_") || s.Source != "" && strings.TrimSuffix(s.Source, "/") == strings.TrimSuffix(l.url(), "/")
}

// query returns the value of a query for the time at. ok is false if the result does not have exactly one value. It is
// also false for an invalid query, because anyone who writes to the graph can store such a query.
func (l *latestValues) query(ctx context.Context, text string, at time.Time) (value float64, ok bool, err error) {
	q, err := l.engine.NewInstantQuery(ctx, l.series, nil, text, at)
	if err != nil {
		return 0, false, nil //nolint:nilerr // see above
	}
	defer q.Close()
	r := q.Exec(ctx)
	var away promql.ErrStorage
	if ctx.Err() != nil || errors.As(r.Err, &away) {
		return 0, false, errors.Join(graph.ErrUnavailable, r.Err, ctx.Err())
	}
	if v, vectorErr := r.Vector(); vectorErr == nil && len(v) == 1 && v[0].H == nil {
		return v[0].F, true, nil
	}
	if v, scalarErr := r.Scalar(); scalarErr == nil {
		return v.V, true, nil
	}
	return 0, false, nil
}
