// Package rdma reads the processes with queue pairs on the RDMA adapters of the machine (InfiniBand, RoCE, iWARP, Omni-Path) by netlink
// (NETLINK_RDMA, RDMA_NLDEV_CMD_RES_QP_GET; Linux 4.17), and the traffic of the adapters from sysfs.
//
// The kernel lists owners of queue pairs without their traffic, and counts octets by port. Octets can be charged to a workload only if it
// alone held queue pairs on an adapter, which the caller has to decide. Queue pairs of subnet management, which the kernel holds on each
// adapter, do not count; its others do (IP over InfiniBand, Lustre, NVMe over fabrics).
//
// Sources: include/uapi/rdma/rdma_netlink.h, drivers/infiniband/core/nldev.c. No privilege is needed. A [Source] is used from one
// goroutine.
package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// readInterval is the shortest time between two readings.
const readInterval = 10 * time.Second

// Source reads adapters while it is open.
type Source struct {
	root   string
	fd     int
	buf    []byte
	ask    func(request []byte) ([]byte, error) // sends a dump request and returns all messages of its answer
	looked time.Time
	now    func() time.Time
}

// Open opens the socket. It fails with [sensor.ErrUnavailable] if there is no adapter, or the kernel does not list queue pairs.
func Open(root string) (*Source, error) {
	s := &Source{root: cmp.Or(root, "/"), buf: make([]byte, 64<<10), now: time.Now}
	adapters, err := os.ReadDir(filepath.Join(s.root, "sys/class/infiniband"))
	if err != nil || len(adapters) == 0 {
		return nil, sensor.Unavailable("no InfiniBand, Omni-Path or RDMA adapter", "", err)
	}
	s.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		return nil, sensor.Unavailable("the kernel does not list users of RDMA adapters", "load the module ib_core", err)
	}
	_ = unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	s.ask = s.requestDump
	if _, err := s.listDevices(); err != nil {
		return nil, errors.Join(sensor.Unavailable("the kernel does not list users of RDMA adapters", "use Linux 4.17 or later", err),
			s.Close())
	}
	return s, nil
}

// Name returns "rdma".
func (s *Source) Name() string { return "rdma" }

// Close closes the socket. Calling it again does nothing.
func (s *Source) Close() error {
	if s.fd <= 0 {
		return nil
	}
	err := unix.Close(s.fd)
	s.fd = -1
	return err
}

// ReadLinks appends every adapter, or nothing if the last reading was a short time ago.
func (s *Source) ReadLinks(p *sensor.LinkPass) error {
	if now := s.now(); now.Sub(s.looked) < readInterval {
		return nil
	} else {
		s.looked = now
	}
	list, err := s.listDevices()
	if err != nil {
		return fmt.Errorf("list RDMA adapters: %w", err)
	}
	for _, d := range list {
		octets, ok := s.readOctets(d.name)
		if !ok {
			continue
		}
		answer, err := s.ask(dumpRequest(cmdQueuePairs, d.index))
		if err != nil {
			return fmt.Errorf("list queue pairs of %s: %w", d.name, err)
		}
		l := sensor.Link{Device: d.name, Octets: octets}
		if err := eachMessage(answer, func(body []byte) { parseQueuePairs(body, &l) }); err != nil {
			return fmt.Errorf("list queue pairs of %s: %w", d.name, err)
		}
		slices.Sort(l.Users)
		l.Users = slices.Compact(l.Users)
		p.Links = append(p.Links, l)
	}
	return nil
}

func (s *Source) listDevices() (list []adapter, err error) {
	answer, err := s.ask(dumpRequest(cmdDevices, noIndex))
	if err != nil {
		return nil, err
	}
	err = eachMessage(answer, func(body []byte) {
		if d, ok := parseDevice(body); ok {
			list = append(list, d)
		}
	})
	return list, err
}

// readOctets sums the octets over all ports of an adapter. ok is false if a counter is unreadable. InfiniBand counts
// units of four octets.
func (s *Source) readOctets(name string) (sum [2]uint64, ok bool) {
	dir := filepath.Join(s.root, "sys/class/infiniband", filepath.Base(name), "ports")
	ports, _ := os.ReadDir(dir)
	for _, port := range ports {
		for i, file := range [2]string{"port_rcv_data", "port_xmit_data"} {
			text, err := os.ReadFile(filepath.Join(dir, port.Name(), "counters", file))
			if err != nil {
				return sum, false
			}
			v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
			if err != nil {
				return sum, false
			}
			sum[i] += 4 * v
		}
	}
	return sum, len(ports) > 0
}

var _ sensor.LinkSource = (*Source)(nil)
