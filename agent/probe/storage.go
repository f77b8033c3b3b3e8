package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/internal/quantiles"
	"reckon/web/client"
)

// StorageOptions configures the probe of a volume.
type StorageOptions struct {
	Directory string
	// Size of the file and of one block, bytes.
	Size, Block int64
	// Duration of each of the two parts that read and write at random.
	Duration time.Duration
}

// Storage measures a file system with a file, which it removes at the end. It writes the file sequentially, syncs it
// and reads it, and then reads and writes random blocks, with a sync after each write. If the file system supports
// O_DIRECT (figure direct is 1), it bypasses the page cache. Otherwise it drops the file from the cache before reading.
func Storage(ctx context.Context, o StorageOptions) (r *client.ProbeResult, err error) {
	const sector = 4096
	if o.Block < 512 || o.Block > 1<<30 || o.Size < o.Block {
		return nil, fmt.Errorf("a block of %d bytes does not fit a file of %d: a block has 512 bytes at least, and the file one block",
			o.Block, o.Size)
	}
	name := filepath.Join(o.Directory, fmt.Sprintf("reckon-probe-%016x", rand.Uint64()))
	f, direct, err := openDirect(name, o.Block%sector == 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(name)) }()
	r = &client.ProbeResult{Metric: "io-probe", From: time.Now(), Figures: map[string]float64{"direct": 0, "block_bytes": float64(o.Block)}}
	if direct {
		r.Figures["direct"] = 1
	}
	block := alignedBuffer(int(o.Block), sector)
	for i := range block {
		block[i] = byte(rand.Uint32())
	}
	blocks := o.Size / o.Block
	r.Figures["file_bytes"] = float64(blocks * o.Block)
	rate := func(name string, each func(at int64) error, end func() error) error {
		began := time.Now()
		for i := range blocks {
			if err := firstError(ctx.Err(), each(i*o.Block)); err != nil {
				return err
			}
		}
		if err := end(); err != nil {
			return err
		}
		r.Figures[name] = float64(blocks*o.Block) / time.Since(began).Seconds()
		return nil
	}
	write := func(at int64) error { _, err := f.WriteAt(block, at); return err }
	read := func(at int64) error {
		n, err := f.ReadAt(block, at)
		if err == io.EOF && n == len(block) {
			err = nil
		}
		return err
	}
	if err := rate("write_bytes_per_second", write, f.Sync); err != nil {
		return nil, err
	}
	if !direct { // cached data shows nothing about the volume
		_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	if err := rate("read_bytes_per_second", read, func() error { return nil }); err != nil {
		return nil, err
	}
	if err := randomOperations(ctx, r, "random_read", o.Duration, blocks, o.Block, read); err != nil {
		return nil, err
	}
	synced := func(at int64) error { return errors.Join(write(at), unix.Fdatasync(int(f.Fd()))) }
	if err := randomOperations(ctx, r, "random_write", o.Duration, blocks, o.Block, synced); err != nil {
		return nil, err
	}
	r.To = time.Now()
	return r, nil
}

// randomOperations performs operations one after another at random places for some time.
func randomOperations(ctx context.Context, r *client.ProbeResult, name string, duration time.Duration, blocks, size int64,
	operate func(int64) error) error {
	var took []time.Duration
	began := time.Now()
	for time.Since(began) < duration {
		at := time.Now()
		if err := firstError(ctx.Err(), operate(rand.Int64N(blocks)*size)); err != nil {
			return err
		}
		took = append(took, time.Since(at))
	}
	r.Figures[name+"_operations_per_second"] = float64(len(took)) / time.Since(began).Seconds()
	slices.Sort(took)
	r.Figures[name+"_p50_seconds"] = quantiles.Nearest(took, 0.5).Seconds()
	r.Figures[name+"_p99_seconds"] = quantiles.Nearest(took, 0.99).Seconds()
	return nil
}

// openDirect makes a file without the page cache if that is possible.
func openDirect(name string, try bool) (file *os.File, direct bool, err error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL
	if try {
		if f, err := os.OpenFile(name, flags|unix.O_DIRECT, 0o600); err == nil {
			return f, true, nil
		} else if !errors.Is(err, unix.EINVAL) {
			return nil, false, err
		}
		_ = os.Remove(name) // some file systems make the file before they refuse
	}
	f, err := os.OpenFile(name, flags, 0o600)
	return f, false, err
}

// alignedBuffer returns memory that begins at a multiple of size, as O_DIRECT requires.
func alignedBuffer(n, size int) []byte {
	b := make([]byte, n+size)
	skip := 0
	if over := int(uintptr(unsafe.Pointer(&b[0])) % uintptr(size)); over != 0 {
		skip = size - over
	}
	return b[skip : skip+n]
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
