package run

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// perfWatch follows the tree with inherited perf events. It opens a task-clock counter per processor on the forking
// thread. The child inherits it and starts to count at the exec (enable_on_exec), so our own time is excluded.
// Side-band records (FORK, EXIT, COMM; see perf_event_open(2)) report the life of each process. READ records report the
// CPU time of each thread; inherit_stat makes the kernel write one at the end of a thread.
type perfWatch struct {
	fds     []int
	rings   []perfRing
	records []perfRecord // pending, ordered by time
	lost    uint64
	scratch []byte
}

type perfRing struct{ mem []byte }

// perfRecord is a side-band record of a perf event.
type perfRecord struct {
	kind                 uint32
	time                 uint64 // CLOCK_MONOTONIC, ns
	pid, ppid, tid, ptid int32
	value                uint64 // ns of a READ, number of a LOST
	comm                 sensor.Comm
	exec                 bool // the name belongs to a program that was just executed
}

// maxPerfCPUs is the maximum number of processors watched in this way. Each thread of the tree has
// one event per processor and writes one record for each at its end.
const maxPerfCPUs = 64

// openPerf opens the events on the calling thread, which must be locked.
func openPerf(sysRoot string) (*perfWatch, error) {
	cpus, err := onlineCPUs(sysRoot)
	if err != nil {
		return nil, err
	}
	if len(cpus) > maxPerfCPUs {
		return nil, sensor.Unavailable(fmt.Sprintf("%d processors: following each process by perf events would cost more than it shows",
			len(cpus)), "", nil)
	}
	w := &perfWatch{}
	for pages := 128; ; pages /= 2 {
		err = w.open(cpus, pages)
		if err == nil {
			return w, nil
		}
		w.Close()
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOMEM) || pages <= 8 {
			break
		}
	}
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		return nil, sensor.Unavailable("no permission for perf events", "set kernel.perf_event_paranoid to 2 or less, or grant CAP_PERFMON",
			err)
	}
	return nil, fmt.Errorf("open perf events: %w", err)
}

func (w *perfWatch) open(cpus []int, pages int) error {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_TASK_CLOCK,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME,
		Bits: unix.PerfBitDisabled | unix.PerfBitInherit | unix.PerfBitInheritStat | unix.PerfBitEnableOnExec |
			unix.PerfBitTask | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID |
			unix.PerfBitWatermark |
			unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
		Clockid: unix.CLOCK_MONOTONIC,
		Wakeup:  uint32(pages * os.Getpagesize() / 4), // bytes
	}
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(&attr, 0, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) {
			continue // went offline
		}
		if err != nil {
			return err
		}
		w.fds = append(w.fds, fd)
		mem, err := unix.Mmap(fd, 0, (1+pages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		w.rings = append(w.rings, perfRing{mem})
	}
	return nil
}

// Close closes the perf events.
func (w *perfWatch) Close() {
	for _, r := range w.rings {
		_ = unix.Munmap(r.mem)
	}
	for _, fd := range w.fds {
		_ = unix.Close(fd)
	}
	w.rings, w.fds = nil, nil
}

// wakeups returns a channel that receives a value when a ring is a quarter full. Close stop to end it. Many forks can
// fill a ring between two ticks of the meter.
func (w *perfWatch) wakeups(stop <-chan struct{}) <-chan struct{} {
	out := make(chan struct{})
	fds := make([]unix.PollFd, len(w.fds))
	for i, fd := range w.fds {
		fds[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	go func() {
		for {
			full := waitFull(fds)
			select {
			case <-stop:
				return
			default:
			}
			if !full {
				continue
			}
			select {
			case <-stop:
				return
			case out <- struct{}{}:
			}
		}
	}()
	return out
}

// waitFull waits up to a quarter of a second until a ring is full enough, and reports whether one is.
func waitFull(fds []unix.PollFd) bool {
	n, err := unix.Poll(fds, 250)
	if err != nil || n == 0 {
		return false
	}
	full := false
	for i := range fds {
		full = full || fds[i].Revents&unix.POLLIN != 0
		if fds[i].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
			fds[i].Fd = -1 // poll(2) leaves it out from now on
		}
	}
	return full
}

// applyRecords applies the records in the rings to t, in order of time over all processors. Records that arrive while the
// rings are read wait for the next call.
func (w *perfWatch) applyRecords(t *tree, now float64) {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	cut := uint64(ts.Nano())
	for _, r := range w.rings {
		w.scratch = r.drain(w.scratch[:0])
		w.records = parseRecords(w.scratch, w.records)
	}
	slices.SortStableFunc(w.records, func(a, b perfRecord) int {
		if a.time < b.time {
			return -1
		} else if a.time > b.time {
			return 1
		}
		return 0
	})
	n := 0
	for n < len(w.records) && w.records[n].time <= cut {
		w.applyRecord(&w.records[n], t, now)
		n++
	}
	w.records = slices.Delete(w.records, 0, n)
}

func (w *perfWatch) applyRecord(r *perfRecord, t *tree, now float64) {
	p := t.procs[r.pid]
	switch r.kind {
	case unix.PERF_RECORD_FORK:
		if r.tid == r.pid && r.pid != r.ppid {
			if t.byEvents || p == nil || p.dead { // else it was found before
				t.addProcess(r.pid, r.ppid)
			}
		} else if p != nil {
			p.alive++
		}
	case unix.PERF_RECORD_EXIT:
		if p != nil {
			p.reads -= len(w.rings) // number of CPU time records that follow
			if p.alive--; p.alive <= 0 {
				t.markDead(p, now)
			}
		}
	case unix.PERF_RECORD_COMM:
		if p != nil && (r.tid == r.pid || r.exec) { // a thread may have a name of its own
			if r.exec && !p.dead {
				t.creditOldName(p)
				p.seen, p.loaded = 0, false
			}
			p.comm = r.comm
		}
	case unix.PERF_RECORD_READ:
		if p != nil {
			p.events += r.value
			p.reads++
		}
	case unix.PERF_RECORD_LOST:
		w.lost += r.value
		t.byEvents = false // from now on the tree is searched
	}
}

// drain copies new records out of the ring and frees their space.
func (r *perfRing) drain(dst []byte) []byte {
	meta := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.mem[0]))
	data := r.mem[os.Getpagesize():]
	head := atomic.LoadUint64(&meta.Data_head)
	tail := atomic.LoadUint64(&meta.Data_tail)
	size := uint64(len(data))
	for tail < head {
		from := tail % size
		to := min(from+(head-tail), size)
		dst = append(dst, data[from:to]...)
		tail += to - from
	}
	atomic.StoreUint64(&meta.Data_tail, tail)
	return dst
}

// parseRecords appends the perf records in b to out. It stops at a malformed record. Each record ends with the sample
// id fields in Sample_type: pid, tid, time.
func parseRecords(b []byte, out []perfRecord) []perfRecord {
	const header, trailer = 8, 16
	e := binary.NativeEndian
	for len(b) >= header {
		r := perfRecord{kind: e.Uint32(b)}
		misc, size := e.Uint16(b[4:]), int(e.Uint16(b[6:]))
		if size < header+trailer || size > len(b) {
			break
		}
		body := b[header : size-trailer]
		r.time = e.Uint64(b[size-8:])
		b = b[size:]
		switch {
		case (r.kind == unix.PERF_RECORD_FORK || r.kind == unix.PERF_RECORD_EXIT) && len(body) >= 24:
			r.pid, r.ppid = int32(e.Uint32(body)), int32(e.Uint32(body[4:]))
			r.tid, r.ptid = int32(e.Uint32(body[8:])), int32(e.Uint32(body[12:]))
		case r.kind == unix.PERF_RECORD_COMM && len(body) > 8:
			r.pid, r.tid = int32(e.Uint32(body)), int32(e.Uint32(body[4:]))
			name := body[8:]
			for i, c := range name {
				if c == 0 {
					name = name[:i]
					break
				}
			}
			r.comm = sensor.CommOf(name)
			r.exec = misc&unix.PERF_RECORD_MISC_COMM_EXEC != 0
		case r.kind == unix.PERF_RECORD_READ && len(body) >= 16:
			r.pid, r.tid, r.value = int32(e.Uint32(body)), int32(e.Uint32(body[4:])), e.Uint64(body[8:])
		case r.kind == unix.PERF_RECORD_LOST && len(body) >= 16:
			r.value = e.Uint64(body[8:])
		default:
			continue
		}
		out = append(out, r)
	}
	return out
}

// onlineCPUs returns the numbers of the online processors.
func onlineCPUs(sysRoot string) ([]int, error) {
	path := sysRoot + "/devices/system/cpu/online"
	b, err := os.ReadFile(path)
	if err != nil {
		cpus := make([]int, runtime.NumCPU())
		for i := range cpus {
			cpus[i] = i
		}
		return cpus, nil
	}
	cpus, err := parseCPUList(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return cpus, nil
}

// parseCPUList parses a list of processors in the kernel's format, such as "0-3,8".
func parseCPUList(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || a < 0 || b < a || b >= 1<<16 {
			return nil, fmt.Errorf("cpu list %q: %w", s, errMalformed)
		}
		for i := a; i <= b; i++ {
			out = append(out, i)
		}
	}
	return out, nil
}
