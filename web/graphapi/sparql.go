package graphapi

import (
	"bytes"
	"encoding/csv"
	"io"
	"mime"
	"net/http"

	"reckon/access"
	"reckon/graph"
	"reckon/graph/sparql"
)

// sparqlRequest reads a query or an update of the SPARQL 1.1 Protocol.
func sparqlRequest(r *http.Request) (query, update string, err error) {
	for _, p := range []string{"default-graph-uri", "named-graph-uri", "using-graph-uri", "using-named-graph-uri"} {
		if r.URL.Query().Has(p) {
			return "", "", newProblem(http.StatusNotImplemented, "name graphs with GRAPH", "the parameter %s is not taken", p)
		}
	}
	if r.Method == http.MethodGet {
		return r.URL.Query().Get("query"), "", nil
	}
	name, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch name {
	case "application/sparql-query", "application/sparql-update":
		raw, err := io.ReadAll(r.Body)
		if name == "application/sparql-query" {
			return string(raw), "", err
		}
		return "", string(raw), err
	case "application/x-www-form-urlencoded":
		if err := r.ParseForm(); err != nil {
			return "", "", newProblem(http.StatusBadRequest, "", "cannot parse the form: %v", err)
		}
		return r.PostForm.Get("query"), r.PostForm.Get("update"), nil
	}
	return "", "", newProblem(http.StatusUnsupportedMediaType, "send a form, application/sparql-query or application/sparql-update",
		"queries of the type %q are not read", name)
}

func (s *server) serveSPARQL(w http.ResponseWriter, r *http.Request) error {
	v := access.From(r.Context())
	if s.Querier == nil {
		if s.Forwarder == nil {
			return newProblem(http.StatusNotFound, "use subgraphs", "this server does not support SPARQL")
		}
		if !v.Changes() {
			return newProblem(http.StatusForbidden, "use subgraphs: GET /graph/list",
				"a remote store does not know roles, so only administrators may query it in SPARQL")
		}
		s.Forwarder.Forward(w, r)
		return nil
	}
	query, update, err := sparqlRequest(r)
	switch {
	case err != nil:
		return err
	case update != "":
		if err := s.applyUpdate(r, update); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	case query == "":
		return newProblem(http.StatusBadRequest, "send ?query=SELECT ...", "the query is missing")
	}
	result, err := s.Querier.Query(r.Context(), query, s.Limits, visibleFilter(v))
	if err != nil {
		return err
	}
	if result.Graph != nil {
		return s.writeStatements(w, r, result.Graph)
	}
	media := []string{"application/sparql-results+json", "application/json", "text/csv", "text/tab-separated-values"}
	at := acceptedIndex(r.Header.Get("Accept"), media)
	if at < 0 {
		return newProblem(http.StatusNotAcceptable, "take application/sparql-results+json, text/csv or text/tab-separated-values",
			"there is no answer of the type %q", r.Header.Get("Accept"))
	}
	if at < 2 {
		w.Header().Set("Content-Type", media[at])
		return writeAs(w, media[at], result)
	}
	if result.Ask != nil {
		return newProblem(http.StatusNotAcceptable, "", "the answer of ASK has no form as %s", media[at])
	}
	w.Header().Set("Content-Type", media[at]+"; charset=utf-8")
	if at == 2 {
		return writeCSV(w, result)
	}
	return writeTSV(w, result)
}

// writeStatements answers a CONSTRUCT or a DESCRIBE in one of the formats of subgraphs.
func (s *server) writeStatements(w http.ResponseWriter, r *http.Request, quads []graph.Quad) error {
	f, err := formatFor(r)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := f.write(s, &b, quads); err != nil {
		return err
	}
	w.Header().Set("Content-Type", f.media)
	_, err = w.Write(b.Bytes())
	return ignoreConnError(err)
}

func (s *server) applyUpdate(r *http.Request, text string) error {
	v := access.From(r.Context())
	if !v.MaySend() {
		return newProblem(http.StatusForbidden, "ask an administrator", "a viewer of role %s may not change the graph", v.Role)
	}
	u, err := sparql.ParseUpdate(text)
	if err != nil {
		return err
	}
	p := graph.Put{Origin: s.origin(v), Owner: v.Name, Time: s.Now()}
	return s.Updater.Update(r.Context(), u, p, func(id string) error { return s.mayWrite(r.Context(), id) })
}

// binding is a term in SPARQL 1.1 Query Results JSON.
type binding struct {
	Type     string `json:"type"`
	Value    string `json:"value"`
	Language string `json:"xml:lang,omitempty"`
	Datatype string `json:"datatype,omitempty"`
}

func toBinding(t graph.Term, everyType bool) binding {
	switch t.Kind {
	case graph.IRI:
		return binding{Type: "uri", Value: t.Value}
	case graph.Blank:
		return binding{Type: "bnode", Value: t.Value}
	}
	b := binding{Type: "literal", Value: t.Value, Language: t.Language, Datatype: t.Datatype}
	if everyType && t.Language == "" {
		b.Datatype = t.Type()
	}
	return b
}

func toResultsJSON(r *sparql.Result, everyType bool) map[string]any {
	if r.Ask != nil {
		return map[string]any{"head": map[string]any{}, "boolean": *r.Ask}
	}
	rows := make([]map[string]binding, len(r.Rows))
	for i, row := range r.Rows {
		rows[i] = map[string]binding{}
		for j, t := range row {
			if !t.IsZero() {
				rows[i][r.Vars[j]] = toBinding(t, everyType)
			}
		}
	}
	vars := r.Vars
	if vars == nil {
		vars = []string{}
	}
	return map[string]any{"head": map[string]any{"vars": vars}, "results": map[string]any{"bindings": rows}}
}

func writeAs(w http.ResponseWriter, media string, r *sparql.Result) error {
	raw, err := encodeJSON(toResultsJSON(r, false))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", media)
	_, err = w.Write(raw)
	return ignoreConnError(err)
}

func writeCSV(w io.Writer, r *sparql.Result) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	cells := make([]string, len(r.Vars))
	_ = out.Write(r.Vars) // Flush below returns the error
	for _, row := range r.Rows {
		for i, t := range row {
			cells[i] = t.Value
			if t.Kind == graph.Blank {
				cells[i] = "_:" + t.Value
			}
		}
		_ = out.Write(cells)
	}
	out.Flush()
	return ignoreConnError(out.Error())
}

func writeTSV(w io.Writer, r *sparql.Result) error {
	var b []byte
	for i, v := range r.Vars {
		if i > 0 {
			b = append(b, '\t')
		}
		b = append(b, '?')
		b = append(b, v...)
	}
	for _, row := range r.Rows {
		b = append(b, '\n')
		for i, t := range row {
			if i > 0 {
				b = append(b, '\t')
			}
			b = t.Append(b)
		}
	}
	_, err := w.Write(append(b, '\n'))
	return ignoreConnError(err)
}
