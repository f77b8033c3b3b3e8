package graph

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits limit the input of a reader. The zero value means no limits.
type Limits struct {
	Quads   int // maximum number of statements
	Literal int // longest literal in bytes
}

// SyntaxError is the position and cause of a syntax error in a document.
type SyntaxError struct {
	Line, Column int // from 1, the column in bytes
	Reason       string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Reason)
}

// ErrTooLarge reports, by errors.Is, that a document exceeds its limits.
var ErrTooLarge = errors.New("the document is too large")

// maxLine is the maximum length of a line of N-Quads, bytes.
const maxLine = 4 << 20

// ReadNQuads reads N-Quads (https://www.w3.org/TR/n-quads/), and N-Triples, which are quads without a graph.
func ReadNQuads(in io.Reader, limits Limits) ([]Quad, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	var quads []Quad
	for n := 1; lines.Scan(); n++ {
		p := lineParser{text: strings.TrimSuffix(lines.Text(), "\r")}
		q, ok, err := p.parseQuad()
		if err == nil && ok {
			err = q.Check(limits.Literal)
		}
		if err != nil {
			return nil, &SyntaxError{Line: n, Column: p.at + 1, Reason: err.Error()}
		}
		if !ok {
			continue
		}
		if limits.Quads > 0 && len(quads) == limits.Quads {
			return nil, fmt.Errorf("%w: it has more than %d statements", ErrTooLarge, limits.Quads)
		}
		quads = append(quads, q)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("%w: a line is longer than %d bytes", ErrTooLarge, maxLine)
	} else if err != nil {
		return nil, err
	}
	return quads, nil
}

// lineParser reads one line.
type lineParser struct {
	text string
	at   int
}

func (p *lineParser) skipSpace() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
}

func (p *lineParser) parseQuad() (q Quad, ok bool, err error) {
	if p.skipSpace(); p.at == len(p.text) || p.text[p.at] == '#' {
		return q, false, nil
	}
	for _, to := range []*Term{&q.S, &q.P, &q.O} {
		if *to, err = p.parseTerm(); err != nil {
			return q, false, err
		}
		p.skipSpace()
	}
	if p.at < len(p.text) && p.text[p.at] != '.' {
		if q.G, err = p.parseTerm(); err != nil {
			return q, false, err
		}
		p.skipSpace()
	}
	if p.at >= len(p.text) || p.text[p.at] != '.' {
		return q, false, errors.New("the statement does not end with a dot")
	}
	p.at++
	if p.skipSpace(); p.at < len(p.text) && p.text[p.at] != '#' {
		return q, false, errors.New("text after the final dot")
	}
	return q, true, nil
}

func (p *lineParser) parseTerm() (Term, error) {
	if p.at >= len(p.text) {
		return Term{}, errors.New("the statement ends too early")
	}
	switch {
	case p.text[p.at] == '<':
		iri, err := p.parseIRI()
		return Node(iri), err
	case strings.HasPrefix(p.text[p.at:], "_:"):
		p.at += 2
		n := labelLength(p.text[p.at:])
		if n == 0 {
			return Term{}, errors.New("a blank node has no label")
		}
		label := p.text[p.at : p.at+n]
		p.at += n
		return BlankNode(label), nil
	case p.text[p.at] == '"':
		return p.parseLiteral()
	}
	return Term{}, fmt.Errorf("%.20q is no term; one begins with <, _: or a quotation mark", p.text[p.at:])
}

func (p *lineParser) parseIRI() (string, error) {
	end := strings.IndexByte(p.text[p.at:], '>')
	if end < 0 {
		return "", errors.New("an IRI has no end")
	}
	raw := p.text[p.at+1 : p.at+end]
	iri, err := unescape(raw, false)
	if err == nil {
		err = CheckIRI(iri)
	}
	if err == nil {
		p.at += end + 1
	}
	return iri, err
}

func (p *lineParser) parseLiteral() (Term, error) {
	end := p.at + 1
	for ; end < len(p.text) && p.text[end] != '"'; end++ {
		if p.text[end] == '\\' {
			end++
		}
	}
	if end >= len(p.text) {
		return Term{}, errors.New("a literal has no end")
	}
	value, err := unescape(p.text[p.at+1:end], true)
	if err != nil {
		return Term{}, err
	}
	p.at = end + 1
	if strings.HasPrefix(p.text[p.at:], "^^<") {
		p.at += 2
		datatype, err := p.parseIRI()
		return Typed(value, datatype), err
	}
	if p.at < len(p.text) && p.text[p.at] == '@' {
		n := tagLength(p.text[p.at+1:])
		if n == 0 {
			return Term{}, errors.New("a language has no tag")
		}
		tag := p.text[p.at+1 : p.at+1+n]
		p.at += 1 + n
		return InLanguage(value, tag), nil
	}
	return Text(value), nil
}

// tagLength returns the length of the language tag at the beginning of s.
func tagLength(s string) int {
	n, letters := 0, true
	for n < len(s) {
		c := s[n]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		switch {
		case letter, !letters && c >= '0' && c <= '9':
		case c == '-' && n > 0 && n+1 < len(s) && s[n-1] != '-':
			letters = false
		default:
			return len(strings.TrimSuffix(s[:n], "-"))
		}
		n++
	}
	return len(strings.TrimSuffix(s, "-"))
}

// labelLength returns the length of the blank node label at the beginning of s; it does not end in a dot.
func labelLength(s string) int {
	n := 0
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if !isNameRune(r) && (r != '.' || n == 0) || n == 0 && r == '-' {
			break
		}
		n += size
	}
	for n > 0 && s[n-1] == '.' {
		n--
	}
	return n
}

func isNameRune(r rune) bool {
	return r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z' || r == '_' || r == '-' || r >= 0xc0 && r != utf8.RuneError || r == 0xb7
}

var simpleEscapes = map[byte]string{'t': "\t", 'b': "\b", 'n': "\n", 'r': "\r", 'f': "\f", '"': "\"", '\'': "'", '\\': "\\"}

// unescape resolves \u and \U, and in literals also \n and similar escapes.
func unescape(s string, literal bool) (string, error) {
	at := strings.IndexByte(s, '\\')
	if at < 0 {
		return s, nil
	}
	var b strings.Builder
	for ; at >= 0; at = strings.IndexByte(s, '\\') {
		b.WriteString(s[:at])
		if s = s[at+1:]; s == "" {
			return "", errors.New("a backslash at the end")
		}
		plain, simple := simpleEscapes[s[0]]
		if literal && simple {
			b.WriteString(plain)
			s = s[1:]
			continue
		}
		digits := map[byte]int{'u': 4, 'U': 8}[s[0]]
		if digits == 0 || len(s) < 1+digits {
			return "", fmt.Errorf("there is no escape \\%.8s", s)
		}
		n, err := strconv.ParseUint(s[1:1+digits], 16, 32)
		if err != nil || !utf8.ValidRune(rune(n)) {
			return "", fmt.Errorf("\\%s is no character", s[:1+digits])
		}
		b.WriteRune(rune(n))
		s = s[1+digits:]
	}
	b.WriteString(s)
	return b.String(), nil
}

// WriteNQuads writes quads in the given order.
func WriteNQuads(w io.Writer, quads []Quad) error {
	var line []byte
	for i := range quads {
		line = append(quads[i].appendTo(line[:0]), '\n')
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// WriteNTriples writes quads without their graphs.
func WriteNTriples(w io.Writer, quads []Quad) error {
	var line []byte
	for i := range quads {
		q := quads[i]
		q.G = Term{}
		line = append(q.appendTo(line[:0]), '\n')
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

func (q Quad) appendTo(b []byte) []byte {
	b = append(q.S.Append(b), ' ')
	b = append(q.P.Append(b), ' ')
	b = append(q.O.Append(b), ' ')
	if !q.G.IsZero() {
		b = append(q.G.Append(b), ' ')
	}
	return append(b, '.')
}

// String returns the quad in N-Quads, without the end of the line.
func (q Quad) String() string { return string(q.appendTo(nil)) }

// Sorted returns the quads in the order of their N-Quads, without duplicates.
func Sorted(quads []Quad) []Quad {
	type keyed struct {
		key string
		q   Quad
	}
	list := make([]keyed, len(quads))
	for i, q := range quads {
		list[i] = keyed{q.String(), q}
	}
	slices.SortFunc(list, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	list = slices.CompactFunc(list, func(a, b keyed) bool { return a.key == b.key })
	out := make([]Quad, len(list))
	for i := range list {
		out[i] = list[i].q
	}
	return out
}

// ParseTerm reads one term in the notation of N-Triples.
func ParseTerm(s string) (Term, error) {
	p := lineParser{text: s}
	t, err := p.parseTerm()
	if err == nil && p.at != len(s) {
		err = fmt.Errorf("text after the term %.40q", s)
	}
	return t, err
}
