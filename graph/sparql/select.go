package sparql

import (
	"slices"

	"reckon/graph"
)

// eval evaluates a SELECT on its own; variables that are not among its columns are local.
func (n *selectNode) eval(e *eval, seeds *table) (*table, error) {
	outer := e.inExists
	e.inExists = false
	defer func() { e.inExists = outer }()
	t, err := n.where.eval(e, e.emptyBinding())
	if err != nil {
		return nil, err
	}
	if n.grouped {
		if t, err = n.aggregateRows(e, t); err != nil {
			return nil, err
		}
		if t, err = e.filter(t, n.having); err != nil {
			return nil, err
		}
	}
	outerRow := e.solution
	defer func() { e.solution = outerRow }()
	e.solution = slices.Clone(t.may)
	for _, c := range n.project {
		if c.e != nil {
			if t, err = e.assignColumn(t, c.v, c.e); err != nil {
				return nil, err
			}
		}
	}
	if len(n.order) > 0 {
		if t, err = n.sortRows(e, t); err != nil {
			return nil, err
		}
	}
	if t, err = n.selectColumns(e, t); err != nil {
		return nil, err
	}
	from := min(n.offset, t.len())
	to := t.len()
	if n.limit >= 0 {
		to = min(to, from+n.limit)
	}
	t.data = t.data[from*t.width : to*t.width]
	if seeds.len() == 1 && !slices.Contains(seeds.may, true) {
		return t, nil // nothing to join, and the order is preserved
	}
	return e.hashJoin(seeds, t)
}

// selectColumns clears variables that are not projected, and removes duplicates for DISTINCT.
func (n *selectNode) selectColumns(e *eval, t *table) (*table, error) {
	keep := make([]bool, e.width)
	var list []int
	for _, c := range n.project {
		keep[c.v] = true
		list = append(list, c.v)
	}
	out := newTable(e.width)
	for v := range keep {
		out.may[v] = keep[v] && t.may[v]
	}
	seen := map[string]bool{}
	if n.distinct {
		if err := e.unifyColumns(t, list); err != nil {
			return nil, err
		}
	}
	var key []byte
	for i := range t.len() {
		row := t.row(i)
		for v := range row {
			if !keep[v] {
				row[v] = 0
			}
		}
		if n.distinct {
			key = appendKey(key[:0], row, list)
			if seen[string(key)] {
				continue
			}
			seen[string(key)] = true
		}
		if err := e.addRow(out, row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (n *selectNode) sortRows(e *eval, t *table) (*table, error) {
	keys := make([][]graph.Term, t.len())
	cells := make([]graph.Term, t.len()*len(n.order))
	for _, o := range n.order {
		if err := e.fetchVariables(t, o.e); err != nil {
			return nil, err
		}
	}
	for i := range keys {
		keys[i], cells = cells[:len(n.order):len(n.order)], cells[len(n.order):]
		for j, o := range n.order {
			v, err := o.e.eval(e, t.row(i))
			if err != nil && !isTypeError(err) {
				return nil, err
			}
			if err == nil {
				keys[i][j] = v
			}
		}
		if err := e.checkTime(); err != nil {
			return nil, err
		}
	}
	at := make([]int, len(keys))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int {
		for j, o := range n.order {
			if c := compareForOrder(keys[a][j], keys[b][j]); c != 0 {
				if o.desc {
					return -c
				}
				return c
			}
		}
		return 0
	})
	out := newTable(e.width)
	out.merge(t.may)
	out.data = make([]ID, 0, len(t.data))
	for _, i := range at {
		out.data = append(out.data, t.row(i)...)
	}
	return out, nil
}

// aggregateRows returns one row for each group, with the keys and the values of the aggregates.
func (n *selectNode) aggregateRows(e *eval, t *table) (*table, error) {
	var err error
	var keys []int
	for _, g := range n.group {
		if g.e != nil {
			if t, err = e.assignColumn(t, g.v, g.e); err != nil {
				return nil, err
			}
		}
		keys = append(keys, g.v)
	}
	if err := e.unifyColumns(t, keys); err != nil {
		return nil, err
	}
	groups := map[string][]int{}
	var names []string
	var key []byte
	for i := range t.len() {
		key = appendKey(key[:0], t.row(i), keys)
		if groups[string(key)] == nil {
			names = append(names, string(key))
		}
		groups[string(key)] = append(groups[string(key)], i)
	}
	if len(names) == 0 && len(keys) == 0 {
		names = []string{""} // without a key, no rows are one group
	}
	for _, a := range n.aggregates {
		if a.e != nil {
			if err := e.fetchVariables(t, a.e); err != nil {
				return nil, err
			}
		}
	}
	out := newTable(e.width)
	row := make([]ID, e.width)
	for _, name := range names {
		clear(row)
		rows := groups[name]
		for _, k := range keys {
			row[k] = t.row(rows[0])[k]
			out.may[k] = true
		}
		for _, a := range n.aggregates {
			v, err := a.compute(e, t, rows)
			if err != nil && !isTypeError(err) {
				return nil, err
			}
			if err == nil {
				row[a.v] = e.localID(v)
			}
			out.may[a.v] = true
		}
		if err := e.addRow(out, row); err != nil {
			return nil, err
		}
	}
	return out, nil
}
