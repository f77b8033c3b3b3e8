package sparql

// pushFilter moves condition c as deep into group n as the meaning of the query allows, so that rows are dropped before they
// are joined. Clients write the filter on a graph's time after a pattern that matches all graphs.
func pushFilter(n node, c expr) node {
	vars := map[int]bool{}
	c.vars(vars)
	if _, ok := c.(*exists); ok || containsExists(c) {
		return addFilter(n, c)
	}
	switch n := n.(type) {
	case *join:
		if isPushable(vars, n.left, n.right) {
			return &join{pushFilter(n.left, c), n.right}
		}
	case *leftJoin:
		if isPushable(vars, n.left, n.right) {
			return &leftJoin{pushFilter(n.left, c), n.right, n.filters, n.tag}
		}
	case *minus:
		if includesAll(scopeOf(n.left), vars) {
			return &minus{pushFilter(n.left, c), n.right}
		}
	case *extend:
		if !vars[n.v] && includesAll(scopeOf(n.inner), vars) {
			return &extend{pushFilter(n.inner, c), n.v, n.e}
		}
	case *filter:
		return &filter{n.inner, append(n.conditions[:len(n.conditions):len(n.conditions)], c)}
	}
	return addFilter(n, c)
}

// addFilter applies a condition at the end of a node.
func addFilter(n node, c expr) node {
	if f, ok := n.(*filter); ok {
		return &filter{f.inner, append(f.conditions[:len(f.conditions):len(f.conditions)], c)}
	}
	return &filter{n, []expr{c}}
}

func includesAll(scope, vars map[int]bool) bool {
	for v := range vars {
		if !scope[v] {
			return false
		}
	}
	return true
}

// isPushable reports whether a condition on vars gives the same result before right is joined. This requires that left binds
// all of vars, and that right binds none that left may leave unbound.
func isPushable(vars map[int]bool, left, right node) bool {
	if !includesAll(scopeOf(left), vars) {
		return false
	}
	sure, later := map[int]bool{}, scopeOf(right)
	addBoundVars(left, sure)
	for v := range vars {
		if later[v] && !sure[v] {
			return false
		}
	}
	return true
}

// addBoundVars adds the variables that every row of a node binds.
func addBoundVars(n node, in map[int]bool) {
	switch n := n.(type) {
	case *bgp:
		n.scope(in)
	case *join:
		addBoundVars(n.left, in)
		addBoundVars(n.right, in)
	case *leftJoin:
		addBoundVars(n.left, in)
	case *minus:
		addBoundVars(n.left, in)
	case *filter:
		addBoundVars(n.inner, in)
	case *extend:
		addBoundVars(n.inner, in)
	case *graphNode:
		addBoundVars(n.inner, in)
		if n.name.isVar() {
			in[n.name.v] = true
		}
	case *union:
		left, right := map[int]bool{}, map[int]bool{}
		addBoundVars(n.left, left)
		addBoundVars(n.right, right)
		for v := range left {
			if right[v] {
				in[v] = true
			}
		}
	}
}

func containsExists(x expr) bool {
	switch x := x.(type) {
	case *exists:
		return true
	case *operation:
		return containsExists(x.left) || containsExists(x.right)
	case *negation:
		return containsExists(x.e)
	case *inList:
		return containsExists(x.e) || anyExists(x.list)
	case *call:
		return anyExists(x.args)
	case *ownCall:
		return anyExists(x.args)
	case *choice:
		return anyExists(x.args)
	case *coalesce:
		return anyExists(x.args)
	case *pattern:
		return anyExists(x.args)
	}
	return false
}

func anyExists(list []expr) bool {
	for _, x := range list {
		if containsExists(x) {
			return true
		}
	}
	return false
}
