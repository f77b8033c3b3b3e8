package sparql

import (
	"math/big"
	"strings"

	"reckon/graph"
)

// compute returns the aggregate of some rows.
func (a *aggregate) compute(e *eval, t *table, rows []int) (graph.Term, error) {
	if a.e == nil {
		return a.countRows(t, rows), nil
	}
	var list []graph.Term
	seen := map[graph.Term]bool{}
	var failed error
	for _, i := range rows {
		v, err := a.e.eval(e, t.row(i))
		if err != nil {
			if !isTypeError(err) {
				return v, err
			}
			failed = err
			continue
		}
		if a.distinct {
			if seen[v] {
				continue
			}
			seen[v] = true
		}
		list = append(list, v)
	}
	switch a.name {
	case "COUNT":
		return graph.Integer(int64(len(list))), nil
	case "SAMPLE":
		if len(list) == 0 {
			return graph.Term{}, errUnbound
		}
		return list[0], nil
	}
	if failed != nil {
		return graph.Term{}, failed
	}
	switch a.name {
	case "SUM":
		return sumTerms(list)
	case "AVG":
		total, err := sumTerms(list)
		if err != nil || len(list) == 0 {
			return graph.Integer(0), err
		}
		return evalArithmetic("/", total, graph.Integer(int64(len(list))))
	case "GROUP_CONCAT":
		return a.concatenate(list)
	}
	return a.extremum(list)
}

func (a *aggregate) countRows(t *table, rows []int) graph.Term {
	if !a.distinct {
		return graph.Integer(int64(len(rows)))
	}
	seen := map[string]bool{}
	all := make([]int, t.width)
	for i := range all {
		all[i] = i
	}
	for _, i := range rows {
		seen[string(appendKey(nil, t.row(i), all))] = true
	}
	return graph.Integer(int64(len(seen)))
}

func sumTerms(list []graph.Term) (graph.Term, error) {
	total := num{kind: integerKind, r: new(big.Rat)}
	for _, t := range list {
		n, ok := toNumber(t)
		if !ok {
			return t, errType
		}
		var err error
		if total, err = calculate("+", total, n); err != nil {
			return t, err
		}
	}
	return total.toTerm(), nil
}

func (a *aggregate) concatenate(list []graph.Term) (graph.Term, error) {
	var b strings.Builder
	for i, t := range list {
		if i > 0 {
			b.WriteString(a.separator)
		}
		if t.Kind == graph.Blank {
			return t, errType
		}
		if b.WriteString(t.Value); b.Len() > maxText {
			return t, typeError("the text is too long")
		}
	}
	return graph.Text(b.String()), nil
}

func (a *aggregate) extremum(list []graph.Term) (best graph.Term, err error) {
	if len(list) == 0 {
		return best, errUnbound
	}
	best = list[0]
	for _, t := range list[1:] {
		c := compareForOrder(t, best)
		if a.name == "MIN" && c < 0 || a.name == "MAX" && c > 0 {
			best = t
		}
	}
	return best, nil
}
