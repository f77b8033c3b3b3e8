package tsdb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/tsdb/wlog"
	"github.com/prometheus/prometheus/util/compression"
)

// The write-ahead logs are directories of numbered segments of 32 KiB pages with records, each with a checksum
// (https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/wal.md). The database stops at the first unreadable record and
// deletes all later segments. Here unreadable records are removed before the database reads the log.

const walPage = 32 << 10

// logSegment is a file of a log, by its path below the directory of the store.
type logSegment struct {
	file string
	log  string // wal, wal/checkpoint.N or wbl
	last bool   // of its log
	bad  []badRecord
	torn bool // it ends in the middle of a record, as after a crash, and is the last
}

type badRecord struct {
	at    int64 // byte; -1 is the whole file
	why   string
	empty bool // it is the space between the last record of a page and its end
}

// notedLogs are the sizes of the logs when the store was closed, or lower bounds while it was open. It is nil without a note.
type notedLogs struct {
	Newest    int64            `json:"newest"`              // time of the newest sample, milliseconds
	OldestOOO int64            `json:"oldestOOO,omitempty"` // of the oldest one out of order that is in no block; 0: not known
	Files     map[string]int64 `json:"files"`               // sizes, by the paths below the directory of the store
	Open      bool             `json:"open,omitempty"`
	Series    int              `json:"series,omitempty"` // see noteSize
}

// size returns the size of a file, -1 if unknown.
func (c *notedLogs) size(file string) int64 {
	if c == nil {
		return -1
	}
	if n, ok := c.Files[file]; ok {
		return n
	}
	return -1
}

func (c *notedLogs) files() map[string]int64 {
	if c == nil {
		return nil
	}
	return c.Files
}

// filesSince returns the noted files, except those that a checkpoint replaced since the store was opened. first is the
// number of the first segment after the checkpoint.
func (c *notedLogs) filesSince(first int) map[string]int64 {
	if c == nil || !c.Open {
		return c.files()
	}
	left := maps.Clone(c.Files)
	maps.DeleteFunc(left, func(file string, _ int64) bool {
		n, err := strconv.Atoi(filepath.Base(file))
		return err != nil || n < first
	})
	return left
}

// filesUnlessReplaced returns the noted files of a log, or nil if the database may have removed them. The database removes
// segments after it has written their samples to blocks, and begins a new segment before that. If the newest segment is
// not a noted one, the noted files may therefore be gone.
func (c *notedLogs) filesUnlessReplaced(dir, log string) map[string]int64 {
	if c == nil || !c.Open {
		return c.files()
	}
	entries, err := os.ReadDir(filepath.Join(dir, log))
	if err != nil || len(entries) == 0 { // the segments are listed with their numbers in order
		return c.Files
	}
	if _, known := c.Files[filepath.Join(log, entries[len(entries)-1].Name())]; known {
		return c.Files
	}
	return nil
}

// syncLogs makes the system write the logs to disk, because a commit leaves their last page in the page cache.
func syncLogs(dir string) (err error) {
	for _, log := range []string{"wal", "wbl"} {
		files, _ := filepath.Glob(filepath.Join(dir, log, "[0-9]*"))
		for _, name := range files {
			f, bad := os.Open(name)
			if bad == nil {
				bad = errors.Join(f.Sync(), f.Close())
			}
			err = errors.Join(err, bad)
		}
	}
	return err
}

// readLogs reads all logs of the store. It returns their segments in the order of replay, including missing segments.
// damaged reports whether any segment is damaged or missing.
func readLogs(dir string, noted *notedLogs) (all []logSegment, damaged bool, err error) {
	checkpoint, number, err := newestCheckpoint(dir, noted.files())
	if err != nil {
		return nil, false, err
	}
	for _, log := range []struct {
		name  string
		first int // below 0: it may begin anywhere
	}{{checkpoint, 0}, {"wal", number + 1}, {"wbl", -1}} {
		if log.name == "" {
			continue
		}
		sizes := noted.filesSince(log.first)
		if log.name == "wbl" {
			sizes = noted.filesUnlessReplaced(dir, log.name)
		}
		list, err := listSegments(dir, log.name, log.first, sizes)
		if err != nil {
			return nil, false, err
		}
		all = append(all, list...)
	}
	for i := range all {
		if err := all[i].check(dir, noted); err != nil {
			return nil, false, err
		}
		damaged = damaged || len(all[i].bad) > 0
	}
	return all, damaged, nil
}

// newestCheckpoint returns the name and the number of the checkpoint that is replayed before the log. It contains what
// is still needed from the segments up to its number. The number is -1 if there is no checkpoint.
func newestCheckpoint(dir string, sizes map[string]int64) (name string, number int, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "wal", "checkpoint.*"))
	if err != nil {
		return "", 0, err
	}
	for file := range sizes {
		paths = append(paths, filepath.Dir(file))
	}
	number = -1
	for _, path := range paths {
		if st, err := os.Stat(path); err == nil && !st.IsDir() {
			continue // nothing that could be replayed: the database reports that
		}
		text, ok := strings.CutPrefix(filepath.Base(path), "checkpoint.")
		if n, err := strconv.Atoi(text); ok && err == nil && n > number {
			name, number = filepath.Join("wal", filepath.Base(path)), n
		}
	}
	return name, number, nil
}

// listSegments returns the segments of a log that exist or should exist, from number first to the last one that exists or
// was noted. A negative first starts at the lowest number.
func listSegments(dir, log string, first int, sizes map[string]int64) (list []logSegment, err error) {
	have := map[int]bool{}
	entries, err := os.ReadDir(filepath.Join(dir, log))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			have[n] = true
		}
	}
	all := slices.Collect(maps.Keys(have))
	for file := range sizes {
		if n, err := strconv.Atoi(filepath.Base(file)); err == nil && filepath.Dir(file) == log {
			all = append(all, n)
		}
	}
	if s := (logSegment{log: log}); len(all) == 0 && s.isCheckpoint() {
		all = []int{0}
	} else if len(all) == 0 {
		return nil, nil
	}
	from, last := slices.Min(all), slices.Max(all)
	if first >= 0 {
		from = min(from, first)
	}
	for n := from; n <= last; n++ {
		s := logSegment{file: filepath.Join(log, fmt.Sprintf("%08d", n)), log: log, last: n == last}
		if was, ok := sizes[s.file]; !have[n] {
			s.bad = []badRecord{{at: -1, why: "it is missing", empty: ok && was == 0}}
		}
		list = append(list, s)
	}
	return list, nil
}

// isCheckpoint reports whether the segment belongs to a checkpoint, which gets its name once it is completely on disk.
func (s *logSegment) isCheckpoint() bool { return filepath.Dir(s.log) != "." }

// check reads a segment and records its faults.
func (s *logSegment) check(dir string, noted *notedLogs) error {
	if len(s.bad) > 0 {
		return nil
	}
	path := filepath.Join(dir, s.file)
	goodAfter := false
	size, err := eachRecord(path, func([]byte) error { goodAfter = true; return nil }, func(b badRecord) error {
		s.bad, goodAfter = append(s.bad, b), false
		return nil
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if was := noted.size(s.file); size < was && len(s.bad) == 0 {
		s.bad = []badRecord{{at: size, why: fmt.Sprintf("it is cut off: %d bytes of %d", size, was)}}
	}
	s.torn = s.last && !s.isCheckpoint() && len(s.bad) == 1 && !goodAfter &&
		(noted == nil || noted.Open && s.bad[0].at >= noted.size(s.file))
	return nil
}

// eachRecord calls good for each record of a segment and bad for each unreadable place, in order. It returns the size
// of the file. After an unreadable place, it continues with the first record that begins on a later page. A record
// never extends into another segment.
func eachRecord(path string, good func(rec []byte) error, bad func(badRecord) error) (size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size = st.Size()
	rest := int64(0) // bytes at the begin of the page that belong to a record that lost a part
	for at := int64(0); at < size; {
		done, why, err := readRecordsFrom(f, at, rest, size, good)
		if err != nil {
			return size, err
		}
		if why == nil {
			break
		}
		at += done
		next := at/walPage*walPage + walPage
		empty, err := isZeroed(f, at, min(next, size))
		if err == nil {
			err = bad(badRecord{at, why.Error(), empty})
		}
		if err != nil {
			return size, err
		}
		if at, rest, err = skipDamagedRecord(f, next, size); err != nil {
			return size, err
		}
	}
	return size, nil
}

// readRecordsFrom calls good for each record from the offset page on. It skips rest bytes at that offset, which
// belong to an earlier record. done is the number of bytes read. why is the reason if a record is unreadable.
func readRecordsFrom(f *os.File, page, rest, size int64, good func(rec []byte) error) (done int64, why, err error) {
	// The reader begins with a page: in the place of the rest it finds a record of the same size.
	stand := make([]byte, rest)
	if rest > 0 {
		stand[0] = recordFull
		binary.BigEndian.PutUint16(stand[1:], uint16(rest-recordHeader))
		binary.BigEndian.PutUint32(stand[3:], crc32.Checksum(stand[recordHeader:], crc32.MakeTable(crc32.Castagnoli)))
	}
	in := io.MultiReader(bytes.NewReader(stand), io.NewSectionReader(f, page+rest, size-page-rest))
	r := wlog.NewReader(bufio.NewReaderSize(in, walPage))
	for r.Next() {
		if done == 0 && rest > 0 {
			done = rest
			continue
		}
		if err := good(r.Record()); err != nil {
			return done, nil, err
		}
		done = r.Offset()
	}
	why = r.Err()
	if why == nil {
		return done, nil, nil
	}
	var trouble *fs.PathError // of the machine, not of the content of the file
	if errors.Is(why, fs.ErrClosed) || errors.As(why, &trouble) {
		return done, nil, why
	}
	var ce *wlog.CorruptionErr
	if errors.As(why, &ce) {
		why = ce.Err
	}
	return done, why, nil
}

// A record consists of fragments that do not cross the end of a page. The header of a fragment has one byte for the
// type, two for the length and four for the checksum.
const (
	recordHeader = 7
	recordType   = 7 // the bits of the first byte that hold the type

	recordFull, recordMiddle, recordLast = 1, 3, 4
)

// skipDamagedRecord returns the offset of the next page on which reading can continue. It starts at the offset at and skips pages that
// are filled by the middle of a damaged record. rest is the number of bytes at the start of the returned page that belong to that record.
func skipDamagedRecord(f io.ReaderAt, at, size int64) (page, rest int64, err error) {
	for ; at < size; at += walPage {
		var head [recordHeader]byte
		if _, err := f.ReadAt(head[:], at); errors.Is(err, io.EOF) {
			return at, 0, nil // not even a header: the reader reports that
		} else if err != nil {
			return at, 0, err
		}
		end := recordHeader + int64(binary.BigEndian.Uint16(head[1:]))
		if end > walPage || at+end > size {
			return at, 0, nil
		}
		switch head[0] & recordType {
		case recordLast:
			return at, end, nil
		case recordMiddle: // it fills the page
		default:
			return at, 0, nil
		}
	}
	return at, 0, nil
}

// isZeroed reports whether the bytes of f from one offset to the other are all zero, except one byte that a flipped
// bit may have changed. A single changed byte is not a record, because a record header has seven bytes.
func isZeroed(f io.ReaderAt, from, to int64) (bool, error) {
	raw := make([]byte, to-from)
	if _, err := f.ReadAt(raw, from); err != nil {
		return false, err
	}
	return len(raw)-bytes.Count(raw, []byte{0}) <= 1, nil
}

// rewrite replaces a damaged segment by a segment with its readable records, after aside has moved the damaged file. A
// missing segment is replaced by an empty one. kept is the new path of the damaged file.
func (s *logSegment) rewrite(dir string, setAside func(name string) (kept string, err error)) (kept string, err error) {
	path := filepath.Join(dir, s.file)
	if s.bad[0].at < 0 {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return "", err
		}
		return "", os.WriteFile(path, nil, 0o640)
	}
	tmp := filepath.Join(dir, "wal-repair.tmp")
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o750)); err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	w, err := wlog.NewSize(nil, nil, tmp, int(st.Size()/walPage+2)*2*walPage, compression.Snappy)
	if err != nil {
		return "", err
	}
	_, err = eachRecord(path, func(rec []byte) error { return w.Log(rec) }, func(badRecord) error { return nil })
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	if kept, err = setAside(s.file); err != nil {
		return "", err
	}
	return kept, os.Rename(filepath.Join(tmp, "00000000"), path)
}
