package sparql

import (
	"strings"

	"reckon/graph"
)

// parseConstraint parses the operand of FILTER, HAVING and ORDER BY: ( ), a function, or EXISTS.
func (p *parser) parseConstraint() (expr, error) {
	if p.takeSymbol("(") {
		e, err := p.parseExpression()
		if err != nil {
			return nil, err
		}
		return e, p.expectSymbol(")")
	}
	return p.parsePrimary()
}

func (p *parser) parseExpression() (expr, error) {
	if err := p.enterGroup(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	return p.parseBinary(0)
}

// precedence are the operators by precedence, the weakest first.
var precedence = [][]string{{"||"}, {"&&"}, {"=", "!=", "<", ">", "<=", ">="}, {"+", "-"}, {"*", "/"}}

func (p *parser) parseOperator(level int) string {
	if p.current().kind == symbol {
		for _, o := range precedence[level] {
			if p.current().text == o {
				return o
			}
		}
	}
	return ""
}

func (p *parser) parseBinary(level int) (expr, error) {
	if level == len(precedence) {
		return p.parseUnary()
	}
	left, err := p.parseBinary(level + 1)
	for n := 0; err == nil; n++ {
		if n > 1000 {
			return nil, p.syntaxError("more than 1000 operators in sequence")
		}
		o := p.parseOperator(level)
		if o == "" {
			break
		}
		p.at++
		var right expr
		if right, err = p.parseBinary(level + 1); err == nil {
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
			list, err := p.parseArguments()
			return &inList{left, list, not}, err
		}
	}
	return left, err
}

func (p *parser) parseUnary() (expr, error) {
	for _, o := range []string{"!", "-", "+"} {
		if p.isSymbol(o) {
			if err := p.enterGroup(); err != nil {
				return nil, err
			}
			defer func() { p.depth-- }()
			p.at++
			e, err := p.parseUnary()
			return &negation{o, e}, err
		}
	}
	return p.parsePrimary()
}

func (p *parser) parseArguments() ([]expr, error) {
	if err := p.expectSymbol("("); err != nil {
		return nil, err
	}
	var out []expr
	for !p.takeSymbol(")") {
		if len(out) > 0 {
			if err := p.expectSymbol(","); err != nil {
				return nil, err
			}
		}
		e, err := p.parseExpression()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (p *parser) parsePrimary() (expr, error) {
	t := p.current()
	switch {
	case p.isSymbol("("):
		p.at++
		e, err := p.parseExpression()
		if err != nil {
			return nil, err
		}
		return e, p.expectSymbol(")")
	case t.kind == variable:
		p.at++
		return varExpr(p.vars.indexOf(t.text)), nil
	case p.isIRI():
		iri, err := p.parseIRI()
		if err != nil || !p.isSymbol("(") {
			return constant{graph.Node(iri)}, err
		}
		cast, ok := strings.CutPrefix(iri, graph.XSD)
		if !ok || castFunctions[cast] == nil {
			return nil, p.unsupportedError("the function <" + iri + ">")
		}
		return p.parseCall(cast, castFunctions[cast], 1, 1)
	}
	if term, ok, err := p.parseLiteral(); ok || err != nil {
		return constant{term}, err
	}
	if t.kind != word {
		return nil, p.syntaxError("an expression is expected, not %s", p.tokenText())
	}
	return p.parseFunction(strings.ToUpper(t.text))
}

func (p *parser) parseFunction(name string) (expr, error) {
	switch name {
	case "EXISTS", "NOT":
		if name == "NOT" {
			p.at++
			if !p.isWord("EXISTS") {
				return nil, p.syntaxError("NOT needs EXISTS")
			}
		}
		p.at++
		inner := p.collecting
		p.collecting = nil
		n, err := p.parseGroup()
		p.collecting = inner
		return &exists{n, name == "NOT", p.vars.newHidden()}, err
	case "COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT":
		return p.parseAggregate(name)
	case "IF":
		p.at++
		args, err := p.parseArguments()
		if err == nil && len(args) != 3 {
			err = p.syntaxError("IF takes three arguments")
		}
		return &choice{args}, err
	case "COALESCE":
		p.at++
		args, err := p.parseArguments()
		return &coalesce{args}, err
	case "BOUND":
		p.at++
		args, err := p.parseArguments()
		if err == nil && len(args) == 1 {
			if v, ok := args[0].(varExpr); ok {
				return boundExpr(v), nil
			}
		}
		if err == nil {
			err = p.syntaxError("BOUND takes one variable")
		}
		return nil, err
	}
	if own, ok := ownFunctions[name]; ok {
		p.at++
		args, err := p.parseArguments()
		if err == nil && len(args) > own.most {
			err = p.syntaxError("%s does not take %d arguments", name, len(args))
		}
		return &ownCall{args, own.call}, err
	}
	if name == "IRI" || name == "URI" {
		p.at++
		return p.parseCall(name, iriFunction(p.base), 1, 1)
	}
	f, ok := builtinFunctions()[name]
	if !ok {
		return nil, p.unsupportedError(name)
	}
	p.at++
	return p.parseCall(name, f.call, f.least, f.most)
}

func (p *parser) parseCall(name string, f func([]graph.Term) (graph.Term, error), least, most int) (expr, error) {
	args, err := p.parseArguments()
	if err == nil && (len(args) < least || most >= 0 && len(args) > most) {
		err = p.syntaxError("%s does not take %d arguments", name, len(args))
	}
	if err == nil && (name == "REGEX" || name == "REPLACE") {
		return &pattern{args: args, replaces: name == "REPLACE"}, nil
	}
	return &call{args, f}, err
}

func (p *parser) parseAggregate(name string) (expr, error) {
	if p.collecting == nil {
		return nil, p.syntaxError("aggregate %s outside of a group: write it in SELECT, HAVING or ORDER BY", name)
	}
	p.at++
	if err := p.expectSymbol("("); err != nil {
		return nil, err
	}
	a := &aggregate{name: name, separator: " ", v: p.vars.newHidden()}
	a.distinct = p.takeWord("DISTINCT")
	into := p.collecting
	p.collecting = nil
	defer func() { p.collecting = into }()
	if name != "COUNT" || !p.takeSymbol("*") {
		var err error
		if a.e, err = p.parseExpression(); err != nil {
			return nil, err
		}
	}
	if name == "GROUP_CONCAT" && p.takeSymbol(";") {
		if !p.takeWord("SEPARATOR") || p.expectSymbol("=") != nil || p.current().kind != quoted {
			return nil, p.syntaxError("GROUP_CONCAT takes ; SEPARATOR = \"text\"")
		}
		a.separator = p.current().text
		p.at++
	}
	*into = append(*into, a)
	return varExpr(a.v), p.expectSymbol(")")
}
