// Package mem holds the types of buffers that a codec of gRPC is written against; no codec is ever called.
package mem

// BufferPool lends buffers.
type BufferPool interface {
	Get(length int) *[]byte
	Put(*[]byte)
}

type pool struct{}

func (pool) Get(n int) *[]byte { b := make([]byte, n); return &b }
func (pool) Put(*[]byte)       {}

// NewTieredBufferPool returns a pool that keeps nothing.
func NewTieredBufferPool(...int) BufferPool { return pool{} }

// Buffer is a lent buffer.
type Buffer interface {
	ReadOnlyData() []byte
	Free()
}

type buffer []byte

func (b buffer) ReadOnlyData() []byte { return b }
func (buffer) Free()                  {}

// NewBuffer returns the bytes as a Buffer.
func NewBuffer(data *[]byte, _ BufferPool) Buffer { return buffer(*data) }

// BufferSlice is a message in parts.
type BufferSlice []Buffer

// MaterializeToBuffer joins the parts.
func (s BufferSlice) MaterializeToBuffer(BufferPool) Buffer {
	var all buffer
	for _, b := range s {
		all = append(all, b.ReadOnlyData()...)
	}
	return all
}
