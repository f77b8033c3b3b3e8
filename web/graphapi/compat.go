package graphapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"reckon/access"
	"reckon/graph"
	"reckon/graph/jsonld"
)

// compatRoutes returns the routes of GLACIATION's metadata service 2.0.2 that its clients use
// (https://github.com/glaciation-heu/glaciation-metadata-service). Unlike that service, the routes check the role of
// the caller.
func (s *server) compatRoutes() []route {
	return []route{
		{"PATCH", "/api/v0/graph", "Store JSON-LD in a new graph timestamp:MS, or ID/timestamp:MS.", access.Admin, true, s.servePatch},
		{"GET", "/api/v0/graph", "A SELECT; every literal of the answer has its type.", access.Public, true, s.serveSearch},
		{"GET", "/api/v0/graph/update", "An update in the parameter query.", access.Admin, true, s.serveUpdateGet},
		{"POST", "/api/v0/graph/update", `An update as {"query": "..."}.`, access.Admin, true, s.serveUpdatePost},
		{"POST", "/api/v0/graph/compact", "Delete what is no longer used.", access.Admin, true, s.serveCompact},
	}
}

// writeDetail writes an error in the form of FastAPI, which the clients expect.
func writeDetail(w http.ResponseWriter, status int, text string) error {
	return writeJSON(w, status, map[string]string{"detail": text})
}

func (s *server) servePatch(w http.ResponseWriter, r *http.Request) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return writeDetail(w, http.StatusUnprocessableEntity, "the body is no JSON object: "+err.Error())
	}
	at := s.Now().UnixMilli()
	id := "timestamp:" + strconv.FormatInt(at, 10)
	if of, ok := doc["@id"].(string); ok && of != "" {
		id = strings.TrimSuffix(of, "/") + "/" + id
	}
	doc["@id"] = id
	raw, err = json.Marshal(doc)
	if err != nil {
		return err
	}
	quads, err := jsonld.Read(bytes.NewReader(raw), s.contexts, graph.Limits{Quads: maxQuads, Literal: maxLiteral})
	if err != nil {
		return documentError(err)
	}
	if len(quads) == 0 {
		return writeDetail(w, http.StatusBadRequest, "No triples could be extracted from JSON-LD.")
	}
	if err := s.mayWrite(r.Context(), id); err != nil {
		return err
	}
	v := access.From(r.Context())
	if _, _, err := s.Store.Put(r.Context(), id,
		graph.Put{Quads: quads, Merge: true, Origin: s.origin(v), Owner: v.Name, Time: s.Now(), IfVersion: graph.AnyVersion}); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, "Success - Inserted "+strconv.Itoa(len(quads))+" triple(s) into graph <"+id+">.")
}

func (s *server) serveSearch(w http.ResponseWriter, r *http.Request) error {
	if s.Querier == nil {
		return s.serveSPARQL(w, r)
	}
	text := r.URL.Query().Get("query")
	if text == "" {
		return writeDetail(w, http.StatusUnprocessableEntity, "the parameter query is missing")
	}
	result, err := s.Querier.Query(r.Context(), text, s.Limits, visibleFilter(access.From(r.Context())))
	if err != nil {
		return s.writeSyntaxError(w, err)
	}
	if result.Ask != nil {
		return writeDetail(w, http.StatusInternalServerError, "Expected a SELECT query, got QueryBoolean")
	}
	return writeJSON(w, http.StatusOK, toResultsJSON(result, true))
}

func (s *server) writeSyntaxError(w http.ResponseWriter, err error) error {
	var syntax *graph.SyntaxError
	if errors.As(err, &syntax) {
		return writeDetail(w, http.StatusBadRequest, "Syntax error in query: "+err.Error())
	}
	return err
}

var dropStatement = regexp.MustCompile(`DROP GRAPH <.*?>;?`)

func (s *server) runUpdate(w http.ResponseWriter, r *http.Request, text string) error {
	if s.Updater == nil {
		return newProblem(http.StatusNotImplemented, "send it to /sparql", "updates are taken by the remote store")
	}
	if found := dropStatement.FindAllString(text, -1); len(found) > 0 { // as there: the drops are run, and nothing else
		for i := range found {
			found[i] = strings.TrimSuffix(found[i], ";")
		}
		text = strings.Join(found, ";\n")
	}
	if err := s.applyUpdate(r, strings.ReplaceAll(text, "DROP GRAPH", "DROP SILENT GRAPH")); err != nil {
		return s.writeSyntaxError(w, err)
	}
	return writeJSON(w, http.StatusOK, "Success")
}

func (s *server) serveUpdateGet(w http.ResponseWriter, r *http.Request) error {
	return s.runUpdate(w, r, r.URL.Query().Get("query"))
}

func (s *server) serveUpdatePost(w http.ResponseWriter, r *http.Request) error {
	var body map[string]any
	err := json.NewDecoder(r.Body).Decode(&body)
	text, ok := body["query"].(string)
	if err != nil || !ok || len(body) != 1 {
		return writeDetail(w, http.StatusBadRequest, "Request must contain only {'query': str}")
	}
	return s.runUpdate(w, r, text)
}

func (s *server) serveCompact(w http.ResponseWriter, r *http.Request) error {
	if s.Updater != nil {
		if err := s.Updater.Compact(r.Context()); err != nil {
			return err
		}
	}
	return writeJSON(w, http.StatusOK, "Success")
}
