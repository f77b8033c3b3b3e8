// Package sqlitelog reads the log that SQLite keeps beside a file in WAL mode (https://www.sqlite.org/walformat.html).
// SQLite treats a damaged or missing log as one that ends there, and reports no error.
package sqlitelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"reckon/internal/durable"
)

// Size returns the size of the log of the file at path, bytes.
func Size(path string) int64 {
	st, err := os.Stat(path + "-wal")
	if err != nil {
		return 0
	}
	return st.Size()
}

// A write-ahead log starts with a header, followed by frames. A frame has its own header and one page of the database. It belongs to the
// log if it repeats the salt of the log's header. It is valid only if all earlier frames are, because their checksums are chained.
const (
	logHeader   = 32
	frameHeader = 24
)

// logFrame is a frame by its number, from 0 on.
type logFrame struct {
	number int64
	commit bool // it ends a transaction
	salted bool // it has the salt of the log
	valid  bool // and so have all before it, with a right checksum
}

// readLog calls each for the frames in the log.
func readLog(path string, each func(logFrame)) (pageSize int64, err error) {
	f, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var head [logHeader]byte
	if _, err := io.ReadFull(f, head[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, nil // nothing was written
	} else if err != nil {
		return 0, err
	}
	word := binary.BigEndian.Uint32
	pageSize = int64(word(head[8:]))
	if magic := word(head[:]); magic&^1 != 0x377f0682 || pageSize < 512 || pageSize > 65536 || pageSize&(pageSize-1) != 0 {
		return 0, errLogHeader
	}
	sum := logChecksum{big: head[3]&1 == 1}
	sum.addBytes(head[:24])
	if sum.a != word(head[24:]) || sum.b != word(head[28:]) {
		return pageSize, errLogHeader
	}
	valid, raw := true, make([]byte, frameHeader+pageSize)
	for n := int64(0); ; n++ {
		if _, err := io.ReadFull(f, raw); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return pageSize, nil
		} else if err != nil {
			return pageSize, err
		}
		salted := string(raw[8:16]) == string(head[16:24])
		if valid = valid && salted; valid {
			sum.addBytes(raw[:8])
			sum.addBytes(raw[frameHeader:])
			valid = sum.a == word(raw[16:]) && sum.b == word(raw[20:])
		}
		each(logFrame{number: n, commit: word(raw[4:]) != 0, salted: salted, valid: valid})
	}
}

var errLogHeader = errors.New("its header fails its checksum")

// logChecksum is the checksum of the log; the order of bytes is the order of the machine that made the log.
type logChecksum struct {
	a, b uint32
	big  bool
}

func (s *logChecksum) addBytes(raw []byte) {
	word := binary.LittleEndian.Uint32
	if s.big {
		word = binary.BigEndian.Uint32
	}
	for ; len(raw) >= 8; raw = raw[8:] {
		s.a += word(raw) + s.b
		s.b += word(raw[4:]) + s.a
	}
}

// Pages returns which pages of the file are in the log, as [durable.Pages] counts them.
func Pages(path string) (map[int64]bool, error) {
	f, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var head [logHeader]byte
	if _, err := f.ReadAt(head[:], 0); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	pages, size := map[int64]bool{}, int64(binary.BigEndian.Uint32(head[8:]))
	for at := int64(logHeader); ; at += frameHeader + size {
		var number [4]byte
		if _, err := f.ReadAt(number[:], at); errors.Is(err, io.EOF) {
			return pages, nil
		} else if err != nil {
			return nil, err
		}
		from := (int64(binary.BigEndian.Uint32(number[:])) - 1) * size
		for to := from + size; from < to; from += durable.PageSize {
			pages[from/durable.PageSize] = true
		}
	}
}

// checkLog returns the first fault in the write-ahead log of a killed process. SQLite uses the log up to the first invalid frame. An
// invalid frame is a fault only if a committed transaction follows, because a kill loses only the uncommitted rest.
func checkLog(path string) error {
	bad, behind := int64(-1), 0
	size, err := readLog(path, func(f logFrame) {
		if bad < 0 && !f.valid {
			bad = f.number
		} else if bad >= 0 && f.salted && f.commit {
			behind++
		}
	})
	if err != nil || behind == 0 {
		return err
	}
	return fmt.Errorf("at byte %d: a frame fails its checksum, and %d transactions end behind it", logHeader+bad*(frameHeader+size), behind)
}

// Report logs a damaged write-ahead log, or a missing one, and keeps a copy. there reports whether the log should
// exist. meaning describes the consequence for the user. Call Report before the database is opened.
func Report(path string, there bool, meaning string, log *slog.Logger) error {
	cause := checkLog(path)
	var trouble *fs.PathError
	switch {
	case errors.As(cause, &trouble):
		return cause
	case there && modTimeText(path+"-wal") == unknownTime:
		cause = errors.New("it is missing")
	case cause == nil:
		return nil
	}
	from, to := modTimeText(path), modTimeText(path+"-wal")
	kept := fmt.Sprintf("%s-wal.corrupt-%d", path, time.Now().UnixNano())
	raw, err := os.ReadFile(path + "-wal")
	if err == nil {
		err = os.WriteFile(kept, raw, 0o600)
	}
	if errors.Is(err, fs.ErrNotExist) {
		kept = ""
	} else if err != nil {
		return fmt.Errorf("keep the damaged log: %w", err)
	}
	log.Error("the log of a database is damaged: of what was written to it in this time a part is lost. "+meaning,
		"file", path+"-wal", "why", cause, "from", from, "to", to, "kept", kept)
	return nil
}

const unknownTime = "unknown"

func modTimeText(path string) string {
	st, err := os.Stat(path)
	if err != nil {
		return unknownTime
	}
	return st.ModTime().UTC().Format(time.RFC3339)
}
