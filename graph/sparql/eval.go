package sparql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"reckon/graph"
)

// table is rows of ids, one column for each variable of the query.
type table struct {
	width int
	data  []ID
	may   []bool // columns that are bound in some row
}

func newTable(width int) *table { return &table{width: width, may: make([]bool, width)} }

func (t *table) len() int {
	if t.width == 0 {
		return len(t.data)
	}
	return len(t.data) / t.width
}

func (t *table) row(i int) []ID { return t.data[i*t.width : (i+1)*t.width] }

func (t *table) merge(may []bool) {
	for i, m := range may {
		t.may[i] = t.may[i] || m
	}
}

// eval is one evaluation of a query.
type eval struct {
	ctx     context.Context
	data    Dataset
	limits  Limits
	width   int
	graph   ID // the active graph; 0 is the union of all, or of from
	from    []ID
	graphs  []ID
	steps   int
	ids     map[graph.Term]ID
	terms   map[ID]graph.Term
	real    map[ID]ID // for local ids: the id of the term in the data, or the local id itself
	regexps map[string]*regexp.Regexp
	start   time.Time // NOW
	minted  int       // blank nodes
	// solution are the columns that BNODE distinguishes rows by, before SELECT adds others; nil are all.
	solution []bool
	// inExists is set while the pattern of EXISTS is evaluated for rows of its filter.
	inExists bool
}

// Run answers the query.
func (q *Query) Run(ctx context.Context, data Dataset, limits Limits) (*Result, error) {
	if limits.Rows <= 0 {
		limits.Rows = 1_000_000
	}
	if limits.Cells <= 0 {
		limits.Cells = 16_000_000
	}
	if limits.Time <= 0 {
		limits.Time = 30 * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limits.Time,
		fmt.Errorf("%w: no result within %v; narrow the query", ErrTooMuch, limits.Time))
	defer cancel()
	e := &eval{ctx: ctx, data: data, limits: limits, width: len(q.vars.names) + 1, ids: map[graph.Term]ID{}, terms: map[ID]graph.Term{},
		real: map[ID]ID{}, regexps: map[string]*regexp.Regexp{}, start: time.Now()}
	err := q.selectGraphs(e)
	var out *Result
	if err == nil {
		out, err = q.run(e)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return out, err
}

func (q *Query) run(e *eval) (*Result, error) {
	switch q.form {
	case constructForm, describeForm:
		return q.buildStatements(e)
	case askForm:
		t, err := q.sel.where.eval(e, e.emptyBinding())
		if err != nil {
			return nil, err
		}
		yes := t.len() > 0
		return &Result{Ask: &yes}, nil
	}
	t, err := q.sel.eval(e, e.emptyBinding())
	if err != nil {
		return nil, err
	}
	out := &Result{Vars: q.Vars(), Rows: make([][]graph.Term, t.len())}
	var columns []int
	for _, c := range q.sel.project {
		columns = append(columns, c.v)
	}
	if err := e.fetchTerms(t, columns); err != nil {
		return nil, err
	}
	cells := make([]graph.Term, t.len()*len(columns))
	for i := range out.Rows {
		row := t.row(i)
		out.Rows[i], cells = cells[:len(columns):len(columns)], cells[len(columns):]
		for j, c := range columns {
			if row[c] != 0 {
				out.Rows[i][j] = e.terms[row[c]]
			}
		}
	}
	return out, nil
}

// emptyBinding returns one row without bindings.
func (e *eval) emptyBinding() *table {
	t := newTable(e.width)
	t.data = make([]ID, e.width)
	return t
}

// checkTime ends a query that has exceeded its time; it is cheap enough for every step.
func (e *eval) checkTime() error {
	if e.steps++; e.steps&1023 == 0 {
		return e.ctx.Err()
	}
	return nil
}

// addRow appends a row within the limits.
func (e *eval) addRow(t *table, row []ID) error {
	if len(t.data)+t.width > e.limits.Cells || t.len() >= e.limits.Rows {
		return fmt.Errorf("%w: a step of it has more than %d rows; narrow it", ErrTooMuch, t.len())
	}
	t.data = append(t.data, row...)
	return e.checkTime()
}

// addRows appends the rows of a table within the limits.
func (e *eval) addRows(t, rows *table) error {
	if len(t.data)+len(rows.data) > e.limits.Cells || t.len()+rows.len() > e.limits.Rows {
		return fmt.Errorf("%w: a step of it has more than %d rows; narrow it", ErrTooMuch, t.len())
	}
	t.data = append(t.data, rows.data...)
	return e.ctx.Err()
}

// localID returns an id for a term that is valid only in this query.
func (e *eval) localID(t graph.Term) ID {
	if t.IsZero() {
		return 0
	}
	if id, ok := e.ids[t]; ok {
		return id
	}
	id := local + ID(len(e.ids)) + 1
	e.ids[t], e.terms[id] = id, t
	return id
}

// dataID returns the id of a term in the data, or the local id if the data does not have the term.
func (e *eval) dataID(id ID) (ID, error) {
	if id < local {
		return id, nil
	}
	if real, ok := e.real[id]; ok {
		return real, nil
	}
	found, err := e.data.Find(e.ctx, []graph.Term{e.terms[id]})
	if err != nil {
		return 0, err
	}
	if found[0] == 0 {
		e.real[id] = id
	} else {
		e.real[id] = found[0]
		e.terms[found[0]] = e.terms[id]
	}
	return e.real[id], nil
}

// unifyColumns gives equal terms in the columns the same id.
func (e *eval) unifyColumns(t *table, columns []int) error {
	for i := range t.len() {
		row := t.row(i)
		for _, c := range columns {
			id, err := e.dataID(row[c])
			if err != nil {
				return err
			}
			row[c] = id
		}
	}
	return nil
}

// fetchTerms loads the terms of columns.
func (e *eval) fetchTerms(t *table, columns []int) error {
	var missing []ID
	seen := map[ID]bool{}
	for i := range t.len() {
		row := t.row(i)
		for _, c := range columns {
			id := row[c]
			if id == 0 || id >= local || seen[id] {
				continue
			}
			seen[id] = true
			if _, ok := e.terms[id]; !ok {
				missing = append(missing, id)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	terms, err := e.data.Terms(e.ctx, missing)
	if err != nil {
		return err
	}
	for i, id := range missing {
		e.terms[id] = terms[i]
	}
	return nil
}

// term returns the term of an id, and loads it if fetch did not.
func (e *eval) term(id ID) (graph.Term, error) {
	if t, ok := e.terms[id]; ok || id == 0 {
		return t, nil
	}
	list, err := e.data.Terms(e.ctx, []ID{id})
	if err != nil {
		return graph.Term{}, err
	}
	e.terms[id] = list[0]
	return list[0], nil
}

func (unit) eval(_ *eval, seeds *table) (*table, error) { return seeds, nil }

func (n *join) eval(e *eval, seeds *table) (*table, error) {
	left, err := n.left.eval(e, seeds)
	if err != nil || left.len() == 0 {
		return left, err
	}
	return n.right.eval(e, left)
}

func (n *union) eval(e *eval, seeds *table) (*table, error) {
	left, err := n.left.eval(e, seeds)
	if err != nil {
		return nil, err
	}
	right, err := n.right.eval(e, seeds)
	if err != nil {
		return nil, err
	}
	out := newTable(e.width)
	out.merge(left.may)
	out.merge(right.may)
	if err := cmp.Or(e.addRows(out, left), e.addRows(out, right)); err != nil {
		return nil, err
	}
	return out, nil
}

// evalSeparately evaluates a node without the bindings of seeds, and then joins its rows with seeds. It is for nodes
// that must not see those bindings.
func (e *eval) evalSeparately(seeds *table, run func(*table) (*table, error)) (*table, error) {
	t, err := run(e.emptyBinding())
	if err != nil {
		return nil, err
	}
	return e.hashJoin(seeds, t)
}

// hidesBinding reports whether seeds bind one of vars that is not in scope.
func (e *eval) hidesBinding(seeds *table, vars, scope map[int]bool) bool {
	if e.inExists { // there the outer row is substituted before the pattern is evaluated
		return false
	}
	for v := range vars {
		if seeds.may[v] && !scope[v] {
			return true
		}
	}
	return false
}

func (n *filter) eval(e *eval, seeds *table) (*table, error) {
	vars := map[int]bool{}
	for _, c := range n.conditions {
		c.vars(vars)
	}
	if e.hidesBinding(seeds, vars, scopeOf(n.inner)) {
		return e.evalSeparately(seeds, func(s *table) (*table, error) { return n.eval(e, s) })
	}
	t, err := n.inner.eval(e, seeds)
	if err != nil {
		return nil, err
	}
	return e.filter(t, n.conditions)
}

// filter returns the rows that satisfy all conditions.
func (e *eval) filter(t *table, conditions []expr) (*table, error) {
	for _, c := range conditions {
		if x, ok := c.(*exists); ok {
			next, err := x.filterRows(e, t)
			if err != nil {
				return nil, err
			}
			t = next
			continue
		}
		if err := e.fetchVariables(t, c); err != nil {
			return nil, err
		}
		out := newTable(e.width)
		out.merge(t.may)
		for i := range t.len() {
			v, err := c.eval(e, t.row(i))
			if err == nil {
				var yes bool
				if yes, err = effectiveBoolean(v); err == nil && yes {
					err = e.addRow(out, t.row(i))
				}
			}
			if err != nil && !isTypeError(err) {
				return nil, err
			}
		}
		t = out
	}
	return t, nil
}

// fetchVariables loads the terms that an expression uses.
func (e *eval) fetchVariables(t *table, x expr) error {
	vars := map[int]bool{}
	x.vars(vars)
	columns := slices.Collect(maps.Keys(vars))
	return e.fetchTerms(t, columns)
}

func (n *extend) eval(e *eval, seeds *table) (*table, error) {
	vars := map[int]bool{n.v: true}
	n.e.vars(vars)
	if e.hidesBinding(seeds, vars, scopeOf(n.inner)) {
		return e.evalSeparately(seeds, func(s *table) (*table, error) { return n.eval(e, s) })
	}
	t, err := n.inner.eval(e, seeds)
	if err != nil {
		return nil, err
	}
	return e.assignColumn(t, n.v, n.e)
}

func (e *eval) assignColumn(t *table, v int, x expr) (*table, error) {
	if err := e.fetchVariables(t, x); err != nil {
		return nil, err
	}
	out := newTable(e.width)
	out.merge(t.may)
	out.may[v] = true
	out.data = make([]ID, 0, len(t.data))
	row := make([]ID, e.width)
	for i := range t.len() {
		copy(row, t.row(i))
		got, err := x.eval(e, row)
		if err != nil && !isTypeError(err) {
			return nil, err
		}
		row[v] = 0
		if err == nil {
			row[v] = e.localID(got)
		}
		if err := e.addRow(out, row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (n *leftJoin) eval(e *eval, seeds *table) (*table, error) {
	leftScope, right := scopeOf(n.left), scopeOf(n.right)
	for _, f := range n.filters {
		f.vars(right)
	}
	if e.hidesBinding(seeds, right, leftScope) {
		return e.evalSeparately(seeds, func(s *table) (*table, error) { return n.eval(e, s) })
	}
	left, err := n.left.eval(e, seeds)
	if err != nil || left.len() == 0 {
		return left, err
	}
	tagged := left.withRowNumbers(n.tag)
	both, err := n.right.eval(e, tagged)
	if err != nil {
		return nil, err
	}
	if both, err = e.filter(both, n.filters); err != nil {
		return nil, err
	}
	found := make([]bool, left.len())
	for i := range both.len() {
		row := both.row(i)
		found[row[n.tag]-1] = true
		row[n.tag] = 0
	}
	both.may[n.tag] = false
	both.merge(left.may)
	for i, f := range found {
		if !f {
			if err := e.addRow(both, left.row(i)); err != nil {
				return nil, err
			}
		}
	}
	return both, nil
}

// eval returns the rows of the left side, except those that match a row of the right side. Two rows match if they bind
// at least one common variable and have equal values in all of them.
func (n *minus) eval(e *eval, seeds *table) (*table, error) {
	if e.hidesBinding(seeds, scopeOf(n.right), scopeOf(n.left)) {
		return e.evalSeparately(seeds, func(s *table) (*table, error) { return n.eval(e, s) })
	}
	left, err := n.left.eval(e, seeds)
	if err != nil || left.len() == 0 {
		return left, err
	}
	right, err := n.right.eval(e, e.emptyBinding())
	if err != nil {
		return nil, err
	}
	x, err := e.indexRows(left, right)
	if err != nil {
		return nil, err
	}
	out := newTable(e.width)
	out.merge(left.may)
	for i := range left.len() {
		row := left.row(i)
		isGone := false
		for _, j := range x.candidates(row) {
			if isGone = isExcludedBy(right.row(int(j)), row, x.shared); isGone {
				break
			}
			if err := e.checkTime(); err != nil {
				return nil, err
			}
		}
		if !isGone {
			if err := e.addRow(out, row); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// isExcludedBy reports whether two rows share the value of one variable and differ in none.
func isExcludedBy(a, b []ID, vars []int) (alike bool) {
	for _, v := range vars {
		switch {
		case a[v] == 0 || b[v] == 0:
		case a[v] != b[v]:
			return false
		default:
			alike = true
		}
	}
	return alike
}

// withRowNumbers returns a copy with the number of each row, from 1, in a column.
func (t *table) withRowNumbers(column int) *table {
	out := &table{t.width, slices.Clone(t.data), slices.Clone(t.may)}
	for i := range out.len() {
		out.row(i)[column] = ID(i + 1)
	}
	out.may[column] = true
	return out
}

func (n *values) eval(e *eval, seeds *table) (*table, error) {
	t := newTable(e.width)
	row := make([]ID, e.width)
	for _, r := range n.rows {
		clear(row)
		for i, v := range n.vars {
			row[v] = e.localID(r[i])
			t.may[v] = t.may[v] || row[v] != 0
		}
		if err := e.addRow(t, row); err != nil {
			return nil, err
		}
	}
	return e.hashJoin(seeds, t)
}

func (n *graphNode) eval(e *eval, seeds *table) (*table, error) {
	outer := e.graph
	defer func() { e.graph = outer }()
	if err := e.listGraphs(); err != nil {
		return nil, err
	}
	if n.name.isVar() {
		return n.evalGraphs(e, seeds)
	}
	id, err := e.dataID(e.localID(n.name.term))
	if err != nil {
		return nil, err
	}
	if u, ok := e.data.(Unlisted); !slices.Contains(e.graphs, id) && !(ok && e.from == nil && u.Unlisted(id)) {
		return newTable(e.width), nil
	}
	e.graph = id
	return n.inner.eval(e, seeds)
}

// evalGraphs evaluates the group in every graph that the seeds allow.
func (n *graphNode) evalGraphs(e *eval, seeds *table) (*table, error) {
	v := n.name.v
	by := map[ID][]int{} // rows of seeds
	for i := range seeds.len() {
		id, err := e.dataID(seeds.row(i)[v])
		if err != nil {
			return nil, err
		}
		by[id] = append(by[id], i)
	}
	out := newTable(e.width)
	for _, g := range e.graphs {
		rows := append(slices.Clone(by[g]), by[0]...)
		if len(rows) == 0 {
			continue
		}
		part := newTable(e.width)
		part.merge(seeds.may)
		part.may[v] = true
		for _, i := range rows {
			if err := e.addRow(part, seeds.row(i)); err != nil {
				return nil, err
			}
			part.row(part.len() - 1)[v] = g
		}
		e.graph = g
		t, err := n.inner.eval(e, part)
		if err != nil {
			return nil, err
		}
		out.merge(t.may)
		if err := e.addRows(out, t); err != nil {
			return nil, err
		}
	}
	out.may[v] = true
	return out, nil
}

// ErrNoTerm is an error of the data set: it has no term for an id that it returned.
var ErrNoTerm = errors.New("the store has no term for one of its ids")
