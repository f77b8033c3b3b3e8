// Package disks measures the distribution of the response times of each disk and operation. A BPF program runs when the
// kernel accounts for a request.
//
// A response time begins when the request is allocated and ends when it is completed. As in /proc/diskstats, it
// includes the wait in the kernel's queue, and the distributions add up to the sums there. Requests that were merged
// count as one. Disks that map others (device mapper, MD RAID) have no requests: the disks below them do.
//
// A request is missed if its completion interrupts this program on the same processor, because the kernel prevents
// recursion. This affected one or two of 160 requests in 3 of 80 test runs on a busy machine.
//
// It needs BTF, CAP_BPF with CAP_PERFMON, and Linux 5.9. Sources: block/blk-mq.c and include/trace/events/block.h of
// the kernel, Documentation/admin-guide/iostats.rst. A [Sensor] is used from one goroutine.
package disks

import (
	"errors"
	"fmt"
	"regexp"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

//go:generate bash ../bpf/build disks record

var responses = metric.NewDesc("reckon_node_disk_response_seconds", metric.NativeHistogram, metric.Seconds, []string{"device", "operation"},
	"How long the disk took to answer requests, waiting in the queue of the kernel included, by operation (read, write, flush, discard).")

// ignoredDisks matches memory and loop devices, which the agent's disk statistics also omit.
var ignoredDisks = regexp.MustCompile(`^(ram|loop|fd)\d+$`)

// operations are the first of enum req_op (include/linux/blk_types.h).
var operations = [...]string{"read", "write", "flush", "discard"}

// Options configures the measurement.
type Options struct {
	// Root is the directory with /proc and /sys of this machine, "" for "/".
	Root string
	// Types are the kernel's types, shared with other loaders; nil parses them here.
	Types *bpf.Types

	loops  bool   // do not leave out loop devices; for tests
	attach string // the only program that is tried; for tests
}

// Sensor measures response times while it is open.
type Sensor struct {
	loops bool
	kept  *bpf.Accounts
	take  func([]byte) (uint32, bool)
	disks map[diskKey]*diskResponse
	round uint64          // of readings
	read  []*diskResponse // in this one
}

type diskKey struct {
	name      [32]int8
	operation uint64
}

type diskResponse struct {
	row       *metric.Series // nil of one that is left out
	round     uint64
	histogram metric.Histogram // of all devices that have had the name
}

// Open loads the programs. If the kernel or the permissions do not allow it, the error matches [sensor.ErrUnavailable]
// and gives the reason.
func Open(o Options) (*Sensor, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	var first error
	for _, program := range []string{disksProgDone, disksProgCompleted} {
		if o.attach != "" && o.attach != program {
			continue
		}
		a, err := bpf.OpenAccounts(bpf.AccountsSpec{
			Root: o.Root, Types: o.Types, Load: loadDisks, Record: int(unsafe.Sizeof(disksRecord{})), Buffer: 64, Room: 1024,
			Attach: []string{program}, Otherwise: "the kernel does not let requests to disks be traced", Fix: "use Linux 5.9 or later",
		})
		if err == nil {
			s := &Sensor{loops: o.loops, kept: a, disks: make(map[diskKey]*diskResponse)}
			s.take = s.readRecord
			return s, nil
		}
		if first = err; errors.Is(err, unix.EPERM) {
			break
		}
	}
	return nil, first
}

// Name returns "disks".
func (s *Sensor) Name() string { return "disks" }

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc { return []*metric.Desc{responses} }

// Descs returns [Descs].
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// Missed returns the number of events that interrupted a program and were therefore not counted.
func (s *Sensor) Missed() uint64 { return s.kept.Missed() }

// Close unloads the programs. Calling it again does nothing.
func (s *Sensor) Close() error {
	if s.kept == nil {
		return nil
	}
	err := s.kept.Close()
	s.kept = nil
	return err
}

// Read appends the distributions since the programs were loaded.
func (s *Sensor) Read(b *metric.Batch) error {
	if s.kept == nil {
		return errors.New("read response times of disks: the sensor is closed")
	}
	s.round++
	s.read = s.read[:0]
	if err := s.kept.Read(s.take); err != nil {
		return fmt.Errorf("read response times of disks: %w", err)
	}
	for _, d := range s.read {
		b.AddHistogram(d.row, &d.histogram)
	}
	return nil
}

// firstBucket is the exponent of the end of the first bucket of the programs, in seconds.
const firstBucket = -20

func (s *Sensor) readRecord(b []byte) (uint32, bool) {
	r := (*disksRecord)(unsafe.Pointer(&b[0]))
	k := diskKey{r.Entry.Name, r.Operation}
	d := s.disks[k]
	if d == nil {
		d = new(diskResponse)
		s.disks[k] = d
		if name := cString(r.Entry.Name[:]); r.Operation < uint64(len(operations)) && (s.loops || !ignoredDisks.MatchString(name)) {
			d.row = metric.NewSeries(responses, name, operations[r.Operation])
		}
	}
	if d.row == nil {
		return 0, false
	}
	if d.round != s.round {
		d.round = s.round
		d.histogram.Reset()
		s.read = append(s.read, d)
	}
	d.histogram.AddOctaves(firstBucket, r.Entry.Delays.Octaves[:], float64(r.Entry.Delays.Nanos)/1e9)
	return 0, false
}

// cString returns a string of C.
func cString(c []int8) string {
	var b []byte
	for _, v := range c {
		if v == 0 {
			break
		}
		b = append(b, byte(v))
	}
	return string(b)
}

var _ sensor.Sensor = (*Sensor)(nil)
