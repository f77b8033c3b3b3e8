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

// encodeJSON writes JSON on one line without escaping < and >, and without a newline.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// maxLinks is the maximum number of links returned for a thing in each direction.
const maxLinks = 500

// Link is one link of an entity.
type Link struct {
	Relation string `json:"relation"`
	// To is the IRI at the other end; empty if Value is a literal.
	To    string `json:"to,omitempty"`
	Value string `json:"value,omitempty"`
	// Back reverses the direction: To is the subject, and the thing the object.
	Back bool `json:"back,omitempty"`
	// Name and Kind describe the node To, if it is in the graph.
	Name string `json:"name,omitempty"`
	Kind string `json:"kind,omitempty"`
}

// Figure is a series of a thing and its PromQL.
type Figure struct {
	Name  string `json:"name"`
	Title string `json:"title,omitempty"`
	Unit  string `json:"unit,omitempty"` // UCUM code
	Query string `json:"query"`
	URL   string `json:"url,omitempty"` // of the server to query
}

// LogQuery is the location of the logs of a thing.
type LogQuery struct {
	Source string `json:"source"`
	Query  string `json:"query"`
	URL    string `json:"url,omitempty"`
}

// Connections are the links, figures and logs of a thing.
type Connections struct {
	IRI     string     `json:"iri"`
	Links   []Link     `json:"links"`
	Figures []Figure   `json:"figures"`
	Logs    []LogQuery `json:"logs"`
}

const linkPrefixes = "PREFIX rk: <urn:reckon:ns#> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> PREFIX qudt: " +
	"<http://qudt.org/schema/qudt/> "

// serveLinks returns the connections of a thing in the graph. The request names it by its IRI, as a node, or as a workload.
// For a workload it is the run that started at the parameter start (RFC 3339), or the latest run.
func (s *server) serveLinks(w http.ResponseWriter, r *http.Request) error {
	if s.Querier == nil {
		return newProblem(http.StatusNotImplemented, "GET the subgraph and follow its IRIs", "links are not available with a remote store")
	}
	iri, err := s.findSubject(r)
	if err != nil {
		return err
	}
	out := Connections{IRI: iri, Links: []Link{}, Figures: []Figure{}, Logs: []LogQuery{}}
	for _, back := range []bool{false, true} {
		pattern := "<" + iri + "> ?r ?o"
		if back {
			pattern = "?o ?r <" + iri + ">"
		}
		rows, err := s.queryRows(
			r, fmt.Sprintf(
				`SELECT DISTINCT ?r ?o ?n ?k WHERE { %s OPTIONAL { ?o rk:name ?n } OPTIONAL { ?o rk:kind ?k } } ORDER BY ?r ?o LIMIT %d`,
				pattern, maxLinks))
		if err != nil {
			return err
		}
		for _, row := range rows {
			l := Link{Relation: row[0].Value, Back: back, Name: row[2].Value, Kind: row[3].Value}
			if row[1].Kind == graph.Literal {
				l.Value = row[1].Value
			} else {
				l.To = row[1].Value
			}
			out.Links = append(out.Links, l)
		}
	}
	rows, err := s.queryRows(r, fmt.Sprintf(`SELECT DISTINCT ?name ?title ?unit ?query ?url WHERE { <%s> rk:telemetry/rk:hasMetrics ?m . ?m rk:series ?f . ?f rk:metricName ?name ; rk:query ?query
		OPTIONAL { ?f rdfs:label ?title } OPTIONAL { ?f qudt:ucumCode ?unit } OPTIONAL { ?m rk:source/rk:url ?url } } ORDER BY ?name LIMIT %d`, iri, maxLinks))
	if err != nil {
		return err
	}
	for _, row := range rows {
		out.Figures = append(out.Figures,
			Figure{Name: row[0].Value, Title: row[1].Value, Unit: row[2].Value, Query: row[3].Value, URL: row[4].Value})
	}
	rows, err = s.queryRows(
		r, fmt.Sprintf(
			`SELECT DISTINCT ?source ?query ?url WHERE { <%s> rk:telemetry/rk:hasLogs ?l . ?l rk:query ?query ; rk:source ?s . ?s `+
				`rk:sourceType ?source OPTIONAL { ?s rk:url ?url } } LIMIT %d`, iri, maxLinks))
	if err != nil {
		return err
	}
	for _, row := range rows {
		out.Logs = append(out.Logs, LogQuery{Source: row[0].Value, Query: row[1].Value, URL: row[2].Value})
	}
	return writeJSON(w, http.StatusOK, out)
}

func (s *server) queryRows(r *http.Request, query string) ([][]graph.Term, error) {
	result, err := s.Querier.Query(r.Context(), linkPrefixes+query, s.Limits, visibleFilter(access.From(r.Context())))
	if err != nil {
		return nil, err
	}
	return result.Rows, nil
}

// findSubject returns the IRI of the thing that a request names.
func (s *server) findSubject(r *http.Request) (string, error) {
	q := r.URL.Query()
	var pattern, what string
	switch {
	case q.Get("workload") != "":
		what = "workload " + q.Get("workload")
		pattern = "?w rk:workload " + graph.Text(q.Get("workload")).String()
	case q.Get("node") != "":
		what = "node " + q.Get("node")
		pattern = "?w a rk:Node ; rk:name " + graph.Text(q.Get("node")).String()
	default:
		if err := graph.CheckIRI(q.Get("iri")); err != nil {
			return "", newProblem(http.StatusBadRequest, "the parameter iri, node or workload names the thing", "%v", err)
		}
		return q.Get("iri"), nil
	}
	if site := q.Get("site"); site != "" {
		pattern += " . FILTER(CONTAINS(STR(?w), " + graph.Text("/"+graph.EscapeIRI(site)+"/").String() + "))"
	}
	rows, err := s.queryRows(r, "SELECT ?w ?start WHERE { "+pattern+" OPTIONAL { ?w rk:startTime ?start } } ORDER BY DESC(?start) ?w")
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", newProblem(http.StatusNotFound, "GET /graph/list names all that you may see", "the graph has no %s", what)
	}
	if at, err := time.Parse(time.RFC3339, q.Get("start")); err == nil {
		for _, row := range rows {
			if row[1] == graph.DateTime(at) {
				return row[0].Value, nil
			}
		}
	}
	return rows[0][0].Value, nil
}

// keepAlive is the interval of keep-alive messages on a stream without changes.
const keepAlive = 15 * time.Second

func (s *server) serveChanges(w http.ResponseWriter, r *http.Request) error {
	if s.Watcher == nil {
		return newProblem(http.StatusNotFound, "compare /subgraphs_versions", "this store does not publish changes")
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
			if !maySee(access.From(r.Context()), info) {
				continue
			}
			raw, err := encodeJSON(info)
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
