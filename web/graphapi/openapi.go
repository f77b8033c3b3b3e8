package graphapi

import (
	"encoding/json"
	"strings"
)

// describe writes the routes as an OpenAPI 3.1 document.
func describe(routes []route) []byte {
	paths := map[string]map[string]any{}
	for _, r := range routes {
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		op := map[string]any{
			"summary": r.summary,
			"responses": map[string]any{"200": map[string]any{"description": "The result."},
				"default": map[string]any{"description": "What is wrong, as {\"error\", \"hint\"}."}},
		}
		var params []map[string]any
		if strings.Contains(r.path, "{id}") {
			params = append(params, parameter("path", "id", true))
			if r.method == "GET" && strings.HasSuffix(r.path, "{id}") {
				params = append(params, parameter("query", "values", false))
			}
		}
		switch {
		case r.path == "/graphstore":
			params = append(params, parameter("query", "graph", true))
		case r.path == "/graph/links":
			for _, name := range []string{"iri", "node", "workload", "site", "start"} {
				params = append(params, parameter("query", name, false))
			}
		case strings.HasSuffix(r.path, "/sparql") && r.method == "GET", r.path == "/api/v0/graph" && r.method == "GET",
			r.path == "/api/v0/graph/update" && r.method == "GET":
			params = append(params, parameter("query", "query", true))
		}
		if len(params) > 0 {
			op["parameters"] = params
		}
		if r.method == "PUT" || r.method == "POST" || r.method == "PATCH" {
			op["requestBody"] = map[string]any{"content": bodies(r.path)}
		}
		paths[r.path][strings.ToLower(r.method)] = op
	}
	raw, err := json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info":    map[string]any{"title": "reckon knowledge graph", "version": "1"},
		"paths":   paths,
	}, "", "  ")
	if err != nil {
		return nil // maps of strings can always be encoded
	}
	return append(raw, '\n')
}

func parameter(in, name string, required bool) map[string]any {
	return map[string]any{"in": in, "name": name, "required": required, "schema": map[string]any{"type": "string"}}
}

func bodies(path string) map[string]any {
	media := []string{"application/ld+json", "text/turtle", "application/n-triples", "application/n-quads"}
	switch {
	case path == "/sparql":
		media = []string{"application/x-www-form-urlencoded", "application/sparql-query", "application/sparql-update"}
	case strings.HasPrefix(path, "/api/v0/"):
		media = []string{"application/json"}
	}
	out := map[string]any{}
	for _, m := range media {
		out[m] = map[string]any{}
	}
	return out
}
