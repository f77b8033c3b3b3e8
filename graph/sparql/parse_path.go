package sparql

import "reckon/graph"

// verb reads the part between subject and object: a variable, or a path.
type verb struct {
	p    slot
	path *path
}

func (p *parser) parseVerb() (verb, error) {
	if p.current().kind == variable {
		s, err := p.parseSlot(true)
		if err == nil && (p.isSymbol("*") || p.isSymbol("+") || p.isSymbol("/") || p.isSymbol("|")) {
			err = p.syntaxError("a path must not contain a variable")
		}
		return verb{p: s}, err
	}
	way, err := p.parsePath()
	if err == nil && p.isData && way.op != 'p' {
		err = p.syntaxError("data and templates hold no paths")
	}
	return verb{path: way}, err
}

// parsePath reads alternatives of sequences.
func (p *parser) parsePath() (*path, error) {
	if err := p.enterGroup(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	return p.parsePathChain('|', func() (*path, error) { return p.parsePathChain('/', p.parsePathStep) })
}

// maxSteps is the maximum number of steps in a sequence of a path.
const maxSteps = 1000

func (p *parser) parsePathChain(op byte, part func() (*path, error)) (*path, error) {
	left, err := part()
	for n := 0; err == nil && p.takeSymbol(string(op)); n++ {
		if n > maxSteps {
			return nil, p.syntaxError("a path has more than %d steps", maxSteps)
		}
		var right *path
		if right, err = part(); err == nil {
			left = &path{op: op, left: left, right: right}
		}
	}
	return left, err
}

// parsePathStep reads one part of a sequence, with ^ before and *, + or ? after it.
func (p *parser) parsePathStep() (*path, error) {
	isBack := p.takeSymbol("^")
	var out *path
	var err error
	switch {
	case p.takeSymbol("!"):
		out, err = p.parseNegatedSet()
	case p.takeSymbol("("):
		if out, err = p.parsePath(); err == nil {
			err = p.expectSymbol(")")
		}
	default:
		out = &path{op: 'p'}
		out.predicate, err = p.parsePredicate()
	}
	if err != nil {
		return nil, err
	}
	if p.isSymbol("*") || p.isSymbol("+") || p.isSymbol("?") {
		out = &path{op: p.current().text[0], left: out}
		p.at++
	}
	if isBack {
		out = &path{op: '^', left: out}
	}
	return out, nil
}

func (p *parser) parsePredicate() (graph.Term, error) {
	if p.isWord("a") {
		p.at++
		return graph.Node(graph.RDFType), nil
	}
	s, err := p.parseSlot(true)
	if err == nil && s.isVar() {
		err = p.syntaxError("a path must not contain a variable")
	}
	return s.term, err
}

// parseNegatedSet parses the part after a "!": one predicate, or several in ( ).
func (p *parser) parseNegatedSet() (*path, error) {
	out := &path{op: '!'}
	one := func() error {
		isBack := p.takeSymbol("^")
		t, err := p.parsePredicate()
		if isBack {
			out.notBack, out.isBackward = append(out.notBack, t), true
		} else {
			out.not, out.forwards = append(out.not, t), true
		}
		return err
	}
	if !p.takeSymbol("(") {
		return out, one()
	}
	if p.takeSymbol(")") {
		out.forwards = true
		return out, nil
	}
	for {
		if err := one(); err != nil {
			return nil, err
		}
		if !p.takeSymbol("|") {
			return out, p.expectSymbol(")")
		}
	}
}
