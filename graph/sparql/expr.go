package sparql

import (
	"errors"
	"strings"

	"reckon/graph"
)

// expr is an expression. Where SPARQL specifies an error, eval returns a typeError. A filter then rejects the row, and
// a BIND leaves its variable unbound.
type expr interface {
	eval(e *eval, row []ID) (graph.Term, error)
	vars(in map[int]bool)
}

type typeError string

func (t typeError) Error() string { return string(t) }

func isTypeError(err error) bool {
	var t typeError
	return errors.As(err, &t)
}

const (
	errUnbound = typeError("a variable is not bound")
	errType    = typeError("an operand is of the wrong type")
)

type (
	constant  struct{ t graph.Term }
	varExpr   int
	boundExpr int
	operation struct {
		op          string
		left, right expr
	}
	negation struct {
		op string
		e  expr
	}
	inList struct {
		e    expr
		list []expr
		not  bool
	}
	call struct {
		args []expr
		f    func([]graph.Term) (graph.Term, error)
	}
	ownCall struct {
		args []expr
		f    func(*eval, []ID, []graph.Term) (graph.Term, error)
	}
	choice   struct{ args []expr }
	coalesce struct{ args []expr }
	exists   struct {
		n   node
		not bool
		tag int
	}
	pattern struct {
		args     []expr
		replaces bool
	}
)

func (c constant) eval(*eval, []ID) (graph.Term, error) { return c.t, nil }
func (constant) vars(map[int]bool)                      {}

func (v varExpr) eval(e *eval, row []ID) (graph.Term, error) {
	if row[v] == 0 {
		return graph.Term{}, errUnbound
	}
	return e.term(row[v])
}
func (v varExpr) vars(in map[int]bool) { in[int(v)] = true }

func (b boundExpr) eval(_ *eval, row []ID) (graph.Term, error) {
	return graph.Boolean(row[b] != 0), nil
}
func (b boundExpr) vars(in map[int]bool) { in[int(b)] = true }

func (o *operation) vars(in map[int]bool) { o.left.vars(in); o.right.vars(in) }

func (o *operation) eval(e *eval, row []ID) (graph.Term, error) {
	if o.op == "||" || o.op == "&&" {
		return o.evalLogic(e, row)
	}
	l, err := o.left.eval(e, row)
	if err != nil {
		return l, err
	}
	r, err := o.right.eval(e, row)
	if err != nil {
		return r, err
	}
	switch o.op {
	case "=", "!=":
		same, err := equalTerms(l, r)
		return graph.Boolean(same == (o.op == "=")), err
	case "<", ">", "<=", ">=":
		c, err := compareTerms(l, r)
		if err != nil {
			return l, err
		}
		return graph.Boolean(c != unordered && (c < 0 && o.op[0] == '<' || c > 0 && o.op[0] == '>' || c == 0 && len(o.op) == 2)), nil
	}
	return evalArithmetic(o.op, l, r)
}

// evalLogic implements || and && in three-valued logic: an error on one side does not matter if the other side decides.
func (o *operation) evalLogic(e *eval, row []ID) (graph.Term, error) {
	decides := o.op == "||"
	l, err := evalTruth(o.left, e, row)
	if err != nil && !isTypeError(err) {
		return graph.Term{}, err
	}
	if err == nil && l == decides {
		return graph.Boolean(decides), nil
	}
	r, err2 := evalTruth(o.right, e, row)
	if err2 == nil && r == decides {
		return graph.Boolean(decides), nil
	}
	if err2 != nil {
		err = err2
	}
	return graph.Boolean(!decides), err
}

func evalTruth(x expr, e *eval, row []ID) (bool, error) {
	v, err := x.eval(e, row)
	if err != nil {
		return false, err
	}
	return effectiveBoolean(v)
}

// effectiveBoolean returns the effective boolean value of a term.
func effectiveBoolean(t graph.Term) (bool, error) {
	switch t.Type() {
	case graph.XSDBoolean:
		return t.Value == "true" || t.Value == "1", nil
	case graph.XSDString, graph.LangString:
		return t.Value != "", nil
	}
	if n, ok := toNumber(t); ok {
		return !n.isZero(), nil
	}
	return false, errType
}

func (n *negation) vars(in map[int]bool) { n.e.vars(in) }

func (n *negation) eval(e *eval, row []ID) (graph.Term, error) {
	v, err := n.e.eval(e, row)
	if err != nil {
		return v, err
	}
	if n.op == "!" {
		b, err := effectiveBoolean(v)
		return graph.Boolean(!b), err
	}
	if _, ok := toNumber(v); !ok {
		return v, errType
	}
	if n.op == "-" {
		return evalArithmetic("-", graph.Integer(0), v)
	}
	return v, nil
}

func (n *inList) vars(in map[int]bool) {
	n.e.vars(in)
	for _, x := range n.list {
		x.vars(in)
	}
}

func (n *inList) eval(e *eval, row []ID) (graph.Term, error) {
	v, err := n.e.eval(e, row)
	if err != nil {
		return v, err
	}
	var failed error
	for _, x := range n.list {
		o, err := x.eval(e, row)
		same := false
		if err == nil {
			same, err = equalTerms(v, o)
		}
		if err != nil && !isTypeError(err) {
			return v, err
		}
		if err != nil {
			failed = err
		}
		if same {
			return graph.Boolean(!n.not), nil
		}
	}
	return graph.Boolean(n.not), failed
}

func argVars(args []expr, in map[int]bool) {
	for _, a := range args {
		a.vars(in)
	}
}

func evalAll(args []expr, e *eval, row []ID) ([]graph.Term, error) {
	out := make([]graph.Term, len(args))
	for i, a := range args {
		v, err := a.eval(e, row)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (c *call) vars(in map[int]bool) { argVars(c.args, in) }
func (c *call) eval(e *eval, row []ID) (graph.Term, error) {
	args, err := evalAll(c.args, e, row)
	if err != nil {
		return graph.Term{}, err
	}
	return c.f(args)
}

func (c *ownCall) vars(in map[int]bool) { argVars(c.args, in) }
func (c *ownCall) eval(e *eval, row []ID) (graph.Term, error) {
	args, err := evalAll(c.args, e, row)
	if err != nil {
		return graph.Term{}, err
	}
	return c.f(e, row, args)
}

func (c *choice) vars(in map[int]bool) { argVars(c.args, in) }
func (c *choice) eval(e *eval, row []ID) (graph.Term, error) {
	yes, err := evalTruth(c.args[0], e, row)
	if err != nil {
		return graph.Term{}, err
	}
	if yes {
		return c.args[1].eval(e, row)
	}
	return c.args[2].eval(e, row)
}

func (c *coalesce) vars(in map[int]bool) { argVars(c.args, in) }
func (c *coalesce) eval(e *eval, row []ID) (graph.Term, error) {
	for _, a := range c.args {
		v, err := a.eval(e, row)
		if err == nil || !isTypeError(err) {
			return v, err
		}
	}
	return graph.Term{}, errUnbound
}

func (x *exists) vars(in map[int]bool) { x.n.scope(in) }

func (x *exists) eval(e *eval, row []ID) (graph.Term, error) {
	t := newTable(e.width)
	if err := e.addRow(t, row); err != nil {
		return graph.Term{}, err
	}
	for v, id := range row {
		t.may[v] = id != 0
	}
	got, err := x.matchRows(e, t)
	if err != nil {
		return graph.Term{}, err
	}
	return graph.Boolean(got.len() > 0 != x.not), nil
}

// matchRows evaluates the pattern with the bindings of the rows substituted.
func (x *exists) matchRows(e *eval, t *table) (*table, error) {
	outer := e.inExists
	e.inExists = true
	defer func() { e.inExists = outer }()
	return x.n.eval(e, t)
}

// filterRows evaluates EXISTS for all rows at once.
func (x *exists) filterRows(e *eval, t *table) (*table, error) {
	got, err := x.matchRows(e, t.withRowNumbers(x.tag))
	if err != nil {
		return nil, err
	}
	found := make([]bool, t.len())
	for i := range got.len() {
		found[got.row(i)[x.tag]-1] = true
	}
	out := newTable(e.width)
	out.merge(t.may)
	for i := range t.len() {
		if found[i] != x.not {
			if err := e.addRow(out, t.row(i)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (p *pattern) vars(in map[int]bool) { argVars(p.args, in) }

func (p *pattern) eval(e *eval, row []ID) (graph.Term, error) {
	args, err := evalAll(p.args, e, row)
	if err != nil {
		return graph.Term{}, err
	}
	for _, a := range args {
		if a.Kind != graph.Literal || a.Datatype != "" {
			return graph.Term{}, errType
		}
	}
	flags, at := "", 2
	if p.replaces {
		at = 3
	}
	if len(args) > at {
		flags = args[at].Value
	}
	re, err := e.compileRegexp(args[1].Value, flags)
	if err != nil {
		return graph.Term{}, err
	}
	if !p.replaces {
		return graph.Boolean(re.MatchString(args[0].Value)), nil
	}
	out := args[0]
	out.Value = re.ReplaceAllString(out.Value, groupNames(args[2].Value))
	if len(out.Value) > maxText {
		return out, typeError("the text is too long")
	}
	return out, nil
}

// groupNames converts $1 of XPath to ${1} of Go, and \$ to $$.
func groupNames(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			if s[i] == '$' {
				b.WriteByte('$')
			}
			b.WriteByte(s[i])
		case s[i] == '$' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			i++
			b.WriteString("${" + s[i:i+1] + "}")
		case s[i] == '$':
			b.WriteString("$$")
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
