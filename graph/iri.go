package graph

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckIRI returns an error for an invalid absolute IRI (RFC 3987, as restricted by N-Triples). It
// must have a scheme and no space, control character or any of <>"{}|^`\.
func CheckIRI(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("the IRI %.80q is not UTF-8", s)
	}
	for i, r := range s {
		if r <= ' ' || r == 0x7f || strings.ContainsRune("<>\"{}|^`\\", r) {
			return fmt.Errorf("the IRI %.80q has the character %q at byte %d; percent-encode it", s, r, i)
		}
	}
	if scheme, _, ok := strings.Cut(s, ":"); !ok || !isScheme(scheme) {
		return fmt.Errorf("the IRI %.80q is not absolute; begin it with a scheme (https, urn)", s)
	}
	return nil
}

func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", rune(s[i]))) {
			return false
		}
	}
	return s != ""
}

// Check returns an error if the quad has an invalid IRI, a term in a position that RDF does not allow, or a literal
// longer than maxLiteral bytes. A maxLiteral of 0 sets no limit.
func (q Quad) Check(maxLiteral int) error {
	if q.S.Kind != IRI && q.S.Kind != Blank {
		return fmt.Errorf("the subject %.80s is neither an IRI nor a blank node", q.S)
	}
	if q.P.Kind != IRI {
		return fmt.Errorf("the predicate %.80s is no IRI", q.P)
	}
	if q.O.Kind == None {
		return fmt.Errorf("the object of %.80s %.80s is missing", q.S, q.P)
	}
	if q.G.Kind == Literal {
		return fmt.Errorf("the graph %.80s is a literal", q.G)
	}
	for _, t := range []Term{q.S, q.P, q.O, q.G} {
		if err := t.check(maxLiteral); err != nil {
			return err
		}
	}
	return nil
}

func (t Term) check(maxLiteral int) error {
	switch t.Kind {
	case IRI:
		return CheckIRI(t.Value)
	case Literal:
		if maxLiteral > 0 && len(t.Value) > maxLiteral {
			return fmt.Errorf("a literal of %d bytes is longer than %d: keep it where it is and refer to it", len(t.Value), maxLiteral)
		}
		if !utf8.ValidString(t.Value) || strings.ContainsRune(t.Value, 0) {
			return fmt.Errorf("the literal %.80q is not text in UTF-8 without zero bytes", t.Value)
		}
		if t.Datatype != "" {
			return CheckIRI(t.Datatype)
		}
	}
	return nil
}

// EscapeIRI escapes s for use inside an IRI. It percent-encodes every character that is not unreserved (RFC 3986),
// including "/" and ":".
func EscapeIRI(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}
	return b.String()
}

func checkIDText(id string) error {
	if !utf8.ValidString(id) {
		return fmt.Errorf("the id %.80q is not UTF-8", id)
	}
	for _, r := range id {
		if r < ' ' || r == 0x7f {
			return fmt.Errorf("the id %.80q has a control character", id)
		}
	}
	for part := range strings.SplitSeq(id, "/") {
		if part == "." || part == ".." {
			return fmt.Errorf("a part of the id %.80q is %q", id, part)
		}
	}
	return nil
}
