package own

import (
	"fmt"

	"reckon/graph"
)

// Check returns an error for the first object that lacks a required property. The error names the property, the object
// and its class. Objects without a class of this vocabulary are not checked.
func Check(quads []graph.Quad) error {
	required := map[string][]string{}
	for _, w := range vocabularyTerms() {
		if len(w.required) > 0 {
			required[Namespace+w.name] = w.required
		}
	}
	has := map[graph.Term]map[string]bool{}
	for _, q := range quads {
		if has[q.S] == nil {
			has[q.S] = map[string]bool{}
		}
		has[q.S][q.P.Value] = true
	}
	for _, q := range quads {
		if q.P.Value != graph.RDFType {
			continue
		}
		for _, name := range required[q.O.Value] {
			if !has[q.S][Namespace+name] {
				return fmt.Errorf("%s is of the class rk:%s and has no rk:%s", q.S, q.O.Value[len(Namespace):], name)
			}
		}
	}
	return nil
}
