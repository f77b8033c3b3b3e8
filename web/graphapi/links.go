package graphapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"reckon/access"
	"reckon/graph"
)

// marshal writes JSON with IRIs in < > as they are, on one line without its end.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// maxLinks is the most links that are shown of one thing in each direction.
const maxLinks = 500

// Link is one connection of a thing.
type Link struct {
	Relation string `json:"relation"`
	// To is the IRI at the other end; empty where Value is a literal.
	To    string `json:"to,omitempty"`
	Value string `json:"value,omitempty"`
	// Back says that the thing is at the other end: To says it of the thing.
	Back bool `json:"back,omitempty"`
	// Name and Kind are what the graph says of To, as far as it does.
	Name string `json:"name,omitempty"`
	Kind string `json:"kind,omitempty"`
}

func (s *server) links(w http.ResponseWriter, r *http.Request) error {
	iri := r.URL.Query().Get("iri")
	if err := graph.CheckIRI(iri); err != nil {
		return problem(http.StatusBadRequest, "the parameter iri names the thing", "%v", err)
	}
	if s.Querier == nil {
		return problem(http.StatusNotImplemented, "GET the subgraph and follow its IRIs", "links are not asked of a remote store")
	}
	out := []Link{}
	for _, back := range []bool{false, true} {
		pattern := "<" + iri + "> ?r ?o"
		if back {
			pattern = "?o ?r <" + iri + ">"
		}
		query := fmt.Sprintf(`PREFIX rk: <urn:reckon:ns#> SELECT ?r ?o ?n ?k WHERE { %s OPTIONAL { ?o rk:name ?n } OPTIONAL { ?o rk:kind ?k } } ORDER BY ?r ?o LIMIT %d`, pattern, maxLinks)
		result, err := s.Querier.Query(r.Context(), query, s.Limits, visible(access.From(r.Context())))
		if err != nil {
			return err
		}
		for _, row := range result.Rows {
			l := Link{Relation: row[0].Value, Back: back, Name: row[2].Value, Kind: row[3].Value}
			if row[1].Kind == graph.Literal {
				l.Value = row[1].Value
			} else {
				l.To = row[1].Value
			}
			out = append(out, l)
		}
	}
	return writeJSON(w, http.StatusOK, map[string]any{"iri": iri, "links": out})
}

// keepAlive is how often a stream without changes says that it is there.
const keepAlive = 15 * time.Second

func (s *server) changes(w http.ResponseWriter, r *http.Request) error {
	if s.Watcher == nil {
		return problem(http.StatusNotFound, "compare /subgraphs_versions", "this store tells of no changes")
	}
	c := http.NewResponseController(w)
	changes, stop := s.Watcher.Watch()
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if _, err := fmt.Fprint(w, ": changes of subgraphs\n\n"); err != nil || c.Flush() != nil {
		return nil
	}
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	for {
		text := ": still here\n\n"
		select {
		case <-r.Context().Done():
			return nil
		case <-beat.C:
		case info, ok := <-changes:
			if !ok {
				return nil
			}
			if !sees(access.From(r.Context()), info) {
				continue
			}
			raw, err := marshal(info)
			if err != nil {
				return err
			}
			text = fmt.Sprintf("event: change\nid: %d\ndata: %s\n\n", info.Version, raw)
		}
		_ = c.SetWriteDeadline(time.Now().Add(keepAlive)) // not every connection has deadlines
		if _, err := fmt.Fprint(w, text); err != nil || c.Flush() != nil {
			return nil
		}
	}
}
