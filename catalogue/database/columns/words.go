package columns

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"slices"
	"strings"
)

// wordColumn numbers the texts of a column.
type wordColumn struct {
	codes map[string]uint32
	text  []string
	lead  []uint64 // the first bytes of each, for comparing
	size  int
}

func newWordColumn() wordColumn { return wordColumn{codes: map[string]uint32{}} }

// encode returns the number of a text and assigns one to a new text.
func (w *wordColumn) encode(s string) uint32 {
	c, ok := w.codes[s]
	if !ok {
		s = strings.Clone(s)
		c = uint32(len(w.text))
		w.codes[s] = c
		w.text, w.lead = append(w.text, s), append(w.lead, leadingBytes(s))
		w.size += len(s) + 64 // the text, twice its header, the number and the map entry
	}
	return c
}

// selectedCodes reports for each number whether a test selects its text.
func (w *wordColumn) selectedCodes(t *Words) []bool {
	out := make([]bool, len(w.text))
	for _, s := range t.Values {
		if c, ok := w.codes[s]; ok {
			out[c] = true
		}
	}
	if t.Match != nil {
		for i, s := range w.text {
			out[i] = out[i] || t.Match(s)
		}
	}
	return out
}

func (w *wordColumn) compare(a, b uint32) int {
	if a == b {
		return 0
	}
	if d := cmp.Compare(w.lead[a], w.lead[b]); d != 0 {
		return d
	}
	return strings.Compare(w.text[a], w.text[b])
}

// textRanks returns the rank of each text.
func (w *wordColumn) textRanks() []uint64 {
	codes := make([]uint32, len(w.text))
	for i := range codes {
		codes[i] = uint32(i)
	}
	slices.SortFunc(codes, w.compare)
	out := make([]uint64, len(codes))
	for rank, c := range codes {
		out[c] = uint64(rank)
	}
	return out
}

// leadingBytes returns the first eight bytes of a text as a number with the same order.
func leadingBytes[T string | []byte](s T) uint64 {
	if len(s) >= 8 {
		return binary.BigEndian.Uint64([]byte(s[:8]))
	}
	var b [8]byte
	copy(b[:], s)
	return binary.BigEndian.Uint64(b[:])
}

// nameSets numbers lists of names. Lists sort like their JSON text.
type nameSets struct {
	names  wordColumn
	quoted []string // each name in JSON
	seed   maphash.Seed
	codes  map[uint64]uint32 // by hash; on a collision at the next free number
	ends   []uint32          // end of each list in items
	items  []uint32
	lead   []uint64
	buf    []uint32
}

func newNameSets() nameSets {
	return nameSets{names: newWordColumn(), seed: maphash.MakeSeed(), codes: map[uint64]uint32{}}
}

func (s *nameSets) list(code uint32) []uint32 {
	from := uint32(0)
	if code > 0 {
		from = s.ends[code-1]
	}
	return s.items[from:s.ends[code]]
}

func (s *nameSets) encode(names []string) uint32 {
	s.buf = s.buf[:0]
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, name := range names {
		c := s.names.encode(name)
		if int(c) == len(s.quoted) {
			text, _ := json.Marshal(name) // a string can always be encoded
			s.quoted = append(s.quoted, string(text))
		}
		s.buf = append(s.buf, c)
		var b [4]byte
		binary.LittleEndian.PutUint32(b[:], c)
		h.Write(b[:])
	}
	sum := h.Sum64()
	for {
		c, ok := s.codes[sum]
		if !ok {
			break
		}
		if slices.Equal(s.list(c), s.buf) {
			return c
		}
		sum++
	}
	c := uint32(len(s.ends))
	s.codes[sum] = c
	s.items = append(s.items, s.buf...)
	s.ends = append(s.ends, uint32(len(s.items)))
	text := "[" // the first eight bytes of the list in JSON
	for i, n := range s.buf {
		if i > 0 {
			text += ","
		}
		if text += s.quoted[n]; len(text) >= 8 {
			break
		}
	}
	if len(text) < 8 {
		text += "]"
	}
	s.lead = append(s.lead, leadingBytes(text))
	return c
}

func (s *nameSets) compare(a, b uint32) int {
	if a == b {
		return 0
	}
	x, y := s.list(a), s.list(b)
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return strings.Compare(s.quoted[x[i]], s.quoted[y[i]])
		}
	}
	return len(y) - len(x) // the end, ], sorts after a comma and a quotation mark
}

// containsAny reports for each list whether it contains one of the names.
func (s *nameSets) containsAny(names []string) []bool {
	wanted := make([]bool, len(s.quoted))
	for _, n := range names {
		if c, ok := s.names.codes[n]; ok {
			wanted[c] = true
		}
	}
	out := make([]bool, len(s.ends))
	from := uint32(0)
	for i, end := range s.ends {
		for _, c := range s.items[from:end] {
			if wanted[c] {
				out[i] = true
				break
			}
		}
		from = end
	}
	return out
}

func (s *nameSets) memoryBytes() int {
	return s.names.size + len(s.ends)*32 + len(s.items)*4
}
