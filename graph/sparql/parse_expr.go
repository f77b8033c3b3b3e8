package sparql

import (
	"strings"

	"reckon/graph"
)

// constraint parses the operand of FILTER, HAVING and ORDER BY: ( ), a function, or EXISTS.
func (p *parser) constraint() (expr, error) {
	if p.takeSymbol("(") {
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		return e, p.expect(")")
	}
	return p.primary()
}

func (p *parser) expression() (expr, error) {
	if err := p.enterGroup(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	return p.binary(0)
}

// levels are the operators by precedence, the weakest first.
var levels = [][]string{{"||"}, {"&&"}, {"=", "!=", "<", ">", "<=", ">="}, {"+", "-"}, {"*", "/"}}

func (p *parser) operator(level int) string {
	if p.tok().kind == symbol {
		for _, o := range levels[level] {
			if p.tok().text == o {
				return o
			}
		}
	}
	return ""
}

func (p *parser) binary(level int) (expr, error) {
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.binary(level + 1)
	for n := 0; err == nil; n++ {
		if n > 1000 {
			return nil, p.fail("more than 1000 operators in sequence")
		}
		o := p.operator(level)
		if o == "" {
			break
		}
		p.at++
		var right expr
		if right, err = p.binary(level + 1); err == nil {
			left = &operation{o, left, right}
		}
		if level == 2 { // comparisons do not chain
			return left, err
		}
	}
	if level == 2 && err == nil {
		not := p.isWord("NOT") && strings.EqualFold(p.peek().text, "IN")
		if not {
			p.at++
		}
		if p.takeWord("IN") {
			list, err := p.arguments()
			return &inList{left, list, not}, err
		}
	}
	return left, err
}

func (p *parser) unary() (expr, error) {
	for _, o := range []string{"!", "-", "+"} {
		if p.isSymbol(o) {
			if err := p.enterGroup(); err != nil {
				return nil, err
			}
			defer func() { p.depth-- }()
			p.at++
			e, err := p.unary()
			return &negation{o, e}, err
		}
	}
	return p.primary()
}

func (p *parser) arguments() ([]expr, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var out []expr
	for !p.takeSymbol(")") {
		if len(out) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (p *parser) primary() (expr, error) {
	t := p.tok()
	switch {
	case p.isSymbol("("):
		p.at++
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		return e, p.expect(")")
	case t.kind == variable:
		p.at++
		return varExpr(p.vars.indexOf(t.text)), nil
	case p.isIRI():
		iri, err := p.iri()
		if err != nil || !p.isSymbol("(") {
			return constant{graph.Node(iri)}, err
		}
		cast, ok := strings.CutPrefix(iri, graph.XSD)
		if !ok || casts[cast] == nil {
			return nil, p.unsupported("the function <" + iri + ">")
		}
		return p.call(cast, casts[cast], 1, 1)
	}
	if term, ok, err := p.literal(); ok || err != nil {
		return constant{term}, err
	}
	if t.kind != word {
		return nil, p.fail("an expression is expected, not %s", p.tokenText())
	}
	return p.function(strings.ToUpper(t.text))
}

func (p *parser) function(name string) (expr, error) {
	switch name {
	case "EXISTS", "NOT":
		if name == "NOT" {
			p.at++
			if !p.isWord("EXISTS") {
				return nil, p.fail("NOT needs EXISTS")
			}
		}
		p.at++
		inner := p.collecting
		p.collecting = nil
		n, err := p.group()
		p.collecting = inner
		return &exists{n, name == "NOT", p.vars.newHidden()}, err
	case "COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT":
		return p.aggregate(name)
	case "IF":
		p.at++
		args, err := p.arguments()
		if err == nil && len(args) != 3 {
			err = p.fail("IF takes three arguments")
		}
		return &choice{args}, err
	case "COALESCE":
		p.at++
		args, err := p.arguments()
		return &coalesce{args}, err
	case "BOUND":
		p.at++
		args, err := p.arguments()
		if err == nil && len(args) == 1 {
			if v, ok := args[0].(varExpr); ok {
				return boundExpr(v), nil
			}
		}
		if err == nil {
			err = p.fail("BOUND takes one variable")
		}
		return nil, err
	}
	if own, ok := ownFunctions[name]; ok {
		p.at++
		args, err := p.arguments()
		if err == nil && len(args) > own.most {
			err = p.fail("%s does not take %d arguments", name, len(args))
		}
		return &ownCall{args, own.call}, err
	}
	if name == "IRI" || name == "URI" {
		p.at++
		return p.call(name, toIRI(p.base), 1, 1)
	}
	f, ok := functions()[name]
	if !ok {
		return nil, p.unsupported(name)
	}
	p.at++
	return p.call(name, f.call, f.least, f.most)
}

func (p *parser) call(name string, f func([]graph.Term) (graph.Term, error), least, most int) (expr, error) {
	args, err := p.arguments()
	if err == nil && (len(args) < least || most >= 0 && len(args) > most) {
		err = p.fail("%s does not take %d arguments", name, len(args))
	}
	if err == nil && (name == "REGEX" || name == "REPLACE") {
		return &pattern{args: args, replaces: name == "REPLACE"}, nil
	}
	return &call{args, f}, err
}

func (p *parser) aggregate(name string) (expr, error) {
	if p.collecting == nil {
		return nil, p.fail("aggregate %s outside of a group: write it in SELECT, HAVING or ORDER BY", name)
	}
	p.at++
	if err := p.expect("("); err != nil {
		return nil, err
	}
	a := &aggregate{name: name, separator: " ", v: p.vars.newHidden()}
	a.distinct = p.takeWord("DISTINCT")
	into := p.collecting
	p.collecting = nil
	defer func() { p.collecting = into }()
	if name != "COUNT" || !p.takeSymbol("*") {
		var err error
		if a.e, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if name == "GROUP_CONCAT" && p.takeSymbol(";") {
		if !p.takeWord("SEPARATOR") || p.expect("=") != nil || p.tok().kind != quoted {
			return nil, p.fail("GROUP_CONCAT takes ; SEPARATOR = \"text\"")
		}
		a.separator = p.tok().text
		p.at++
	}
	*into = append(*into, a)
	return varExpr(a.v), p.expect(")")
}
