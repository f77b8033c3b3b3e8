package server

import (
	"context"
	"strings"

	"reckon/answer"
	"reckon/graph"
	"reckon/graph/sparql"
)

// dataPlaces reads the locations of data from the graph. It implements answer.DataPlaces.
type dataPlaces struct {
	graph interface {
		Query(ctx context.Context, text string, limits sparql.Limits, visible func(graph.Info) bool) (*sparql.Result, error)
	}
	site string // of the graph, for nodes without a site
}

// Data is on a node that stores it. A volume is also on each node with a running pod that has it mounted.
const placesQuery = `PREFIX rk: <urn:reckon:ns#> SELECT DISTINCT ?data ?kind ?namespace ?name ?node ?site {
{ ?data rk:storedOn ?n } UNION { ?data rk:dataType "persistentVolumeClaim" . ?w rk:reads ?data ; rk:runsOn ?n ; rk:state "Running" }
?n rk:name ?node OPTIONAL { ?n rk:partOf/rk:name ?site } OPTIONAL { ?data rk:dataType ?kind ; rk:name ?name } OPTIONAL { ?data rk:namespace ?namespace } }`

// Places implements answer.DataPlaces.
func (d *dataPlaces) Places(ctx context.Context) ([]answer.DataPlace, error) {
	r, err := d.graph.Query(ctx, placesQuery, sparql.Limits{}, nil)
	if err != nil {
		return nil, err
	}
	out := make([]answer.DataPlace, len(r.Rows))
	for i, row := range r.Rows {
		var name []string
		for _, part := range row[1:4] {
			if part.Value != "" {
				name = append(name, part.Value)
			}
		}
		out[i] = answer.DataPlace{IRI: row[0].Value, Name: strings.Join(name, "/"), Node: row[4].Value, Site: row[5].Value}
		if out[i].Site == d.site {
			out[i].Site = ""
		}
	}
	return out, nil
}
