package ingest

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/klauspost/compress/s2"
	"golang.org/x/sys/unix"
)

// largeBuffer is the size in bytes above which buffers are not reused, and decompressed data is allocated outside the
// Go heap. The garbage collector lets the heap grow in proportion to its live data.
const largeBuffer = 1 << 20

// middleBuffer is the size in bytes from which a request is larger than an ordinary sender's.
const middleBuffer = 128 << 10

// buffers is the memory of one request. Slices into it are valid until the end of the request.
type buffers struct {
	body, plain []byte
	small       []byte // the plain data, if it is small
	two         requestV2
	received    int64 // bytes counted in Memory
	unmap       func()
}

// recycle ends the use of b and keeps small buffers for another request.
func (h *handler) recycle(b *buffers) {
	h.Memory.AddReceived(-b.received)
	b.received = 0
	b.two.recycle() // before the memory that it points to is unmapped
	b.release()
	if cap(b.body) > largeBuffer {
		b.body = nil
	}
	h.buffers.Put(b)
}

// release ends the use of b.plain.
func (b *buffers) release() {
	if b.plain = nil; b.unmap != nil {
		b.unmap()
		b.unmap = nil
	}
}

// receive reads the compressed body into buf.
func (h *handler) receive(w http.ResponseWriter, r *http.Request, buf *buffers) error {
	most, _ := h.Sizes()
	body := http.MaxBytesReader(w, r.Body, most)
	defer body.Close()
	buf.body = buf.body[:0]
	for {
		if free := cap(buf.body) - len(buf.body); free == 0 {
			grown := make([]byte, len(buf.body), len(buf.body)+max(32<<10, len(buf.body)/2))
			copy(grown, buf.body)
			buf.body = grown
		}
		n, err := body.Read(buf.body[len(buf.body):cap(buf.body)])
		buf.body = buf.body[:len(buf.body)+n]
		buf.received += int64(n)
		if h.Memory.AddReceived(int64(n)) > h.MaxReceiving {
			return &statusError{http.StatusServiceUnavailable, "too much is being received at once; send it again", 5 * time.Second}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return bodyError(err, most)
		}
	}
}

// bodyError returns the response for a body that could not be read.
func bodyError(err error, maxBytes int64) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return newStatusError(http.StatusRequestEntityTooLarge, "the request is larger than %d bytes; send less at a time", maxBytes)
	}
	return newStatusError(http.StatusBadRequest, "read the request: %v", err)
}

// unpack reserves memory and a slot, and decompresses the body into buf.plain.
func (h *handler) unpack(ctx context.Context, buf *buffers) (*requestSlot, error) {
	_, most := h.Sizes()
	n, err := s2.DecodedLen(buf.body)
	if err != nil {
		return nil, newStatusError(http.StatusBadRequest, "the body is not packed by snappy (block format): %v", err)
	}
	if int64(n) > most {
		return nil, newStatusError(http.StatusRequestEntityTooLarge,
			"the request is larger than %d bytes unpacked; send fewer series at a time",
			most)
	}
	t, err := h.reserveFor(ctx, buf, n)
	if err != nil {
		return nil, err
	}
	if buf.plain, err = s2.Decode(buf.plain, buf.body); err != nil {
		t.releaseAll()
		return nil, newStatusError(http.StatusBadRequest, "the body is not packed by snappy (block format): %v", err)
	}
	return t, nil
}

// requestSlot is the memory and the slot that a request holds while it is decoded and stored.
type requestSlot struct {
	h                       *handler
	free, slot, freeObjects func()
}

// reserveFor waits until n bytes of memory for buf.plain and a slot are free, and reserves them.
func (h *handler) reserveFor(ctx context.Context, buf *buffers, n int) (*requestSlot, error) {
	free, err := h.Memory.Reserve(ctx, int64(n))
	if err != nil {
		return nil, err
	}
	t := &requestSlot{h: h, free: free}
	if t.slot, err = h.acquireSlots(ctx, max(n, len(buf.body))); err != nil {
		t.releaseAll()
		return nil, err
	}
	buf.allocate(n)
	return t, nil
}

// reserveDecode must be called before a request is decoded to objects. If large is set, the request takes many times its size
// in memory. decode then releases its slot, and waits until no other large request is being decoded.
func (t *requestSlot) reserveDecode(ctx context.Context, large bool) (err error) {
	if !large {
		return nil
	}
	t.slot()
	t.slot = nil
	if t.freeObjects, err = t.h.Memory.ReserveObjects(ctx); err != nil {
		return err
	}
	t.slot, err = t.h.acquireSlots(ctx, math.MaxInt)
	return err
}

// releaseAll releases the resources of a request.
func (t *requestSlot) releaseAll() {
	for _, f := range [...]func(){t.slot, t.freeObjects, t.free} {
		if f != nil {
			f()
		}
	}
}

// allocate allocates n bytes for b.plain. Large buffers are mapped.
func (b *buffers) allocate(n int) {
	b.release()
	if n > largeBuffer {
		if m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err == nil {
			b.plain, b.unmap = m, func() { _ = unix.Munmap(m) } // it was mapped
			return
		}
	}
	if cap(b.small) < n {
		b.small = make([]byte, n, n+n/4)
	}
	b.plain = b.small[:n]
}

// acquireSlots waits until the handler has a slot for a request of n bytes, or until ctx is done. A request may use one of several slots.
// Large requests leave one or two slots free, so that small requests do not wait for them. The caller must call leave.
func (h *handler) acquireSlots(ctx context.Context, n int) (leave func(), err error) {
	of := h.slots[:]
	if n <= largeBuffer {
		of = of[1:]
	}
	if n <= middleBuffer {
		of = of[1:]
	}
	for i := range of {
		if err := acquireSlot(ctx, of[i]); err != nil {
			releaseSlots(of[:i])
			return nil, err
		}
	}
	return func() { releaseSlots(of) }, nil
}

func releaseSlots(slots []chan struct{}) {
	for _, s := range slots {
		<-s
	}
}

func acquireSlot(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
