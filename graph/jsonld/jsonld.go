// Package jsonld reads and writes RDF as JSON-LD 1.1 (https://www.w3.org/TR/json-ld11-api/), by
// github.com/piprate/json-gold.
//
// Nothing is ever fetched: a context is in the document, or it is one of the built-in ones. Depth and size are checked
// before the document is interpreted. Functions are safe for concurrent use.
package jsonld

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/piprate/json-gold/ld"

	"reckon/graph"
)

// MaxDepth is the maximum nesting of objects and lists.
const MaxDepth = 200

// Contexts are the documents that a context may refer to, by IRI.
type Contexts map[string]any

// LoadDocument implements ld.DocumentLoader.
func (c Contexts) LoadDocument(address string) (*ld.RemoteDocument, error) {
	doc, ok := c[address]
	if !ok {
		return nil, ld.NewJsonLdError(ld.LoadingRemoteContextFailed,
			fmt.Sprintf("contexts are never fetched, and %q is not one of those built in; put it into the document", address))
	}
	return &ld.RemoteDocument{DocumentURL: address, Document: ld.CloneDocument(doc)}, nil
}

// Read reads a document. The error of a document that is not JSON has a position (graph.SyntaxError).
func Read(in io.Reader, contexts Contexts, limits graph.Limits) (quads []graph.Quad, err error) {
	raw, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if err := checkDepth(raw); err != nil {
		return nil, err
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, locateError(raw, err)
	}
	switch doc.(type) {
	case map[string]any, []any:
	default:
		return nil, &graph.SyntaxError{Line: 1, Column: 1, Reason: "the document is neither an object nor a list"}
	}
	defer func() { // the library asserts types that a document may violate
		if r := recover(); r != nil {
			quads, err = nil, fmt.Errorf("the JSON-LD cannot be interpreted: %v", r)
		}
	}()
	o := ld.NewJsonLdOptions("")
	o.ProcessingMode = ld.JsonLd_1_1
	o.DocumentLoader = contexts
	out, err := ld.NewJsonLdProcessor().ToRDF(doc, o)
	if err != nil {
		return nil, documentError(err)
	}
	set, ok := out.(*ld.RDFDataset)
	if !ok {
		return nil, errors.New("the JSON-LD holds no data set")
	}
	return toQuads(set, limits)
}

// documentError keeps the part of a library error that concerns the document.
func documentError(err error) error {
	var e *ld.JsonLdError
	if errors.As(err, &e) {
		if e.Details != nil {
			return fmt.Errorf("%s: %v", e.Code, e.Details)
		}
		return errors.New(string(e.Code))
	}
	return err
}

func locateError(raw []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := raw[:min(int(syntax.Offset), len(raw))]
		return &graph.SyntaxError{Line: bytes.Count(before, []byte("\n")) + 1, Column: len(before) - bytes.LastIndexByte(before, '\n') - 1,
			Reason: syntax.Error()}
	}
	return err
}

// checkDepth counts brackets outside of strings, since interpretation is recursive.
func checkDepth(raw []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				before := raw[:i]
				return &graph.SyntaxError{Line: bytes.Count(before, []byte("\n")) + 1, Column: i - bytes.LastIndexByte(before, '\n'),
					Reason: fmt.Sprintf("more than %d brackets are open", MaxDepth)}
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

func toQuads(set *ld.RDFDataset, limits graph.Limits) ([]graph.Quad, error) {
	var quads []graph.Quad
	for name, list := range set.Graphs {
		for _, q := range list {
			out := graph.Quad{S: toTerm(q.Subject), P: toTerm(q.Predicate), O: toTerm(q.Object)}
			if name != "@default" {
				out.G = parseTerm(name)
			}
			if err := out.Check(limits.Literal); err != nil {
				return nil, err
			}
			if limits.Quads > 0 && len(quads) == limits.Quads {
				return nil, fmt.Errorf("%w: it has more than %d statements", graph.ErrTooLarge, limits.Quads)
			}
			quads = append(quads, out)
		}
	}
	return quads, nil
}

func parseTerm(name string) graph.Term {
	if label, ok := strings.CutPrefix(name, "_:"); ok {
		return graph.BlankNode(label)
	}
	return graph.Node(name)
}

func toTerm(n ld.Node) graph.Term {
	switch n := n.(type) {
	case ld.IRI:
		return graph.Node(n.Value)
	case ld.BlankNode:
		return graph.BlankNode(strings.TrimPrefix(n.Attribute, "_:"))
	case ld.Literal:
		if n.Language != "" {
			return graph.InLanguage(n.Value, n.Language)
		}
		return graph.Typed(n.Value, n.Datatype)
	}
	return graph.Term{}
}

// Write writes quads to w as JSON-LD, with one object per subject. context maps short names to IRIs and may be nil.
// Quads of a named graph are nested in an object with @graph.
func Write(w io.Writer, quads []graph.Quad, context map[string]any) error {
	set := ld.NewRDFDataset()
	for _, q := range graph.Sorted(quads) {
		name := "@default"
		switch q.G.Kind {
		case graph.IRI:
			name = q.G.Value
		case graph.Blank:
			name = "_:" + q.G.Value
		}
		set.Graphs[name] = append(set.Graphs[name], ld.NewQuad(toNode(q.S), toNode(q.P), toNode(q.O), name))
	}
	o := ld.NewJsonLdOptions("")
	o.ProcessingMode = ld.JsonLd_1_1
	o.DocumentLoader = Contexts{}
	o.UseNativeTypes = false
	flat, err := ld.NewJsonLdApi().FromRDF(set, o)
	if err != nil {
		return documentError(err)
	}
	list := make([]any, len(flat))
	copy(list, flat)
	doc := any(list)
	if len(context) > 0 {
		compact, err := ld.NewJsonLdProcessor().Compact(list, map[string]any{"@context": context}, o)
		if err != nil {
			return documentError(err)
		}
		doc = compact
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(doc)
}

func toNode(t graph.Term) ld.Node {
	switch t.Kind {
	case graph.Blank:
		return ld.NewBlankNode("_:" + t.Value)
	case graph.Literal:
		return ld.NewLiteral(t.Value, t.Type(), t.Language)
	}
	return ld.NewIRI(t.Value)
}
