// Package block checks blocks of the Prometheus time-series database on disk
// (https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/README.md): index
// and chunks against their checksums, which the database verifies only when it reads them,
// and both against each other and against meta.json.
//
// Times are milliseconds since the Unix epoch. The functions are safe for concurrent use.
package block

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strconv"

	promtsdb "github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sys/unix"
)

// Damage describes a damaged file. Errors of another type concern the machine, such as a missing permission.
type Damage struct {
	File string
	At   int64 // byte offset, or -1 for the file as a whole
	What string
}

func (d *Damage) Error() string { return d.File + ": " + d.Reason() }

// Reason describes the damage, without the name of the file.
func (d *Damage) Reason() string {
	if d.At < 0 {
		return d.What
	}
	return fmt.Sprintf("at byte %d: %s", d.At, d.What)
}

// Info is the result of a check.
type Info struct {
	From, To       int64 // times of the first and last sample; From > To when there is none
	Series, Chunks uint64
	Bytes          int64 // read
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Verify reads a whole block. If it returns a [*Damage], Info covers the part before the damage.
func Verify(dir string) (Info, error) {
	info := Info{From: math.MaxInt64, To: math.MinInt64}
	meta, err := ReadMeta(dir)
	if err != nil {
		return info, err
	}
	segments, err := verifyChunks(dir, &info)
	if err != nil {
		return info, err
	}
	if err := verifyIndex(filepath.Join(dir, "index"), segments, &info); err != nil {
		return info, err
	}
	path := filepath.Join(dir, "meta.json")
	switch {
	case meta.Stats.NumSeries != info.Series || meta.Stats.NumChunks != info.Chunks:
		return info, &Damage{path, -1,
			fmt.Sprintf("it names %d series and %d chunks, and the index has %d and %d", meta.Stats.NumSeries, meta.Stats.NumChunks,
				info.Series, info.Chunks)}
	case info.Chunks > 0 && (info.From < meta.MinTime || info.To >= meta.MaxTime):
		return info, &Damage{path, -1,
			fmt.Sprintf("its times %d to %d are not the samples' times, %d to %d", meta.MinTime, meta.MaxTime, info.From, info.To)}
	}
	return info, nil
}

// ReadMeta reads the meta.json of a block.
func ReadMeta(dir string) (m promtsdb.BlockMeta, err error) {
	path := filepath.Join(dir, "meta.json")
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return m, &Damage{path, -1, "it is missing"}
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, &Damage{path, -1, err.Error()}
	}
	if m.ULID.String() != filepath.Base(dir) || m.Version != 1 || m.MinTime >= m.MaxTime {
		return m, &Damage{path, -1, "its name, version or times are invalid"}
	}
	return m, nil
}

const (
	tombstonesMagic  = 0x0130BA30
	tombstonesHeader = 5 // magic and version; the CRC-32C at the end covers the bytes in between
)

// VerifyDeleted checks the deletion marks (tombstones) of the block in dir. The file may be missing, but the database
// cannot open a block with a truncated one.
func VerifyDeleted(dir string) error {
	path := filepath.Join(dir, "tombstones")
	raw, err := os.ReadFile(path)
	switch end := len(raw) - crc32.Size; {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case end < tombstonesHeader || binary.BigEndian.Uint32(raw) != tombstonesMagic || raw[4] != 1:
		return &Damage{path, 0, "it is no list of deletions, or is cut off"}
	case crc32.Checksum(raw[tombstonesHeader:end], castagnoli) != binary.BigEndian.Uint32(raw[end:]):
		return &Damage{path, int64(tombstonesHeader), "it fails its checksum"}
	}
	return nil
}

const (
	chunksMagic   = 0x85BD40DD
	segmentHeader = 8
)

// verifyChunks reads all chunks and returns the sizes of their files, in order.
func verifyChunks(dir string, info *Info) (sizes []int64, err error) {
	dir = filepath.Join(dir, "chunks")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &Damage{dir, -1, "it is missing"}
	}
	if err != nil {
		return nil, err
	}
	for i, e := range entries {
		path := filepath.Join(dir, e.Name())
		if n, err := strconv.Atoi(e.Name()); err != nil || n != i+1 {
			return nil, &Damage{filepath.Join(dir, fmt.Sprintf("%06d", i+1)), -1, "it is missing"}
		}
		data, unmap, err := mapFile(path)
		if err != nil {
			return nil, err
		}
		at, what := verifySegment(data)
		info.Bytes += int64(len(data))
		sizes = append(sizes, int64(len(data)))
		unmap()
		if what != "" {
			return nil, &Damage{path, int64(at), what}
		}
	}
	return sizes, nil
}

// verifySegment checks a chunk file. The file has a header of eight bytes and, for each chunk, the length of the data
// as uvarint, an encoding byte, the data, and a CRC-32C of encoding and data. It returns the offset and a description
// of the first damage.
func verifySegment(data []byte) (at int, what string) {
	if len(data) < segmentHeader || binary.BigEndian.Uint32(data) != chunksMagic || data[4] != 1 {
		return 0, "it is no file of chunks"
	}
	for at = segmentHeader; at < len(data); {
		n, w := binary.Uvarint(data[at:])
		if w <= 0 || n > uint64(len(data)) {
			return at, "the length of a chunk is invalid"
		}
		begin := at + w
		end := begin + 1 + int(n)
		if end+crc32.Size > len(data) {
			return at, "a chunk is cut off"
		}
		if crc32.Checksum(data[begin:end], castagnoli) != binary.BigEndian.Uint32(data[end:]) {
			return at, "a chunk fails its checksum"
		}
		at = end + crc32.Size
	}
	return at, ""
}

// mapFile maps a file for reading.
func mapFile(name string) ([]byte, func(), error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, &Damage{name, -1, "it is missing"}
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if st.Size() == 0 {
		return nil, func() {}, nil
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", name, err)
	}
	return data, func() { _ = unix.Munmap(data) }, nil
}
