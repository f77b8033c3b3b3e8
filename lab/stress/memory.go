package stress

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// memory holds anonymous memory, so that the process as a whole reaches its target, the
// program itself included.
type memory struct {
	clock clock
	curve *curve
	area  []byte // reserved; nothing is resident until it is written to
	held  int    // written bytes of area
	seed  uint64

	now   atomic.Int64  // resident bytes at the last measurement; -1 is unknown
	short atomic.Uint64 // why less is held than the target: 0 no reason, else shortOf...
}

const (
	shortOfMemory = iota + 1
	shortOfMapping
)

// slice is the number of bytes filled between two checks of the clock and of free memory.
const slice = 16 << 20

// every is the interval at which the memory is measured and adjusted.
const every = 250 * time.Millisecond

// prepare reserves addresses for the highest level.
func (m *memory) prepare(peak float64) error {
	page := os.Getpagesize()
	size := (int(peak) + page - 1) / page * page
	if float64(size) < peak || size <= 0 {
		return fmt.Errorf("%g bytes of memory are more than this machine can address", peak)
	}
	area, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("reserve %d bytes of memory: %w (limits: ulimit -v, vm.overcommit_memory)", size, err)
	}
	// Huge pages would make steps of 2 MiB. A kernel without them returns an error, which is fine.
	_ = unix.Madvise(area, unix.MADV_NOHUGEPAGE)
	m.area, m.seed = area, 0x9e3779b97f4a7c15
	return nil
}

func (m *memory) close() error {
	if m.area == nil {
		return nil
	}
	err := unix.Munmap(m.area)
	m.area = nil
	if err != nil {
		return fmt.Errorf("give memory back: %w", err)
	}
	return nil
}

// set brings the process to the target size; it returns early when stop is set.
func (m *memory) set(wish float64, stop *atomic.Bool) {
	page := os.Getpagesize()
	for range 3 { // a second pass accounts for the memory used by filling itself
		resident, err := residentBytes()
		if err != nil {
			m.now.Store(-1)
			return
		}
		m.now.Store(resident)
		want := m.held + int(wish) - int(resident)
		want = min(max(0, want/page*page), len(m.area))
		if diff := math.Abs(float64(want - m.held)); diff < max(2*float64(page), wish/2000) {
			return
		}
		if want < m.held {
			if err := unix.Madvise(m.area[want:m.held], unix.MADV_DONTNEED); err != nil {
				m.short.Store(shortOfMapping)
				return
			}
			m.held = want
			continue
		}
		for m.held < want && !stop.Load() {
			if !roomFor(slice) {
				m.short.Store(shortOfMemory)
				return
			}
			next := min(m.held+slice, want)
			m.fill(m.area[m.held:next])
			m.held = next
		}
		if stop.Load() {
			return
		}
	}
}

// fill writes different data into every page, so that none is merged, compressed to
// nothing or treated as a zero page.
func (m *memory) fill(b []byte) {
	page := os.Getpagesize()
	for at := 0; at < len(b); at += page {
		for i := 0; i+8 <= min(page, len(b)-at); i += 512 {
			m.seed ^= m.seed << 13
			m.seed ^= m.seed >> 7
			m.seed ^= m.seed << 17
			b[at+i], b[at+i+1], b[at+i+2], b[at+i+3] = byte(m.seed), byte(m.seed>>8), byte(m.seed>>16), byte(m.seed>>24)
		}
	}
}

// run follows the program until it ends or stop is set.
func (m *memory) run(stop *atomic.Bool, wait func(time.Duration) bool) {
	step := 0
	for {
		now := m.clock.now()
		if now >= m.curve.end() || stop.Load() {
			return
		}
		step = m.curve.step(now)
		m.set(m.curve.level[step], stop)
		next := min(m.clock.now()+every, m.curve.begin[step+1])
		if !wait(next) {
			return
		}
	}
}

// residentBytes returns the memory of this process. Counters of a process with many CPUs
// are imprecise in some kernels, while walking the page tables is exact; above 8 GiB it
// takes long, and the imprecision is relatively small.
func residentBytes() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("read the memory of this process: %w", err)
	}
	rough, err := parseStatm(string(text), int64(os.Getpagesize()))
	if err != nil || rough > 8<<30 {
		return rough, err
	}
	text, err = os.ReadFile("/proc/self/smaps_rollup") // Linux 4.14
	if err != nil {
		return rough, nil
	}
	if exact, ok := kilobytes(string(text), "Rss:"); ok {
		return exact, nil
	}
	return rough, nil
}

// parseStatm returns the resident size from /proc/PID/statm, in bytes.
func parseStatm(text string, page int64) (int64, error) {
	f := strings.Fields(text)
	if len(f) < 2 {
		return 0, errors.New("read /proc/self/statm: fewer than two numbers")
	}
	n, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/page {
		return 0, fmt.Errorf("read /proc/self/statm: %q is no number of pages", f[1])
	}
	return n * page, nil
}

// kilobytes finds a line of smaps_rollup or meminfo ("Rss:   123 kB") and returns it in bytes.
func kilobytes(text, name string) (int64, bool) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) != 2 || f[1] != "kB" {
			return 0, false
		}
		n, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64>>10 {
			return 0, false
		}
		return n << 10, true
	}
	return 0, false
}

// roomFor reports whether the machine has n bytes to spare. A twentieth, at most 1 GiB,
// stays free: a load generator must not trigger the out-of-memory killer.
func roomFor(n int64) bool {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return true // unknown: the kernel decides
	}
	free, ok := kilobytes(string(text), "MemAvailable:")
	all, ok2 := kilobytes(string(text), "MemTotal:")
	return !ok || !ok2 || free-n > min(all/20, 1<<30)
}
