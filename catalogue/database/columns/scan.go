package columns

// Batch is the selected rows of a part of the table. It is valid until the function passed to [Table.Scan] returns. A
// column with the same number in all rows has a single element.
type Batch struct {
	Rows    []uint16    // the selected ones: places in the slices below
	Words   [][]float64 // the numbers of the texts of each wanted column of words: see [Table.Scan]
	Names   []float64   // the numbers of the lists of names
	Numbers [][]float64 // each wanted column of numbers; NaN is unknown
}

// Texts resolves the numbers of texts in a [Batch], until the function of [Table.Scan] returns.
type Texts struct{ t *Table }

// Word returns the text with a number in a column of words.
func (x Texts) Word(column, code int) string { return x.t.words[column].text[code] }

// Names returns the numbers of the names in the list with a number; Name returns one of these.
func (x Texts) Names(code int) []uint32 { return x.t.sets.list(uint32(code)) }

// Name returns the name with a number.
func (x Texts) Name(code uint32) string { return x.t.sets.names.text[code] }

// Scan calls f with the rows that match the conditions of a query, some thousand rows at a time, in key order. words
// and numbers are the columns that f gets. Scan ignores the order, offset and limit of the query. It locks the table,
// so f must not call methods of it.
func (t *Table) Scan(q *Query, words, numbers []int, f func(*Batch, Texts)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := &search{t: t, q: q}
	s.compile()
	x := t.pool.Get().(*scratch)
	defer t.pool.Put(x)
	b := Batch{Words: make([][]float64, len(words)), Numbers: make([][]float64, len(numbers))}
	room := make([]float64, (len(words)+len(numbers)+1)*chunkRows)
	for _, c := range t.chunks {
		if b.Rows = s.selectRows(c, x); len(b.Rows) == 0 {
			continue
		}
		left := room
		read := func(p *pack) (v []float64) {
			n := len(c.keys)
			if p.form == same {
				n = 1
			}
			v, left = p.values(left[:n]), left[chunkRows:]
			return v
		}
		for i, column := range words {
			b.Words[i] = read(&c.words[column])
		}
		for i, column := range numbers {
			b.Numbers[i] = read(&c.numbers[column])
		}
		b.Names = read(&c.names)
		f(&b, Texts{t})
	}
}
