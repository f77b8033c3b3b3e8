package sparql

import (
	"cmp"
	"slices"
)

// hashJoin returns the pairs of rows that agree where both are bound.
func (e *eval) hashJoin(left, right *table) (*table, error) {
	x, err := e.indexRows(left, right)
	if err != nil {
		return nil, err
	}
	out := newTable(e.width)
	out.merge(left.may)
	out.merge(right.may)
	row := make([]ID, e.width)
	for i := range left.len() {
		l := left.row(i)
		for _, j := range x.candidates(l) {
			if err := e.checkTime(); err != nil {
				return nil, err
			}
			if !mergeRows(row, l, right.row(int(j))) {
				continue
			}
			if err := e.addRow(out, row); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// rowIndex is a hash index over the rows of a table. It finds the rows that may agree with a row of another table in all
// variables that both rows bind.
type rowIndex struct {
	shared []int // variables that some rows of both bind
	keys   []int // variables of these that all rows bind
	rows   map[string][]int32
	key    []byte
}

// indexRows indexes right for the rows of left. Equal terms of both then have equal ids.
func (e *eval) indexRows(left, right *table) (*rowIndex, error) {
	x := &rowIndex{rows: map[string][]int32{}}
	for v := range left.may {
		if left.may[v] && right.may[v] {
			x.shared = append(x.shared, v)
		}
	}
	if err := cmp.Or(e.unifyColumns(left, x.shared), e.unifyColumns(right, x.shared)); err != nil {
		return nil, err
	}
	x.keys = slices.DeleteFunc(slices.Clone(x.shared), func(v int) bool { return left.hasUnbound(v) || right.hasUnbound(v) })
	for i := range right.len() {
		x.key = appendKey(x.key[:0], right.row(i), x.keys)
		x.rows[string(x.key)] = append(x.rows[string(x.key)], int32(i))
	}
	return x, nil
}

// candidates returns the rows that may match a row of the other table.
func (x *rowIndex) candidates(row []ID) []int32 {
	x.key = appendKey(x.key[:0], row, x.keys)
	return x.rows[string(x.key)]
}

// hasUnbound reports whether a column is unbound in some row.
func (t *table) hasUnbound(v int) bool {
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

// mergeRows merges both rows; false if they conflict.
func mergeRows(to, a, b []ID) bool {
	for i := range to {
		if a[i] != 0 && b[i] != 0 && a[i] != b[i] {
			return false
		}
		to[i] = cmp.Or(a[i], b[i])
	}
	return true
}
