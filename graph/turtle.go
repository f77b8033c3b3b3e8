package graph

import (
	"bufio"
	"cmp"
	"io"
	"slices"
	"strings"
)

// Prefix is a short name of a namespace.
type Prefix struct{ Name, IRI string }

// WriteTurtle writes quads as Turtle (https://www.w3.org/TR/turtle/), without the graphs that they are in. Quads are
// sorted and grouped by subject. Only prefixes that occur are declared.
func WriteTurtle(out io.Writer, quads []Quad, prefixes []Prefix) error {
	w := bufio.NewWriter(out)
	t := turtleWriter{prefixes: slices.Clone(prefixes)}
	slices.SortFunc(t.prefixes, func(a, b Prefix) int { return cmp.Compare(len(b.IRI), len(a.IRI)) }) // the longest match first
	plain := make([]Quad, len(quads))
	for i, q := range quads {
		q.G = Term{}
		plain[i] = q
	}
	plain = Sorted(plain)
	var body strings.Builder
	t.used = map[string]bool{}
	for i := 0; i < len(plain); {
		i += t.writeSubject(&body, plain[i:])
	}
	head := false
	for _, p := range prefixes {
		if t.used[p.Name] {
			head = true
			if _, err := w.WriteString("@prefix " + p.Name + ": <" + p.IRI + "> .\n"); err != nil {
				return err
			}
		}
	}
	if head {
		if err := w.WriteByte('\n'); err != nil {
			return err
		}
	}
	if _, err := w.WriteString(body.String()); err != nil {
		return err
	}
	return w.Flush()
}

type turtleWriter struct {
	prefixes []Prefix
	used     map[string]bool
}

// writeSubject writes the statements about the first subject and returns their number.
func (t *turtleWriter) writeSubject(b *strings.Builder, quads []Quad) int {
	n := 0
	b.WriteString(t.formatTerm(quads[0].S))
	for ; n < len(quads) && quads[n].S == quads[0].S; n++ {
		q := quads[n]
		switch {
		case n > 0 && q.P == quads[n-1].P:
			b.WriteString(",\n\t\t")
		case n > 0:
			b.WriteString(" ;\n\t")
			b.WriteString(t.formatPredicate(q.P))
			b.WriteByte(' ')
		default:
			b.WriteByte(' ')
			b.WriteString(t.formatPredicate(q.P))
			b.WriteByte(' ')
		}
		b.WriteString(t.formatTerm(q.O))
	}
	b.WriteString(" .\n")
	return n
}

func (t *turtleWriter) formatPredicate(p Term) string {
	if p.Value == RDFType {
		return "a"
	}
	return t.formatTerm(p)
}

func (t *turtleWriter) formatTerm(x Term) string {
	switch {
	case x.Kind == IRI:
		return t.formatIRI(x.Value)
	case x.Datatype == XSDInteger && isDigits(x.Value), x.Datatype == XSDBoolean && (x.Value == "true" || x.Value == "false"):
		return x.Value
	case x.Datatype != "":
		return Text(x.Value).String() + "^^" + t.formatIRI(x.Datatype)
	}
	return x.String()
}

func isDigits(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func (t *turtleWriter) formatIRI(iri string) string {
	for _, p := range t.prefixes {
		if local, ok := strings.CutPrefix(iri, p.IRI); ok && isLocalName(local) {
			t.used[p.Name] = true
			return p.Name + ":" + local
		}
	}
	return "<" + iri + ">"
}

// isLocalName reports whether text can follow a prefix unescaped; it also refuses a few texts that could.
func isLocalName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || !(c >= '0' && c <= '9') && c != '-' && (c != '.' || i == len(s)-1)) {
			return false
		}
	}
	return s != ""
}
