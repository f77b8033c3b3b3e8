package ebpf

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring reads a BPF ring buffer by polling (Documentation/bpf/ringbuf.rst). It maps the page with the consumer position,
// the page with the producer position, and the data. The data is mapped twice in a row, so that a record that wraps
// around is contiguous.
type ring struct {
	consumer, producer []byte
	data               []byte
	size               uint64
}

const (
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
	ringHeader  = 8
)

func openRing(fd, size int) (*ring, error) {
	page := unix.Getpagesize()
	consumer, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("position of the reader: %w", err)
	}
	producer, err := unix.Mmap(fd, int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Munmap(consumer)
		return nil, fmt.Errorf("data: %w", err)
	}
	return &ring{consumer: consumer, producer: producer, data: producer[page:], size: uint64(size)}, nil
}

func ringPosition(b []byte) *uint64 { return (*uint64)(unsafe.Pointer(&b[0])) }

// drain calls f for every complete record. The record is valid only during the call.
func (r *ring) drain(f func([]byte)) {
	at := atomic.LoadUint64(ringPosition(r.consumer))
	end := atomic.LoadUint64(ringPosition(r.producer))
	for at < end {
		record, next, ok := r.next(at)
		if !ok {
			break
		}
		if record != nil {
			f(record)
		}
		at = next
		atomic.StoreUint64(ringPosition(r.consumer), at)
	}
}

// next returns the record at a position and the position of the next one. record is nil if it was discarded. ok is
// false while the kernel is still writing the record.
func (r *ring) next(at uint64) (record []byte, next uint64, ok bool) {
	offset := at & (r.size - 1)
	header := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[offset])))
	if header&ringBusy != 0 {
		return nil, at, false
	}
	length := uint64(header &^ (ringBusy | ringDiscard))
	next = at + (length+ringHeader+7)&^7
	if header&ringDiscard != 0 || offset+ringHeader+length > uint64(len(r.data)) {
		return nil, next, true
	}
	return r.data[offset+ringHeader : offset+ringHeader+length : offset+ringHeader+length], next, true
}

// recordKind returns the first word of a record, 0 if it has none.
func recordKind(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

func (r *ring) close() error {
	if r == nil {
		return nil
	}
	err := unix.Munmap(r.consumer)
	if e := unix.Munmap(r.producer); err == nil {
		err = e
	}
	return err
}
