package queue

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	segmentSuffix   = ".queue"
	fileMagic       = "RKNQ0001"
	fileHeaderBytes = int64(len(fileMagic))
	headerBytes     = 16 // length, checksum, time
	maxRecord       = 16 << 20
	positionBytes   = 20 // segment, offset, checksum
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errDamaged = errors.New("record is damaged")
)

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func fdatasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

func segmentName(id uint64) string { return fmt.Sprintf("%016x%s", id, segmentSuffix) }

func parseSegmentName(name string) (id uint64, ok bool) {
	hex, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(hex) != 16 {
		return 0, false
	}
	id, err := strconv.ParseUint(hex, 16, 64)
	return id, err == nil
}

// segment is one file of the log.
type segment struct {
	id      uint64
	name    string
	file    *os.File
	size    int64
	newest  int64   // time of the newest record, milliseconds
	waiting int     // records not read yet
	starts  []int64 // of records, while opening
	buf     []byte
}

func newSegment(name string, id uint64) (*segment, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt([]byte(fileMagic), 0); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return &segment{id: id, name: name, file: f, size: fileHeaderBytes}, nil
}

// openSegment reads the complete records of a segment file and truncates the file after them. damaged is the number of
// bytes that it cut off.
func openSegment(name string, id uint64) (s *segment, damaged int64, err error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	s = &segment{id: id, name: name, file: f, size: fileHeaderBytes}
	r := bufio.NewReaderSize(f, 64<<10)
	var m [fileHeaderBytes]byte
	if _, err := io.ReadFull(r, m[:]); err == nil && string(m[:]) == fileMagic {
		s.readRecords(r)
	} else if err != nil && !isEOF(err) {
		return nil, 0, errors.Join(err, f.Close())
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	if damaged = info.Size() - s.size; damaged > 0 || string(m[:]) != fileMagic {
		err = f.Truncate(s.size)
		if err == nil {
			_, err = f.WriteAt([]byte(fileMagic), 0)
		}
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("cut the torn end of %s: %w", name, err), f.Close())
	}
	return s, max(damaged, 0), nil
}

// readRecords reads records up to the first incomplete one.
func (s *segment) readRecords(r io.Reader) {
	var head [headerBytes]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		n := int64(binary.LittleEndian.Uint32(head[:]))
		if n == 0 || n > maxRecord {
			return
		}
		sum := crc32.New(castagnoli)
		sum.Write(head[8:])
		if m, err := io.CopyN(sum, r, n); m != n || err != nil {
			return
		}
		if sum.Sum32() != binary.LittleEndian.Uint32(head[4:]) {
			return
		}
		s.starts = append(s.starts, s.size)
		s.size += headerBytes + n
		s.newest = max(s.newest, int64(binary.LittleEndian.Uint64(head[8:])))
	}
}

// isBoundary reports whether a record starts at the offset, or the segment ends there.
func (s *segment) isBoundary(at int64) bool {
	if at == s.size {
		return true
	}
	for _, start := range s.starts {
		if start == at {
			return true
		}
	}
	return false
}

// countFrom returns the number of records that start at or after the offset, and frees the list of starts.
func (s *segment) countFrom(from int64) (n int) {
	for _, start := range s.starts {
		if start >= from {
			n++
		}
	}
	s.starts = nil
	return n
}

// appendRecord writes a record with one system call. If the process is killed, the record is therefore complete or incomplete
// at the end of the file, never in between. If the disk is full, append removes the incomplete record again.
func (s *segment) appendRecord(t time.Time, data []byte) error {
	b := binary.LittleEndian.AppendUint32(s.buf[:0], uint32(len(data)))
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(t.UnixMilli()))
	b = append(b, data...)
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	s.buf = b
	if _, err := s.file.WriteAt(b, s.size); err != nil {
		return errors.Join(err, s.file.Truncate(s.size))
	}
	s.size += int64(len(b))
	s.newest = max(s.newest, t.UnixMilli())
	s.waiting++
	return nil
}

// readPosition reads a stored position. It returns the zero position if the file is incomplete.
func readPosition(f *os.File) position {
	var b [positionBytes]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return position{}
	}
	if crc32.Checksum(b[:16], castagnoli) != binary.LittleEndian.Uint32(b[16:]) {
		return position{}
	}
	return position{binary.LittleEndian.Uint64(b[:]), int64(binary.LittleEndian.Uint64(b[8:]))}
}

func writePosition(f *os.File, p position) error {
	var b [positionBytes]byte
	binary.LittleEndian.PutUint64(b[:], p.segment)
	binary.LittleEndian.PutUint64(b[8:], uint64(p.offset))
	binary.LittleEndian.PutUint32(b[16:], crc32.Checksum(b[:16], castagnoli))
	_, err := f.WriteAt(b[:], 0)
	return err
}
