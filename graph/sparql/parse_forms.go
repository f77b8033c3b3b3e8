package sparql

import "reckon/graph"

// parseQueryBody parses sources, pattern and modifiers for the forms other than SELECT.
func (p *parser) parseQueryBody(q *Query, needsPattern bool) error {
	q.sel = selectNode{limit: -1, star: true, where: unit{}}
	outer := p.collecting
	defer func() { p.collecting = outer }()
	p.collecting = &q.sel.aggregates
	if err := p.parseSources(q); err != nil {
		return err
	}
	if needsPattern || p.isWord("WHERE") || p.isSymbol("{") {
		if err := p.parseWhere(&q.sel); err != nil {
			return err
		}
	}
	if err := p.parseModifiers(&q.sel); err != nil {
		return err
	}
	for v := range scopeOf(q.sel.where) {
		q.sel.project = append(q.sel.project, projection{v: v})
	}
	if q.sel.grouped {
		q.sel.project = q.sel.group
	}
	return nil
}

// parseSources reads FROM and FROM NAMED.
func (p *parser) parseSources(q *Query) error {
	for p.takeWord("FROM") {
		to := &q.from
		if p.takeWord("NAMED") {
			to = &q.fromNamed
		}
		iri, err := p.parseIRI()
		if err != nil {
			return err
		}
		*to = append(*to, graph.Node(iri))
	}
	return nil
}

// parseConstruct reads a template and a pattern, or with CONSTRUCT WHERE one for both.
func (p *parser) parseConstruct(q *Query) (err error) {
	if p.isSymbol("{") {
		if q.template, err = p.parseTemplate(); err != nil {
			return err
		}
		return p.parseQueryBody(q, true)
	}
	if err := p.parseSources(q); err != nil {
		return err
	}
	if !p.takeWord("WHERE") {
		return p.syntaxError("CONSTRUCT needs a template in { } or WHERE, not %s", p.tokenText())
	}
	start := p.at
	if q.template, err = p.parseTemplate(); err != nil {
		return err
	}
	p.at = start
	return p.parseQueryBody(q, true)
}

// parseTemplate reads { statements }; its blank nodes are its own.
func (p *parser) parseTemplate() (out []triple, err error) {
	blanks := p.blanks
	p.blanks, p.isData = map[string]int{}, true
	defer func() { p.blanks, p.isData = blanks, false }()
	if err := p.expectSymbol("{"); err != nil {
		return nil, err
	}
	for !p.takeSymbol("}") {
		part, err := p.parseTriples()
		if err != nil {
			return nil, err
		}
		if out = append(out, part...); !p.takeSymbol(".") && !p.isSymbol("}") {
			return nil, p.syntaxError("\".\" or \"}\" is expected, not %s", p.tokenText())
		}
	}
	return out, nil
}

func (p *parser) parseDescribe(q *Query) error {
	for p.current().kind == variable || p.isIRI() {
		s, err := p.parseSlot(false)
		if err != nil {
			return err
		}
		q.resources = append(q.resources, s)
	}
	isAll := len(q.resources) == 0
	if isAll && !p.takeSymbol("*") {
		return p.syntaxError("DESCRIBE needs an IRI, a variable or *, not %s", p.tokenText())
	}
	if err := p.parseQueryBody(q, isAll); err != nil {
		return err
	}
	if isAll {
		for v := range scopeOf(q.sel.where) {
			q.resources = append(q.resources, slot{v: v})
		}
	}
	return nil
}
