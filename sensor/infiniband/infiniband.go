// Package infiniband reads the ports of InfiniBand, Omni-Path and RDMA over Ethernet (RoCE, iWARP,
// Elastic Fabric Adapters) from /sys/class/infiniband
// (Documentation/ABI/stable/sysfs-class-infiniband of the kernel), under the names of
// node_exporter's collector of that name:
//
//	mlx5_0/ports/1/state                    4: ACTIVE
//	mlx5_0/ports/1/rate                     200 Gb/sec (4X HDR)
//	mlx5_0/ports/1/counters/port_rcv_data   in units of four octets
//	mlx5_0/ports/1/hw_counters/out_of_buffer
//
// Traffic through these ports bypasses sockets: it is not in the network figures of workloads, nor,
// except IP over InfiniBand, in those of network devices. It is counted by port, and sysfs does not
// attribute it to processes.
//
// Counters of the InfiniBand standard do not wrap: the short ones stop at their highest value until
// they are cleared (perfquery -R). A saturated one has no sample, since its increase is unknown,
// and reckon_infiniband_saturated names it. In this it differs from node_exporter.
//
// Octets and octets per second, as exported. Without such an adapter the sensor is unavailable. A
// Sensor is used from one goroutine.
package infiniband

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

const (
	// maxPorts is the maximum number of ports read. Virtual functions are devices too, and a port has up to 60 files.
	maxPorts = 64
	// listInterval is the interval at which devices are listed again.
	listInterval = time.Minute
)

// Sensor reads all ports of a machine.
type Sensor struct {
	dir     string
	devices []*device
	left    int // ports beyond maxPorts
	looked  time.Time
	now     func() time.Time
}

type device struct {
	name  string
	info  *metric.Series
	ports []*portReader
}

// New searches for devices below root; "" or "/" is our own machine.
func New(root string) (*Sensor, error) {
	s := &Sensor{dir: sysfs.Path(root, "sys/class/infiniband"), now: time.Now}
	if err := s.listDevices(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if len(s.devices) == 0 {
		return nil, sensor.Unavailable("no InfiniBand, Omni-Path or RDMA adapter", "", fmt.Errorf("nothing in %s", s.dir))
	}
	return s, nil
}

// listDevices lists devices and ports; known ones stay open.
func (s *Sensor) listDevices() error {
	list, err := os.ReadDir(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sensor.Unavailable("no InfiniBand, Omni-Path or RDMA adapter", "", err)
	case errors.Is(err, fs.ErrPermission):
		return sensor.Unavailable("no permission to list RDMA adapters", "run as root", err)
	case err != nil:
		return fmt.Errorf("list RDMA adapters: %w", err)
	}
	s.looked = s.now()
	known := s.devices
	s.devices, s.left = nil, 0
	total := 0
	for _, e := range list {
		d := removeNamed(&known, e.Name())
		if d == nil || !d.isSame(s.dir) {
			d.close()
			d = openDevice(s.dir, e.Name(), maxPorts-total, &s.left)
		}
		total += len(d.ports)
		s.devices = append(s.devices, d)
	}
	for _, gone := range known {
		gone.close()
	}
	return nil
}

// removeNamed removes a device from a list.
func removeNamed(list *[]*device, name string) *device {
	for i, d := range *list {
		if d.name == name {
			*list = append((*list)[:i:i], (*list)[i+1:]...)
			return d
		}
	}
	return nil
}

func openDevice(dir, name string, room int, left *int) *device {
	path := filepath.Join(dir, name)
	d := &device{
		name: name, info: metric.NewSeries(infoDesc, labelValue(name), sysfs.ReadWord(path, "board_id"), sysfs.ReadWord(path, "fw_ver"),
			sysfs.ReadWord(path, "hca_type"))}
	list, _ := os.ReadDir(filepath.Join(path, "ports")) // an adapter without ports has none
	for _, e := range list {
		if _, err := strconv.ParseUint(e.Name(), 10, 32); err != nil {
			continue
		}
		if len(d.ports) >= room {
			*left++
			continue
		}
		if p := openPort(filepath.Join(path, "ports", e.Name()), labelValue(name), e.Name()); p != nil {
			d.ports = append(d.ports, p)
		}
	}
	return d
}

// isSame reports whether the device is still the opened one with the same number of ports.
func (d *device) isSame(dir string) bool {
	for _, p := range d.ports {
		if _, err := p.state.Text(); sysfs.IsGone(err) {
			return false
		}
	}
	list, err := os.ReadDir(filepath.Join(dir, d.name, "ports"))
	return err != nil || len(list) <= len(d.ports)
}

func (d *device) close() {
	if d == nil {
		return
	}
	for _, p := range d.ports {
		p.close()
	}
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "infiniband" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// Read appends the samples of every port. The returned error names the first port that could not be read, and reports
// ports beyond the limit.
func (s *Sensor) Read(b *metric.Batch) error {
	if s.now().Sub(s.looked) >= listInterval {
		if err := s.listDevices(); err != nil {
			return err
		}
	}
	var failed error
	for _, d := range s.devices {
		b.Add(d.info, 1)
		for _, p := range d.ports {
			if err := p.read(b, s.now()); err != nil && failed == nil {
				failed = fmt.Errorf("read port %s of %s: %w", p.number, d.name, err)
			}
		}
	}
	if failed == nil && s.left > 0 {
		return fmt.Errorf("read %d ports of RDMA adapters, %d more are not read", maxPorts, s.left)
	}
	return failed
}

// Close closes all files.
func (s *Sensor) Close() error {
	for _, d := range s.devices {
		d.close()
	}
	s.devices = nil
	return nil
}
