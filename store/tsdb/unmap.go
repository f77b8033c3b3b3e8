package tsdb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	promtsdb "github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sys/unix"
)

// unmapEnded removes the pages of blocks of ended series from the resident memory, and the pages of all blocks during a bulk import. The
// pages stay in the page cache and are mapped again on access. If many series end, there is a new block every few minutes. Such blocks
// would become resident as a whole, a megabyte per dozen thousand series, because the kernel maps 64 KiB around each touched page.
//
// unmapEnded keeps a reader of each block open, so that the block is not unmapped meanwhile. If a file is mapped once, that mapping is
// the block's. If a file is mapped twice, the other mapping may vanish at any moment and its addresses may be reused, so unmapEnded skips
// the file.
func (s *Store) unmapEnded(db *promtsdb.DB) {
	var held []io.Closer
	defer func() {
		for _, r := range held {
			_ = r.Close()
		}
	}()
	files := map[string]bool{}
	for _, b := range db.Blocks() {
		if m := b.Meta(); !m.Compaction.FromStaleSeries() && !s.bulk.Load() {
			continue
		}
		r, err := b.Index()
		if err != nil { // it is being closed
			continue
		}
		held = append(held, r)
		dir, err := filepath.Abs(b.Dir())
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err == nil {
			files[dir] = true
		}
	}
	if len(files) == 0 {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return // no such file on this system: they stay resident
	}
	defer maps.Close()
	if err := eachMapping(maps, files, adviseDontNeed); err != nil {
		s.log.Debug("pages of blocks of ended series stay resident", "err", err)
	}
}

func adviseDontNeed(address, length uint64) error {
	if _, _, no := unix.Syscall(unix.SYS_MADVISE, uintptr(address), uintptr(length), unix.MADV_DONTNEED); no != 0 {
		return no
	}
	return nil
}

// eachMapping calls drop for each file of these blocks that is mapped once, shared and only to be read (proc_pid_maps(5)).
func eachMapping(maps io.Reader, blocks map[string]bool, yield func(from, length uint64) error) (err error) {
	type mapping struct {
		from, to uint64
		times    int
	}
	found := map[string]mapping{}
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		area, path, ok := strings.Cut(lines.Text(), "/")
		if path = "/" + path; !ok || strings.HasSuffix(path, " (deleted)") || !blocks[filepath.Dir(path)] &&
			!blocks[filepath.Dir(filepath.Dir(path))] {
			continue
		}
		var m mapping
		var rights string
		if _, bad := fmt.Sscanf(area, "%x-%x %s", &m.from, &m.to, &rights); bad != nil || m.to <= m.from {
			return fmt.Errorf("mapping %q: %w", area, errors.Join(bad, io.ErrUnexpectedEOF))
		}
		m.times = found[path].times + 1
		if rights != "r--s" {
			m.times++ // not as the database maps it
		}
		found[path] = m
	}
	for path, m := range found {
		if m.times != 1 {
			continue
		}
		if one := yield(m.from, m.to-m.from); one != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", path, one))
		}
	}
	return errors.Join(err, lines.Err())
}
