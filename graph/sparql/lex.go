package sparql

import (
	"fmt"
	"strings"

	"reckon/graph"
)

// maxText is the maximum length of a query in bytes, maxDepth the maximum nesting of groups and expressions.
const (
	maxText  = 1 << 20
	maxDepth = 100
)

type tokenKind uint8

const (
	end      tokenKind = iota
	word               // a keyword or the name of a function, in upper case
	variable           // name without the mark
	iriToken           // in < >, not resolved
	name               // prefix:local
	blank              // label
	quoted             // text of a string
	number
	langTag // without @
	symbol
)

type token struct {
	kind tokenKind
	text string
	at   int
}

// lexer splits a query into tokens with the scanners of package graph.
type lexer struct {
	text   string
	at     int
	tokens []token
}

func tokenize(text string) ([]token, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the query is longer than %d bytes", maxText)
	}
	l := &lexer{text: text}
	for {
		l.skipSpace()
		if l.at >= len(text) {
			l.tokens = append(l.tokens, token{end, "", l.at})
			return l.tokens, nil
		}
		if err := l.nextToken(); err != nil {
			return nil, syntaxErrorAt(text, l.at, err.Error())
		}
	}
}

func syntaxErrorAt(text string, at int, reason string) error {
	before := text[:min(at, len(text))]
	return &graph.SyntaxError{Line: strings.Count(before, "\n") + 1, Column: len(before) - strings.LastIndexByte(before, '\n'),
		Reason: reason}
}

func (l *lexer) skipSpace() {
	for l.at < len(l.text) {
		switch l.text[l.at] {
		case ' ', '\t', '\r', '\n':
			l.at++
		case '#':
			if n := strings.IndexByte(l.text[l.at:], '\n'); n >= 0 {
				l.at += n
			} else {
				l.at = len(l.text)
			}
		default:
			return
		}
	}
}

func (l *lexer) addToken(kind tokenKind, text string, length int) error {
	l.tokens = append(l.tokens, token{kind, text, l.at})
	l.at += length
	return nil
}

var symbols = []string{"^^", "&&", "||", "!=", "<=", ">=", "{", "}", "(", ")", "[", "]", ".", ";", ",", "*", "/", "+", "-", "=", "<", ">",
	"!", "|", "^", "?"}

func (l *lexer) nextToken() error {
	rest := l.text[l.at:]
	c := rest[0]
	switch {
	case (c == '?' || c == '$') && len(rest) > 1 && graph.NameLength(rest[1:]) > 0 && !strings.HasPrefix(rest[1:], "-"):
		n := variableLength(rest[1:])
		return l.addToken(variable, rest[1:1+n], 1+n)
	case c == '<' && iriLength(rest) > 0:
		n := iriLength(rest)
		return l.addToken(iriToken, rest[1:n-1], n)
	case c == '"' || c == '\'':
		text, n, err := graph.QuotedPrefix(rest)
		if err != nil {
			return err
		}
		return l.addToken(quoted, text, n)
	case c >= '0' && c <= '9', c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		text, _ := graph.NumberPrefix(rest)
		return l.addToken(number, text, len(text))
	case c == '@':
		n := graph.TagLength(rest[1:])
		if n == 0 {
			return fmt.Errorf("%.10q is no tag of a language", rest)
		}
		return l.addToken(langTag, rest[1:1+n], 1+n)
	case strings.HasPrefix(rest, "_:"):
		n := graph.NameLength(rest[2:])
		if n == 0 {
			return fmt.Errorf("a blank node has no label")
		}
		return l.addToken(blank, rest[2:2+n], 2+n)
	}
	if n := graph.NameLength(rest); n > 0 || c == ':' {
		return l.lexName(rest, n)
	}
	for _, s := range symbols {
		if strings.HasPrefix(rest, s) {
			return l.addToken(symbol, s, len(s))
		}
	}
	return fmt.Errorf("%.10q is nothing of SPARQL", rest)
}

// lexName reads a keyword or a prefixed name.
func (l *lexer) lexName(rest string, n int) error {
	if n == len(rest) || rest[n] != ':' {
		n = variableLength(rest)
		if n == 0 {
			return fmt.Errorf("%.10q is nothing of SPARQL", rest)
		}
		return l.addToken(word, rest[:n], n)
	}
	local, length, err := graph.LocalName(rest[n+1:])
	if err != nil {
		return err
	}
	return l.addToken(name, rest[:n]+":"+local, n+1+length)
}

// variableLength returns the length of a name without dots and dashes.
func variableLength(s string) int {
	n := graph.NameLength(s)
	if at := strings.IndexAny(s[:n], ".-"); at >= 0 {
		n = at
	}
	return n
}

// iriLength returns the length of the IRI in < > at the beginning of s, 0 if "<" is a comparison.
func iriLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '>':
			return i + 1
		case c <= ' ', strings.IndexByte("<\"{}|^`\\", c) >= 0:
			return 0
		}
	}
	return 0
}
