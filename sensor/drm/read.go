package drm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// clientHolder is a known client with the process that holds it.
type clientHolder struct {
	key    clientKey
	pid    int32
	fd     int // of its fdinfo file, -1 when the process or the file is gone
	seen   uint64
	last   [maxEngines]engineUse
	count  int
	primed bool

	busy   float64
	memory uint64
	have   sensor.GPUFields
}

func (h *clientHolder) close() {
	if h.fd >= 0 {
		_ = unix.Close(h.fd)
		h.fd = -1
	}
}

// readClients reads all known clients and searches for new ones.
func (s *Sensor) readClients(now time.Time) error {
	s.reading++
	span := 0.0
	if d := now.Sub(s.at); !s.at.IsZero() && d > 0 && d <= sensor.Gap {
		span = d.Seconds()
	}
	for _, d := range s.devices {
		clear(d.used[:])
		d.gpu.Span = span
	}
	for k, h := range s.found {
		h.busy = 0
		if h.fd >= 0 && !s.rereadClient(h, span) {
			h.close()
		}
		if h.fd < 0 && s.sweeps > h.seen+2 {
			delete(s.found, k) // two rounds found no holder
		}
	}
	err, refused := s.searchProcesses(span), error(nil)
	for _, d := range s.devices {
		refused = errors.Join(refused, d.closeReading(s.hidden == 0 && s.denied == 0, now))
	}
	if err == nil && (s.hidden > 0 || s.denied > 0) {
		err = errHidden
	}
	return sensor.JoinRefused(err, refused)
}

var errHidden = fmt.Errorf(
	"the open files of other users' processes may not be seen, so their use of GPUs is missing: run as root or grant CAP_SYS_PTRACE and " +
		"CAP_DAC_READ_SEARCH")

// rereadClient reads a known client. It returns false if its file has been replaced.
func (s *Sensor) rereadClient(h *clientHolder, span float64) bool {
	n, err := unix.Pread(h.fd, s.text, 0)
	if err != nil || n <= 0 || !s.parsed.parse(s.text[:n]) {
		return false
	}
	if s.parsed.id != h.key.id || !bytes.Equal(s.parsed.pdev, s.devices[h.key.device].pdev) {
		return false
	}
	s.chargeClient(h, span)
	return true
}

// chargeClient charges the activity of the parsed client since its last reading to the process that holds it. span is
// the time since then in seconds. A counter that decreases is ignored until it exceeds its previous maximum.
func (s *Sensor) chargeClient(h *clientHolder, span float64) {
	d := s.devices[h.key.device]
	h.seen = s.sweeps
	h.have = 0
	for i := range s.parsed.engines[:s.parsed.count] {
		e := &s.parsed.engines[i]
		if !d.ours && e.hasNanos && e.nanos == 0 {
			continue // ROCm computes on queues that amdgpu does not account for here
		}
		l := h.engineByName(e.name)
		if l == nil {
			continue
		}
		used := 0.0
		switch {
		case e.hasNanos:
			if e.nanos > l.nanos {
				if h.primed {
					used = float64(e.nanos-l.nanos) / 1e9 / float64(e.capacity)
				}
				l.nanos = e.nanos
			}
		case e.hasCycles && e.total > 0:
			if e.cycles > l.cycles && e.total > l.total && l.total > 0 && h.primed {
				used = min(float64(e.cycles-l.cycles)/float64(e.total-l.total)/float64(e.capacity), 1) * span
			}
			l.cycles, l.total = max(e.cycles, l.cycles), max(e.total, l.total)
		default:
			continue
		}
		h.have |= sensor.GPUBusy
		h.busy = max(h.busy, used)
		d.addBusy(e.name, used)
	}
	h.primed = true
	if s.parsed.hasMemory {
		h.memory = s.parsed.memory
		h.have |= sensor.GPUMemory
	}
}

func (h *clientHolder) engineByName(name [16]byte) *engineUse {
	for i := range h.last[:h.count] {
		if h.last[i].name == name {
			return &h.last[i]
		}
	}
	if h.count == maxEngines {
		return nil
	}
	h.count++
	h.last[h.count-1] = engineUse{name: name}
	return &h.last[h.count-1]
}

// searchProcesses examines the open files of some processes: first the new ones, then the next in turn.
func (s *Sensor) searchProcesses(span float64) error {
	for _, pid := range s.asked {
		s.scanProcess(pid, span)
	}
	s.asked = s.asked[:0]
	if _, err := unix.Seek(s.proc.dir, 0, unix.SEEK_SET); err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	var err error
	if s.pids, err = s.proc.readNumbers(s.proc.dir, s.pids[:0]); err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	slices.Sort(s.pids)
	left, links := maxSearched, 0
	if s.reading == 1 {
		left, links = len(s.pids), -1<<30 // the first reading examines all processes
	}
	for _, pid := range s.pids {
		if _, known := s.checked[pid]; !known && left > 0 && links < maxOpenFiles {
			links += s.scanProcess(pid, span)
			left--
		}
	}
	if s.reading == 1 {
		s.hidden, s.denied = s.denied, 0
		return nil
	}
	if s.reading%s.every != 0 {
		return nil
	}
	for left > 0 && links < maxOpenFiles && len(s.pids) > 0 {
		if s.next >= len(s.pids) {
			s.endRound()
			break
		}
		links += s.scanProcess(s.pids[s.next], span)
		s.next++
		left--
	}
	return nil
}

// endRound ends a round over all processes, and drops those that are gone.
func (s *Sensor) endRound() {
	s.next = 0
	s.sweeps++
	s.hidden, s.denied = s.denied, 0
	for pid := range s.checked {
		if _, ok := slices.BinarySearch(s.pids, pid); !ok {
			delete(s.checked, pid)
		}
	}
}

var dri = []byte("/dev/dri/")

// scanProcess examines the open files of one process and returns their number.
func (s *Sensor) scanProcess(pid int32, span float64) int {
	s.checked[pid] = s.reading
	dir, errno := s.proc.openPath(s.proc.buildPath(pid, "fd", -1), unix.O_RDONLY|unix.O_DIRECTORY)
	if errno != 0 {
		if errno == unix.EACCES || errno == unix.EPERM {
			s.denied++
		}
		return 1
	}
	defer unix.Close(dir)
	s.fds, _ = s.proc.readNumbers(dir, s.fds[:0])
	for _, fd := range s.fds {
		if bytes.HasPrefix(s.proc.readlink(dir, fd), dri) {
			s.addFile(pid, fd, span)
		}
	}
	return len(s.fds) + 1
}

// addFile records an open file of a device.
func (s *Sensor) addFile(pid, fd int32, span float64) {
	info, errno := s.proc.openPath(s.proc.buildPath(pid, "fdinfo", fd), unix.O_RDONLY)
	if errno != 0 {
		return
	}
	n, err := unix.Pread(info, s.text, 0)
	at := -1
	if err == nil && n > 0 && s.parsed.parse(s.text[:n]) {
		for i, d := range s.devices {
			if bytes.Equal(d.pdev, s.parsed.pdev) {
				at = i
			}
		}
	}
	if at < 0 {
		_ = unix.Close(info)
		return
	}
	k := clientKey{at, s.parsed.id}
	h := s.found[k]
	if h == nil {
		// A client found after the first reading started since: all of its activity counts.
		h = &clientHolder{key: k, fd: -1, primed: s.reading > 1}
		s.found[k] = h
	} else if h.fd >= 0 {
		h.seen = s.sweeps
		_ = unix.Close(info)
		return // it is known already, by this descriptor or another
	}
	h.pid, h.fd = pid, info
	s.chargeClient(h, span)
}
