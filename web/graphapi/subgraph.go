package graphapi

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"reckon/access"
	"reckon/graph"
	"reckon/graph/own"
)

// subgraphID returns the id that a request names: a segment of the path, or the parameter graph.
func subgraphID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if id == "" && !strings.HasPrefix(r.URL.Path, "/subgraph") {
		q := r.URL.Query()
		if q.Has("default") {
			return "", newProblem(http.StatusNotFound, "name a graph with the parameter graph",
				"every statement is in a named graph; there is no default graph")
		}
		name := q.Get("graph")
		if err := graph.CheckIRI(name); err != nil {
			return "", newProblem(http.StatusBadRequest, "the parameter graph is the IRI of a named graph", "%v", err)
		}
		id = graph.IDOf(name)
	}
	if err := graph.CheckID(id); err != nil {
		return "", newProblem(http.StatusBadRequest, "", "%v", err)
	}
	return id, nil
}

func formatETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// findVisible returns a subgraph that the viewer may see. Any other counts as not found.
func (s *server) findVisible(r *http.Request) (graph.Info, []graph.Quad, error) {
	id, err := subgraphID(r)
	if err != nil {
		return graph.Info{}, nil, err
	}
	info, quads, err := s.Store.Get(r.Context(), id)
	if err == nil && !maySee(access.From(r.Context()), info) {
		err = newProblem(http.StatusNotFound, "GET /graph/list names all that you may see", "%v: %q", graph.ErrNotFound, id)
	}
	return info, quads, err
}

func (s *server) serveGraph(w http.ResponseWriter, r *http.Request) error {
	f, err := formatFor(r)
	if err != nil {
		return err
	}
	info, quads, err := s.findVisible(r)
	if err != nil {
		return err
	}
	values, err := s.latestValues(r, quads)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Reckon-Origin", info.Origin)
	h.Set("Vary", "Accept")
	if r.URL.Query().Has("values") {
		h.Set("Cache-Control", "no-store")
		quads = append(quads, values...)
	} else {
		h.Set("ETag", formatETag(info.Version))
		h.Set("Last-Modified", info.Time.Format(http.TimeFormat))
	}
	if !r.URL.Query().Has("values") && matchesVersion(r.Header.Get("If-None-Match"), info.Version) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	var b bytes.Buffer
	if err := f.write(s, &b, quads); err != nil {
		return err
	}
	h.Set("Content-Type", f.media)
	_, err = w.Write(b.Bytes())
	return ignoreConnError(err)
}

// latestValues returns the latest values of the series of a subgraph, if the request selects them.
func (s *server) latestValues(r *http.Request, quads []graph.Quad) ([]graph.Quad, error) {
	switch asked := r.URL.Query().Get("values"); {
	case !r.URL.Query().Has("values"):
		return nil, nil
	case asked != "latest":
		return nil, newProblem(http.StatusBadRequest, "", "the parameter values is latest, not %q", asked)
	case s.Latest == nil:
		return nil, newProblem(http.StatusNotImplemented, "run the queries of the series", "this server has no series")
	}
	return s.Latest.Latest(r.Context(), quads, graph.Term{})
}

// matchesVersion reports whether a list of tags includes a version; * includes any.
func matchesVersion(header string, version int64) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == formatETag(version) {
			return true
		}
	}
	return false
}

// expectedVersion returns the version that a request expects to change.
func expectedVersion(r *http.Request) (int64, error) {
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case none == "*":
		return 0, nil
	case none != "":
		return 0, newProblem(http.StatusBadRequest, "", "If-None-Match of a change is *, which means that nothing may be there")
	case match == "":
		return graph.AnyVersion, nil
	}
	v, err := strconv.ParseInt(strings.Trim(match, `"`), 10, 64)
	if err != nil || v < 0 || len(match) < 3 || match[0] != '"' {
		return 0, newProblem(http.StatusBadRequest, "", "If-Match must be one version in the form of the ETag, not %q", match)
	}
	return v, nil
}

// changeTarget returns the subgraph that a request changes, and the expected version.
func (s *server) changeTarget(r *http.Request) (id string, version int64, err error) {
	if id, err = subgraphID(r); err == nil {
		err = s.mayWrite(r.Context(), id)
	}
	if err == nil {
		version, err = expectedVersion(r)
	}
	return id, version, err
}

func (s *server) putGraph(w http.ResponseWriter, r *http.Request) error {
	id, version, err := s.changeTarget(r)
	if err != nil {
		return err
	}
	quads, err := s.readStatements(r, graph.Name(id))
	if err != nil {
		return err
	}
	if err := own.Check(quads); err != nil && r.Method == http.MethodPut {
		return newProblem(http.StatusUnprocessableEntity, "GET /graph/ontology has what every class requires", "%v", err)
	}
	p := graph.Put{Quads: quads, Merge: r.Method == http.MethodPost, IfVersion: version}
	if err := s.setOrigin(r, id, &p); err != nil {
		return err
	}
	info, changed, err := s.Store.Put(r.Context(), id, p)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", formatETag(info.Version))
	if !changed {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writeJSON(w, http.StatusOK, info)
}

// setOrigin sets the origin, owner and time of a write to the graph. A sender that acts for others gives the owner and
// the time in the headers Reckon-Owner and Reckon-Time.
func (s *server) setOrigin(r *http.Request, id string, p *graph.Put) error {
	v := access.From(r.Context())
	p.Origin, p.Owner, p.Time = s.origin(v), v.Name, s.Now()
	if r.Header.Get("Reckon-Owner") != "" {
		p.Owner = r.Header.Get("Reckon-Owner")
	} else if info, _, err := s.Store.Get(r.Context(), id); err == nil {
		p.Owner = info.Owner
	}
	if text := r.Header.Get("Reckon-Time"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return newProblem(http.StatusBadRequest, "", "Reckon-Time is a time such as 2026-01-31T12:00:00Z, not %q", text)
		}
		p.Time = at
	}
	return nil
}

func (s *server) deleteGraph(w http.ResponseWriter, r *http.Request) error {
	id, version, err := s.changeTarget(r)
	if err != nil {
		return err
	}
	info, err := s.Store.Delete(r.Context(), id, version)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", formatETag(info.Version))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) serveUsage(w http.ResponseWriter, r *http.Request) error {
	info, _, err := s.findVisible(r)
	if err != nil {
		return err
	}
	u, err := s.Store.Usage(r.Context(), info.ID)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, u)
}

// visibleGraphs lists the subgraphs that the viewer may see.
func (s *server) visibleGraphs(r *http.Request) ([]graph.Info, error) {
	list, err := s.Store.List(r.Context())
	if err != nil {
		return nil, err
	}
	out := []graph.Info{}
	for _, i := range list {
		if maySee(access.From(r.Context()), i) {
			out = append(out, i)
		}
	}
	return out, nil
}

func (s *server) serveVersions(w http.ResponseWriter, r *http.Request) error {
	list, err := s.visibleGraphs(r)
	if err != nil {
		return err
	}
	out := make(map[string]int64, len(list))
	for _, i := range list {
		out[i.ID] = i.Version
	}
	return writeJSON(w, http.StatusOK, out)
}

func (s *server) serveGraphs(w http.ResponseWriter, r *http.Request) error {
	list, err := s.visibleGraphs(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"subgraphs": list})
}

func (s *server) serveContext(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/ld+json")
	return writeJSON(w, http.StatusOK, map[string]any{"@context": own.Context()})
}

func (s *server) serveOntology(w http.ResponseWriter, r *http.Request) error {
	f, err := formatFor(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", f.media)
	return f.write(s, w, own.Ontology())
}
