// Package uncore reads the bytes moved by the memory controllers of the processors, by socket and
// direction: the uncore PMUs of Intel (uncore_imc), AMD (amd_umc, Linux 6.10) and of Arm's Yitian
// 710 (ali_drw) below /sys/bus/event_source/devices, by perf_event_open(2).
//
// They include DMA by devices and the traffic of the kernel. It needs CAP_PERFMON, and a machine
// with memory controllers that the kernel may read: virtual machines have none. No such machine was
// available, so the test trees follow the kernel's documentation and count software events on the
// same path. A Sensor is used from one goroutine.
package uncore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

var trafficDesc = metric.NewDesc("reckon_node_memory_traffic_bytes_total", metric.Counter, metric.Bytes, []string{"socket", "direction"},
	"Bytes that the memory controllers of a socket moved, by direction (read, write); devices and the kernel included. Counted since "+
		"the agent began.")

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc { return []*metric.Desc{trafficDesc} }

// Sensor reads the memory controllers of a machine.
type Sensor struct {
	events []openEvent
	sums   []trafficSum
	buf    [24]byte
}

// openEvent is an event that is open.
type openEvent struct {
	countedEvent
	fd   int
	last [3]uint64 // count, ns to be counted, ns counted
	sum  int       // index into sums
}

// trafficSum is the total traffic of one direction of a socket.
type trafficSum struct {
	series *metric.Series
	bytes  float64
	err    error // an event ended, so the sum would be too low
}

// New opens the counters of the machine with its file tree at root; "" or "/" is our own.
func New(root string) (*Sensor, error) {
	list := findEvents(root)
	if len(list) == 0 {
		dir := sysfs.Path(root, unitsDir)
		why, fix := "the kernel shows no memory controllers that are understood", "AMD needs Linux 6.10; of Arm only Yitian 710 is read"
		if _, err := os.Stat(dir); err != nil {
			why, fix = "the kernel has no performance counters", "use a kernel with CONFIG_PERF_EVENTS"
		} else if sysfs.CPUFlag(root, "hypervisor") {
			why, fix = "virtual machines do not see the memory controllers", ""
		}
		return nil, sensor.Unavailable(why, fix, fmt.Errorf("find memory controllers in %s", dir))
	}
	s := new(Sensor)
	for _, c := range list {
		attr := unix.PerfEventAttr{Type: c.kind, Config: c.config, Size: unix.PERF_ATTR_SIZE_VER1,
			Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING}
		fd, err := unix.PerfEventOpen(&attr, -1, c.cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			_ = s.Close()
			reason, fix := sysfs.PerfRefusal(err, root, "counters of memory controllers")
			return nil, sensor.Unavailable(reason, fix, fmt.Errorf("open %s: %w", c.unit, err))
		}
		s.events = append(s.events, openEvent{countedEvent: c, fd: fd, sum: s.sumIndex(&c)})
	}
	return s, nil
}

// sumIndex returns the index of the sum that an event belongs to. It adds the sum if there is none.
func (s *Sensor) sumIndex(c *countedEvent) int {
	direction := "read"
	if c.write {
		direction = "write"
	}
	values := []string{c.socket, direction}
	for i := range s.sums {
		if slices.Equal(s.sums[i].series.Values, values) {
			return i
		}
	}
	s.sums = append(s.sums, trafficSum{series: metric.NewSeries(trafficDesc, values...)})
	return len(s.sums) - 1
}

// Name returns "uncore".
func (s *Sensor) Name() string { return "uncore" }

// Descs lists the series of the sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// Read appends the bytes of each socket. A direction with units that cannot all be read is left out from then on.
func (s *Sensor) Read(b *metric.Batch) error {
	var errs []error
	for i := range s.events {
		e := &s.events[i]
		if s.sums[e.sum].err != nil {
			continue
		}
		if n, err := unix.Read(e.fd, s.buf[:]); n != len(s.buf) { // of an event that ended there is nothing to read
			s.sums[e.sum].err = fmt.Errorf("read %s on processor %d: it counts no more: %w", e.unit, e.cpu, cmp.Or[error](err, unix.ENODEV))
			continue
		}
		var now [3]uint64
		for k := range now {
			now[k] = binary.NativeEndian.Uint64(s.buf[8*k:])
		}
		s.sums[e.sum].bytes += e.bytes * e.scaledCount(now)
	}
	for i := range s.sums {
		if s.sums[i].err != nil {
			errs = append(errs, s.sums[i].err)
			continue
		}
		b.Add(s.sums[i].series, s.sums[i].bytes)
	}
	return errors.Join(errs...)
}

// scaledCount returns the count of an event since the last reading. It scales the count if the event had a hardware
// counter only for part of the time. If it had none at all, the next reading includes that time.
func (e *openEvent) scaledCount(now [3]uint64) float64 {
	count, enabled, running := now[0]-e.last[0], now[1]-e.last[1], now[2]-e.last[2]
	if running == 0 || now[0] < e.last[0] {
		return 0
	}
	e.last = now
	return float64(count) * max(float64(enabled)/float64(running), 1)
}

// Close closes the counters.
func (s *Sensor) Close() error {
	var errs []error
	for _, e := range s.events {
		errs = append(errs, unix.Close(e.fd))
	}
	s.events = nil
	return errors.Join(errs...)
}

var _ sensor.Sensor = (*Sensor)(nil)
