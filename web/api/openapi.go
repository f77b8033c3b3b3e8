package api

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"reckon/figure"
	"reckon/web/client"
)

// schema is a JSON Schema (draft 2020-12) or any other object of the document.
type schema map[string]any

func enumSchema(words ...string) schema { return schema{"type": "string", "enum": words} }

// openAPIDocument returns the OpenAPI 3.1 document of the API (https://spec.openapis.org/oas/v3.1.1). It is built from the
// routes and, by reflection, from the wire types.
func openAPIDocument(routes []route, version string, others ...otherRoute) []byte {
	version = cmp.Or(version, "0")
	schemas := schema{}
	paths := schema{}
	for _, r := range routes {
		paths[strings.Replace(r.path, "...", "", 1)] = schema{strings.ToLower(r.verb()): operationSchema(r, schemas)}
	}
	for _, name := range []string{"query", "query_range", "series", "labels", "label/{name}/values", "metadata", "rules", "alerts"} {
		paths["/api/v1/"+name] = prometheusPath(name)
	}
	for _, p := range others {
		paths[p.path] = p.document()
	}
	typeSchema(reflect.TypeFor[client.Error](), schemas)
	typeSchema(reflect.TypeFor[client.Live](), schemas)
	body, err := json.MarshalIndent(schema{
		"openapi": "3.1.0",
		"info": schema{
			"title": "reckon", "version": version,
			"summary": "Who used what: CPU, memory, GPU, disk and energy, for every job, pod, service and user.",
			"description": "Times are RFC 3339 in UTC, figures are in SI base units, and values that were not measured are null or " +
				"absent, never zero. Unknown parameters are refused.",
			"license": schema{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers": []schema{{"url": "/"}},
		"tags": []schema{
			{"name": "reckon", "description": "Workloads, nodes and the live stream."},
			{"name": "health", "description": "For supervisors."},
			{"name": "access", "description": "Signing in and out."},
			{"name": "prometheus", "description": "The Prometheus HTTP API, answered by Prometheus's own handlers.",
				"externalDocs": schema{"url": "https://prometheus.io/docs/prometheus/latest/querying/api/"}},
		},
		"paths": paths,
		// A request without credentials is anonymous or the default viewer, depending on the configuration of the server.
		"security":   []schema{{}, {"token": []string{}}, {"password": []string{}}, {"session": []string{}}},
		"components": schema{"schemas": schemas, "securitySchemes": securitySchemes()},
	}, "", "  ")
	if err != nil {
		panic(err) // it contains only maps, slices and strings
	}
	return append(body, '\n')
}

func operationSchema(r route, schemas schema) schema {
	op := schema{"operationId": operationID(r.path), "summary": r.summary, "tags": []string{pathTag(r.path)}}
	if r.doc != "" {
		op["description"] = r.doc
	}
	if r.free {
		op["security"] = []schema{}
	}
	var params []schema
	fields := schema{}
	for _, p := range r.params {
		if r.method == http.MethodPost && !p.inPath {
			field := maps.Clone(p.schema)
			field["description"] = p.doc
			fields[p.name] = field
			continue
		}
		params = append(params, p.toSchema())
	}
	if params != nil {
		op["parameters"] = params
	}
	if len(fields) > 0 {
		op["requestBody"] = schema{
			"content": schema{"application/x-www-form-urlencoded": schema{"schema": schema{"type": "object", "properties": fields}}}}
	}
	content := schema{}
	if r.answer != nil {
		content["application/json"] = schema{"schema": typeSchema(reflect.TypeOf(r.answer), schemas)}
	} else {
		content[r.media] = schema{}
	}
	if r.csv {
		content["text/csv"] = schema{"schema": schema{"type": "string"}}
	}
	responses := schema{"200": schema{"description": "The answer.", "content": content}}
	for _, status := range r.fails {
		media, body := "application/problem+json", schema{"schema": schema{"$ref": "#/components/schemas/Error"}}
		if r.answer == nil && r.media == "text/plain" {
			media, body = "text/plain", schema{}
		}
		responses[strconv.Itoa(status)] = schema{"description": failDocs[status], "content": schema{media: body}}
	}
	op["responses"] = responses
	return op
}

var failDocs = map[int]string{
	400: "A parameter is unknown or malformed; the error names it and what is accepted.",
	401: "The request is not authenticated; sign in, or send a token.",
	403: "The caller may not see it.",
	404: "Not found; the hint lists similar names.",
	409: "The name can be several workloads; the hint lists them.",
	503: "The store is not open yet; try again in a moment.",
}

func (p param) toSchema() schema {
	d := schema{"name": p.name, "in": "query", "description": p.doc, "schema": p.schema}
	if p.inPath {
		d["in"], d["required"] = "path", true
	}
	if p.many {
		d["schema"] = schema{"type": "array", "items": p.schema}
		d["style"], d["explode"] = "form", true
	}
	return d
}

func operationID(path string) string {
	id := strings.NewReplacer("/api/reckon/v1/", "", "/api/reckon/", "", "{id...}", "by_id", "{id}", "by_id", "/", "_", ".json",
		"").Replace(path)
	return strings.Trim(id, "_")
}

func pathTag(path string) string {
	if strings.HasSuffix(path, "z") {
		return "health"
	}
	return "reckon"
}

func prometheusPath(name string) schema {
	op := schema{
		"operationId": "prometheus_" + strings.NewReplacer("/", "_", "{", "", "}", "").Replace(name),
		"summary":     "Prometheus: " + name, "tags": []string{"prometheus"},
		"responses": schema{
			"200": schema{"description": "As in the Prometheus documentation.", "content": schema{"application/json": schema{}}},
			"400": schema{"description": "The expression or a parameter is wrong, in the form of Prometheus.",
				"content": schema{"application/json": schema{}}},
			"401": schema{"description": failDocs[401]}, "403": schema{"description": failDocs[403]},
			"503": schema{"description": "The answer took too long, or the store is not open yet."},
		},
	}
	if strings.Contains(name, "{name}") {
		op["parameters"] = []schema{
			{"name": "name", "in": "path", "required": true, "description": "Name of the label.", "schema": schema{"type": "string"}}}
	}
	return schema{"get": op}
}

// typeSchema returns the schema of a Go type as encoding/json encodes it. Named structs are added to schemas and referenced.
func typeSchema(t reflect.Type, schemas schema) schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		s := typeSchema(t.Elem(), schemas)
		if _, named := s["$ref"]; named {
			return schema{"anyOf": []schema{s, {"type": "null"}}}
		}
		out := schema{}
		for k, v := range s {
			out[k] = v
		}
		out["type"] = []string{s["type"].(string), "null"}
		return out
	}
	switch t.Kind() {
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return schema{"type": "integer"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Slice:
		return schema{"type": "array", "items": typeSchema(t.Elem(), schemas)}
	case reflect.Map: // of strings
		values := schema{"type": "string"}
		if t.Elem() == reflect.TypeFor[figure.Exactness]() {
			values = enumSchema(figure.ExactnessWords()...)
		}
		if t.Elem().Kind() == reflect.Float64 {
			values = schema{"type": "number"}
		}
		return schema{"type": "object", "additionalProperties": values}
	case reflect.Struct:
		ref := schema{"$ref": "#/components/schemas/" + t.Name()}
		if _, done := schemas[t.Name()]; !done {
			schemas[t.Name()] = schema{} // ends the recursion
			properties, required := schema{}, []string{}
			structFields(t, schemas, properties, &required)
			schemas[t.Name()] = schema{
				"type": "object", "description": descriptions()[t.Name()],
				"properties": properties, "required": required,
			}
		}
		return ref
	}
	panic("no schema for " + t.String()) // a wire type without a JSON equivalent
}

func structFields(t reflect.Type, schemas, properties schema, required *[]string) {
	docs := descriptions()
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			structFields(f.Type, schemas, properties, required)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		s := schema{}
		for k, v := range typeSchema(f.Type, schemas) {
			s[k] = v
		}
		s["description"] = docs[t.Name()+"."+name]
		properties[name] = s
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
}
