// Package traffic counts the bytes that each process sends and receives at its sockets, by BPF programs in the kernel.
// It opens no file of /proc and inspects no packet.
//
// It needs BTF and CAP_BPF with CAP_PERFMON, and a place to count: the trace points sock_send_length and
// sock_recv_length of Linux 6.3, or before it the end of inet_sendmsg, inet_recvmsg and their like (fexit: Linux 5.13
// on x86, 6.0 on arm64). See doc/decisions/0700.
//
// # What the figures mean
//
//   - Bytes are payload that calls on sockets of IPv4 and IPv6 moved, without headers, retransmissions and
//     acknowledgements. It does not matter how the kernel or the device cuts and joins packets.
//   - They are charged to the process that made the call, in whichever thread, io_uring included. What
//     the kernel moves for itself (NFS, iSCSI) is the traffic of its threads.
//   - sendfile(2) and splice(2) into a socket are calls like others. What is spliced out of a TCP socket is
//     counted only where fexit programs can be attached.
//   - Reading without taking (MSG_PEEK) and error queues do not count, nor do raw sockets that get a
//     copy of traffic meant for others, nor what the machine forwards.
//   - Connections opened count when they are tried; those accepted when they are taken or first carry payload.
//
// Sources: net/socket.c, net/ipv4/af_inet.c, include/trace/events/sock.h and tcp.h of the kernel;
// Documentation/bpf/bpf_iterators.rst, map_sk_storage.rst. A [Source] is used from one goroutine.
package traffic

import (
	"errors"
	"fmt"
	"structs"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

// Options configures the counting.
type Options struct {
	// Root is the directory with /proc and /sys of this machine, "" for "/".
	Root string
	// Types are the kernel's types, shared with other loaders; nil parses them here.
	Types *bpf.Types

	hooks    string // the only way to count that is tried; for tests
	accounts uint32 // how many processes there is room for; for tests
}

// Source counts traffic while it is open.
type Source struct {
	kernel  *loadedPrograms
	clock   bpf.Clock
	buf     []byte
	unowned trafficCounts // so far
	passes  uint64
	over    bpf.Ended
}

// Open loads the programs. If the kernel or the permissions do not allow it, the error matches [sensor.ErrUnavailable]
// and gives the reason.
func Open(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	k, err := loadMethod(o)
	if err != nil {
		return nil, err
	}
	return &Source{kernel: k, clock: bpf.OwnClock(), buf: make([]byte, 32<<10)}, nil
}

// Spec describes the counts.
func (s *Source) Spec() *sensor.TallySpec { return Spec }

// Missing returns the amounts other than payload that the kernel does not allow us to count.
func (s *Source) Missing() (name string, err error) {
	return "traffic-hooks", sensor.RefusedAny("some traffic is not counted", s.kernel.missing...)
}

// Missed returns the number of events that interrupted a program and were therefore not counted.
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

// Read appends the counts since the last call.
func (s *Source) Read(p *sensor.TallyPass) error {
	if s.kernel == nil {
		return errors.New("read traffic: the source is closed")
	}
	if s.passes%addressRefresh == 0 {
		s.kernel.passAddresses()
	}
	s.passes++
	if s.kernel.unspliced {
		p.Lacks = append(p.Lacks, sensor.LackSpliced)
	}
	s.over.Begin()
	if err := s.readAccounts(p); err != nil {
		return fmt.Errorf("read traffic: %w", err)
	}
	s.over.Free(s.kernel.accounts)
	return nil
}

const recordSize = int(unsafe.Sizeof(trafficRecord{}))

// trafficCounts is the traffic of a process, as its record has it.
type trafficCounts = struct {
	_     structs.HostLayout
	Cells [firstMessageSeries]struct {
		_        structs.HostLayout
		Bytes    uint64
		Messages uint64
	}
	Opened      uint64
	Accepted    uint64
	Retransmits uint64
}

// readAccounts makes the kernel report every account that has grown.
func (s *Source) readAccounts(p *sensor.TallyPass) error {
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
			s.addRecord((*trafficRecord)(unsafe.Pointer(&b[0])), p)
		}
	}
}

func (s *Source) addRecord(r *trafficRecord, p *sensor.TallyPass) {
	if r.Pid == 0 {
		s.takeUnowned(&r.Use, p)
		return
	}
	if r.Ended != 0 {
		s.over.Add(uint32(r.Tgid))
	}
	addTraffic(p, max(r.Pid, 0), s.clock.Here(r.Start), &r.Use)
}

// addTraffic appends the traffic of a process.
func addTraffic(p *sensor.TallyPass, pid int32, start uint64, u *trafficCounts) {
	for i := range u.Cells {
		p.Add(pid, start, i, u.Cells[i].Bytes)
	}
	for proto := range Protocol(Protocols) {
		for d := range sensor.Direction(sensor.Directions) {
			sum := uint64(0)
			for scope := range Scope(Scopes) {
				sum += u.Cells[Bytes(proto, scope, d)].Messages
			}
			p.Add(pid, start, Messages(proto, d), sum)
		}
	}
	p.Add(pid, start, Opened, u.Opened)
	p.Add(pid, start, Accepted, u.Accepted)
	p.Add(pid, start, Retransmit, u.Retransmits)
}

// takeUnowned appends traffic that did not fit into the table; now is its total so far.
func (s *Source) takeUnowned(now *trafficCounts, p *sensor.TallyPass) {
	more, was := *now, &s.unowned
	for i := range more.Cells {
		more.Cells[i].Bytes -= was.Cells[i].Bytes
		more.Cells[i].Messages -= was.Cells[i].Messages
	}
	more.Opened, more.Accepted, more.Retransmits = now.Opened-was.Opened, now.Accepted-was.Accepted, now.Retransmits-was.Retransmits
	p.Unowned = p.Unowned || more != trafficCounts{}
	addTraffic(p, 0, 0, &more)
	s.unowned = *now
}

var _ sensor.Tally = (*Source)(nil)
