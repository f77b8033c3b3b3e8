package sparql

import (
	"reckon/graph"
)

// group reads { ... } with its filters.
func (p *parser) group() (node, error) {
	whole, filters, err := p.open()
	for _, c := range filters {
		whole = pushFilter(whole, c)
	}
	return whole, err
}

// open reads { ... } and returns its filters separately.
func (p *parser) open() (whole node, filters []expr, err error) {
	if err := p.enterGroup(); err != nil {
		return nil, nil, err
	}
	defer func() { p.depth-- }()
	if err := p.expect("{"); err != nil {
		return nil, nil, err
	}
	if p.isWord("SELECT") {
		s := &selectNode{}
		if err := p.selectQuery(s, nil); err != nil {
			return nil, nil, err
		}
		return s, nil, p.expect("}")
	}
	whole = unit{}
	for !p.takeSymbol("}") {
		if p.tok().kind == end {
			return nil, nil, p.fail("a group has no end; } is missing")
		}
		if p.takeWord("FILTER") {
			e, err := p.constraint()
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
		right, filters, err := p.open() // its filters apply to both sides
		return &leftJoin{before, right, filters, p.vars.newHidden()}, err
	case p.isSymbol("{"):
		n, err := p.alternatives()
		return joinNodes(before, n), err
	case p.takeWord("GRAPH"):
		s, err := p.parseSlot(false)
		if err != nil {
			return nil, err
		}
		inner, err := p.group()
		return joinNodes(before, &graphNode{s, inner}), err
	case p.takeWord("BIND"):
		if !p.isSymbol("(") {
			return nil, p.fail("BIND takes (expression AS ?name)")
		}
		c, err := p.projection()
		if err != nil {
			return nil, err
		}
		if scopeOf(before)[c.v] {
			return nil, p.fail("BIND gives ?%s another value; it is bound before", p.vars.names[c.v])
		}
		return &extend{before, c.v, c.e}, nil
	case p.takeWord("VALUES"):
		v, err := p.valuesBlock()
		return joinNodes(before, v), err
	case p.takeWord("MINUS"):
		right, err := p.group()
		return &minus{before, right}, err
	case p.isWord("SERVICE"):
		return nil, p.unsupported("SERVICE")
	}
	triples, err := p.triples()
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

func (p *parser) alternatives() (node, error) {
	left, err := p.group()
	for err == nil && p.takeWord("UNION") {
		var right node
		if right, err = p.group(); err == nil {
			left = &union{left, right}
		}
	}
	return left, err
}

// parseSlot reads a term or a variable.
func (p *parser) parseSlot(predicate bool) (slot, error) {
	t := p.tok()
	switch {
	case t.kind == variable:
		p.at++
		return slot{v: p.vars.indexOf(t.text)}, nil
	case p.isIRI():
		iri, err := p.iri()
		return slot{term: graph.Node(iri)}, err
	case predicate:
		return slot{}, p.fail("a predicate is an IRI or a variable, not %s", p.tokenText())
	case t.kind == blank:
		p.at++
		v, ok := p.blanks[t.text]
		if !ok {
			v = p.vars.newHidden()
			p.blanks[t.text] = v
		}
		return slot{v: v}, nil
	}
	term, ok, err := p.literal()
	if !ok && err == nil {
		err = p.fail("a term or a variable is expected, not %s", p.tokenText())
	}
	return slot{term: term}, err
}

// triples reads the statements about one subject.
func (p *parser) triples() ([]triple, error) {
	var out []triple
	s, bracket, err := p.object(&out)
	if err != nil {
		return nil, err
	}
	if bracket && (p.isSymbol(".") || p.isSymbol("}")) {
		return out, nil
	}
	return out, p.properties(s, &out)
}

// object reads a term, a variable, [ ] or ( ).
func (p *parser) object(out *[]triple) (s slot, bracket bool, err error) {
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
		if err := p.properties(s, out); err != nil {
			return s, true, err
		}
		return s, true, p.expect("]")
	case p.isSymbol("("):
		return p.list(out)
	}
	s, err = p.parseSlot(false)
	return s, false, err
}

// list reads ( ... ) as statements of rdf:first and rdf:rest.
func (p *parser) list(out *[]triple) (head slot, bracket bool, err error) {
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
		o, _, err := p.object(out)
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

func (p *parser) properties(s slot, out *[]triple) error {
	for {
		by, err := p.verb()
		if err != nil {
			return err
		}
		for {
			o, _, err := p.object(out)
			if err != nil {
				return err
			}
			p.pathTriples(s, by, o, out)
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

// pathTriples writes a path as triples with variables between, as far as it is a sequence.
func (p *parser) pathTriples(s slot, by verb, o slot, out *[]triple) {
	way := by.path
	switch {
	case way == nil:
		*out = append(*out, triple{s: s, p: by.p, o: o})
	case way.op == 'p':
		*out = append(*out, triple{s: s, p: slot{term: way.predicate}, o: o})
	case way.op == '^':
		p.pathTriples(o, verb{path: way.left}, s, out)
	case way.op == '/':
		middle := slot{v: p.vars.newHidden()}
		p.pathTriples(s, verb{path: way.left}, middle, out)
		p.pathTriples(middle, verb{path: way.right}, o, out)
	default:
		*out = append(*out, triple{s: s, o: o, path: way})
	}
}

// maxValues is the maximum number of rows of a VALUES.
const maxValues = 10_000

func (p *parser) valuesBlock() (*values, error) {
	v := &values{}
	single := p.tok().kind == variable
	if !single {
		if err := p.expect("("); err != nil {
			return nil, err
		}
	}
	for p.tok().kind == variable {
		v.vars = append(v.vars, p.vars.indexOf(p.tok().text))
		if p.at++; single {
			break
		}
	}
	if !single {
		if err := p.expect(")"); err != nil {
			return nil, err
		}
	}
	if err := p.expect("{"); err != nil {
		return nil, err
	}
	for !p.takeSymbol("}") {
		if !single {
			if err := p.expect("("); err != nil {
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
				return nil, p.fail("VALUES takes terms, not variables")
			}
			row[i] = s.term
		}
		if v.rows = append(v.rows, row); len(v.rows) > maxValues {
			return nil, p.fail("VALUES has more than %d rows", maxValues)
		}
		if !single {
			if err := p.expect(")"); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
