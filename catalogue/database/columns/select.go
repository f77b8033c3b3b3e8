package columns

import (
	"bytes"
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Words selects rows by a column of words: one of Values, or a match of the pattern.
type Words struct {
	Column int
	Values []string
	Match  func(string) bool
}

// Range selects rows with a known number within both bounds.
type Range struct {
	Column    int
	Low, High float64
}

// SortKind is the kind of a sort key.
type SortKind uint8

// The sort keys.
const (
	ByNumber SortKind = iota
	ByWord
	ByID
	ByNames
)

// Query selects rows that pass all tests, in an order.
type Query struct {
	Words  []Words
	Names  []string // rows with one of these in their list; none: any
	Ranges []Range

	By     SortKind
	Column int  // of words or numbers
	Then   int  // the column of numbers that breaks ties; -1 for none
	Down   bool // descending, including ties

	Offset, Limit int // a limit of 0 means unlimited
}

// candidate is a candidate row for the page. The entry with the smaller order comes first. For descending order, the bits
// of both fields are inverted.
type candidate struct {
	order uint64
	at    uint32 // chunk and row
}

// locate returns the chunk and the row of an entry.
func (s *search) locate(e candidate) (chunk int, row int) {
	at := e.at ^ s.turn
	return int(at / chunkRows), int(at % chunkRows)
}

type scratch struct {
	sel    []uint16
	values []float64
}

func newScratch() *scratch {
	return &scratch{sel: make([]uint16, chunkRows), values: make([]float64, chunkRows)}
}

// packTest is one condition on a chunk: the numbers of a pack by a table, or within bounds.
type packTest struct {
	pack      func(*chunk) *pack
	allowed   []bool
	low, high float64
}

func (t *packTest) matches(v float64) bool {
	if t.allowed != nil {
		return t.allowed[int(v)]
	}
	return v >= t.low && v <= t.high
}

// search is a running query.
type search struct {
	t     *Table
	q     *Query
	tests []packTest
	keep  int  // number of first rows to return; all if negative
	plain bool // order and key determine the order completely
	turn  uint32
	lead  []uint64 // ranks of words, or of prefixes of ids
}

// Select returns the keys of a page, and the number of rows without the limit.
func (t *Table) Select(q *Query) (keys []int64, total int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := &search{t: t, q: q, keep: -1, plain: q.By == ByNumber && q.Then < 0}
	if q.Limit > 0 {
		s.keep = q.Offset + q.Limit
	}
	if q.Down {
		s.turn = math.MaxUint32
	}
	if q.By == ByWord {
		if s.lead = t.words[q.Column].lead; s.keep < 0 || s.keep > chunkRows { // many comparisons
			s.lead, s.plain = t.words[q.Column].textRanks(), q.Then < 0
		}
	}
	if q.By == ByID && len(t.heads.text) < maxPrefixes {
		s.lead = t.heads.textRanks()
	}
	s.compile()
	workers := min(runtime.GOMAXPROCS(0), len(t.chunks)/8+1, 8)
	found := make([]rowHeap, workers)
	if many := 2 * s.keep; s.keep < 0 || many > 2*chunkRows { // allocate at once instead of growing
		room := (len(t.chunks)/workers + 1) * chunkRows
		if s.keep >= 0 {
			room = min(room, many)
		}
		for w := range found {
			found[w].entries = make([]candidate, 0, room)
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		work := func() {
			x := t.pool.Get().(*scratch)
			defer t.pool.Put(x)
			for {
				at := int(next.Add(1)) - 1
				if at >= len(t.chunks) {
					return
				}
				if q.Down { // of equal rows the last come first
					at = len(t.chunks) - 1 - at
				}
				s.searchChunk(at, x, &found[w])
			}
		}
		if w == workers-1 {
			work()
			continue
		}
		wg.Go(work)
	}
	wg.Wait()
	all := found[0].entries
	for w := range found {
		total += found[w].total
		if w > 0 {
			all = append(all, found[w].entries...)
		}
	}
	if q.Offset >= len(all) {
		return nil, total
	}
	if s.keep >= 0 && s.keep < len(all) {
		s.selectSmallest(all, s.keep)
		all = all[:s.keep]
	}
	if q.Offset > 0 {
		s.selectSmallest(all, q.Offset)
		all = all[q.Offset:]
	}
	s.sortEntries(all)
	keys = make([]int64, len(all))
	for i, e := range all {
		c, r := s.locate(e)
		keys[i] = int64(t.chunks[c].keys[r])
	}
	return keys, total
}

// compile turns the query into tests on packs, the cheapest first.
func (s *search) compile() {
	t := s.t
	for _, r := range s.q.Ranges {
		s.tests = append(s.tests, packTest{pack: func(c *chunk) *pack { return &c.numbers[r.Column] }, low: r.Low, high: r.High})
	}
	for i := range s.q.Words {
		w := &s.q.Words[i]
		s.tests = append(s.tests, packTest{pack: func(c *chunk) *pack { return &c.words[w.Column] },
			allowed: t.words[w.Column].selectedCodes(w)})
	}
	if len(s.q.Names) > 0 {
		s.tests = append(s.tests, packTest{pack: func(c *chunk) *pack { return &c.names }, allowed: t.sets.containsAny(s.q.Names)})
	}
}

// rowHeap is the result of one worker: at most twice the wanted number of rows.
type rowHeap struct {
	entries []candidate
	total   int
	full    bool
	worst   candidate // of the wanted ones, when full
}

// selectRows returns the rows of a chunk that pass all tests, in its scratch.
func (s *search) selectRows(c *chunk, x *scratch) []uint16 {
	sel, values := x.sel[:0], x.values[:len(c.keys)]
	if c.there.form == same && c.there.base == 1 {
		sel = x.sel[:len(c.keys)]
		for i := range sel {
			sel[i] = uint16(i)
		}
	} else {
		for i, v := range c.there.values(values) {
			if v == 1 {
				sel = append(sel, uint16(i))
			}
		}
	}
	for i := range s.tests {
		k := &s.tests[i]
		p := k.pack(c)
		if p.form == same {
			if !k.matches(p.base) {
				return nil
			}
			continue
		}
		if sel = k.filterRows(p.values(values), sel); len(sel) == 0 {
			return nil
		}
	}
	return sel
}

// searchChunk adds the rows of a chunk that pass all tests to h.
func (s *search) searchChunk(at int, x *scratch, h *rowHeap) {
	c := s.t.chunks[at]
	values := x.values[:len(c.keys)]
	sel := s.selectRows(c, x)
	if len(sel) == 0 {
		return
	}
	h.total += len(sel)
	if s.q.Down {
		slices.Reverse(sel)
	}
	first := uint32(at) * chunkRows
	switch q := s.q; q.By {
	case ByNumber:
		v := c.numbers[q.Column].values(values)
		for _, i := range sel {
			x := sortKey(v[i])
			if x == 0 && !s.q.Down {
				x = math.MaxUint64 // unknown, last in either direction
			}
			s.keepCandidate(h, x, first+uint32(i))
		}
	case ByWord:
		v := c.words[q.Column].values(values)
		for _, i := range sel {
			s.keepCandidate(h, s.lead[int(v[i])], first+uint32(i))
		}
	case ByNames:
		v := c.names.values(values)
		for _, i := range sel {
			s.keepCandidate(h, s.t.sets.lead[int(v[i])], first+uint32(i))
		}
	case ByID:
		for _, i := range sel {
			s.keepCandidate(h, s.leadKey(c, int(i)), first+uint32(i))
		}
	}
}

// leadKey returns a sort key for the id in row i: one byte for its prefix, which is one of a few, and the next seven
// bytes. No prefix, including its slash, begins with another one, so the keys sort like the ids.
func (s *search) leadKey(c *chunk, i int) uint64 {
	id := c.rowID(i)
	if s.lead == nil {
		return leadingBytes(id)
	}
	head := c.heads[i]
	return s.lead[head]<<56 | leadingBytes(id[len(s.t.heads.text[head]):])>>8
}

func (k *packTest) filterRows(v []float64, sel []uint16) []uint16 {
	n := 0
	if k.allowed != nil {
		for _, i := range sel {
			sel[n] = i
			if k.allowed[int(v[i])] {
				n++
			}
		}
		return sel[:n]
	}
	for _, i := range sel {
		sel[n] = i
		if v[i] >= k.low && v[i] <= k.high {
			n++
		}
	}
	return sel[:n]
}

// sortKey maps v to an integer with the same order, above 0. Unknown values map to 0.
func sortKey(v float64) uint64 {
	if v != v {
		return 0
	}
	b := math.Float64bits(v + 0) // equal for both zeros
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// keepCandidate keeps a row in h if it may be on the requested page.
func (s *search) keepCandidate(h *rowHeap, order uint64, at uint32) {
	if s.q.Down {
		order = ^order
	}
	e := candidate{order, at ^ s.turn}
	if h.full && (order > h.worst.order || !s.isBefore(e, h.worst)) {
		return
	}
	h.entries = append(h.entries, e)
	if s.keep >= 0 && len(h.entries) >= max(2*s.keep, 512) {
		s.selectSmallest(h.entries, s.keep)
		h.entries = h.entries[:s.keep]
		h.full = s.keep > 0
		if h.full {
			h.worst = slices.MaxFunc(h.entries, s.compare)
		}
	}
}

func (s *search) isBefore(a, b candidate) bool {
	if a.order != b.order {
		return a.order < b.order
	}
	if s.plain {
		return a.at < b.at
	}
	return s.compareTies(a, b) < 0
}

func (s *search) compare(a, b candidate) int {
	if a.order != b.order {
		return cmp.Compare(a.order, b.order)
	}
	if s.plain {
		return cmp.Compare(a.at, b.at)
	}
	return s.compareTies(a, b)
}

func (s *search) sortEntries(e []candidate) { slices.SortFunc(e, s.compare) }

// compareTies compares two rows with the same first bytes by their whole values.
func (s *search) compareTies(a, b candidate) (d int) {
	ca, i := s.locate(a)
	cb, j := s.locate(b)
	x, y := s.t.chunks[ca], s.t.chunks[cb]
	switch k := s.q.Column; s.q.By {
	case ByWord:
		d = s.t.words[k].compare(uint32(x.words[k].value(i)), uint32(y.words[k].value(j)))
	case ByNames:
		d = s.t.sets.compare(uint32(x.names.value(i)), uint32(y.names.value(j)))
	case ByID:
		d = bytes.Compare(x.rowID(i), y.rowID(j))
	}
	if d == 0 && s.q.Then >= 0 {
		d = cmp.Compare(sortKey(x.numbers[s.q.Then].value(i)), sortKey(y.numbers[s.q.Then].value(j)))
	}
	if d != 0 && s.q.Down {
		return -d
	}
	d = cmp.Or(d, cmp.Compare(a.at, b.at))
	return d
}

// selectSmallest moves the n smallest to the front: quickselect, with the median of three as pivot.
func (s *search) selectSmallest(e []candidate, n int) {
	for n > 0 && n < len(e) && len(e) > 16 {
		a, b, c := e[0], e[len(e)/2], e[len(e)-1]
		if s.isBefore(b, a) {
			a, b = b, a
		}
		if s.isBefore(c, b) {
			if b = c; s.isBefore(b, a) {
				b = a
			}
		}
		i, j := 0, len(e)-1
		for i <= j {
			for s.isBefore(e[i], b) {
				i++
			}
			for s.isBefore(b, e[j]) {
				j--
			}
			if i <= j {
				e[i], e[j] = e[j], e[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			e = e[:j+1]
		case n >= i:
			e, n = e[i:], n-i
		default:
			return
		}
	}
	if n > 0 && n < len(e) {
		s.sortEntries(e)
	}
}
