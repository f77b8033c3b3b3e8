// Package traffic counts what each process sends and receives at its sockets, by programs of
// BPF in the kernel. It opens no file of /proc and looks at no packet.
//
// It needs BTF and CAP_BPF with CAP_PERFMON, and a place to count at: the trace points
// sock_send_length and sock_recv_length of Linux 6.3, or before it the end of inet_sendmsg, inet_recvmsg and
// their like (fexit: Linux 5.13 on x86, 6.0 on arm64). See doc/decisions/0700.
//
// # What the figures mean
//
//   - Bytes are payload that calls on sockets of IPv4 and IPv6 moved, without headers, retransmissions and
//     acknowledgements. It does not matter how the kernel or the device cuts and joins packets.
//   - They are charged to the process that made the call, in whichever thread, io_uring included. What
//     the kernel moves for itself (NFS, iSCSI) is that of its threads.
//   - sendfile(2) and splice(2) into a socket are calls like others. What is spliced out of a TCP socket is
//     counted only where fexit programs can be attached.
//   - Reading without taking (MSG_PEEK) and error queues do not count, nor do raw sockets that get a
//     copy of what is meant for others, nor what the machine forwards.
//   - Connections opened count when they are tried; those accepted when they first carry payload.
//
// Sources: net/socket.c, net/ipv4/af_inet.c, include/trace/events/sock.h and tcp.h of the kernel;
// Documentation/bpf/bpf_iterators.rst, map_sk_storage.rst. A [Source] is used from one goroutine.
package traffic

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

// Options says how to count.
type Options struct {
	// Root is where /proc and /sys of this machine are mounted, "" for "/".
	Root string
	// Types are those of the kernel, shared with others who load programs; nil to parse them here.
	Types *bpf.Types

	hooks    string // the only way to count that is tried; for tests
	accounts uint32 // how many processes there is room for; for tests
}

// Source counts traffic while it is open.
type Source struct {
	kernel  *kernelSide
	clock   bpf.Clock
	buf     []byte
	unowned sensor.Traffic // so far
	passes  uint64
	over    bpf.Ended
}

// Open loads the programs. It fails with [sensor.ErrUnavailable] where the kernel or the
// permissions do not allow it, and says which.
func Open(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	k, err := load(o)
	if err != nil {
		return nil, err
	}
	return &Source{kernel: k, clock: bpf.OwnClock(), buf: make([]byte, 32<<10)}, nil
}

// Name returns "traffic".
func (s *Source) Name() string { return "traffic" }

// Hooks says where payload is counted: "tracepoints" or "fexit".
func (s *Source) Hooks() string { return s.kernel.hooks }

// Missing says what the kernel did not let us count beside payload, nil if nothing.
func (s *Source) Missing() error { return errors.Join(s.kernel.missing...) }

// Missed is how many events interrupted a program and were therefore not counted.
func (s *Source) Missed() uint64 {
	if s.kernel == nil {
		return 0
	}
	return bpf.Missed(s.kernel.programs...)
}

// Close unloads the programs. Calling it again does nothing.
func (s *Source) Close() error {
	if s.kernel != nil {
		s.kernel.close()
		s.kernel = nil
	}
	return nil
}

// ReadTraffic appends what was counted since the last call.
func (s *Source) ReadTraffic(p *sensor.TrafficPass) error {
	if s.kernel == nil {
		return errors.New("read traffic: the source is closed")
	}
	if s.passes%refresh == 0 {
		s.kernel.learn()
	}
	s.passes++
	s.over.Begin()
	if err := s.iterate(p); err != nil {
		return fmt.Errorf("read traffic: %w", err)
	}
	s.over.Free(s.kernel.accounts)
	return nil
}

const recordSize = int(unsafe.Sizeof(trafficRecord{}))

// The record has the figures as sensor.Traffic has them.
const _ = -(unsafe.Sizeof(trafficRecord{}.Use) - unsafe.Sizeof(sensor.Traffic{}))

// iterate has the kernel tell every account to which something was added.
func (s *Source) iterate(p *sensor.TrafficPass) error {
	fd, err := bpf.NewIteration(s.kernel.harvest.FD())
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Read(fd, s.buf)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return nil
		case n%recordSize != 0:
			return fmt.Errorf("%d bytes are no whole number of records of %d", n, recordSize)
		}
		for b := s.buf[:n]; len(b) > 0; b = b[recordSize:] {
			s.take((*trafficRecord)(unsafe.Pointer(&b[0])), p)
		}
	}
}

func (s *Source) take(r *trafficRecord, p *sensor.TrafficPass) {
	if r.Pid == 0 {
		s.takeUnowned((*sensor.Traffic)(unsafe.Pointer(&r.Use)), p)
		return
	}
	if r.Ended != 0 {
		s.over.Add(uint32(r.Tgid))
	}
	use := *(*sensor.Traffic)(unsafe.Pointer(&r.Use))
	if use == (sensor.Traffic{}) {
		return
	}
	p.Sent = append(p.Sent, sensor.Sent{PID: max(r.Pid, 0), Start: s.clock.Here(r.Start), Use: use})
}

// takeUnowned tells what there was no room for; now is all of it so far.
func (s *Source) takeUnowned(now *sensor.Traffic, p *sensor.TrafficPass) {
	was, more := s.unowned.Counters(), p.Unowned.Counters()
	for i, c := range now.Counters() {
		*more[i] += *c - *was[i]
	}
	s.unowned = *now
}

var _ sensor.TrafficSource = (*Source)(nil)
