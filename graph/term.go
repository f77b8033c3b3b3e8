// Package graph describes workloads, nodes and sites as RDF 1.1 (https://www.w3.org/TR/rdf11-concepts/): terms, quads,
// their text forms N-Triples, N-Quads and Turtle, and the canonical form that two isomorphic graphs share.
//
// Below it, one folder for each step: object holds the described objects, kubernetes reads them from the objects of a
// cluster, own and glaciation write them as quads in two vocabularies, jsonld is the JSON form, sparql the query
// language, embedded and remote are stores, feed writes changes.
//
// Everything here is pure: no file, no clock, no network. Values are safe for concurrent reading.
package graph

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a term. The zero value is no term: the default graph, or an unbound variable.
type Kind uint8

// The kinds of terms.
const (
	None Kind = iota
	IRI
	Blank
	Literal
)

// Namespaces of the specifications that are used everywhere.
const (
	RDF  = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	RDFS = "http://www.w3.org/2000/01/rdf-schema#"
	XSD  = "http://www.w3.org/2001/XMLSchema#"
)

// Names used everywhere.
const (
	RDFType     = RDF + "type"
	XSDString   = XSD + "string"
	XSDInteger  = XSD + "integer"
	XSDDecimal  = XSD + "decimal"
	XSDDouble   = XSD + "double"
	XSDBoolean  = XSD + "boolean"
	XSDDateTime = XSD + "dateTime"
	LangString  = RDF + "langString"
)

// Term is an IRI, a blank node or a literal. Terms can be compared with == and used as map keys.
type Term struct {
	Kind Kind
	// Value is the IRI, the label of the blank node without "_:", or the lexical form.
	Value string
	// Datatype is the IRI of the type of a literal; empty for xsd:string and for text in a language.
	Datatype string
	// Language is the tag of a literal in a language, in lower case.
	Language string
}

// Quad is a statement in a graph. The zero Term as G is the default graph.
type Quad struct{ S, P, O, G Term }

// Node returns an IRI.
func Node(iri string) Term { return Term{Kind: IRI, Value: iri} }

// BlankNode returns a blank node with a label.
func BlankNode(label string) Term { return Term{Kind: Blank, Value: label} }

// Text returns a plain literal.
func Text(s string) Term { return Term{Kind: Literal, Value: s} }

// Typed returns a literal of a type; a plain one for xsd:string.
func Typed(lexical, datatype string) Term {
	if datatype == XSDString {
		datatype = ""
	}
	return Term{Kind: Literal, Value: lexical, Datatype: datatype}
}

// InLanguage returns a literal in a language (BCP 47).
func InLanguage(s, tag string) Term {
	return Term{Kind: Literal, Value: s, Language: strings.ToLower(tag)}
}

// Integer returns an xsd:integer.
func Integer(n int64) Term { return Typed(strconv.FormatInt(n, 10), XSDInteger) }

// Boolean returns an xsd:boolean.
func Boolean(b bool) Term { return Typed(strconv.FormatBool(b), XSDBoolean) }

// DateTime returns an xsd:dateTime in UTC, to the second.
func DateTime(t time.Time) Term { return Typed(t.UTC().Format("2006-01-02T15:04:05Z"), XSDDateTime) }

// Double returns an xsd:double in its canonical lexical form: 2.5E0.
func Double(v float64) Term { return Typed(DoubleForm(v), XSDDouble) }

// Number returns an xsd:integer for an integer below 1e21, else an xsd:double with 16 digits, as JSON-LD 1.1 converts
// JSON numbers (https://www.w3.org/TR/json-ld11-api/#object-to-rdf-conversion).
func Number(v float64) Term {
	if v == math.Trunc(v) && math.Abs(v) < 1e21 {
		return Typed(strconv.FormatFloat(v, 'f', 0, 64), XSDInteger)
	}
	if rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'E', 15, 64), 64); err == nil {
		v = rounded
	}
	return Double(v)
}

// DoubleForm returns the canonical lexical form of an xsd:double.
func DoubleForm(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "INF"
	case math.IsInf(v, -1):
		return "-INF"
	case math.IsNaN(v):
		return "NaN"
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'E', -1, 64), "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, err := strconv.Atoi(exponent)
	if err != nil {
		return mantissa + "E0"
	}
	return mantissa + "E" + strconv.Itoa(n)
}

// Type returns the full IRI of the type of a literal; empty for other terms.
func (t Term) Type() string {
	switch {
	case t.Kind != Literal:
		return ""
	case t.Language != "":
		return LangString
	case t.Datatype == "":
		return XSDString
	}
	return t.Datatype
}

// IsZero reports whether there is no term.
func (t Term) IsZero() bool { return t.Kind == None }

// String returns the term in N-Triples, and "" for no term.
func (t Term) String() string { return string(t.Append(nil)) }

// Append appends the term in N-Triples, in the canonical form of RDF 1.1 N-Triples section 4.
func (t Term) Append(b []byte) []byte {
	switch t.Kind {
	case IRI:
		b = append(b, '<')
		b = append(b, t.Value...)
		return append(b, '>')
	case Blank:
		b = append(b, "_:"...)
		return append(b, t.Value...)
	case Literal:
		b = append(b, '"')
		b = appendEscaped(b, t.Value)
		b = append(b, '"')
		switch {
		case t.Language != "":
			b = append(b, '@')
			b = append(b, t.Language...)
		case t.Datatype != "":
			b = append(b, "^^<"...)
			b = append(b, t.Datatype...)
			b = append(b, '>')
		}
	}
	return b
}

const hexDigits = "0123456789ABCDEF"

func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		default:
			if c < 0x20 || c == 0x7f {
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				b = append(b, c)
			}
		}
	}
	return b
}
