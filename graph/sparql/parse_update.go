package sparql

import (
	"strings"

	"reckon/graph"
)

// maxOperations and maxData limit an update.
const (
	maxOperations = 10_000
	maxData       = 200_000
)

// ParseUpdate reads an update of DROP GRAPH, INSERT DATA and DELETE DATA, separated by semicolons.
func ParseUpdate(text string) (Update, error) {
	p, err := newParser(text)
	if err != nil {
		return nil, err
	}
	var out Update
	for {
		if err := p.parsePrologue(); err != nil {
			return nil, err
		}
		if p.current().kind == end {
			if len(out) == 0 {
				return nil, p.syntaxError("the update is empty")
			}
			return out, nil
		}
		op, err := p.parseOperation()
		if err != nil {
			return nil, err
		}
		if out = append(out, op); len(out) > maxOperations {
			return nil, p.syntaxError("the update has more than %d operations", maxOperations)
		}
		if !p.takeSymbol(";") && p.current().kind != end && !p.isWord("DROP") {
			return nil, p.syntaxError("; is expected, not %s", p.tokenText())
		}
	}
}

func (p *parser) parseOperation() (op Operation, err error) {
	switch {
	case p.takeWord("DROP"):
		op.Silent = p.takeWord("SILENT")
		if !p.takeWord("GRAPH") {
			return op, p.unsupportedError("DROP " + strings.ToUpper(p.current().text))
		}
		op.Drop, err = p.parseIRI()
	case p.isWord("INSERT") && strings.EqualFold(p.peek().text, "DATA"):
		p.at += 2
		op.Insert, err = p.parseData(false)
	case p.isWord("DELETE") && strings.EqualFold(p.peek().text, "DATA"):
		p.at += 2
		op.Delete, err = p.parseData(true)
	case p.current().kind == word:
		err = p.unsupportedError(strings.ToUpper(p.current().text))
	default:
		err = p.syntaxError("DROP GRAPH, INSERT DATA or DELETE DATA is expected, not %s", p.tokenText())
	}
	return op, err
}

// parseData reads { ... } with quads; without GRAPH they are in no named graph.
func (p *parser) parseData(noBlanks bool) (out []graph.Quad, err error) {
	p.isData = true
	defer func() { p.isData = false }()
	if err := p.expectSymbol("{"); err != nil {
		return nil, err
	}
	for !p.takeSymbol("}") {
		if p.takeWord("GRAPH") {
			iri, err := p.parseIRI()
			if err != nil {
				return nil, err
			}
			if err := p.expectSymbol("{"); err != nil {
				return nil, err
			}
			for !p.takeSymbol("}") {
				if out, err = p.parseDataTriples(out, graph.Node(iri), noBlanks); err != nil {
					return nil, err
				}
			}
			p.takeSymbol(".")
			continue
		}
		if out, err = p.parseDataTriples(out, graph.Term{}, noBlanks); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (p *parser) parseDataTriples(out []graph.Quad, g graph.Term, noBlanks bool) ([]graph.Quad, error) {
	list, err := p.parseTriples()
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		q := graph.Quad{S: p.groundTerm(t.s), P: p.groundTerm(t.p), O: p.groundTerm(t.o), G: g}
		if t.path != nil || q.S.IsZero() || q.P.IsZero() || q.O.IsZero() {
			return nil, p.syntaxError("data holds no variables and no paths")
		}
		if noBlanks && (q.S.Kind == graph.Blank || q.O.Kind == graph.Blank) {
			return nil, p.syntaxError("DELETE DATA names no blank nodes")
		}
		if err := q.Check(0); err != nil {
			return nil, p.syntaxError("%v", err)
		}
		if out = append(out, q); len(out) > maxData {
			return nil, p.syntaxError("the data has more than %d statements", maxData)
		}
	}
	p.takeSymbol(".")
	return out, nil
}

// groundTerm returns the term of a slot. A variable that stands for a blank node becomes that blank node again. Any other
// variable gives the zero term.
func (p *parser) groundTerm(s slot) graph.Term {
	if !s.isVar() {
		return s.term
	}
	if name := p.vars.names[s.v]; strings.HasPrefix(name, " ") {
		return graph.BlankNode("d" + strings.TrimSpace(name))
	}
	return graph.Term{}
}
