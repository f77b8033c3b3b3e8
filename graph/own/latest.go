package own

import (
	"math"
	"time"

	"reckon/graph"
)

// LatestGraph is the name of the graph of latest values of series. It is built for each query and never stored.
const LatestGraph = "urn:reckon:latest"

// Series is a time series that a subgraph refers to.
type Series struct {
	IRI         graph.Term
	Name, Query string
	Source      string    // URL of the server to query; empty if the subgraph has none
	End         time.Time // end of the object; zero while it exists
}

// SeriesOf returns the series that a subgraph refers to, in the order of its statements. If only is not zero, it
// returns just that series.
func SeriesOf(quads []graph.Quad, only graph.Term) []Series {
	objects := map[[2]graph.Term]graph.Term{}
	var end time.Time
	for _, q := range quads {
		objects[[2]graph.Term{q.S, q.P}] = q.O
		if q.P.Value == Namespace+"endTime" {
			if t, err := time.Parse(time.RFC3339, q.O.Value); err == nil {
				end = t
			}
		}
	}
	of := func(s graph.Term, property string) graph.Term {
		return objects[[2]graph.Term{s, graph.Node(Namespace + property)}]
	}
	var out []Series
	for _, q := range quads {
		if q.P.Value != Namespace+"series" || !only.IsZero() && q.O != only {
			continue
		}
		s := Series{IRI: q.O, Name: of(q.O, "metricName").Value, Query: of(q.O, "query").Value, Source: of(of(q.S, "source"), "url").Value,
			End: end}
		if s.Query != "" {
			out = append(out, s)
		}
	}
	return out
}

// Latest returns the statements of the value of a series at a time; none for NaN.
func Latest(s Series, value float64, at time.Time) []graph.Quad {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil
	}
	w := &writer{}
	w.addStatement(s.IRI, "latestValue", graph.Number(value))
	w.addStatement(s.IRI, "latestTime", graph.DateTime(at))
	return w.quads
}
