// Package promtext reads the Prometheus text exposition format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/), as scripts, exporters and `reckon
// push` write it.
//
// A [Parser] iterates over the lines of a page. A [Page] turns them into series and remembers the
// text of each from one reading to the next, so that a page with the same series again costs no
// allocation. Histograms and summaries are read as the series of the format: _bucket, _sum, _count
// and quantiles. NaN is left out. Timestamps are refused, because all samples of an agent belong to
// one moment.
//
// Errors name the line but never repeat its content, because the reader may not be allowed to see
// the file. Parsers and pages are used from one goroutine.
package promtext

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// LineKind is the kind of a line of a page.
type LineKind uint8

// The kinds of lines other than empty lines and plain comments.
const (
	Sample LineKind = iota + 1
	Type
	Help
)

// Line is one line. Its bytes are part of the page.
type Line struct {
	Kind LineKind
	// Series is the name with the labels, as written, of a sample; else the name alone.
	Series []byte
	Text   []byte // of a Help, with its escapes; of a Type, the word
	Value  float64
}

// Parser iterates over the lines of a page.
type Parser struct {
	rest []byte
	line int
}

// Parse starts parsing a page.
func Parse(page []byte) Parser { return Parser{rest: page} }

// Number returns the number of the line that Next returned last, from 1.
func (p *Parser) Number() int { return p.line }

// Next returns the next line with content, and io.EOF at the end.
func (p *Parser) Next() (Line, error) {
	for len(p.rest) > 0 {
		var text []byte
		if i := bytes.IndexByte(p.rest, '\n'); i >= 0 {
			text, p.rest = p.rest[:i], p.rest[i+1:]
		} else {
			text, p.rest = p.rest, nil
		}
		p.line++
		text = trimBlanks(bytes.TrimSuffix(text, []byte{'\r'}))
		if len(text) == 0 {
			continue
		}
		l, err := parseLine(text)
		if err != nil {
			return Line{}, fmt.Errorf("line %d: %w", p.line, err)
		}
		if l.Kind != 0 {
			return l, nil
		}
	}
	return Line{}, io.EOF
}

func parseLine(text []byte) (Line, error) {
	if text[0] == '#' {
		return parseComment(text[1:])
	}
	n, err := seriesEnd(text)
	if err != nil {
		return Line{}, err
	}
	l := Line{Kind: Sample, Series: trimBlanks(text[:n])}
	rest := trimBlanks(text[n:])
	end := bytes.IndexAny(rest, " \t")
	if end < 0 {
		end = len(rest)
	}
	if end == 0 {
		return Line{}, errors.New("there is no value behind the name")
	}
	if len(trimBlanks(rest[end:])) > 0 {
		return Line{}, errors.New(
			"there is more than a value behind the name; time stamps are not taken, and label values stand in double quotes")
	}
	if l.Value, err = parseValue(rest[:end]); err != nil {
		return Line{}, err
	}
	return l, nil
}

// parseValue parses a value, without allocation in the usual cases.
func parseValue(b []byte) (float64, error) {
	whole, small := int64(0), len(b) <= 15
	for i, c := range b {
		if c == '-' && i == 0 && len(b) > 1 {
			continue
		}
		if c < '0' || c > '9' {
			small = false
			break
		}
		whole = whole*10 + int64(c-'0')
	}
	if small {
		if b[0] == '-' {
			whole = -whole
		}
		if whole != 0 { // -0 is for ParseFloat
			return float64(whole), nil
		}
	}
	if bytes.IndexByte(b, '_') >= 0 || bytes.ContainsAny(b, "xXpP") {
		return 0, errors.New("the value is not a number")
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, errors.New("the value is not a number")
	}
	return v, nil
}

// parseComment parses the text after a #.
func parseComment(text []byte) (Line, error) {
	word, rest := cutWord(trimBlanks(text))
	var l Line
	switch string(word) {
	case "TYPE":
		l.Kind = Type
	case "HELP":
		l.Kind = Help
	default:
		return Line{}, nil
	}
	if len(rest) > 0 && rest[0] == '"' { // a name in UTF-8
		name, after, err := quotedText(rest)
		if err != nil {
			return Line{}, fmt.Errorf("the name %w", err)
		}
		l.Series, l.Text = []byte(escapeName(name)), trimBlanks(after)
	} else {
		l.Series, l.Text = cutWord(rest)
	}
	if !isValidName(l.Series, true) {
		return Line{}, fmt.Errorf("%s is followed by no name of a metric", word)
	}
	if l.Kind == Type {
		switch string(l.Text) {
		case "counter", "gauge", "histogram", "summary", "untyped", "unknown":
		default:
			return Line{}, errors.New("the type is none of counter, gauge, histogram, summary, untyped")
		}
	}
	return l, nil
}

// seriesEnd returns the end of a name with its labels. It checks only quotes and braces; see [Split].
func seriesEnd(text []byte) (int, error) {
	n := 0
	for n < len(text) && isNameByte(n, text[n], true) {
		n++
	}
	if n == 0 && (len(text) == 0 || text[0] != '{') {
		return 0, errors.New("it does not begin with the name of a metric (letters, digits, _ and :)")
	}
	open := n
	for open < len(text) && (text[open] == ' ' || text[open] == '\t') {
		open++
	}
	if open == len(text) || text[open] != '{' {
		if n < len(text) && text[n] != ' ' && text[n] != '\t' {
			return 0, errors.New("the name of the metric holds a character that is no letter, digit, underscore or colon")
		}
		return n, nil
	}
	quoted := false
	for i := open + 1; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && c == '}':
			return i + 1, nil
		}
	}
	return 0, errors.New("the labels are not closed; they are written as {label=\"value\"}")
}

// Label is a name and its value.
type Label struct{ Name, Value string }

// Split splits the text of a series into its name and its labels in the given order. It omits empty
// labels, because they are equivalent to missing ones.
func Split(series []byte) (name string, labels []Label, err error) {
	n := 0
	for n < len(series) && isNameByte(n, series[n], true) {
		n++
	}
	name, rest := string(series[:n]), trimBlanks(series[n:])
	inside := n == 0 && len(rest) > 0 && rest[0] == '{' // the name stands in quotes between the labels: {"a.name", label="value"}
	if n == 0 && !inside {
		return "", nil, errors.New("it does not begin with the name of a metric")
	}
	if len(rest) == 0 {
		return name, nil, nil
	}
	if rest[0] != '{' || rest[len(rest)-1] != '}' || len(rest) < 2 {
		return "", nil, errors.New("the labels are not closed; they are written as {label=\"value\"}")
	}
	rest = trimBlanks(rest[1 : len(rest)-1])
	for len(rest) > 0 {
		var l Label
		if l, rest, err = nextLabel(rest); err != nil {
			return "", nil, err
		}
		if l.Name == "" {
			if !inside || name != "" || l.Value == "" {
				return "", nil, errors.New("a name in quotes is empty, or the second one")
			}
			name = escapeName(l.Value)
			continue
		}
		for _, other := range labels {
			if other.Name == l.Name {
				return "", nil, fmt.Errorf("the label %s stands twice", l.Name)
			}
		}
		if l.Value != "" {
			labels = append(labels, l)
		}
	}
	if name == "" {
		return "", nil, errors.New("the braces hold no name of a metric in quotes, as in {\"a.name\"}")
	}
	return name, labels, nil
}

// escapeName returns a UTF-8 metric name for systems that support only ASCII names. It replaces every other character
// by an underscore, as in Prometheus's escaping scheme "underscores".
func escapeName(name string) string {
	out := []byte(strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && isNameByte(1, byte(r), true) {
			return r
		}
		return '_'
	}, name))
	if len(out) > 0 && !isNameByte(0, out[0], true) {
		out[0] = '_'
	}
	return string(out)
}

// nextLabel parses the next label. A label without a name is a metric name in quotes.
func nextLabel(b []byte) (l Label, rest []byte, err error) {
	if len(b) > 0 && b[0] == '"' {
		if l.Name, rest, err = quotedText(b); err != nil {
			return l, nil, fmt.Errorf("the name %w", err)
		}
		rest = trimBlanks(rest)
		if len(rest) == 0 || rest[0] != '=' {
			l.Name, l.Value = "", l.Name
			rest, err = afterComma(rest, escapeName(l.Value))
			return l, rest, err
		}
		if l.Name == "" {
			return l, nil, errors.New("the name of a label is empty")
		}
		l.Name = strings.ReplaceAll(escapeName(l.Name), ":", "_")
	} else {
		n := 0
		for n < len(b) && isNameByte(n, b[n], false) {
			n++
		}
		l.Name, rest = string(b[:n]), trimBlanks(b[n:])
		if n == 0 || len(rest) == 0 || rest[0] != '=' {
			return l, nil, errors.New("a label is not written like label=\"value\" in quotes")
		}
	}
	rest = trimBlanks(rest[1:])
	if len(rest) == 0 || rest[0] != '"' {
		return l, nil, fmt.Errorf("the value of the label %s does not stand in double quotes", l.Name)
	}
	if l.Value, rest, err = quotedText(rest); err != nil {
		return l, nil, fmt.Errorf("the value of the label %s %w", l.Name, err)
	}
	rest, err = afterComma(rest, l.Name)
	return l, rest, err
}

// afterComma returns the text after the comma that follows a label, if there is one.
func afterComma(rest []byte, name string) ([]byte, error) {
	rest = trimBlanks(rest)
	if len(rest) > 0 {
		if rest[0] != ',' {
			return nil, fmt.Errorf("there is no comma behind the label %s", name)
		}
		rest = trimBlanks(rest[1:])
	}
	return rest, nil
}

// quotedText parses the double-quoted text at the start of b and returns the rest.
func quotedText(b []byte) (text string, rest []byte, err error) {
	value := make([]byte, 0, 32)
	rest = b
	i := 1
	for ; ; i++ {
		if i >= len(rest) {
			return "", nil, errors.New("does not end")
		}
		c := rest[i]
		if c == '"' {
			break
		}
		if c == '\\' && i+1 < len(rest) {
			i++
			switch rest[i] {
			case 'n':
				c = '\n'
			case '\\', '"':
				c = rest[i]
			default:
				value = append(value, '\\')
				c = rest[i]
			}
		}
		value = append(value, c)
	}
	if !utf8.Valid(value) || bytes.IndexByte(value, 0) >= 0 {
		return "", nil, errors.New("is not UTF-8")
	}
	return string(value), rest[i+1:], nil
}

// ValidName reports whether s is a valid metric name.
func ValidName(s string) bool { return isValidName([]byte(s), true) }

// ValidLabel reports whether s is a valid label name.
func ValidLabel(s string) bool {
	return isValidName([]byte(s), false) && !bytes.HasPrefix([]byte(s), []byte("__"))
}

func isValidName(b []byte, colon bool) bool {
	for i, c := range b {
		if !isNameByte(i, c, colon) {
			return false
		}
	}
	return len(b) > 0
}

func isNameByte(i int, c byte, colon bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || colon && c == ':' || i > 0 && c >= '0' && c <= '9'
}

func trimBlanks(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// cutWord splits off the first word.
func cutWord(b []byte) (word, rest []byte) {
	i := bytes.IndexAny(b, " \t")
	if i < 0 {
		return b, nil
	}
	return b[:i], trimBlanks(b[i:])
}
