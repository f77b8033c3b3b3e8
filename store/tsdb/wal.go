package tsdb

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
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

// The write-ahead logs are directories of numbered segments of 32 KiB pages that hold
// records, each with a checksum
// (https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/wal.md). The database
// ends at the first record that it cannot read and deletes all segments behind it. Here
// what cannot be read is left out, before the database looks.

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

// closedLogs is what the logs were when the store was closed. Nil: it was not closed.
type closedLogs struct {
	Newest int64            `json:"newest"` // time of the newest sample, milliseconds
	Files  map[string]int64 `json:"files"`  // sizes, by the paths below the directory of the store
}

// size is that of a file, -1 where it is not known.
func (c *closedLogs) size(file string) int64 {
	if c == nil {
		return -1
	}
	if n, ok := c.Files[file]; ok {
		return n
	}
	return -1
}

func (c *closedLogs) files() map[string]int64 {
	if c == nil {
		return nil
	}
	return c.Files
}

// readLogs reads all logs and returns their segments in the order in which they are replayed,
// those that are missing among them, and whether anything is wrong with one.
func readLogs(dir string, closed *closedLogs) (all []logSegment, damaged bool, err error) {
	checkpoint, number, err := newestCheckpoint(dir, closed.files())
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
		list, err := segmentsOf(dir, log.name, log.first, closed.files())
		if err != nil {
			return nil, false, err
		}
		all = append(all, list...)
	}
	for i := range all {
		if err := all[i].check(dir, closed); err != nil {
			return nil, false, err
		}
		damaged = damaged || len(all[i].bad) > 0
	}
	return all, damaged, nil
}

// newestCheckpoint is the name and number of the checkpoint that is replayed before the log:
// it holds what was still needed of the segments up to its number. Without one that is -1.
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
			continue // nothing that could be replayed: the database says so
		}
		text, ok := strings.CutPrefix(filepath.Base(path), "checkpoint.")
		if n, err := strconv.Atoi(text); ok && err == nil && n > number {
			name, number = filepath.Join("wal", filepath.Base(path)), n
		}
	}
	return name, number, nil
}

// segmentsOf lists the segments of a log that there are, and those that there should be: from
// a number on, or anywhere where that is below 0, up to the last that there is or was.
func segmentsOf(dir, log string, first int, sizes map[string]int64) (list []logSegment, err error) {
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
	if len(all) == 0 {
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

// check reads a segment for what is wrong with it.
func (s *logSegment) check(dir string, closed *closedLogs) error {
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
	if was := closed.size(s.file); size < was && len(s.bad) == 0 {
		s.bad = []badRecord{{at: size, why: fmt.Sprintf("it is cut off: %d bytes of %d", size, was)}}
	}
	s.torn = s.last && len(s.bad) == 1 && !goodAfter && closed == nil
	return nil
}

// eachRecord calls good for each record of a segment and bad for each place that cannot be
// read, in order, and returns the size of the file. Behind such a place it goes on with the
// next page: records never reach from one segment into another.
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
	for at := int64(0); at < st.Size(); {
		r := wlog.NewReader(bufio.NewReaderSize(io.NewSectionReader(f, at, st.Size()-at), walPage))
		done := int64(0) // behind the last good record
		for r.Next() {
			if err := good(r.Record()); err != nil {
				return st.Size(), err
			}
			done = r.Offset()
		}
		if r.Err() == nil {
			break
		}
		if errors.Is(r.Err(), fs.ErrClosed) || !isCorrupt(r.Err()) {
			return st.Size(), r.Err()
		}
		why := r.Err()
		var ce *wlog.CorruptionErr
		if errors.As(why, &ce) {
			why = ce.Err
		}
		at += done
		next := at/walPage*walPage + walPage
		empty, err := isEmpty(f, at, min(next, st.Size()))
		if err == nil {
			err = bad(badRecord{at, why.Error(), empty})
		}
		if err != nil {
			return st.Size(), err
		}
		at = next
	}
	return st.Size(), nil
}

// isEmpty reports whether nothing but zeros lies between two bytes of a file, and one that a
// flipped bit made: a record has a header of seven.
func isEmpty(f io.ReaderAt, from, to int64) (bool, error) {
	raw := make([]byte, to-from)
	if _, err := f.ReadAt(raw, from); err != nil {
		return false, err
	}
	return len(raw)-bytes.Count(raw, []byte{0}) <= 1, nil
}

// isCorrupt tells what the file holds from trouble of the machine.
func isCorrupt(err error) bool {
	var pe *fs.PathError
	return !errors.As(err, &pe)
}

// rewrite replaces a segment by one that holds what can be read of it, and moves the damaged
// one aside; where it is missing it becomes empty.
func (s *logSegment) rewrite(dir string, aside func(name string) (kept string, err error)) (kept string, err error) {
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
	if kept, err = aside(s.file); err != nil {
		return "", err
	}
	return kept, os.Rename(filepath.Join(tmp, "00000000"), path)
}
