// Package columns holds a table in memory, column by column, so that any of its rows can be selected by any columns
// and ordered by any other within milliseconds, without an index for each query: a scan of a million rows reads a few
// megabytes.
//
// A table has keys that increase from row to row, a text that distinguishes rows, words (texts that repeat), one list
// of names, and numbers. Every 4,096 rows are packed in as few bytes as represent their numbers exactly. Words and
// lists are stored once and freed only with the table.
//
// Order is SQL's with binary collation: unknown values (NaN) are the smallest, texts order by bytes, lists by
// their text in JSON, ties by Query.Then and then by key. A Table is safe for concurrent use.
package columns

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// Row is one row. Its texts are copied.
type Row struct {
	Key     int64
	ID      string
	Words   []string
	Names   []string
	Numbers []float64 // NaN is unknown
}

// Change adds or replaces a row, or deletes the row with its key.
type Change struct {
	Row
	Delete bool
}

// ErrOrder means that a new row has a lower key than an existing one. Test for it with errors.Is.
var ErrOrder = errors.New("a new row has a lower key than the last")

// Table is a table of rows.
type Table struct {
	mu     sync.RWMutex
	words  []wordColumn
	sets   nameSets
	heads  wordColumn // prefixes of ids, up to the first slash; all beyond maxPrefixes share the last
	n      int        // numbers in a row
	chunks []*chunk
	rows   int // without deleted ones
	turn   int // the next chunk to repack
	buf    []float64
	pool   sync.Pool // of *scratch
}

type chunk struct {
	keys    []uint32
	there   pack // 1, or 0 for deleted rows
	ids     []uint32
	heads   []uint8
	text    []byte // ids, each after its length
	words   []pack
	names   pack
	numbers []pack
	loose   bool // may be repacked more tightly
}

// New returns an empty table with a number of words and of numbers in each row.
func New(nwords, numbers int) *Table {
	t := &Table{words: make([]wordColumn, nwords), sets: newNameSets(), heads: newWordColumn(), n: numbers, buf: make([]float64, chunkRows)}
	for i := range t.words {
		t.words[i] = newWordColumn()
	}
	t.pool.New = func() any { return newScratch() }
	return t
}

// Len returns the number of rows.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.rows
}

// Apply makes changes in order. A concurrent query sees all of them or none. After an error, the table is inconsistent
// and must not be used.
func (t *Table) Apply(changes []Change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		if c.Delete {
			t.deleteRow(c.Key)
			continue
		}
		if err := t.appendRow(&c.Row); err != nil {
			return err
		}
	}
	t.repackChanged()
	return nil
}

func (t *Table) appendRow(r *Row) error {
	if len(r.Words) != len(t.words) || len(r.Numbers) != t.n {
		return fmt.Errorf("a row of %d words and %d numbers for a table of %d and %d", len(r.Words), len(r.Numbers), len(t.words), t.n)
	}
	c, i, ok := t.find(r.Key)
	if !ok {
		var err error
		if c, i, err = t.appendKey(r.Key); err != nil {
			return err
		}
	}
	if c.there.value(i) != 1 {
		t.rows++
		c.setNumber(&c.there, i, 1)
		c.setName(i, r.ID)
		c.heads[i] = t.prefixNumber(r.ID)
	} else if string(c.rowID(i)) != r.ID {
		c.setName(i, r.ID)
		c.heads[i] = t.prefixNumber(r.ID)
	}
	for k, s := range r.Words {
		c.setNumber(&c.words[k], i, float64(t.words[k].encode(s)))
	}
	c.setNumber(&c.names, i, float64(t.sets.encode(r.Names)))
	for k, v := range r.Numbers {
		c.setNumber(&c.numbers[k], i, v)
	}
	return nil
}

// find returns the position of the row with a key, deleted or not.
func (t *Table) find(key int64) (*chunk, int, bool) {
	at, found := slices.BinarySearchFunc(t.chunks, key, func(c *chunk, key int64) int { return cmp.Compare(int64(c.keys[0]), key) })
	if !found {
		at--
	}
	if at < 0 || key > math.MaxUint32 {
		return nil, 0, false
	}
	i, found := slices.BinarySearch(t.chunks[at].keys, uint32(key))
	return t.chunks[at], i, found
}

// appendKey adds a row with a key after the last row.
func (t *Table) appendKey(key int64) (*chunk, int, error) {
	if key < 0 || key > math.MaxUint32 {
		return nil, 0, fmt.Errorf("the key %d is none of 0 to %d", key, uint32(math.MaxUint32))
	}
	var last *chunk
	if len(t.chunks) > 0 {
		last = t.chunks[len(t.chunks)-1]
		if newest := last.keys[len(last.keys)-1]; uint32(key) < newest {
			return nil, 0, fmt.Errorf("%w: %d after %d", ErrOrder, key, newest)
		}
	}
	if last == nil || len(last.keys) == chunkRows {
		last = &chunk{keys: make([]uint32, 0, chunkRows), there: emptyPack(), ids: make([]uint32, chunkRows), heads: make([]uint8,
			chunkRows),
			words: make([]pack, len(t.words)), names: emptyPack(), numbers: make([]pack, t.n)}
		for i := range last.words {
			last.words[i] = emptyPack()
		}
		for i := range last.numbers {
			last.numbers[i] = emptyPack()
		}
		t.chunks = append(t.chunks, last)
	}
	last.keys = append(last.keys, uint32(key))
	return last, len(last.keys) - 1, nil
}

func (t *Table) deleteRow(key int64) {
	c, i, ok := t.find(key)
	if !ok || c.there.value(i) != 1 {
		return
	}
	c.setNumber(&c.there, i, 0)
	t.rows--
	// A database may reuse the highest key: remove deleted rows at the end.
	for len(t.chunks) > 0 {
		last := t.chunks[len(t.chunks)-1]
		n := len(last.keys)
		for n > 0 && last.there.value(n-1) != 1 {
			n--
		}
		if last.keys = last.keys[:n]; n > 0 {
			return
		}
		t.chunks = t.chunks[:len(t.chunks)-1]
	}
}

// repackChanged repacks a few changed chunks. It skips the last chunk, which is not full and changes all the time.
func (t *Table) repackChanged() {
	for looked, packed := 0, 0; looked < len(t.chunks)-1 && packed < 2; looked++ {
		t.turn = (t.turn + 1) % len(t.chunks)
		c := t.chunks[t.turn]
		if !c.loose || t.turn == len(t.chunks)-1 {
			continue
		}
		packed++
		c.loose = false
		c.there.shrink(t.buf)
		c.names.shrink(t.buf)
		for i := range c.words {
			c.words[i].shrink(t.buf)
		}
		for i := range c.numbers {
			c.numbers[i].shrink(t.buf)
		}
		c.text = slices.Clip(c.text)
	}
}

func (c *chunk) setNumber(p *pack, i int, v float64) {
	if p.setValue(i, v) {
		c.loose = true
	}
}

func (c *chunk) setName(i int, id string) {
	c.ids[i] = uint32(len(c.text))
	c.text = binary.AppendUvarint(c.text, uint64(len(id)))
	c.text = append(c.text, id...)
}

// maxPrefixes is the maximum number of distinguished id prefixes.
const maxPrefixes = 255

// prefixNumber returns the number of the prefix of an id.
func (t *Table) prefixNumber(id string) uint8 {
	if cut := strings.IndexByte(id, '/'); cut >= 0 {
		id = id[:cut+1]
	}
	if _, known := t.heads.codes[id]; !known && len(t.heads.text) >= maxPrefixes {
		return maxPrefixes
	}
	return uint8(t.heads.encode(id))
}

func (c *chunk) rowID(i int) []byte {
	b := c.text[c.ids[i]:]
	n, used := binary.Uvarint(b)
	return b[used : used+int(n)]
}

// Bytes returns the approximate memory of the table.
func (t *Table) Bytes() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := t.sets.memoryBytes()
	for i := range t.words {
		n += t.words[i].size
	}
	for _, c := range t.chunks {
		n += 9*chunkRows + cap(c.text) + c.there.memoryBytes() + c.names.memoryBytes() + 128*(len(c.words)+len(c.numbers)+2)
		for i := range c.words {
			n += c.words[i].memoryBytes()
		}
		for i := range c.numbers {
			n += c.numbers[i].memoryBytes()
		}
	}
	return n
}
