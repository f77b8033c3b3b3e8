package tsdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sys/unix"
)

// corruptDir is where unreadable things are kept for a person to look at.
const corruptDir = "corrupt"

// scanAtOpen is how many bytes of chunks are checked before the store opens; the
// janitor checks the rest.
const scanAtOpen = 64 << 20

// quarantineBlocks moves blocks that can not be opened, or whose chunks fail their
// checksums, out of the way.
func quarantineBlocks(dir string, log *slog.Logger) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	budget := int64(scanAtOpen)
	for i := len(entries) - 1; i >= 0; i-- { // newest first: they are asked for most
		e := entries[i]
		if _, err := ulid.ParseStrict(e.Name()); err != nil || !e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		err := openable(path)
		if err == nil && budget > 0 {
			var n int64
			n, err = verifyChunks(path)
			budget -= n
		}
		switch {
		case err == nil:
		case !unreadable(err):
			return err
		default:
			if err := setAside(dir, e.Name(), err, log); err != nil {
				return err
			}
		}
	}
	return nil
}

// openable reports whether the block has a readable meta.json and index.
func openable(path string) error {
	b, err := promtsdb.OpenBlock(nil, path, nil, nil)
	if err != nil {
		return err
	}
	return b.Close()
}

// unreadable tells damage from trouble of the machine, such as a missing permission
// or a full disk, that goes away without losing anything.
func unreadable(err error) bool {
	for _, e := range []error{fs.ErrPermission, unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

// full reports whether err says that the disk has no room.
func full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// setAside moves dir/name to dir/corrupt/name-TIME and says so.
func setAside(dir, name string, cause error, log *slog.Logger) error {
	if err := os.MkdirAll(filepath.Join(dir, corruptDir), 0o750); err != nil {
		return err
	}
	to := filepath.Join(dir, corruptDir, fmt.Sprintf("%s-%d", name, time.Now().UnixNano()))
	if err := os.Rename(filepath.Join(dir, name), to); err != nil {
		return err
	}
	log.Error("unreadable part of the series store moved aside; the rest is complete", "what", name, "kept", to, "err", cause)
	return nil
}

// setLogAside moves the write-ahead logs and what the head keeps on disk: blocks stay.
func setLogAside(dir string, cause error, log *slog.Logger) error {
	for _, name := range []string{"wal", "wbl", "chunks_head"} {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := setAside(dir, name, cause, log); err != nil {
			return err
		}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// verifyChunks reads all chunks of a block against their checksums and returns the
// bytes read. The format is chunks.md of the Prometheus tsdb documentation: a header
// of eight bytes, then per chunk its length as uvarint, one byte of encoding, the
// data, and a CRC-32C of encoding and data.
func verifyChunks(block string) (int64, error) {
	files, err := filepath.Glob(filepath.Join(block, "chunks", "*"))
	if err != nil {
		return 0, err
	}
	var total int64
	for _, name := range files {
		data, unmap, err := mapFile(name)
		if err != nil {
			return total, err
		}
		at, err := verifySegment(data)
		total += int64(len(data))
		unmap()
		if err != nil {
			return total, fmt.Errorf("%s at byte %d: %w", name, at, err)
		}
	}
	return total, nil
}

const (
	segmentMagic  = 0x85BD40DD
	segmentHeader = 8
)

func verifySegment(data []byte) (int, error) {
	if len(data) < segmentHeader || binary.BigEndian.Uint32(data) != segmentMagic {
		return 0, errors.New("not a chunk segment")
	}
	at := segmentHeader
	for at < len(data) {
		n, w := binary.Uvarint(data[at:])
		if w <= 0 || n > uint64(len(data)) {
			return at, errors.New("invalid chunk length")
		}
		begin := at + w
		end := begin + 1 + int(n)
		if end+crc32.Size > len(data) {
			return at, errors.New("chunk is cut off")
		}
		if crc32.Checksum(data[begin:end], castagnoli) != binary.BigEndian.Uint32(data[end:]) {
			return at, errors.New("chunk fails its checksum")
		}
		at = end + crc32.Size
	}
	return at, nil
}

// mapFile maps a file for reading.
func mapFile(name string) ([]byte, func(), error) {
	f, err := os.Open(name)
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

// freeBytes is what a user without privilege may still write.
func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}
