package block

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
)

// indexWriter collects the series of a block, about 50 bytes each, and writes the index of version 2
// (https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/index.md). The index is identical to the index of
// Prometheus's own writer. That writer allocates 24 MB per index, needs all symbols in advance, and reads all series
// again for each label name.
type indexWriter struct {
	pairs  []labels.Label
	places map[labels.Label]uint32 // of the pairs
	uses   []uint32                // the pairs of all series
	bodies []byte                  // the chunks of all series
	ends   []endOffsets
	last   labels.Labels

	out *bufio.Writer
	at  uint64 // bytes written
	buf []byte
}

// endOffsets holds the end offsets of the pairs and of the chunks of a series.
type endOffsets struct{ uses, bodies int }

// addSeries adds a series. Series must be added in the order of their labels.
func (x *indexWriter) addSeries(l labels.Labels, list []chunks.Meta) error {
	if labels.Compare(l, x.last) <= 0 {
		return fmt.Errorf("it is out of order after %s", x.last)
	}
	var before []uint32 // pairs of the last series: consecutive ones share most
	if n := len(x.ends); n > 0 {
		before = x.uses[len(x.uses)-x.last.Len():]
	}
	x.last = l
	l.Range(func(p labels.Label) {
		var pair uint32
		if len(before) > 0 {
			pair, before = before[0], before[1:]
		}
		if int(pair) >= len(x.pairs) || x.pairs[pair] != p {
			var ok bool
			if pair, ok = x.places[p]; !ok {
				pair = uint32(len(x.pairs))
				x.pairs, x.places[p] = append(x.pairs, p), pair
			}
		}
		x.uses = append(x.uses, pair)
	})
	b := binary.AppendUvarint(x.bodies, uint64(len(list)))
	for i := range list {
		c, before := &list[i], chunks.Meta{}
		if i > 0 {
			before = list[i-1]
		}
		if c.MaxTime < c.MinTime || i > 0 && (c.MinTime <= before.MaxTime || c.Ref < before.Ref) {
			return errors.New("its chunks overlap or are out of order")
		}
		if i == 0 {
			b = binary.AppendUvarint(binary.AppendVarint(b, c.MinTime), uint64(c.MaxTime-c.MinTime))
			b = binary.AppendUvarint(b, uint64(c.Ref))
			continue
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.MinTime-before.MaxTime)), uint64(c.MaxTime-c.MinTime))
		b = binary.AppendVarint(b, int64(c.Ref)-int64(before.Ref))
	}
	x.bodies, x.ends = b, append(x.ends, endOffsets{len(x.uses), len(b)})
	return nil
}

// writeFile writes the index to a file and syncs it.
func (x *indexWriter) writeFile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	x.out = bufio.NewWriterSize(f, 64<<10)
	x.writeParts(binary.BigEndian.AppendUint32(nil, index.MagicIndex), []byte{index.FormatV2})
	toc := binary.BigEndian.AppendUint64(nil, x.at)
	words := x.writeSymbols()
	toc = binary.BigEndian.AppendUint64(toc, x.at)
	refs := x.writeSeries(words)
	lists := x.at
	table := x.writePostings(refs)
	for _, at := range []uint64{lists, x.at, lists, x.at} { // the two of label indices are unused
		toc = binary.BigEndian.AppendUint64(toc, at)
	}
	x.writeSection(table)
	x.writeParts(binary.BigEndian.AppendUint32(toc, crc32.Checksum(toc, castagnoli)))
	if err = x.out.Flush(); err == nil && x.at/seriesAlign > math.MaxUint32 {
		err = fmt.Errorf("an index of %d bytes is larger than its format allows", x.at)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// writeSymbols writes all names and values in order. It returns each pair in the encoding that series use.
func (x *indexWriter) writeSymbols() [][]byte {
	places := map[string]uint64{"": 0}
	for _, p := range x.pairs {
		places[p.Name], places[p.Value] = 0, 0
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(places)))
	for i, s := range slices.Sorted(maps.Keys(places)) {
		places[s] = uint64(i)
		b = appendText(b, s)
	}
	x.writeSection(b)
	words := make([][]byte, len(x.pairs))
	for i, p := range x.pairs {
		words[i] = binary.AppendUvarint(binary.AppendUvarint(nil, places[p.Name]), places[p.Value])
	}
	return words
}

// writeSeries writes the series and returns their references.
func (x *indexWriter) writeSeries(words [][]byte) []uint32 {
	refs, from, head := make([]uint32, len(x.ends)), endOffsets{}, []byte(nil)
	for i, to := range x.ends {
		x.padTo(seriesAlign)
		refs[i] = uint32(x.at / seriesAlign)
		b := binary.AppendUvarint(x.buf[:0], uint64(to.uses-from.uses))
		for _, pair := range x.uses[from.uses:to.uses] {
			b = append(b, words[pair]...)
		}
		b = append(b, x.bodies[from.bodies:to.bodies]...)
		head = binary.AppendUvarint(head[:0], uint64(len(b)))
		x.buf, from = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), to
		x.writeParts(head, x.buf)
	}
	return refs
}

// writePostings writes the postings of all series and of each pair, and returns the postings table.
func (x *indexWriter) writePostings(all []uint32) []byte {
	lists := make([][]uint32, len(x.pairs))
	sizes := make([]int, len(x.pairs))
	for _, pair := range x.uses {
		sizes[pair]++
	}
	room := make([]uint32, len(x.uses))
	for pair, n := range sizes {
		lists[pair], room = room[:0:n], room[n:]
	}
	from := 0
	for i, to := range x.ends {
		for _, pair := range x.uses[from:to.uses] {
			lists[pair] = append(lists[pair], all[i])
		}
		from = to.uses
	}
	table := binary.BigEndian.AppendUint32(nil, uint32(len(lists)+1))
	list := func(p labels.Label, refs []uint32) {
		x.padTo(4)
		table = binary.AppendUvarint(appendText(appendText(append(table, 2), p.Name), p.Value), x.at)
		x.buf = binary.BigEndian.AppendUint32(x.buf[:0], uint32(len(refs)))
		for _, r := range refs {
			x.buf = binary.BigEndian.AppendUint32(x.buf, r)
		}
		x.writeSection(x.buf)
	}
	list(labels.Label{}, all)
	for _, p := range slices.SortedFunc(slices.Values(x.pairs), func(a, b labels.Label) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	}) {
		list(p, lists[x.places[p]])
	}
	return table
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// writeParts writes parts one after the other. The caller sees errors when it flushes the writer.
func (x *indexWriter) writeParts(parts ...[]byte) {
	for _, b := range parts {
		_, _ = x.out.Write(b)
		x.at += uint64(len(b))
	}
}

// writeSection writes a length, that many bytes, and their checksum.
func (x *indexWriter) writeSection(b []byte) {
	x.writeParts(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b, binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, castagnoli)))
}

func (x *indexWriter) padTo(to uint64) {
	for ; x.at%to != 0; x.at++ {
		_ = x.out.WriteByte(0) // its error stays for the flush
	}
}
