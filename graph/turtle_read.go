package graph

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNesting is the maximum nesting of [ ] and ( ) in Turtle.
const maxNesting = 128

// ReadTurtle parses Turtle (https://www.w3.org/TR/turtle/). Relative IRIs are resolved against base. If base is empty,
// a relative IRI is an error.
func ReadTurtle(in io.Reader, base string, limits Limits) (quads []Quad, err error) {
	raw, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	p := &turtleReader{text: string(raw), base: base, limits: limits, prefixes: map[string]string{}}
	if !utf8.ValidString(p.text) {
		return nil, errors.New("the document is not UTF-8")
	}
	for err == nil {
		if p.skipSpace(); p.at == len(p.text) {
			return p.quads, nil
		}
		err = p.parseStatement()
	}
	if errors.Is(err, ErrTooLarge) {
		return nil, err
	}
	before := p.text[:min(p.at, len(p.text))]
	line := strings.Count(before, "\n")
	return nil, &SyntaxError{Line: line + 1, Column: len(before) - strings.LastIndexByte(before, '\n'), Reason: err.Error()}
}

type turtleReader struct {
	text     string
	at       int
	base     string
	limits   Limits
	prefixes map[string]string
	quads    []Quad
	blanks   int
	depth    int
}

func (p *turtleReader) skipSpace() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		case '#':
			if end := strings.IndexByte(p.text[p.at:], '\n'); end >= 0 {
				p.at += end
			} else {
				p.at = len(p.text)
			}
		default:
			return
		}
	}
}

func (p *turtleReader) remaining() string { return p.text[p.at:] }

// consume reports whether the next token is c, and consumes it.
func (p *turtleReader) consume(c byte) bool {
	if p.skipSpace(); p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *turtleReader) expectByte(c byte) error {
	if p.consume(c) {
		return nil
	}
	return fmt.Errorf("%q is missing before %.20q", c, p.remaining())
}

func (p *turtleReader) parseStatement() error {
	for _, directive := range []struct {
		word   string
		dot    bool
		prefix bool
	}{{"@prefix", true, true}, {"@base", true, false}, {"PREFIX", false, true}, {"BASE", false, false}} {
		n := len(directive.word)
		if len(p.remaining()) <= n || !strings.EqualFold(p.remaining()[:n], directive.word) || !strings.ContainsAny(p.remaining()[n:n+1],
			" \t\r\n<") {
			continue
		}
		if p.at += n; directive.prefix {
			if err := p.parsePrefix(); err != nil {
				return err
			}
		} else if err := p.parseBase(); err != nil {
			return err
		}
		if directive.dot {
			return p.expectByte('.')
		}
		return nil
	}
	if err := p.parseTriples(); err != nil {
		return err
	}
	return p.expectByte('.')
}

func (p *turtleReader) parsePrefix() error {
	p.skipSpace()
	n := nameLength(p.remaining())
	name := p.remaining()[:n]
	if p.at += n; p.at >= len(p.text) || p.text[p.at] != ':' {
		return errors.New("a prefix does not end with a colon")
	}
	p.at++
	p.skipSpace()
	iri, err := p.parseIRIRef()
	p.prefixes[name] = iri
	return err
}

func (p *turtleReader) parseBase() error {
	p.skipSpace()
	iri, err := p.parseIRIRef()
	p.base = iri
	return err
}

func (p *turtleReader) parseTriples() error {
	p.skipSpace()
	if strings.HasPrefix(p.remaining(), "[") {
		subject, err := p.parseBracket()
		if p.skipSpace(); err != nil || strings.HasPrefix(p.remaining(), ".") {
			return err
		}
		return p.parsePredicates(subject)
	}
	subject, err := p.parseNode()
	if err != nil {
		return err
	}
	if subject.Kind == Literal {
		return errors.New("a literal is the subject")
	}
	return p.parsePredicates(subject)
}

func (p *turtleReader) parsePredicates(subject Term) error {
	for {
		p.skipSpace()
		predicate, err := p.parseVerb()
		if err != nil {
			return err
		}
		for {
			object, err := p.parseNode()
			if err != nil {
				return err
			}
			if err := p.addQuad(subject, predicate, object); err != nil {
				return err
			}
			if !p.consume(',') {
				break
			}
		}
		if !p.consume(';') {
			return nil
		}
		for p.consume(';') {
		}
		if p.skipSpace(); p.at == len(p.text) || strings.IndexByte(".]", p.text[p.at]) >= 0 {
			return nil
		}
	}
}

func (p *turtleReader) addQuad(s, predicate, o Term) error {
	q := Quad{S: s, P: predicate, O: o}
	if err := q.Check(p.limits.Literal); err != nil {
		return err
	}
	if p.limits.Quads > 0 && len(p.quads) == p.limits.Quads {
		return fmt.Errorf("%w: it has more than %d statements", ErrTooLarge, p.limits.Quads)
	}
	p.quads = append(p.quads, q)
	return nil
}

func (p *turtleReader) parseVerb() (Term, error) {
	if rest := p.remaining(); len(rest) > 1 && rest[0] == 'a' && strings.IndexByte(" \t\r\n<[\"", rest[1]) >= 0 {
		p.at++
		return Node(RDFType), nil
	}
	iri, err := p.parseIRI()
	return Node(iri), err
}

// parseNode reads an object, or a subject other than [ ].
func (p *turtleReader) parseNode() (Term, error) {
	if p.skipSpace(); p.at == len(p.text) {
		return Term{}, errors.New("the document ends too early")
	}
	switch c := p.text[p.at]; {
	case c == '[':
		return p.parseBracket()
	case c == '(':
		return p.parseCollection()
	case c == '"' || c == '\'':
		return p.parseLiteral()
	case strings.HasPrefix(p.remaining(), "_:"):
		n := labelLength(p.text[p.at+2:])
		if n == 0 {
			return Term{}, errors.New("a blank node has no label")
		}
		label := p.text[p.at+2 : p.at+2+n]
		p.at += 2 + n
		return BlankNode("u" + label), nil
	case c >= '0' && c <= '9' || strings.IndexByte("+-.", c) >= 0:
		return p.parseNumber()
	}
	for _, word := range []string{"true", "false"} {
		if strings.HasPrefix(p.remaining(), word) && nameLength(p.remaining()) == len(word) &&
			!strings.HasPrefix(p.remaining()[len(word):], ":") {
			p.at += len(word)
			return Typed(word, XSDBoolean), nil
		}
	}
	iri, err := p.parseIRI()
	return Node(iri), err
}

func (p *turtleReader) newBlank() Term {
	p.blanks++
	return BlankNode("g" + strconv.Itoa(p.blanks))
}

func (p *turtleReader) enterBracket() error {
	if p.depth++; p.depth > maxNesting {
		return fmt.Errorf("more than %d brackets are open", maxNesting)
	}
	return nil
}

func (p *turtleReader) parseBracket() (Term, error) {
	if err := p.enterBracket(); err != nil {
		return Term{}, err
	}
	defer func() { p.depth-- }()
	p.at++
	subject := p.newBlank()
	if p.consume(']') {
		return subject, nil
	}
	if err := p.parsePredicates(subject); err != nil {
		return Term{}, err
	}
	return subject, p.expectByte(']')
}

func (p *turtleReader) parseCollection() (Term, error) {
	if err := p.enterBracket(); err != nil {
		return Term{}, err
	}
	defer func() { p.depth-- }()
	p.at++
	end := Node(RDF + "nil")
	head, last := end, Term{}
	for !p.consume(')') {
		item, err := p.parseNode()
		if err != nil {
			return Term{}, err
		}
		cell := p.newBlank()
		if last.IsZero() {
			head = cell
		} else if err := p.addQuad(last, Node(RDF+"rest"), cell); err != nil {
			return Term{}, err
		}
		if err := p.addQuad(cell, Node(RDF+"first"), item); err != nil {
			return Term{}, err
		}
		last = cell
	}
	if last.IsZero() {
		return head, nil
	}
	return head, p.addQuad(last, Node(RDF+"rest"), end)
}

func (p *turtleReader) parseNumber() (Term, error) {
	text, datatype := numberPrefix(p.remaining())
	if text == "" {
		if strings.TrimLeft(p.remaining(), ".;,]) \t\r\n") != p.remaining() || p.remaining() == "" {
			return Term{}, fmt.Errorf("a term is missing before %.20q", p.remaining())
		}
		return Term{}, fmt.Errorf("%.20q is no term: write an IRI in < >, a prefixed name, a number, or text in quotes", p.remaining())
	}
	p.at += len(text)
	return Typed(text, datatype), nil
}

// numberPrefix returns the number at the beginning of s, and its type.
func numberPrefix(s string) (text, datatype string) {
	digits := func(at int) int {
		for at < len(s) && s[at] >= '0' && s[at] <= '9' {
			at++
		}
		return at
	}
	at := 0
	if s[0] == '+' || s[0] == '-' {
		at++
	}
	start := at
	at = digits(at)
	whole := at - start
	datatype = XSDInteger
	fraction := 0
	if at < len(s) && s[at] == '.' {
		if end := digits(at + 1); end > at+1 || end < len(s) && whole > 0 && s[end]|0x20 == 'e' {
			fraction, at, datatype = end-at-1, end, XSDDecimal
		}
	}
	if whole+fraction == 0 {
		return "", ""
	}
	if at < len(s) && s[at]|0x20 == 'e' {
		end := at + 1
		if end < len(s) && (s[end] == '+' || s[end] == '-') {
			end++
		}
		if last := digits(end); last > end {
			at, datatype = last, XSDDouble
		}
	}
	return s[:at], datatype
}

func (p *turtleReader) parseLiteral() (Term, error) {
	value, err := p.parseQuoted()
	if err != nil {
		return Term{}, err
	}
	switch rest := p.remaining(); {
	case strings.HasPrefix(rest, "^^"):
		p.at += 2
		datatype, err := p.parseIRI()
		return Typed(value, datatype), err
	case strings.HasPrefix(rest, "@"):
		n := tagLength(rest[1:])
		if n == 0 {
			return Term{}, errors.New("a language has no tag")
		}
		p.at += 1 + n
		return InLanguage(value, rest[1:1+n]), nil
	}
	return Text(value), nil
}

func (p *turtleReader) parseQuoted() (string, error) {
	text, n, err := quotedPrefix(p.remaining())
	if err == nil {
		p.at += n
	}
	return text, err
}

// quotedPrefix reads the quoted string, short or long, at the beginning of s, and returns its length in s.
func quotedPrefix(s string) (string, int, error) {
	mark := s[:1]
	if long := strings.Repeat(mark, 3); strings.HasPrefix(s, long) {
		mark = long
	}
	end := len(mark)
	for {
		if end >= len(s) {
			return "", 0, errors.New("a literal has no end")
		}
		if s[end] == '\\' {
			end += 2
			continue
		}
		if strings.HasPrefix(s[end:], mark) {
			break
		}
		if len(mark) == 1 && (s[end] == '\n' || s[end] == '\r') {
			return "", 0, errors.New("a literal in single quotation marks ends on its line")
		}
		end++
	}
	if len(mark) == 3 { // the last three of more than three marks end the string
		for strings.HasPrefix(s[end+1:], mark) {
			end++
		}
	}
	text, err := unescape(s[len(mark):end], true)
	return text, end + len(mark), err
}

func (p *turtleReader) parseIRI() (string, error) {
	p.skipSpace()
	if strings.HasPrefix(p.remaining(), "<") {
		return p.parseIRIRef()
	}
	n := nameLength(p.remaining())
	prefix := p.remaining()[:n]
	if p.at+n >= len(p.text) || p.text[p.at+n] != ':' {
		return "", fmt.Errorf("%.20q is neither an IRI in < > nor a name with a prefix", p.remaining())
	}
	namespace, ok := p.prefixes[prefix]
	if !ok {
		return "", fmt.Errorf("the prefix %q is not declared", prefix)
	}
	local, length, err := parseLocalName(p.text[p.at+n+1:])
	if err == nil {
		p.at += n + 1 + length
	}
	return namespace + local, err
}

func (p *turtleReader) parseIRIRef() (string, error) {
	end := strings.IndexByte(p.remaining(), '>')
	if !strings.HasPrefix(p.remaining(), "<") || end < 0 {
		return "", errors.New("an IRI in < > is missing or has no end")
	}
	iri, err := unescape(p.remaining()[1:end], false)
	if err == nil {
		iri, err = Resolve(p.base, iri)
	}
	if err == nil {
		p.at += end + 1
	}
	return iri, err
}

// Resolve makes a reference absolute (RFC 3986, section 5). An absolute one is returned unchanged.
func Resolve(base, ref string) (string, error) {
	if scheme, _, ok := strings.Cut(ref, ":"); ok && isScheme(scheme) {
		return ref, CheckIRI(ref)
	}
	if base == "" {
		return "", fmt.Errorf("the IRI <%.80s> is relative and there is no base", ref)
	}
	b, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("the base %.80q: %w", base, err)
	}
	r, err := url.Parse(ref)
	if err != nil {
		return "", fmt.Errorf("the IRI %.80q: %w", ref, err)
	}
	return b.ResolveReference(r).String(), nil
}

// nameLength returns the length of the prefix at the beginning of s, without the colon.
func nameLength(s string) int {
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "-") {
		return 0
	}
	return labelLength(s)
}

// parseLocalName reads the local part of a name, after the colon, and returns its length in s.
func parseLocalName(s string) (string, int, error) {
	var b strings.Builder
	at := 0
	for at < len(s) {
		r, size := utf8.DecodeRuneInString(s[at:])
		switch {
		case r == '\\':
			if at+1 >= len(s) || strings.IndexByte("_~.-!$&'()*+,;=/?#@%", s[at+1]) < 0 {
				return "", 0, errors.New("a backslash in a name before a character that needs no escape")
			}
			b.WriteByte(s[at+1])
			at += 2
			continue
		case r == '%':
			if len(s) < at+3 || strings.Trim(s[at+1:at+3], "0123456789abcdefABCDEF") != "" {
				return "", 0, errors.New("a percent sign in a name is not followed by two hexadecimal digits")
			}
		case r == '-' && at == 0:
			return "", 0, nil
		case isNameRune(r), r == ':', r == '.' && at > 0:
		default:
			size = 0
		}
		if size == 0 {
			break
		}
		b.WriteRune(r)
		at += size
	}
	name := b.String()
	for strings.HasSuffix(name, ".") && at > 0 && s[at-1] == '.' && (at < 2 || s[at-2] != '\\') {
		name, at = name[:len(name)-1], at-1
	}
	return name, at, nil
}
