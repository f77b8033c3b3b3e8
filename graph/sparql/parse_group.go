package sparql

import (
	"reckon/graph"
)

// parseGroup reads { ... } with its filters.
func (p *parser) parseGroup() (node, error) {
	whole, filters, err := p.parseGroupParts()
	for _, c := range filters {
		whole = pushFilter(whole, c)
	}
	return whole, err
}

// parseGroupParts reads { ... } and returns its filters separately.
func (p *parser) parseGroupParts() (whole node, filters []expr, err error) {
	if err := p.enterGroup(); err != nil {
		return nil, nil, err
	}
	defer func() { p.depth-- }()
	if err := p.expectSymbol("{"); err != nil {
		return nil, nil, err
	}
	if p.isWord("SELECT") {
		s := &selectNode{}
		if err := p.parseSelect(s, nil); err != nil {
			return nil, nil, err
		}
		return s, nil, p.expectSymbol("}")
	}
	whole = unit{}
	for !p.takeSymbol("}") {
		if p.current().kind == end {
			return nil, nil, p.syntaxError("a group has no end; } is missing")
		}
		if p.takeWord("FILTER") {
			e, err := p.parseConstraint()
			if err != nil {
				return nil, nil, err
			}
			filters = append(filters, e)
		} else {
			next, err := p.parseElement(whole)
			if err != nil {
				return nil, nil, err
			}
			whole = next
		}
		p.takeSymbol(".")
	}
	return whole, filters, nil
}

func joinNodes(left, right node) node {
	if _, ok := left.(unit); ok {
		return right
	}
	return &join{left, right}
}

// parseElement reads one part of a group and joins it to the earlier parts.
func (p *parser) parseElement(before node) (node, error) {
	switch {
	case p.takeWord("OPTIONAL"):
		right, filters, err := p.parseGroupParts() // its filters apply to both sides
		return &leftJoin{before, right, filters, p.vars.newHidden()}, err
	case p.isSymbol("{"):
		n, err := p.parseAlternatives()
		return joinNodes(before, n), err
	case p.takeWord("GRAPH"):
		s, err := p.parseSlot(false)
		if err != nil {
			return nil, err
		}
		inner, err := p.parseGroup()
		return joinNodes(before, &graphNode{s, inner}), err
	case p.takeWord("BIND"):
		if !p.isSymbol("(") {
			return nil, p.syntaxError("BIND takes (expression AS ?name)")
		}
		c, err := p.parseProjection()
		if err != nil {
			return nil, err
		}
		if scopeOf(before)[c.v] {
			return nil, p.syntaxError("BIND gives ?%s another value; it is bound before", p.vars.names[c.v])
		}
		return &extend{before, c.v, c.e}, nil
	case p.takeWord("VALUES"):
		v, err := p.parseValues()
		return joinNodes(before, v), err
	case p.takeWord("MINUS"):
		right, err := p.parseGroup()
		return &minus{before, right}, err
	case p.isWord("SERVICE"):
		return nil, p.unsupportedError("SERVICE")
	}
	triples, err := p.parseTriples()
	if err != nil {
		return nil, err
	}
	if b, ok := before.(*bgp); ok {
		return &bgp{append(b.triples[:len(b.triples):len(b.triples)], triples...)}, nil
	}
	if j, ok := before.(*join); ok {
		if b, ok := j.right.(*bgp); ok {
			return &join{j.left, &bgp{append(b.triples[:len(b.triples):len(b.triples)], triples...)}}, nil
		}
	}
	return joinNodes(before, &bgp{triples}), nil
}

func (p *parser) parseAlternatives() (node, error) {
	left, err := p.parseGroup()
	for err == nil && p.takeWord("UNION") {
		var right node
		if right, err = p.parseGroup(); err == nil {
			left = &union{left, right}
		}
	}
	return left, err
}

// parseSlot reads a term or a variable.
func (p *parser) parseSlot(predicate bool) (slot, error) {
	t := p.current()
	switch {
	case t.kind == variable:
		p.at++
		return slot{v: p.vars.indexOf(t.text)}, nil
	case p.isIRI():
		iri, err := p.parseIRI()
		return slot{term: graph.Node(iri)}, err
	case predicate:
		return slot{}, p.syntaxError("a predicate is an IRI or a variable, not %s", p.tokenText())
	case t.kind == blank:
		p.at++
		v, ok := p.blanks[t.text]
		if !ok {
			v = p.vars.newHidden()
			p.blanks[t.text] = v
		}
		return slot{v: v}, nil
	}
	term, ok, err := p.parseLiteral()
	if !ok && err == nil {
		err = p.syntaxError("a term or a variable is expected, not %s", p.tokenText())
	}
	return slot{term: term}, err
}

// parseTriples reads the statements about one subject.
func (p *parser) parseTriples() ([]triple, error) {
	var out []triple
	s, bracket, err := p.parseObject(&out)
	if err != nil {
		return nil, err
	}
	if bracket && (p.isSymbol(".") || p.isSymbol("}")) {
		return out, nil
	}
	return out, p.parseProperties(s, &out)
}

// parseObject reads a term, a variable, [ ] or ( ).
func (p *parser) parseObject(out *[]triple) (s slot, bracket bool, err error) {
	switch {
	case p.takeSymbol("["):
		s = slot{v: p.vars.newHidden()}
		if p.takeSymbol("]") {
			return s, false, nil
		}
		if err := p.enterGroup(); err != nil {
			return s, true, err
		}
		defer func() { p.depth-- }()
		if err := p.parseProperties(s, out); err != nil {
			return s, true, err
		}
		return s, true, p.expectSymbol("]")
	case p.isSymbol("("):
		return p.parseList(out)
	}
	s, err = p.parseSlot(false)
	return s, false, err
}

// parseList reads ( ... ) as statements of rdf:first and rdf:rest.
func (p *parser) parseList(out *[]triple) (head slot, bracket bool, err error) {
	if err := p.enterGroup(); err != nil {
		return head, false, err
	}
	defer func() { p.depth-- }()
	p.at++
	head = slot{term: graph.Node(graph.RDF + "nil")}
	if p.takeSymbol(")") {
		return head, false, nil
	}
	head = slot{v: p.vars.newHidden()}
	for cell := head; ; {
		o, _, err := p.parseObject(out)
		if err != nil {
			return head, true, err
		}
		rest := slot{term: graph.Node(graph.RDF + "nil")}
		isLast := p.takeSymbol(")")
		if !isLast {
			rest = slot{v: p.vars.newHidden()}
		}
		*out = append(*out, triple{s: cell, p: slot{term: graph.Node(graph.RDF + "first")}, o: o},
			triple{s: cell, p: slot{term: graph.Node(graph.RDF + "rest")}, o: rest})
		if isLast {
			return head, true, nil
		}
		cell = rest
	}
}

func (p *parser) parseProperties(s slot, out *[]triple) error {
	for {
		by, err := p.parseVerb()
		if err != nil {
			return err
		}
		for {
			o, _, err := p.parseObject(out)
			if err != nil {
				return err
			}
			p.expandPath(s, by, o, out)
			if !p.takeSymbol(",") {
				break
			}
		}
		if !p.takeSymbol(";") {
			return nil
		}
		for p.takeSymbol(";") {
		}
		if p.isSymbol(".") || p.isSymbol("}") || p.isSymbol("]") {
			return nil
		}
	}
}

// expandPath writes a path as triples with variables between, as far as it is a sequence.
func (p *parser) expandPath(s slot, by verb, o slot, out *[]triple) {
	way := by.path
	switch {
	case way == nil:
		*out = append(*out, triple{s: s, p: by.p, o: o})
	case way.op == 'p':
		*out = append(*out, triple{s: s, p: slot{term: way.predicate}, o: o})
	case way.op == '^':
		p.expandPath(o, verb{path: way.left}, s, out)
	case way.op == '/':
		middle := slot{v: p.vars.newHidden()}
		p.expandPath(s, verb{path: way.left}, middle, out)
		p.expandPath(middle, verb{path: way.right}, o, out)
	default:
		*out = append(*out, triple{s: s, o: o, path: way})
	}
}

// maxValues is the maximum number of rows of a VALUES.
const maxValues = 10_000

func (p *parser) parseValues() (*values, error) {
	v := &values{}
	single := p.current().kind == variable
	if !single {
		if err := p.expectSymbol("("); err != nil {
			return nil, err
		}
	}
	for p.current().kind == variable {
		v.vars = append(v.vars, p.vars.indexOf(p.current().text))
		if p.at++; single {
			break
		}
	}
	if !single {
		if err := p.expectSymbol(")"); err != nil {
			return nil, err
		}
	}
	if err := p.expectSymbol("{"); err != nil {
		return nil, err
	}
	for !p.takeSymbol("}") {
		if !single {
			if err := p.expectSymbol("("); err != nil {
				return nil, err
			}
		}
		row := make([]graph.Term, len(v.vars))
		for i := range row {
			if p.takeWord("UNDEF") {
				continue
			}
			s, err := p.parseSlot(false)
			if err != nil {
				return nil, err
			}
			if s.isVar() {
				return nil, p.syntaxError("VALUES takes terms, not variables")
			}
			row[i] = s.term
		}
		if v.rows = append(v.rows, row); len(v.rows) > maxValues {
			return nil, p.syntaxError("VALUES has more than %d rows", maxValues)
		}
		if !single {
			if err := p.expectSymbol(")"); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
