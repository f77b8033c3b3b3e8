package block

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/prometheus/prometheus/tsdb/encoding"
	"github.com/prometheus/prometheus/tsdb/index"
)

const (
	indexHeader = 5 // magic and version
	tocLength   = 6*8 + crc32.Size
	seriesAlign = 16
)

// byteSlice is a file in the form that the library reads.
type byteSlice []byte

func (b byteSlice) Len() int                    { return len(b) }
func (b byteSlice) Range(start, end int) []byte { return b[start:end] }

// indexChecker verifies an index file of version 2. It reads the sections in file order: symbols, series, postings, the
// postings table and the table of contents.
type indexChecker struct {
	path     string
	data     []byte
	segments []int64 // sizes of the chunk files
	info     *Info
}

func verifyIndex(path string, segments []int64, info *Info) error {
	data, unmap, err := mapFile(path)
	if err != nil {
		return err
	}
	defer unmap()
	info.Bytes += int64(len(data))
	c := &indexChecker{path, data, segments, info}
	if len(data) < indexHeader+tocLength || binary.BigEndian.Uint32(data) != index.MagicIndex || data[4] != index.FormatV2 {
		return c.damageAt(0, "it is no index of version 2, or is cut off")
	}
	toc, err := index.NewTOCFromByteSlice(byteSlice(data))
	if err != nil {
		return c.damageAt(len(data)-tocLength, "the table of contents fails its checksum, or the file is cut off")
	}
	end := uint64(len(data) - tocLength)
	if toc.Symbols != indexHeader || toc.Series < toc.Symbols || toc.Postings < toc.Series || toc.PostingsTable < toc.Postings ||
		toc.PostingsTable > end {
		return c.damageAt(len(data)-tocLength, "the table of contents is invalid")
	}
	if err := c.checkSection(toc.Symbols, end, "the symbols"); err != nil {
		return err
	}
	if err := c.checkSection(toc.PostingsTable, end, "the table of postings"); err != nil {
		return err
	}
	if err := c.checkPostings(toc.Postings, toc.PostingsTable); err != nil {
		return err
	}
	to := toc.Postings
	if toc.LabelIndices > toc.Series { // only in old files; unused
		to = min(to, toc.LabelIndices)
	}
	return c.checkSeries(toc.Series, to)
}

func (c *indexChecker) damageAt(at int, text string) error { return &Damage{c.path, int64(at), text} }

// checkSection checks a section: four bytes of length, that many bytes, and their CRC-32C.
func (c *indexChecker) checkSection(at, end uint64, part string) error {
	_, err := c.checkSized(at, end, part)
	return err
}

func (c *indexChecker) checkSized(at, end uint64, part string) (next uint64, err error) {
	if at+4 > end {
		return 0, c.damageAt(int(at), part+" are cut off")
	}
	n := uint64(binary.BigEndian.Uint32(c.data[at:]))
	next = at + 4 + n + crc32.Size
	if next > end {
		return 0, c.damageAt(int(at), "the length of "+part+" is invalid")
	}
	body := c.data[at+4 : at+4+n]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(c.data[at+4+n:]) {
		return 0, c.damageAt(int(at), part+" fail their checksum")
	}
	return next, nil
}

// checkPostings checks the postings, which are sections at multiples of four bytes.
func (c *indexChecker) checkPostings(at, end uint64) (err error) {
	for at = alignUp(at, 4); at < end; at = alignUp(at, 4) {
		if at, err = c.checkSized(at, end, "postings"); err != nil {
			return err
		}
	}
	return nil
}

// checkSeries checks all series between the offsets at and end. Each entry is aligned to 16 bytes, begins with its length as
// uvarint, and ends with its CRC-32C.
func (c *indexChecker) checkSeries(at, end uint64) error {
	for at = alignUp(at, seriesAlign); at < end; at = alignUp(at, seriesAlign) {
		n, w := binary.Uvarint(c.data[at:end])
		body := at + uint64(max(w, 0))
		next := body + n + crc32.Size
		if w <= 0 || n > end || next > end {
			return c.damageAt(int(at), "the length of a series is invalid")
		}
		if crc32.Checksum(c.data[body:body+n], castagnoli) != binary.BigEndian.Uint32(c.data[body+n:]) {
			return c.damageAt(int(at), "a series fails its checksum")
		}
		if !c.checkChunks(c.data[body : body+n]) {
			return c.damageAt(int(at), "a series names a chunk that is not there")
		}
		c.info.Series++
		at = next
	}
	return nil
}

// checkChunks reads the times and offsets of the chunks of a series.
func (c *indexChecker) checkChunks(b []byte) bool {
	d := encoding.Decbuf{B: b}
	for range 2 * d.Uvarint64() { // labels: names and values
		if d.Uvarint64(); d.Err() != nil {
			return false
		}
	}
	n := d.Uvarint64()
	var ref, from, to int64
	for i := range n {
		if i == 0 {
			from = d.Varint64()
			to = from + int64(d.Uvarint64())
			ref = int64(d.Uvarint64())
		} else {
			from = to + int64(d.Uvarint64())
			to = from + int64(d.Uvarint64())
			ref += d.Varint64()
		}
		segment, offset := ref>>32, ref&0xffff_ffff
		if d.Err() != nil || segment < 0 || segment >= int64(len(c.segments)) || offset < segmentHeader || offset >= c.segments[segment] {
			return false
		}
		c.info.From, c.info.To = min(c.info.From, from), max(c.info.To, to)
	}
	c.info.Chunks += n
	return d.Err() == nil
}

func alignUp(at, to uint64) uint64 { return (at + to - 1) / to * to }
