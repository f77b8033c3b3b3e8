package limits

import (
	"context"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"
)

const (
	// smallRequest is the maximum size of a request that never waits for larger requests. These leave a quarter of the
	// budget free.
	smallRequest = 1 << 20
	// memoryWait is the time that a request waits for memory before it is refused for now.
	memoryWait = 20 * time.Second
	// minBudget and maxBudget limit the default budget, which is memoryPart of the memory.
	minBudget, maxBudget, memoryPart = 96 << 20, 1 << 30, 32
)

// ErrMemory is the error of a request that waited in vain for memory to be decoded.
var ErrMemory = errors.New("too much is being decoded at once")

// Memory is a budget in bytes that all requests share while they are decoded. Bodies that were received but are not yet
// decoded are counted separately, so that slow senders do not use up the budget. It is safe for concurrent use.
type Memory struct {
	total      int64
	large, all *semaphore.Weighted
	objects    *semaphore.Weighted
	received   atomic.Int64

	mu    sync.Mutex
	doing int  // things that take much memory
	usual int  // GOGC when nothing large is done
	tight bool // it is lower now
}

// NewMemory returns a budget of total bytes. If total is 0, the budget is a part of the memory that the program may use.
func NewMemory(total int64) *Memory {
	if total <= 0 {
		total = min(max(ProgramMemory()/memoryPart, minBudget), maxBudget)
	}
	return &Memory{total: total, large: semaphore.NewWeighted(total - total/4), all: semaphore.NewWeighted(total),
		objects: semaphore.NewWeighted(1)}
}

// Reserve waits until n bytes of the budget are free and reserves them. A request for more than three quarters of the
// budget gets three quarters, so that only one such request runs at a time. free releases the bytes and may be called
// twice. The error is [ErrMemory] after 20 s, or the error of ctx.
func (m *Memory) Reserve(ctx context.Context, n int64) (free func(), err error) {
	wait, cancel := context.WithTimeout(ctx, memoryWait)
	defer cancel()
	large := n > smallRequest
	if large {
		n = min(n, m.total-m.total/4)
		if err := m.large.Acquire(wait, n); err != nil {
			return nil, memoryError(ctx)
		}
	}
	n = min(n, m.total)
	if err := m.all.Acquire(wait, n); err != nil {
		if large {
			m.large.Release(n)
		}
		return nil, memoryError(ctx)
	}
	return sync.OnceFunc(func() {
		m.all.Release(n)
		if large {
			m.large.Release(n)
		}
	}), nil
}

// ReserveObjects waits until no other request is decoded into objects, which take much more memory than its bytes. Call
// it after [Memory.Reserve], and wait for nothing else before calling free. The error is the same as for Reserve.
func (m *Memory) ReserveObjects(ctx context.Context) (free func(), err error) {
	wait, cancel := context.WithTimeout(ctx, memoryWait)
	defer cancel()
	if err := m.objects.Acquire(wait, 1); err != nil {
		return nil, memoryError(ctx)
	}
	done := m.collectOften()
	return sync.OnceFunc(func() {
		done()
		m.objects.Release(1)
	}), nil
}

const (
	// smallHeap is the heap size in bytes below which large operations collect garbage more often. In a larger heap,
	// the garbage of an operation makes no difference.
	smallHeap = 1 << 30
	// minGarbagePercent is the garbage that may gather meanwhile, in percent of the memory in use (GOGC).
	minGarbagePercent = 20
	// largeShare is the part of the heap, one in so many, from which on a query is worth a collection of the whole heap.
	largeShare = 8
)

// Large starts a query that takes so many bytes. The result is nil if the heap is so large that the garbage of the query
// makes little difference. Otherwise the garbage collector runs more often until the caller calls done, which collects all.
func (m *Memory) Large(bytes int64) (done func()) {
	if heap := heapBytes(); heap >= smallHeap || heap > largeShare*uint64(max(bytes, 0)) {
		return nil
	}
	return m.collectOften()
}

// collectOften makes the garbage collector run more often, if the heap is small, until done is called, which collects all
// garbage. The garbage of several large operations would otherwise grow to several times the live memory.
func (m *Memory) collectOften() (done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.doing++; m.doing == 1 && heapBytes() < smallHeap {
		m.usual = debug.SetGCPercent(minGarbagePercent)
		if m.tight = m.usual > minGarbagePercent; !m.tight {
			debug.SetGCPercent(m.usual) // The user has set an even lower target, or has switched collection off.
		}
	}
	return func() {
		if heapBytes() < smallHeap {
			runtime.GC()
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.doing--; m.doing == 0 && m.tight {
			debug.SetGCPercent(m.usual)
			m.tight = false
		}
	}
}

func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(s); s[0].Value.Kind() != metrics.KindUint64 {
		return smallHeap
	}
	return s[0].Value.Uint64()
}

func memoryError(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return ErrMemory
}

// AddReceived adds n, which may be negative, to the number of bytes in received bodies that are not processed yet. It
// returns the new number.
func (m *Memory) AddReceived(n int64) int64 { return m.received.Add(n) }

// ProgramMemory returns the number of bytes of memory that this program may use. It is the soft limit (GOMEMLIMIT), or
// else the memory of the machine, or 0 if neither is known.
func ProgramMemory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
