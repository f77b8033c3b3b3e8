// Package drm reads the users of GPUs with drivers that account for their clients:
// amdgpu, i915 and xe (Documentation/gpu/drm-usage-stats.rst). Every open file of a
// device is a client, with text in /proc/PID/fdinfo/FD:
//
//	drm-driver:            i915
//	drm-pdev:              0000:00:02.0
//	drm-client-id:         42
//	drm-engine-render:     9288864723 ns
//	drm-resident-local0:   1024 KiB
//
// A client counts once, by its device and id, however many descriptors and processes
// share it. Its counters cover its whole life, so a client that is found late has lost
// nothing; a counter that decreased counts again only beyond its own maximum. xe reports
// cycles of the engines instead of time, which are a share of the time between two
// readings.
//
// For devices of Intel, which no other sensor describes, this one also reports the device
// itself: busy as its busiest class of engines, clocks, and the energy counter of its
// hwmon. Those of AMD are described by sensor/amdgpu, under the same name, the PCI
// address.
//
// Finding clients requires reading the open files of every process. That is spread over
// time: each reading examines those that opened a device, where the kernel reports it, and new ones, one in three the next in turn;
// of both a bounded number. Reading the files of other users' processes needs
// CAP_SYS_PTRACE; hidden processes are reported. A [Sensor] is used from one goroutine.
package drm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// Sensor reads the devices and their clients.
type Sensor struct {
	proc    procDir
	devices []*device
	now     func() time.Time
	at      time.Time
	trouble error

	forGPU, forMeters, forRead bool

	found   map[clientKey]*clientHolder
	pids    []int32 // of this reading, ascending
	fds     []int32
	checked map[int32]uint64 // reading at which the open files of a process were last examined
	next    int              // index in pids to continue from
	asked   []int32          // opened a device since the last reading
	reading uint64
	every   uint64
	sweeps  uint64 // complete rounds
	denied  int    // processes of the current round with unreadable files
	hidden  int    // the same of the last complete round
	text    []byte
	parsed  clientInfo

	series sensor.MeterSeries
	buffer []sensor.Meter
}

var (
	_ sensor.Sensor      = (*Sensor)(nil)
	_ sensor.GPUSource   = (*Sensor)(nil)
	_ sensor.GPUFinder   = (*Sensor)(nil)
	_ sensor.MeterSource = (*Sensor)(nil)
)

// clientKey identifies a client of a device for its whole life.
type clientKey struct {
	device int
	id     uint64
}

const (
	// maxSearched is the number of processes that one search examines. maxOpenFiles is the number of open files after which
	// a search stops. The next search continues there.
	maxSearched  = 16
	maxOpenFiles = 512
	maxOpeners   = 64 // processes that are examined because they opened a device
	// searchEvery is the number of readings between two searches. Use before a process is found is not lost.
	searchEvery = 3
	reuseFor    = 200 * time.Millisecond
)

// New finds the devices below root; "" or "/" is our own machine.
func New(root string) (*Sensor, error) {
	class := sysfs.Path(root, "sys/class/drm")
	list, err := os.ReadDir(class)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sensor.Unavailable("the kernel shows no graphics devices", "", err)
	} else if err != nil {
		return nil, fmt.Errorf("list graphics devices: %w", err)
	}
	s := &Sensor{now: time.Now, every: searchEvery, found: make(map[clientKey]*clientHolder), checked: make(map[int32]uint64),
		text: make([]byte, 8<<10)}
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), "card") || strings.Contains(e.Name(), "-") {
			continue
		}
		if d := newDevice(filepath.Join(class, e.Name())); d != nil {
			s.devices = append(s.devices, d)
		}
	}
	if len(s.devices) == 0 {
		return nil, sensor.Unavailable("no GPU whose driver accounts for its clients (amdgpu, i915, xe)", "",
			fmt.Errorf("none in %s", class))
	}
	slices.SortFunc(s.devices, func(a, b *device) int { return strings.Compare(a.gpu.Device, b.gpu.Device) })
	for i, d := range s.devices {
		d.gpu.Index = i
		d.series = sensor.NewGPUSeries(&d.gpu)
	}
	path := sysfs.Path(root, "proc")
	if s.proc.dir, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return s, nil
}

// refresh performs one reading for all callers in the same tick.
func (s *Sensor) refresh(done *bool) {
	now := s.now()
	if !*done || now.Sub(s.at) > reuseFor {
		s.trouble = s.readClients(now)
		s.at = now
		s.forGPU, s.forMeters, s.forRead = true, true, true
	}
	*done = false
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "drm" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return append(sensor.GPUDescs(), sensor.MeterDescs()...) }

// FindGPU implements sensor.GPUFinder.
func (s *Sensor) FindGPU(opened []sensor.Open) {
	for _, o := range opened {
		ours := slices.ContainsFunc(s.devices, func(d *device) bool { return o.Node != 0 && slices.Contains(d.gpu.Nodes[:], o.Node) })
		if ours && len(s.asked) < maxOpeners && !slices.Contains(s.asked, o.PID) {
			s.asked = append(s.asked, o.PID)
		}
	}
}

// ReadGPU implements sensor.GPUSource.
func (s *Sensor) ReadGPU(p *sensor.GPUPass) error {
	s.refresh(&s.forGPU)
	for _, d := range s.devices {
		if d.ours {
			p.Devices = append(p.Devices, d.gpu)
		}
	}
	for _, h := range s.found {
		if h.fd < 0 {
			continue // no visible process holds it
		}
		u := sensor.GPUUse{PID: h.pid, Device: s.devices[h.key.device].gpu.Device, Busy: h.busy, Have: h.have}
		if h.have&sensor.GPUMemory != 0 {
			u.Memory = h.memory
		}
		p.Uses = append(p.Uses, u)
	}
	return s.trouble
}

// ReadMeters implements sensor.MeterSource.
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	s.refresh(&s.forMeters)
	return s.appendMeters(dst), s.trouble
}

func (s *Sensor) appendMeters(dst []sensor.Meter) []sensor.Meter {
	for _, d := range s.devices {
		if d.hasJoules {
			dst = append(dst, sensor.Meter{Domain: sensor.DomainGPU, Zone: d.gpu.Device, Joules: d.joules, HasJoules: true})
		}
	}
	return dst
}

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	s.refresh(&s.forRead)
	s.buffer = s.appendMeters(s.buffer[:0])
	s.series.Append(b, s.buffer)
	var refused error
	for _, d := range s.devices {
		if d.ours {
			d.export(b)
			refused = errors.Join(refused, d.series.Refused())
		}
	}
	return sensor.JoinRefused(s.trouble, refused)
}

// Close implements sensor.Sensor.
func (s *Sensor) Close() error {
	if s.proc.dir < 0 {
		return nil
	}
	for _, h := range s.found {
		h.close()
	}
	errs := []error{unix.Close(s.proc.dir)}
	s.proc.dir = -1
	for _, d := range s.devices {
		errs = append(errs, d.energy.Close(), d.clock.Close())
	}
	return errors.Join(errs...)
}
