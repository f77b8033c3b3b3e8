package api

import (
	"reflect"

	"reckon/figure"
)

//go:generate go run ./gen

// descriptions returns the description of each wire type and field, by Go name and JSON name. It is the comment in
// package client or, for a figure, the text in the table of figures. A test fails if a field has none.
func descriptions() map[string]string {
	all := clientTexts()
	for scope, t := range map[figure.Scope]reflect.Type{
		figure.Runs: reflect.TypeFor[figure.Row](), figure.Hours: reflect.TypeFor[figure.Used](),
		figure.Nodes: reflect.TypeFor[figure.Capacity](),
	} {
		for _, f := range figure.InScope(scope) {
			if scope != figure.Runs || !f.Internal {
				all[t.Name()+"."+f.Key] = f.Help
			}
		}
	}
	all["Used.exactness"] = "How far the figures can be trusted that are not exact in some of the hours added up, by name: at least (a " +
		"lower bound), estimated, modelled."
	all["Row.exactness"] = "How far the figures can be trusted that are not exact, by name: at least (a lower bound), at most (an upper " +
		"bound), estimated, modelled."
	return all
}
