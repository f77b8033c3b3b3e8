package sparql

import (
	"cmp"
	"slices"
)

// hashJoin returns the pairs of rows that agree where both are bound.
func (e *eval) hashJoin(left, right *table) (*table, error) {
	out := newTable(e.width)
	out.merge(left.may)
	out.merge(right.may)
	var shared []int
	for v := range left.may {
		if left.may[v] && right.may[v] {
			shared = append(shared, v)
		}
	}
	if err := e.unify(left, shared); err != nil {
		return nil, err
	}
	if err := e.unify(right, shared); err != nil {
		return nil, err
	}
	keys := slices.DeleteFunc(slices.Clone(shared), func(v int) bool { return left.leaves(v) || right.leaves(v) })
	index := map[string][]int32{}
	var key []byte
	for i := range right.len() {
		key = appendKey(key[:0], right.row(i), keys)
		index[string(key)] = append(index[string(key)], int32(i))
	}
	row := make([]ID, e.width)
	for i := range left.len() {
		l := left.row(i)
		key = appendKey(key[:0], l, keys)
		for _, j := range index[string(key)] {
			if err := e.tick(); err != nil {
				return nil, err
			}
			if !combine(row, l, right.row(int(j))) {
				continue
			}
			if err := e.add(out, row); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// leaves reports whether a column is unbound in some row.
func (t *table) leaves(v int) bool {
	for i := range t.len() {
		if t.row(i)[v] == 0 {
			return true
		}
	}
	return false
}

func appendKey(key []byte, row []ID, columns []int) []byte {
	for _, c := range columns {
		id := row[c]
		key = append(key, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
	}
	return key
}

// combine merges both rows; false if they conflict.
func combine(to, a, b []ID) bool {
	for i := range to {
		if a[i] != 0 && b[i] != 0 && a[i] != b[i] {
			return false
		}
		to[i] = cmp.Or(a[i], b[i])
	}
	return true
}
