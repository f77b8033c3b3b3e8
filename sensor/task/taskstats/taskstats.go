// Package taskstats receives the messages that the kernel sends when a thread ends (generic
// netlink, family TASKSTATS) and combines them into one record per ended process, so that work
// between two readings of the task table is charged.
//
// Sources: Documentation/accounting/taskstats.rst, taskstats-struct.rst and delay-accounting.rst;
// include/uapi/linux/taskstats.h, kernel/taskstats.c, kernel/tsacct.c. Times are nanoseconds,
// memory is bytes.
//
// It needs CAP_NET_ADMIN in the first user and pid namespaces, and Linux 5.19 (version 12 of the
// records): earlier records do not name the process of the thread, so an ended thread could not be
// distinguished from a process. sensor/task/ebpf has more figures, and more precise ones.
//
// # What the figures mean
//
//   - The kernel counts before it takes a thread down: CPU time is the time of the
//     scheduler up to its last clock tick or switch. For a process that never slept,
//     the time since is known too, from its elapsed time; for others up to one
//     tick (1 to 10 ms) is missing. What freeing its memory costs is never in it. Over 1,000
//     processes of 2 ms that never slept, 4 % were missing.
//   - The split into user and system is sampled at ticks, so short processes seem to be
//     all of one kind.
//   - Start is known to a second or less; see [sensor.SameStart].
//   - PeakBytes is the high-water mark of the address space.
//   - For a process with threads that ended before the source was opened, or fell victim
//     to a full buffer, faults and I/O are unknown and left out of Have.
//   - Process group, session and cgroup are not reported. State is 'X'.
//
// A [Source] is used from one goroutine.
package taskstats

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// Options configures the listener.
type Options struct {
	// Root is the directory with the machine's file tree, "" for "/".
	Root string
	// Buffer is the number of bytes of records that the kernel keeps between two calls of Drain; 0
	// means 16 MiB. A record takes about 2.5 KiB.
	Buffer int
}

// Source receives exit records.
type Source struct {
	fd     int
	buf    []byte
	family uint16
	processCollector
}

// New starts to listen for exit records. If the kernel or the permissions do not allow it, the error matches
// [sensor.ErrUnavailable] and gives the reason.
func New(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Buffer == 0 {
		o.Buffer = 16 << 20
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, sensor.Unavailable("no generic netlink", "use a kernel built with CONFIG_NET", err)
	}
	s := &Source{fd: fd, buf: make([]byte, 64<<10), processCollector: processCollector{threads: make(map[uint32]*endedThreadTotals)}}
	if err := s.startListening(o); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return s, nil
}

func (s *Source) startListening(o Options) error {
	if err := unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind the netlink socket: %w", err)
	}
	// Setup requests are answered at once, so a timeout means that the interface is broken.
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return fmt.Errorf("set the timeout of the netlink socket: %w", err)
	}
	if err := s.findFamily(); err != nil {
		return err
	}
	version, layout, err := s.probeVersion()
	if err != nil {
		return err
	}
	s.layout = layout
	if version < minVersion {
		return sensor.Unavailable(fmt.Sprintf("the kernel's exit records (version %d) do not name the process of a thread", version),
			newer, nil)
	}
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, o.Buffer) != nil {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, o.Buffer) // as much as is allowed
	}
	if err := s.registerCPUs(possibleCPUs(o.Root)); err != nil {
		return err
	}
	s.since = readClock(unix.CLOCK_BOOTTIME)
	return unix.SetNonblock(s.fd, true)
}

// possibleCPUs returns the list of processors that may ever be (Documentation/admin-guide/cputopology.rst).
func possibleCPUs(root string) string {
	text, err := os.ReadFile(filepath.Join(root, "sys/devices/system/cpu/possible"))
	if err != nil {
		return "0"
	}
	return strings.TrimSpace(string(text))
}

// Name returns "taskstats".
func (s *Source) Name() string { return "taskstats" }

// Drain appends the processes that ended since the last call. It does not block.
func (s *Source) Drain(p *sensor.Pass) error {
	if s.fd < 0 {
		return errors.New("read exit records: the source is closed")
	}
	s.now, s.wall = readClock(unix.CLOCK_BOOTTIME), readClock(unix.CLOCK_REALTIME)
	for {
		n, err := unix.Read(s.fd, s.buf)
		switch err {
		case nil:
			s.addRecords(s.buf[:n], s.family, p)
		case unix.EINTR:
		case unix.EAGAIN:
			s.since = s.now
			s.dropStale()
			return nil
		case unix.ENOBUFS:
			p.Lost++ // at least; the kernel does not report how many
		default:
			return fmt.Errorf("read exit records: %w", err)
		}
	}
}

// Close stops listening. Calling it again does nothing.
func (s *Source) Close() error {
	if s.fd < 0 {
		return nil
	}
	err := unix.Close(s.fd)
	s.fd = -1
	return err
}

func readClock(id int32) uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(id, &ts)
	return uint64(ts.Nano())
}

var _ sensor.ExitSource = (*Source)(nil)
