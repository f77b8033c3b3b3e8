package stress

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"reckon/internal/cgpath"
)

// memoryLoad holds anonymous memory so that the whole process, including the program itself, reaches its target.
type memoryLoad struct {
	clock programClock
	curve *targetCurve
	area  []byte // reserved; nothing is resident until it is written to
	held  int    // written bytes of area
	seed  uint64

	groups []string      // control groups that may limit us: ours and those above
	now    atomic.Int64  // resident bytes at the last measurement; -1 is unknown
	short  atomic.Uint64 // why less is held than the target: 0 no reason, else shortOf...
}

const (
	shortOfMemory = iota + 1
	shortOfMapping
	shortOfLimit
)

// fillSize is the number of bytes filled between two checks of the clock and of free memory.
const fillSize = 16 << 20

// adjustInterval is the interval at which the memory is measured and adjusted.
const adjustInterval = 250 * time.Millisecond

// reserve reserves addresses for the highest level.
func (m *memoryLoad) reserve(peak float64) error {
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
	m.area, m.seed, m.groups = area, 0x9e3779b97f4a7c15, memoryGroups("/")
	return nil
}

func (m *memoryLoad) close() error {
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

// resizeTo grows or shrinks the process to the target size. It returns early if stop is set.
func (m *memoryLoad) resizeTo(wish float64, stop *atomic.Bool) {
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
			if why := m.findLimit(fillSize); why != 0 {
				m.short.Store(why)
				return
			}
			next := min(m.held+fillSize, want)
			m.writePages(m.area[m.held:next])
			m.held = next
		}
		if stop.Load() {
			return
		}
	}
}

// writePages writes different data to every page, so that no page is merged, compressed away or treated as a zero page.
func (m *memoryLoad) writePages(b []byte) {
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
func (m *memoryLoad) run(stop *atomic.Bool, wait func(time.Duration) bool) {
	step := 0
	for {
		now := m.clock.elapsed()
		if now >= m.curve.end() || stop.Load() {
			return
		}
		step = m.curve.stepAt(now)
		m.resizeTo(m.curve.level[step], stop)
		next := min(m.clock.elapsed()+adjustInterval, m.curve.begin[step+1])
		if !wait(next) {
			return
		}
	}
}

// residentBytes returns the resident memory of this process in bytes. It lets the kernel walk the page tables, because
// the kernel's counters are imprecise on machines with many CPUs. Above 8 GiB it uses the counters, because the walk
// would take long and their relative error is small.
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
	if exact, ok := parseKilobytes(string(text), "Rss:"); ok {
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

// parseKilobytes finds a line of smaps_rollup or meminfo ("Rss:   123 kB") and returns it in bytes.
func parseKilobytes(text, name string) (bytes int64, ok bool) {
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

// findLimit returns 0 if the machine and our control groups have n more bytes of memory. Otherwise it returns the limit that
// prevents it. It leaves one twentieth free, but no more than 1 GiB, because a load generator must not trigger the OOM killer.
func (m *memoryLoad) findLimit(n int64) uint64 {
	spare := func(all int64) int64 { return n + max(min(all/20, 1<<30), 4<<20) }
	for _, dir := range m.groups {
		if limit, free, ok := groupMemory(dir); ok && free <= spare(limit) {
			return shortOfLimit
		}
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0 // unknown: the kernel decides
	}
	free, ok := parseKilobytes(string(text), "MemAvailable:")
	all, ok2 := parseKilobytes(string(text), "MemTotal:")
	if ok && ok2 && free <= spare(all) {
		return shortOfMemory
	}
	return 0
}

// memoryGroups returns the directories of our control group and its ancestors that account for memory, as far as they are visible.
func memoryGroups(root string) (dirs []string) {
	mounts, _ := cgpath.ReadMounts(root)
	own, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, m := range mounts {
			if len(f) < 3 || !m.Serves(f[1]) || !m.V2 && !slices.Contains(m.Controllers, "memory") {
				continue
			}
			below, ok := strings.CutPrefix(f[2], strings.TrimSuffix(m.Root, "/"))
			if !ok {
				continue
			}
			for dir := filepath.Join(m.Point, below); ; dir = filepath.Dir(dir) {
				dirs = append(dirs, dir)
				if len(dir) <= len(m.Point) {
					break
				}
			}
		}
	}
	return dirs
}

// groupMemory returns the memory limit of the control group at dir and the bytes left below the limit. free includes
// reclaimable page cache. ok is false if the group has no limit.
func groupMemory(dir string) (limit, free int64, ok bool) {
	number := func(name string) (int64, bool) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return n, err == nil && bad == nil
	}
	limit = math.MaxInt64
	for _, name := range []string{"memory.max", "memory.high", "memory.limit_in_bytes"} {
		if n, ok := number(name); ok {
			limit = min(limit, n)
		}
	}
	used, ok := number("memory.current")
	if !ok {
		used, ok = number("memory.usage_in_bytes")
	}
	if !ok || limit >= 1<<62 {
		return 0, 0, false
	}
	stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	cache := map[string]int64{}
	for line := range strings.Lines(string(stat)) {
		key, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		cache[key], _ = strconv.ParseInt(v, 10, 64)
	}
	return limit, limit - used + max(cache["inactive_file"], cache["total_inactive_file"]), true
}
