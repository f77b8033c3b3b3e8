package hourly

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
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

	"reckon/store"
)

const (
	tmpSuffix  = ".tmp-for-creation"
	corruptDir = "corrupt"
)

// blocks are the open blocks of a directory, in order of time; no two share a day.
type blocks struct {
	dir  string
	pool chunkenc.Pool

	mu     sync.RWMutex
	list   []*tsdb.Block
	closed bool
}

// open opens all blocks. It removes what was being written, and what another block replaced
// and a crash left behind; what can not be read is moved to corrupt/, and lost is true.
func (b *blocks) open(dir string, log *slog.Logger) (lost bool, err error) {
	b.dir, b.pool = dir, chunkenc.NewPool()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	replaced := map[ulid.ULID]bool{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasSuffix(e.Name(), tmpSuffix) {
			if err := os.RemoveAll(path); err != nil {
				return false, errors.Join(err, b.close())
			}
			continue
		}
		if _, err := ulid.ParseStrict(e.Name()); err != nil || !e.IsDir() {
			continue
		}
		block, err := tsdb.OpenBlock(log, path, b.pool, nil)
		if err != nil {
			if err := setAside(dir, e.Name(), err, log); err != nil {
				return false, errors.Join(err, b.close())
			}
			lost = true
			continue
		}
		b.list = append(b.list, block)
		for _, p := range block.Meta().Compaction.Parents {
			replaced[p.ULID] = true
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
	return lost, remove(old)
}

func (b *blocks) sort() {
	slices.SortFunc(b.list, func(x, y *tsdb.Block) int { return cmp.Compare(x.MinTime(), y.MinTime()) })
}

func setAside(dir, name string, cause error, log *slog.Logger) error {
	if errors.Is(cause, os.ErrPermission) {
		return cause
	}
	if err := os.MkdirAll(filepath.Join(dir, corruptDir), 0o750); err != nil {
		return err
	}
	to := filepath.Join(dir, corruptDir, fmt.Sprintf("%s-%d", name, time.Now().UnixNano()))
	if err := os.Rename(filepath.Join(dir, name), to); err != nil {
		return err
	}
	log.Error("an unreadable part of the hours was moved aside; it is made again as far as there are samples", "what", name, "kept", to, "err", cause)
	return nil
}

// remove closes blocks, which waits for those who read them, and deletes them.
func remove(old []*tsdb.Block) error {
	var errs []error
	for _, x := range old {
		errs = append(errs, x.Close(), os.RemoveAll(x.Dir()))
	}
	return errors.Join(errs...)
}

// replace puts the block of a name, or none where it is zero, in the place of others.
func (b *blocks) replace(old []*tsdb.Block, id ulid.ULID) error {
	var fresh *tsdb.Block
	if !id.IsZero() {
		var err error
		if fresh, err = tsdb.OpenBlock(nil, filepath.Join(b.dir, id.String()), b.pool, nil); err != nil {
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
	return remove(old)
}

// all returns the blocks now.
func (b *blocks) all() []*tsdb.Block {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Clone(b.list)
}

func (b *blocks) bytes() (n int64) {
	for _, x := range b.all() {
		n += x.Size()
	}
	return n
}

func (b *blocks) oldest() (int64, bool) {
	list := b.all()
	if len(list) == 0 {
		return 0, false
	}
	return list[0].MinTime(), true
}

// queriers opens what overlaps with a stretch of time, both ends included.
func (b *blocks) queriers(mint, maxt int64) (list []storage.Querier, err error) {
	return openEach(b, mint, maxt, tsdb.NewBlockQuerier)
}

func (b *blocks) chunkQueriers(mint, maxt int64) (list []storage.ChunkQuerier, err error) {
	return openEach(b, mint, maxt, tsdb.NewBlockChunkQuerier)
}

func openEach[Q interface{ Close() error }](b *blocks, mint, maxt int64, open func(tsdb.BlockReader, int64, int64) (Q, error)) (list []Q, err error) {
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
