package database

import (
	"context"
	"database/sql"
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

// SQLite appends what is committed to a log beside the file (https://www.sqlite.org/walformat.html) and changes the
// file only when it copies the log into it, a checkpoint. Checkpoints are made here and nowhere else, so that the
// checksum of the file is known at every time, also after a kill: see [durable.Pages].

// settleAt is the size of the log, bytes, from which on it is copied into the file; SQLite would do so at this size too.
const settleAt = 4 << 20

// settler copies the log into the file. The caller holds the lock of writers.
type settler struct {
	path  string
	pages *durable.Pages
	// conn stays open: SQLite makes a checkpoint when the last connection is closed.
	conn *sql.Conn
	left int64 // size of the log after the last time: readers may have kept it
	log  *slog.Logger
}

func newSettler(ctx context.Context, db *sql.DB, path string, pages *durable.Pages, log *slog.Logger) (*settler, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, `PRAGMA busy_timeout(0)`); err != nil { // nobody waits for readers
		return nil, errors.Join(err, conn.Close())
	}
	return &settler{path: path, pages: pages, conn: conn, log: log}, nil
}

// settle copies the log into the file if at least so many bytes were written to it since the last time.
func (s *settler) settle(ctx context.Context, from int64) {
	if s == nil {
		return
	}
	size := logSize(s.path)
	s.left = min(s.left, size) // SQLite begins it again once all is copied and nobody reads it
	if size-s.left < from {
		return
	}
	err := s.copy(context.WithoutCancel(ctx))
	s.left = logSize(s.path)
	if err != nil { // it is tried again, and SQLite reads the log meanwhile
		s.log.Warn("the log of the catalogue could not be copied into its file, or the checksum of that not noted", "file", s.path, "err", err)
	}
}

func (s *settler) copy(ctx context.Context) error {
	pages, err := logPages(s.path)
	if err != nil {
		return err
	}
	return s.pages.Change(pages, func() error {
		var busy, frames, copied int
		return s.conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &copied)
	})
}

// close copies the rest of the log.
func (s *settler) close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.settle(ctx, 0)
	return s.conn.Close()
}

func logSize(path string) int64 {
	st, err := os.Stat(path + "-wal")
	if err != nil {
		return 0
	}
	return st.Size()
}

// The log has a header and frames, each with a header of its own and one page of the database. A frame belongs to the
// log if it has the salt of the header, and is valid with all before it: checksums go on from one to the next.
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
	sum := logSum{big: head[3]&1 == 1}
	sum.add(head[:24])
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
			sum.add(raw[:8])
			sum.add(raw[frameHeader:])
			valid = sum.a == word(raw[16:]) && sum.b == word(raw[20:])
		}
		each(logFrame{number: n, commit: word(raw[4:]) != 0, salted: salted, valid: valid})
	}
}

var errLogHeader = errors.New("its header fails its checksum")

// logSum is the checksum of the log; the order of bytes is that of the machine that made the log.
type logSum struct {
	a, b uint32
	big  bool
}

func (s *logSum) add(raw []byte) {
	word := binary.LittleEndian.Uint32
	if s.big {
		word = binary.BigEndian.Uint32
	}
	for ; len(raw) >= 8; raw = raw[8:] {
		s.a += word(raw) + s.b
		s.b += word(raw[4:]) + s.a
	}
}

// logPages returns which pages of the file are in the log, as [durable.Pages] counts them.
func logPages(path string) (map[int64]bool, error) {
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

// checkLog returns what is wrong with the log that a killed process left. SQLite uses it up to the first frame that
// is not valid. Behind that may be the rest of a transaction that was never committed, but none that was.
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

// reportLog tells what was lost with a damaged log, or one that is missing though there should be one, and keeps a copy
// of it.
func reportLog(path string, there bool, log *slog.Logger) error {
	cause := checkLog(path)
	var trouble *fs.PathError
	switch {
	case errors.As(cause, &trouble):
		return cause
	case there && !exists(path+"-wal"):
		cause = errors.New("it is missing")
	case cause == nil:
		return nil
	}
	from, to := modified(path), modified(path+"-wal")
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
	log.Error("the log of the catalogue is damaged: of what was written to it in this time a part is lost. Runs and hours are read again from the series; "+
		"marks on findings, forecasts, runs of MetricSets and what others wrote to the knowledge graph are not: restore a backup if any are missing",
		"file", path+"-wal", "why", cause, "from", from, "to", to, "kept", kept)
	return nil
}

// removeLog removes the log of a file that is gone: SQLite would delete it too.
func removeLog(path string) error {
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func modified(path string) string {
	st, err := os.Stat(path)
	if err != nil {
		return "unknown"
	}
	return st.ModTime().UTC().Format(time.RFC3339)
}
