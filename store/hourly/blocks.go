package hourly

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/durable/block"
	"reckon/store"
)

const corruptDir = "corrupt"

// blocks holds the open blocks of a directory, sorted by time. No two blocks contain the same day.
type blocks struct {
	dir  string
	pool chunkenc.Pool

	mu     sync.RWMutex
	list   []*tsdb.Block
	closed bool
}

// open opens all blocks. It removes unfinished blocks, and blocks that were replaced before a crash. It moves
// unreadable blocks to corrupt/. lost lists the unreadable blocks, and the recorded ones that are missing.
func (b *blocks) open(dir string, recorded map[string]blockMark, now time.Time) (lost []store.Gap, err error) {
	b.dir, b.pool = dir, chunkenc.NewPool()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	replaced, seen := map[ulid.ULID]bool{}, map[string]bool{}
	budget := int64(scanAtOpen)
	for _, e := range slices.Backward(entries) { // newest first
		path := filepath.Join(dir, e.Name())
		if strings.HasSuffix(e.Name(), block.Unfinished) {
			if err := os.RemoveAll(path); err != nil {
				return nil, errors.Join(err, b.close())
			}
			continue
		}
		if _, err := ulid.ParseStrict(e.Name()); err != nil || !e.IsDir() {
			continue
		}
		seen[e.Name()] = true
		x, info, err := b.openBlock(path, recorded[e.Name()], budget > 0)
		if budget -= info.Bytes; err != nil {
			gap, err := setAside(dir, e.Name(), recorded[e.Name()], info, err, now)
			if err != nil {
				return nil, errors.Join(err, b.close())
			}
			lost = append(lost, gap)
			continue
		}
		b.list = append(b.list, x)
		for _, p := range x.Meta().Compaction.Parents {
			replaced[p.ULID] = true
		}
	}
	for name, m := range recorded {
		if id, err := ulid.ParseStrict(name); err == nil && !seen[name] && !replaced[id] {
			lost = append(lost, store.Gap{File: name, Why: "it is missing", From: time.UnixMilli(m.From), To: time.UnixMilli(m.To),
				Noticed: now})
		}
	}
	var old []*tsdb.Block
	b.list = slices.DeleteFunc(b.list, func(x *tsdb.Block) bool {
		if !replaced[x.Meta().ULID] {
			return false
		}
		old = append(old, x)
		return true
	})
	b.sort()
	return lost, closeAndDelete(old)
}

// scanAtOpen limits the bytes of blocks that are read when the store opens, to detect damage.
const scanAtOpen = 1 << 30

// openBlock opens a block if its metadata is as recorded. If readAll is set, it also reads the whole block to detect damage.
func (b *blocks) openBlock(path string, recorded blockMark, readAll bool) (opened *tsdb.Block, info block.Info, err error) {
	info.From, info.To = math.MaxInt64, math.MinInt64
	if sum, err := metaChecksum(path); recorded.To > recorded.From && (err != nil || sum != recorded.Meta) {
		return nil, info, &block.Damage{File: filepath.Join(path, "meta.json"), At: -1, What: "it is not as it was written"}
	}
	if readAll {
		if info, err = block.Verify(path); err != nil {
			return nil, info, err
		}
	}
	var d *block.Damage
	if err = block.VerifyDeleted(path); errors.As(err, &d) {
		err = os.Remove(d.File) // nothing is ever deleted from these blocks
	}
	if err != nil {
		return nil, info, err
	}
	opened, err = tsdb.OpenBlock(nil, path, b.pool, nil)
	return opened, info, err
}

func metaChecksum(block string) (uint32, error) {
	raw, err := os.ReadFile(filepath.Join(block, "meta.json"))
	return crc32.Checksum(raw, crc32.MakeTable(crc32.Castagnoli)), err
}

// readMarks returns the marks of the present blocks. It takes them from recorded where it can, and reads the others.
func (b *blocks) readMarks(recorded map[string]blockMark) (map[string]blockMark, error) {
	now := map[string]blockMark{}
	for _, x := range b.all() {
		m := x.Meta()
		mark, ok := recorded[m.ULID.String()]
		if !ok {
			sum, err := metaChecksum(x.Dir())
			if err != nil {
				return nil, err
			}
			mark = blockMark{m.MinTime, m.MaxTime, sum}
		}
		now[m.ULID.String()] = mark
	}
	return now, nil
}

func (b *blocks) sort() {
	slices.SortFunc(b.list, func(x, y *tsdb.Block) int { return cmp.Compare(x.MinTime(), y.MinTime()) })
}

// setAside moves a damaged block out of the way and returns the resulting gap.
func setAside(dir, name string, recorded blockMark, info block.Info, cause error, now time.Time) (gap store.Gap, err error) {
	var d *block.Damage
	if errors.Is(cause, os.ErrPermission) {
		return gap, cause
	}
	gap = store.Gap{File: name, Why: cause.Error(), To: now, Noticed: now}
	if errors.As(cause, &d) {
		if rel, err := filepath.Rel(dir, d.File); err == nil {
			gap.File, gap.Why = rel, d.Reason()
		}
	}
	if meta, err := block.ReadMeta(filepath.Join(dir, name)); err == nil && recorded.To <= recorded.From {
		recorded = blockMark{From: meta.MinTime, To: meta.MaxTime}
	}
	switch {
	case recorded.To > recorded.From:
		gap.From, gap.To = time.UnixMilli(recorded.From), time.UnixMilli(recorded.To)
	case info.To >= info.From:
		gap.From, gap.To = time.UnixMilli(info.From), time.UnixMilli(info.To+1)
	}
	if err := os.MkdirAll(filepath.Join(dir, corruptDir), 0o750); err != nil {
		return gap, err
	}
	gap.Kept = filepath.Join(dir, corruptDir, fmt.Sprintf("%s-%d", name, now.UnixNano()))
	return gap, os.Rename(filepath.Join(dir, name), gap.Kept)
}

// closeAndDelete closes blocks, which waits for their readers, and deletes them.
func closeAndDelete(old []*tsdb.Block) error {
	var errs []error
	for _, x := range old {
		errs = append(errs, x.Close(), os.RemoveAll(x.Dir()))
	}
	return errors.Join(errs...)
}

// replace removes the old blocks and opens the block with the id replacement. A zero id stands for no block.
func (b *blocks) replace(old []*tsdb.Block, replacement ulid.ULID) error {
	var fresh *tsdb.Block
	if !replacement.IsZero() {
		var err error
		if fresh, err = tsdb.OpenBlock(nil, filepath.Join(b.dir, replacement.String()), b.pool, nil); err != nil {
			return err
		}
	}
	b.mu.Lock()
	b.list = slices.DeleteFunc(slices.Clone(b.list), func(x *tsdb.Block) bool { return slices.Contains(old, x) })
	if fresh != nil {
		b.list = append(b.list, fresh)
	}
	b.sort()
	b.mu.Unlock()
	return closeAndDelete(old)
}

// all returns the present blocks.
func (b *blocks) all() []*tsdb.Block {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Clone(b.list)
}

func (b *blocks) totalBytes() (n int64) {
	for _, x := range b.all() {
		n += x.Size()
	}
	return n
}

func (b *blocks) oldest() (t int64, ok bool) {
	list := b.all()
	if len(list) == 0 {
		return 0, false
	}
	return list[0].MinTime(), true
}

// queriers opens the blocks that overlap with a time range, both ends included.
func (b *blocks) queriers(mint, maxt int64) (list []storage.Querier, err error) {
	return openEach(b, mint, maxt, tsdb.NewBlockQuerier)
}

func (b *blocks) chunkQueriers(mint, maxt int64) (list []storage.ChunkQuerier, err error) {
	return openEach(b, mint, maxt, tsdb.NewBlockChunkQuerier)
}

func openEach[Q interface{ Close() error }](b *blocks, mint, maxt int64, open func(tsdb.BlockReader, int64, int64) (Q, error)) (list []Q,
	err error) {
	// Under the lock, so that none is replaced before it is opened.
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return nil, store.ErrClosed
	}
	for _, x := range b.list {
		if !x.OverlapsClosedInterval(mint, maxt) {
			continue
		}
		q, err := open(x, mint, maxt)
		if err != nil {
			for _, o := range list {
				err = errors.Join(err, o.Close())
			}
			return nil, err
		}
		list = append(list, q)
	}
	return list, nil
}

func (b *blocks) close() error {
	b.mu.Lock()
	list := b.list
	b.list, b.closed = nil, true
	b.mu.Unlock()
	var errs []error
	for _, x := range list {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}
