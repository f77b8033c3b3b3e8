package graphapi

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"reckon/graph"
	"reckon/graph/jsonld"
	"reckon/graph/own"
)

// format is a media type of documents.
type format struct {
	media string
	read  func(s *server, in io.Reader, base string, l graph.Limits) ([]graph.Quad, error)
	write func(s *server, w io.Writer, quads []graph.Quad) error
}

func readNQuads(_ *server, in io.Reader, _ string, l graph.Limits) ([]graph.Quad, error) {
	return graph.ReadNQuads(in, l)
}

func writeTriples(_ *server, w io.Writer, quads []graph.Quad) error {
	return graph.WriteNTriples(w, graph.Sorted(quads))
}

// formats returns the formats in order of preference. The first is used if a client accepts any.
func formats() []format {
	ld := format{"application/ld+json",
		func(s *server, in io.Reader, _ string, l graph.Limits) ([]graph.Quad, error) {
			return jsonld.Read(in, s.contexts, l)
		},
		func(_ *server, w io.Writer, quads []graph.Quad) error { return jsonld.Write(w, quads, own.Context()) }}
	plainJSON := ld
	plainJSON.media = "application/json"
	return []format{
		ld,
		{"text/turtle", func(_ *server, in io.Reader, base string, l graph.Limits) ([]graph.Quad, error) {
			return graph.ReadTurtle(in, base, l)
		}, func(_ *server, w io.Writer, quads []graph.Quad) error {
			return graph.WriteTurtle(w, quads, own.Prefixes())
		}},
		{"application/n-triples", readNQuads, writeTriples},
		{"application/n-quads", readNQuads, writeTriples},
		plainJSON,
	}
}

// acceptedIndex returns the index of the media type that the header Accept selects, or -1 if it accepts none.
func acceptedIndex(header string, media []string) int {
	if strings.TrimSpace(header) == "" {
		return 0
	}
	best, quality := -1, 0.0
	for i, m := range media {
		if q := acceptQuality(header, m); q > quality {
			best, quality = i, q
		}
	}
	return best
}

// acceptQuality returns the quality value of a media type in a header, by its most specific matching range.
func acceptQuality(header, media string) float64 {
	quality, specific := 0.0, -1
	kind, _, _ := strings.Cut(media, "/")
	for part := range strings.SplitSeq(header, ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		rank := -1
		switch name {
		case media:
			rank = 2
		case kind + "/*":
			rank = 1
		case "*/*":
			rank = 0
		}
		if rank <= specific {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				q = 0
			}
		}
		quality, specific = q, rank
	}
	return quality
}

func formatFor(r *http.Request) (format, error) {
	all := formats()
	media := make([]string, len(all))
	for i, f := range all {
		media[i] = f.media
	}
	at := acceptedIndex(r.Header.Get("Accept"), media)
	if at < 0 {
		return format{}, newProblem(http.StatusNotAcceptable, "take one of "+strings.Join(media, ", "),
			"there is no document of the type %q",
			r.Header.Get("Accept"))
	}
	return all[at], nil
}

// readStatements reads the statements of a request. They belong to one graph; its name is ignored.
func (s *server) readStatements(r *http.Request, base string) ([]graph.Quad, error) {
	name, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && r.Header.Get("Content-Type") != "" {
		return nil, newProblem(http.StatusUnsupportedMediaType, "", "the content type %q cannot be read", r.Header.Get("Content-Type"))
	}
	for _, f := range formats() {
		if name != f.media && name != "" {
			continue
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		quads, err := f.read(s, bytes.NewReader(raw), base, graph.Limits{Quads: maxQuads, Literal: maxLiteral})
		if err != nil {
			return nil, documentError(err)
		}
		return requireOneGraph(quads, base)
	}
	return nil, newProblem(http.StatusUnsupportedMediaType,
		"send application/ld+json, text/turtle, application/n-triples or application/n-quads", "documents of the type %q are not read",
		name)
}

func documentError(err error) error {
	if e := toHTTP(err); e.status != http.StatusInternalServerError {
		return err
	}
	return newProblem(http.StatusBadRequest, "", "the document cannot be read: %v", err)
}

// requireOneGraph returns an error if the statements belong to several graphs, or to a graph that is not the one in the
// address.
func requireOneGraph(quads []graph.Quad, base string) ([]graph.Quad, error) {
	for i := range quads {
		if quads[i].G != quads[0].G {
			return nil, newProblem(http.StatusBadRequest, "send each graph to its own address",
				"the document has several graphs: %s and %s",
				graphName(quads[0].G), graphName(quads[i].G))
		}
	}
	if len(quads) > 0 && quads[0].G.Kind == graph.IRI && graph.IDOf(quads[0].G.Value) != graph.IDOf(base) {
		return nil, newProblem(http.StatusBadRequest, "send it to the address of that graph, or leave the name out",
			"the document is of the graph %s, the address of <%s>", graphName(quads[0].G), base)
	}
	return quads, nil
}

func graphName(g graph.Term) string {
	if g.IsZero() {
		return "one without a name"
	}
	return g.String()
}
