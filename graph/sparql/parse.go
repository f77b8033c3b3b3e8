package sparql

import (
	"fmt"
	"strconv"
	"strings"

	"reckon/graph"
)

type parser struct {
	text     string
	tokens   []token
	at       int
	base     string
	prefixes map[string]string
	vars     *variables
	blanks   map[string]int
	depth    int
	// collecting receives the aggregates of the SELECT being parsed; nil if aggregates are not allowed.
	collecting *[]*aggregate
	isData     bool // data or a template is being parsed: no paths
}

func newParser(text string) (*parser, error) {
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	return &parser{text: text, tokens: tokens, prefixes: map[string]string{}, vars: &variables{index: map[string]int{}},
		blanks: map[string]int{}}, nil
}

// Parse reads a query.
func Parse(text string) (*Query, error) {
	p, err := newParser(text)
	if err != nil {
		return nil, err
	}
	if err := p.parsePrologue(); err != nil {
		return nil, err
	}
	q := &Query{vars: p.vars}
	switch {
	case p.isWord("SELECT"):
		err = p.parseSelect(&q.sel, q)
	case p.takeWord("ASK"):
		q.form = askForm
		err = p.parseQueryBody(q, true)
	case p.takeWord("CONSTRUCT"):
		q.form = constructForm
		err = p.parseConstruct(q)
	case p.takeWord("DESCRIBE"):
		q.form = describeForm
		err = p.parseDescribe(q)
	default:
		return nil, p.syntaxError("SELECT, ASK, CONSTRUCT or DESCRIBE is expected, not %s", p.tokenText())
	}
	if err == nil && p.current().kind != end {
		err = p.syntaxError("%s after the end of the query", p.tokenText())
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// Vars returns the names of the result columns of a SELECT.
func (q *Query) Vars() (out []string) {
	if q.form != selectForm {
		return nil
	}
	for _, p := range q.sel.project {
		out = append(out, q.vars.names[p.v])
	}
	return out
}

func (p *parser) current() token { return p.tokens[p.at] }

func (p *parser) peek() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

func (p *parser) tokenText() string {
	if t := p.current(); t.kind != end {
		return fmt.Sprintf("%.30q", t.text)
	}
	return "the end"
}

func (p *parser) syntaxError(format string, args ...any) error {
	return syntaxErrorAt(p.text, p.current().at, fmt.Sprintf(format, args...))
}

func (p *parser) unsupportedError(construct string) error {
	before := p.text[:min(p.current().at, len(p.text))]
	return &UnsupportedError{construct, strings.Count(before, "\n") + 1, len(before) - strings.LastIndexByte(before, '\n')}
}

func (p *parser) isWord(w string) bool {
	t := p.current()
	return t.kind == word && strings.EqualFold(t.text, w)
}

func (p *parser) takeWord(w string) bool {
	if p.isWord(w) {
		p.at++
		return true
	}
	return false
}

func (p *parser) isSymbol(s string) bool { return p.current().kind == symbol && p.current().text == s }

func (p *parser) takeSymbol(s string) bool {
	if p.isSymbol(s) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expectSymbol(s string) error {
	if p.takeSymbol(s) {
		return nil
	}
	return p.syntaxError("%q is expected, not %s", s, p.tokenText())
}

func (p *parser) enterGroup() error {
	if p.depth++; p.depth > maxDepth {
		return p.syntaxError("the query is nested more than %d deep", maxDepth)
	}
	return nil
}

func (p *parser) parsePrologue() error {
	for {
		switch {
		case p.takeWord("BASE"):
			if p.current().kind != iriToken {
				return p.syntaxError("BASE takes an IRI in < >")
			}
			p.base = p.current().text
			p.at++
		case p.takeWord("PREFIX"):
			t := p.current()
			prefix, local, ok := strings.Cut(t.text, ":")
			if t.kind != name || !ok || local != "" || p.peek().kind != iriToken {
				return p.syntaxError("PREFIX takes a name with a colon and an IRI in < >")
			}
			p.at++
			iri, err := p.resolveIRI(p.current().text)
			if err != nil {
				return err
			}
			p.prefixes[prefix] = iri
			p.at++
		default:
			return nil
		}
	}
}

func (p *parser) resolveIRI(ref string) (string, error) {
	iri, err := graph.Resolve(p.base, ref)
	if err != nil {
		return "", p.syntaxError("%v", err)
	}
	return iri, nil
}

// parseIRI reads an IRI, in < > or with a prefix.
func (p *parser) parseIRI() (string, error) {
	t := p.current()
	switch t.kind {
	case iriToken:
		iri, err := p.resolveIRI(t.text)
		p.at++
		return iri, err
	case name:
		prefix, local, _ := strings.Cut(t.text, ":")
		namespace, ok := p.prefixes[prefix]
		if !ok {
			return "", p.syntaxError("the prefix %q is not declared", prefix)
		}
		p.at++
		return namespace + local, graph.CheckIRI(namespace + local)
	}
	return "", p.syntaxError("an IRI is expected, not %s", p.tokenText())
}

// isIRI reports whether an IRI is next.
func (p *parser) isIRI() bool { return p.current().kind == iriToken || p.current().kind == name }

func (p *parser) parseLiteral() (graph.Term, bool, error) {
	t := p.current()
	switch {
	case t.kind == quoted:
		p.at++
		if p.current().kind == langTag {
			p.at++
			return graph.InLanguage(t.text, p.tokens[p.at-1].text), true, nil
		}
		if p.takeSymbol("^^") {
			datatype, err := p.parseIRI()
			return graph.Typed(t.text, datatype), true, err
		}
		return graph.Text(t.text), true, nil
	case t.kind == number:
		p.at++
		text, datatype := graph.NumberPrefix(t.text)
		return graph.Typed(text, datatype), true, nil
	case t.kind == symbol && (t.text == "-" || t.text == "+") && p.peek().kind == number:
		p.at += 2
		_, datatype := graph.NumberPrefix(p.tokens[p.at-1].text)
		return graph.Typed(t.text+p.tokens[p.at-1].text, datatype), true, nil
	case p.isWord("true"), p.isWord("false"):
		p.at++
		return graph.Typed(strings.ToLower(t.text), graph.XSDBoolean), true, nil
	}
	return graph.Term{}, false, nil
}

// parseSelect reads a SELECT; q is nil for one that is nested.
func (p *parser) parseSelect(s *selectNode, q *Query) error {
	if err := p.enterGroup(); err != nil {
		return err
	}
	defer func() { p.depth-- }()
	outer := p.collecting
	defer func() { p.collecting = outer }()
	p.collecting = &s.aggregates
	p.at++ // SELECT
	s.limit = -1
	s.distinct = p.takeWord("DISTINCT")
	if !s.distinct {
		p.takeWord("REDUCED")
	}
	if err := p.parseProjections(s); err != nil {
		return err
	}
	if q != nil {
		if err := p.parseSources(q); err != nil {
			return err
		}
	}
	if err := p.parseWhere(s); err != nil {
		return err
	}
	if err := p.parseModifiers(s); err != nil {
		return err
	}
	return p.checkColumns(s)
}

// parseModifiers parses the modifiers and VALUES after the pattern.
func (p *parser) parseModifiers(s *selectNode) error {
	if err := p.parseSolutionModifiers(s); err != nil {
		return err
	}
	if p.takeWord("VALUES") {
		v, err := p.parseValues()
		if err != nil {
			return err
		}
		s.where = &join{s.where, v}
	}
	s.grouped = s.grouped || len(s.aggregates) > 0
	return nil
}

// checkColumns fills the columns of SELECT * and checks the columns of groups.
func (p *parser) checkColumns(s *selectNode) error {
	if s.star {
		if s.grouped {
			return p.syntaxError("SELECT * and GROUP BY do not go together; name the columns")
		}
		in := scopeOf(s.where)
		for v, name := range p.vars.names {
			if in[v] && !strings.HasPrefix(name, " ") {
				s.project = append(s.project, projection{v: v})
			}
		}
		return nil
	}
	keys, in := map[int]bool{}, scopeOf(s.where)
	for _, g := range s.group {
		keys[g.v] = true
	}
	for _, a := range s.aggregates {
		keys[a.v] = true
	}
	for _, c := range s.project {
		used := map[int]bool{c.v: true}
		if c.e != nil {
			if in[c.v] || keys[c.v] {
				return p.syntaxError("AS gives ?%s another value; it is bound before", p.vars.names[c.v])
			}
			clear(used)
			c.e.vars(used)
		}
		for v := range used {
			if s.grouped && !keys[v] && !strings.HasPrefix(p.vars.names[v], " ") {
				return p.syntaxError("?%s is neither a key of GROUP BY nor an aggregate", p.vars.names[v])
			}
		}
		if c.e != nil {
			keys[c.v] = true
		}
	}
	return nil
}

func (p *parser) parseProjections(s *selectNode) error {
	if s.star = p.takeSymbol("*"); s.star {
		return nil
	}
	for {
		switch {
		case p.current().kind == variable:
			s.project = append(s.project, projection{v: p.vars.indexOf(p.current().text)})
			p.at++
		case p.isSymbol("("):
			c, err := p.parseProjection()
			if err != nil {
				return err
			}
			s.project = append(s.project, c)
		case len(s.project) == 0:
			return p.syntaxError("SELECT names no column; write * or ?name, not %s", p.tokenText())
		default:
			return nil
		}
	}
}

// parseProjection reads (expression AS ?v).
func (p *parser) parseProjection() (projection, error) {
	p.at++
	e, err := p.parseExpression()
	if err != nil {
		return projection{}, err
	}
	if !p.takeWord("AS") || p.current().kind != variable {
		return projection{}, p.syntaxError("an expression here needs AS ?name, not %s", p.tokenText())
	}
	c := projection{v: p.vars.indexOf(p.current().text), e: e}
	p.at++
	return c, p.expectSymbol(")")
}

func (p *parser) parseWhere(s *selectNode) error {
	p.takeWord("WHERE")
	outer := p.collecting
	p.collecting = nil
	defer func() { p.collecting = outer }()
	var err error
	s.where, err = p.parseGroup()
	return err
}

func (p *parser) parseSolutionModifiers(s *selectNode) error {
	if p.takeWord("GROUP") {
		if !p.takeWord("BY") {
			return p.syntaxError("GROUP needs BY")
		}
		s.grouped = true
		if err := p.parseGroupKeys(s); err != nil {
			return err
		}
	}
	if p.takeWord("HAVING") {
		for p.isSymbol("(") || p.current().kind == word && !p.isWord("ORDER") && !p.isWord("LIMIT") && !p.isWord("OFFSET") &&
			!p.isWord("VALUES") {
			e, err := p.parseConstraint()
			if err != nil {
				return err
			}
			s.having = append(s.having, e)
		}
	}
	if p.takeWord("ORDER") {
		if !p.takeWord("BY") {
			return p.syntaxError("ORDER needs BY")
		}
		if err := p.parseOrderKeys(s); err != nil {
			return err
		}
	}
	for {
		to := &s.limit
		switch {
		case p.takeWord("LIMIT"):
		case p.takeWord("OFFSET"):
			to = &s.offset
		default:
			return nil
		}
		n, err := strconv.Atoi(p.current().text)
		if p.current().kind != number || err != nil || n < 0 {
			return p.syntaxError("LIMIT and OFFSET take a number from 0 on, not %s", p.tokenText())
		}
		*to = n
		p.at++
	}
}

func (p *parser) parseGroupKeys(s *selectNode) error {
	for n := 0; ; n++ {
		switch {
		case p.current().kind == variable:
			s.group = append(s.group, projection{v: p.vars.indexOf(p.current().text)})
			p.at++
		case p.isSymbol("("):
			p.at++
			e, err := p.parseExpression()
			if err != nil {
				return err
			}
			c := projection{v: -1, e: e}
			if p.takeWord("AS") {
				if p.current().kind != variable {
					return p.syntaxError("AS needs ?name")
				}
				c.v = p.vars.indexOf(p.current().text)
				p.at++
			} else {
				c.v = p.vars.newHidden()
			}
			s.group = append(s.group, c)
			if err := p.expectSymbol(")"); err != nil {
				return err
			}
		case p.current().kind == word && !p.isWord("HAVING") && !p.isWord("ORDER") && !p.isWord("LIMIT") && !p.isWord("OFFSET") &&
			!p.isWord("VALUES"):
			e, err := p.parsePrimary()
			if err != nil {
				return err
			}
			s.group = append(s.group, projection{v: p.vars.newHidden(), e: e})
		case n == 0:
			return p.syntaxError("GROUP BY names no key")
		default:
			return nil
		}
	}
}

func (p *parser) parseOrderKeys(s *selectNode) error {
	for n := 0; ; n++ {
		desc := p.takeWord("DESC")
		directed := desc || p.takeWord("ASC")
		switch {
		case p.current().kind == variable && !directed:
			s.order = append(s.order, order{e: varExpr(p.vars.indexOf(p.current().text))})
			p.at++
		case p.isSymbol("("), !directed && (p.current().kind == word || p.isIRI()) && !p.isWord("LIMIT") && !p.isWord("OFFSET") &&
			!p.isWord("VALUES"):
			e, err := p.parseConstraint()
			if err != nil {
				return err
			}
			s.order = append(s.order, order{e, desc})
		case n == 0 || directed:
			return p.syntaxError("ORDER BY names no key")
		default:
			return nil
		}
	}
}
