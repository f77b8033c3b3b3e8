package tsdb

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sys/unix"

	"reckon/internal/durable"
	"reckon/internal/durable/block"
	"reckon/store"
)

// corruptDir is the directory for unreadable files, so that an administrator can inspect them.
const corruptDir = "corrupt"

// scanAtOpen is the number of bytes of blocks that are checked before the store opens; the janitor checks the rest.
const scanAtOpen = 64 << 20

// notedLogsFile holds the sizes of the logs when the store was closed, or a lower bound while it is open. Missing or
// truncated segments are therefore noticed even after a crash, except for data of the last minute.
const notedLogsFile = "logs.json"

// checkFiles checks blocks and logs before the database opens them. Unreadable ones are moved aside and their time is recorded.
func (s *Store) checkFiles() error {
	if err := s.gaps.load(s.opts.Dir); err != nil {
		s.log.Warn(err.Error())
	}
	s.manifest.known = loadManifest(s.opts.Dir, s.log)
	s.checkImported()
	since, err := s.checkBlocks()
	if err != nil {
		return err
	}
	return s.checkLogs(since)
}

// checkImported creates the list of imported blocks again if it is unreadable.
func (s *Store) checkImported() {
	var ids []ulid.ULID
	for id, e := range s.manifest.known {
		if e.Imported {
			ids = append(append(ids, id), e.Sources...)
		}
	}
	file := filepath.Join(s.opts.Dir, importedFile)
	err := s.imported.load(s.opts.Dir)
	if err == nil && (len(ids) == 0 || durable.Exists(file)) {
		return
	}
	if len(ids) == 0 {
		s.log.Warn("the list of imported blocks cannot be read: no block is deleted for its age, and nothing can be imported", "file", file,
			"err", err)
		return
	}
	s.log.Warn("the list of imported blocks cannot be read and is made again from that of all blocks; nothing is lost", "file", file, "err",
		err)
	if err := s.imported.replace(s.opts.Dir, ids); err != nil {
		s.log.Warn("the list of imported blocks could not be written", "file", file, "err", err)
	}
}

// checkBlocks returns the time before which all samples are in blocks, or math.MinInt64 if there are no blocks.
func (s *Store) checkBlocks() (since int64, err error) {
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		return 0, err
	}
	budget, since := int64(scanAtOpen), int64(math.MinInt64)
	metas := map[ulid.ULID]promtsdb.BlockMeta{}
	damaged := map[ulid.ULID]error{}
	for i := len(entries) - 1; i >= 0; i-- { // newest first: they are asked for most
		id, err := ulid.ParseStrict(entries[i].Name())
		if err != nil || !entries[i].IsDir() {
			continue
		}
		path := filepath.Join(s.opts.Dir, id.String())
		info, err := s.checkBlock(id, path, budget > 0)
		budget -= info.Bytes
		if err != nil && !isDamage(err) {
			return 0, err
		}
		meta, metaErr := block.ReadMeta(path)
		if metaErr == nil {
			metas[id] = meta
		}
		if err != nil {
			damaged[id] = err
			if info.From <= info.To { // the range that could be read is better than none
				meta.MinTime, meta.MaxTime = info.From, info.To+1
			}
			if _, ok := s.manifest.known[id]; !ok {
				s.manifest.known[id] = blockEntry{From: meta.MinTime, To: meta.MaxTime}
			}
			continue
		}
		if !meta.Compaction.FromOutOfOrder() && !meta.Compaction.FromStaleSeries() {
			since = max(since, meta.MaxTime)
		}
	}
	for id, err := range damaged {
		if err := s.setBlockAside(id, err); err != nil {
			return 0, err
		}
		delete(metas, id)
	}
	for id, e := range s.manifest.known {
		if _, ok := metas[id]; ok || damaged[id] != nil {
			continue
		}
		replaced := false
		for _, m := range metas {
			replaced = replaced || e.replacedBy(id, &m)
		}
		if !replaced {
			if err := s.setBlockAside(id, errors.New("it is missing")); err != nil {
				return 0, err
			}
		}
	}
	limit := time.UnixMilli(math.MinInt64 / 2)
	if s.opts.Retention > 0 {
		limit = s.opts.Clock().Add(-s.opts.Retention)
	}
	return since, s.gaps.dropRestored(s.opts.Dir, limit, func(file string) bool {
		name, _, _ := strings.Cut(file, string(filepath.Separator))
		id, err := ulid.ParseStrict(name)
		_, back := metas[id]
		return err == nil && back
	})
}

// checkBlock returns an error if a block is damaged. It reads the whole block if readAll is set.
func (s *Store) checkBlock(id ulid.ULID, path string, readAll bool) (info block.Info, err error) {
	info.From, info.To = math.MaxInt64, math.MinInt64
	if e, ok := s.manifest.known[id]; ok {
		sum, err := metaChecksum(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return info, err
		}
		if err != nil || sum != e.Meta {
			return info, &block.Damage{File: filepath.Join(path, "meta.json"), At: -1, What: "it is not as it was written"}
		}
	}
	if readAll {
		if info, err = block.Verify(path); err != nil {
			return info, err
		}
	}
	if err := s.checkTombstones(id, path); err != nil {
		return info, err
	}
	b, err := promtsdb.OpenBlock(nil, path, nil, nil)
	if err != nil {
		return info, err
	}
	return info, b.Close()
}

// checkTombstones reads a block's list of deletions. An unreadable one is moved aside if nothing was deleted.
func (s *Store) checkTombstones(id ulid.ULID, path string) error {
	err := block.VerifyDeleted(path)
	var d *block.Damage
	if !errors.As(err, &d) {
		return err
	}
	if meta, metaErr := block.ReadMeta(path); metaErr != nil || meta.Stats.NumTombstones > 0 {
		return err
	}
	kept, err := s.setAside(filepath.Join(id.String(), filepath.Base(d.File)))
	s.log.Warn("the list of what was deleted from a block was damaged; nothing was deleted and nothing is lost", "file", d.File, "why",
		d.Reason(), "kept", kept)
	return err
}

// setBlockAside moves a block to corrupt/, if it exists, and records the resulting gap.
func (s *Store) setBlockAside(id ulid.ULID, cause error) error {
	e := s.manifest.known[id]
	gap := store.Gap{File: id.String(), Why: cause.Error(), To: s.opts.Clock(), Noticed: s.opts.Clock()}
	if e.From < e.To {
		gap.From, gap.To = time.UnixMilli(e.From), time.UnixMilli(e.To)
	}
	var d *block.Damage
	if errors.As(cause, &d) {
		if rel, err := filepath.Rel(s.opts.Dir, d.File); err == nil {
			gap.File, gap.Why = rel, d.Reason()
		}
	}
	if durable.Exists(filepath.Join(s.opts.Dir, id.String())) {
		var err error
		if gap.Kept, err = s.setAside(id.String()); err != nil {
			return err
		}
	}
	delete(s.manifest.known, id)
	return s.reportGap(gap)
}

// reportGap notes and reports a gap.
func (s *Store) reportGap(gap store.Gap) error {
	s.log.Error("a part of the series was damaged and is left out; the rest is complete", "file", gap.File, "why", gap.Why,
		"from", formatTime(gap.From), "to", formatTime(gap.To), "kept", gap.Kept)
	if err := s.gaps.add(s.opts.Dir, gap); err != nil {
		return fmt.Errorf("note which samples are missing: %w", err)
	}
	return nil
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "the begin"
	}
	return t.UTC().Format(time.RFC3339)
}

// checkLogs removes unreadable parts of the logs.
func (s *Store) checkLogs(since int64) error {
	noted := s.takeLogsNote()
	all, damaged, err := readLogs(s.opts.Dir, noted)
	if err != nil || !damaged {
		return err
	}
	found, err := findLosses(s.opts.Dir, all, noted, since, s.log)
	if err != nil {
		return err
	}
	kept := map[string]string{}
	for i := range all {
		if len(all[i].bad) == 0 || all[i].torn {
			continue // the database cuts a torn end off
		}
		s.lock.died = true // Chunks of lost records may be on the disk: see openDB.
		if kept[all[i].file], err = all[i].rewrite(s.opts.Dir, s.setAside); err != nil {
			if isDiskFull(err) {
				return diskFullError(s.opts.Dir, err)
			}
			return fmt.Errorf("repair %s: %w", all[i].file, err)
		}
	}
	lost := map[string]bool{} // by segment
	for _, l := range found {
		if !l.bad.empty {
			lost[l.segment.file], s.lost = true, true
		}
	}
	for _, l := range found {
		if l.bad.empty {
			if lost[l.segment.file] {
				continue // zeros of a lost part, which is reported
			}
			s.log.Warn("a part of a log that held nothing was damaged; nothing is lost", "file", l.segment.file, "at", l.bad.at, "why",
				l.bad.why)
			continue
		}
		if err := s.reportGap(l.toGap(kept[l.segment.file], s.opts.Clock())); err != nil {
			return err
		}
	}
	return nil
}

// takeLogsNote returns the note that noteLogs wrote, and removes it, because the logs grow from now on.
func (s *Store) takeLogsNote() *notedLogs {
	path := filepath.Join(s.opts.Dir, notedLogsFile)
	var noted notedLogs
	err := durable.ReadJSON(path, &noted)
	if errors.Is(err, fs.ErrNotExist) && !hasContents(filepath.Join(s.opts.Dir, "wal")) {
		return nil // it is new, or was restored
	}
	_ = os.Remove(path) // it is rewritten
	s.noted = nil
	if err != nil {
		s.log.Warn("the sizes of the logs cannot be read and are noted again: a log that is missing or cut off now is not noticed", "file",
			path, "err", err)
		return nil
	}
	s.size = noted.Series
	return &noted
}

// noteLogs writes the state of the logs to a file, or a lower bound if open is set. It first syncs the newest segments,
// because after a power failure the note must not claim data that never reached the disk.
func (s *Store) noteLogs(newest, oldestOOO int64, open bool) error {
	noted := notedLogs{Newest: newest, Files: map[string]int64{}, Open: open, Series: s.size}
	if oldestOOO != math.MaxInt64 {
		noted.OldestOOO = oldestOOO
	}
	var last []string
	for _, log := range []string{"wal", "wbl"} {
		files, newest, err := s.segmentSizes(log)
		if err != nil {
			return err
		}
		maps.Copy(noted.Files, files)
		if newest != "" {
			last = append(last, newest)
		}
	}
	if open {
		if maps.Equal(noted.Files, s.noted) {
			return nil
		}
		for _, file := range last {
			if err := durable.Sync(filepath.Join(s.opts.Dir, file)); err != nil {
				return err
			}
		}
	}
	if err := durable.WriteJSON(filepath.Join(s.opts.Dir, notedLogsFile), noted, 0o640); err != nil {
		return err
	}
	s.noted = noted.Files
	return nil
}

// segmentSizes returns the sizes of the segments and checkpoints of a log, by path below the store directory, and the
// path of the newest segment.
func (s *Store) segmentSizes(log string) (sizes map[string]int64, newest string, err error) {
	sizes = map[string]int64{}
	err = filepath.WalkDir(filepath.Join(s.opts.Dir, log), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		rel, relErr := filepath.Rel(s.opts.Dir, path)
		if _, nan := strconv.Atoi(e.Name()); nan == nil && err == nil && relErr == nil {
			sizes[rel] = info.Size()
			if filepath.Dir(rel) == log {
				newest = rel // they are listed with their numbers in order
			}
		}
		return errors.Join(err, relErr)
	})
	if errors.Is(err, fs.ErrNotExist) { // or a checkpoint was replaced meanwhile
		err = nil
	}
	return sizes, newest, err
}

// noteOpen writes a note with the present sizes of the logs as a lower bound.
func (s *Store) noteOpen(db *promtsdb.DB) {
	_, newest := extent(db)
	if err := s.noteLogs(newest, db.Head().MinOOOTime(), true); err != nil {
		s.log.Debug("what the logs are could not be noted: one that is missing or cut off after a crash is not noticed", "err", err)
	}
}

// isDamage reports whether err shows that a file is damaged. After other errors, such as a missing permission or a
// full disk, the data still exists.
func isDamage(err error) bool {
	for _, e := range []error{fs.ErrPermission, unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

// isDiskFull reports whether err states that the disk has no room.
func isDiskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// setAside moves dir/name to dir/corrupt and returns its new path.
func (s *Store) setAside(name string) (kept string, err error) {
	to := filepath.Join(s.opts.Dir, corruptDir)
	if err := os.MkdirAll(to, 0o750); err != nil {
		return "", err
	}
	to = filepath.Join(to, fmt.Sprintf("%s-%d", filepath.ToSlash(name), time.Now().UnixNano()))
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return "", err
	}
	return to, os.Rename(filepath.Join(s.opts.Dir, name), to)
}

// setHeadAside moves the named files of the head to corrupt/, and the logs as well if that is not enough. Blocks stay.
func (s *Store) setHeadAside(cause error, names ...string) error {
	for _, name := range names {
		if !durable.Exists(filepath.Join(s.opts.Dir, name)) {
			continue
		}
		kept, err := s.setAside(name)
		if err != nil {
			return err
		}
		if name == "chunks_head" {
			s.log.Warn("chunks of the head cannot be read; their samples are in the log", "kept", kept, "err", cause)
			continue
		}
		gap := store.Gap{File: name, Why: cause.Error(), Kept: kept, To: s.opts.Clock(), Noticed: s.opts.Clock()}
		if since, ok := s.blocksEnd(); ok {
			gap.From = since
		}
		if err := s.reportGap(gap); err != nil {
			return err
		}
	}
	return nil
}

// blocksEnd returns the end of the time range that blocks cover.
func (s *Store) blocksEnd() (t time.Time, ok bool) {
	for _, e := range s.manifest.known {
		if at := time.UnixMilli(e.To); !ok || at.After(t) {
			t, ok = at, true
		}
	}
	return t, ok
}

// freeBytes returns the space on disk that is left for users without privileges.
func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}
