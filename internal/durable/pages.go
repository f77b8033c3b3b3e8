package durable

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"time"
)

// PageSize is the size of a page of [Pages], bytes.
const PageSize = 4096

// Pages keeps one checksum per page of a file. After a change, it reads only the written pages to update the checksum
// note, instead of the whole file. It is not safe for concurrent use.
type Pages struct {
	path    string
	sums    []uint32  // of whole pages
	changed time.Time // the modification time of the file then

	// LeftOpen reports, after Check, that the file is as [Pages.Change] left it and was not closed.
	LeftOpen bool
}

// NewPages returns the pages of a file that was not read yet.
func NewPages(path string) *Pages { return &Pages{path: path} }

// Change calls write and then renews the note of [Pages.NoteClosed], even if write fails. pages holds the numbers, from 0, of the pages
// that write may change. write may also shorten or extend the file. If the machine crashes during the call, the file has no note.
func (p *Pages) Change(pages map[int64]bool, write func() error) error {
	p.dropIfChanged()
	if err := ForgetClosed(p.path); err != nil {
		return err
	}
	err := write()
	return errors.Join(err, p.writeNote(pages, true))
}

// NoteClosed records the state of a closed file, in a note beside it.
func (p *Pages) NoteClosed() error {
	p.dropIfChanged()
	return p.writeNote(nil, false)
}

// dropIfChanged drops the checksums if another program wrote to the file.
func (p *Pages) dropIfChanged() {
	if st, err := os.Stat(p.path); err != nil || !st.ModTime().Equal(p.changed) {
		p.sums = nil
	}
}

// writeNote writes the note beside the file; see read.
func (p *Pages) writeNote(pages map[int64]bool, open bool) error {
	now, err := p.readPages(pages)
	if err != nil {
		return err
	}
	now.Open = open
	return WriteJSON(p.path+closedSuffix, now, 0o600)
}

// readPages reads the given pages of the file, and those without a known checksum. It returns the state of the file.
func (p *Pages) readPages(pages map[int64]bool) (n closedNote, err error) {
	f, err := os.Open(p.path)
	if err != nil {
		return n, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return n, err
	}
	n.Size, n.Changed = before.Size(), before.ModTime()
	whole := n.Size / PageSize
	p.sums = p.sums[:min(int64(len(p.sums)), whole)]
	page := make([]byte, PageSize)
	for at := range pages {
		if at < int64(len(p.sums)) {
			if _, err := f.ReadAt(page, at*PageSize); err != nil {
				return n, err
			}
			p.sums[at] = crc32.Checksum(page, castagnoli)
		}
	}
	from := int64(len(p.sums)) * PageSize
	in := bufio.NewReaderSize(io.NewSectionReader(f, from, n.Size-from), 64<<10)
	for int64(len(p.sums)) < whole {
		if _, err := io.ReadFull(in, page); err != nil {
			return n, err
		}
		p.sums = append(p.sums, crc32.Checksum(page, castagnoli))
	}
	rest, err := io.ReadAll(in)
	if err != nil {
		return n, err
	}
	part, per := uint32(0), partPages(whole)
	for i, sum := range p.sums {
		n.Sum = shiftOverPage(n.Sum) ^ sum
		part = shiftOverPage(part) ^ sum
		if int64(i+1)%per == 0 || int64(i+1) == whole {
			n.Parts, part = binary.LittleEndian.AppendUint32(n.Parts, part), 0
		}
	}
	n.Sum = crc32.Update(n.Sum, castagnoli, rest)
	after, err := f.Stat()
	if err == nil && (!after.ModTime().Equal(n.Changed) || after.Size() != n.Size) {
		err = fmt.Errorf("read %s: %w", p.path, errBeingWritten)
	}
	p.changed = n.Changed
	if err != nil {
		p.sums = nil
	}
	return n, err
}

// maxParts is the maximum number of parts of a file, so that its note stays small.
const maxParts = 1024

// partPages returns the number of pages in each part of a file with the given number of pages; the last part may have fewer.
func partPages(pages int64) int64 { return max(1, (pages+maxParts-1)/maxParts) }

// differingPages returns the pages of the parts that differ from the pages of a file of the same size; nil if those are unknown.
func (n *closedNote) differingPages(was closedNote) map[int64]bool {
	if len(was.Parts) != len(n.Parts) {
		return nil
	}
	whole := n.Size / PageSize
	per, pages := partPages(whole), map[int64]bool{}
	for at := int64(0); at*4 < int64(len(n.Parts)); at++ {
		if !bytes.Equal(n.Parts[at*4:at*4+4], was.Parts[at*4:at*4+4]) {
			for page := at * per; page < min((at+1)*per, whole); page++ {
				pages[page] = true
			}
		}
	}
	if len(pages) == 0 { // it is the data behind the last whole page
		pages[whole] = true
	}
	return pages
}

// shiftOverPage returns the contribution of the checksum of some bytes to the checksum of these bytes followed by
// a page. The other part is the checksum of the page. The function is linear in each bit of sum (crc32_combine
// of zlib).
func shiftOverPage(sum uint32) uint32 {
	t := pageShiftTable()
	return t[0][byte(sum)] ^ t[1][byte(sum>>8)] ^ t[2][byte(sum>>16)] ^ t[3][byte(sum>>24)]
}

var pageShiftTable = sync.OnceValue(func() *[4][256]uint32 {
	var t [4][256]uint32
	zeros := make([]byte, PageSize)
	for i := range t {
		for bit := range 8 {
			one := uint32(1) << (8*i + bit)
			moved := ^crc32.Update(^one, castagnoli, zeros)
			for b := range t[i] {
				if b>>bit&1 == 1 {
					t[i][b] ^= moved
				}
			}
		}
	}
	return &t
})
