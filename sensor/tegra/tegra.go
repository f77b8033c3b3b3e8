// Package tegra measures NVIDIA Jetson and other Tegra boards: supply rails, the load and clock of
// the GPU, the memory controller, engines, fan and power mode, of every release of Jetson Linux
// (L4T 21 to 39).
//
// It reads two sources. The first is sysfs: the INA3221 monitors under hwmon (L4T 35 and newer:
// in1_label, in1_input in mV, curr1_input in mA) or under iio (L4T 28 to 32: rail_name_0,
// in_power0_input in mW), the INA238 of Thor (power1_input in µW), the load of the GPU (0 to 1000),
// clocks in debugfs where root may read them. The second is the output of NVIDIA's tegrastats,
// followed from a file or pipe ([Options].Stats), for containers and users without access to the
// first; while that program writes, its figures are used instead of the rails of sysfs. The program
// is never started.
//
// A rail that measures the input of the board is the meter of the board. Otherwise the rails are
// summed, unless one of them cannot be read, because the sum would be too small. The GPU's rail is
// its meter. The users of the GPU are found as described in holders.go.
//
// Units: watts, hertz, shares of 1, seconds. A Sensor is used from one goroutine.
package tegra

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/tegra/tegrastats"
)

// Options configure the sensor.
type Options struct {
	Root  string // of the file tree; "" or "/" is our own machine
	Stats string // file or named pipe that tegrastats writes to; empty for none
}

// Sensor reads one board.
type Sensor struct {
	board  *board // nil if sysfs has nothing
	text   *tegrastats.Reader
	own    tegrastats.Stats // the figures of sysfs
	energy map[string]*sensor.Integral
	busy   sensor.Integral
	gpu    *integratedGPU // nil if NVML reads it
	meters []sensor.Meter
	out    output
	now    func() time.Time
}

// Open finds the board. It returns sensor.ErrUnavailable if there is none.
func Open(o Options) (*Sensor, error) {
	s := &Sensor{energy: make(map[string]*sensor.Integral), now: time.Now}
	s.board = openBoard(o.Root)
	s.gpu = openIntegratedGPU(o.Root)
	switch {
	case o.Stats != "":
		s.text = tegrastats.NewReader(o.Stats)
	case s.board == nil:
		path := sysfs.Path(o.Root, "proc/device-tree/compatible")
		_, err := os.Stat(path)
		if err == nil {
			err = errors.New(path + " names no Tegra, or its sysfs is not here")
		}
		return nil, sensor.Unavailable("not a Tegra board", "", err)
	}
	return s, nil
}

// Name returns "tegra".
func (s *Sensor) Name() string { return "tegra" }

// Descs lists the series of the sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// readStats returns the present figures, from tegrastats while it writes, else from sysfs.
func (s *Sensor) readStats(now time.Time) (*tegrastats.Stats, error) {
	var errs error
	if s.text != nil {
		st, err := s.text.Read(now)
		if err == nil {
			return st, nil
		}
		errs = err
	}
	if s.board == nil {
		return nil, errs
	}
	return &s.own, errors.Join(errs, s.board.read(&s.own))
}

// ReadMeters implements sensor.MeterSource.
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	now := s.now()
	st, err := s.readStats(now)
	if st == nil {
		return dst, err
	}
	if st.GPU.Busy.OK {
		s.busy.Busy(now, st.GPU.Busy.V)
	}
	total, watts, ok := tegrastats.Total(st.Rails)
	if ok && total == tegrastats.SumOfRails && st == &s.own && s.board.missing {
		ok = false // a rail could not be read
	}
	if ok && watts > 0 && watts <= sensor.MaxWatts { // a running board draws power: zero is a sleeping monitor
		dst = append(dst, s.railMeter(sensor.DomainBoard, total, watts, now))
	}
	for i := range st.Rails {
		r := &st.Rails[i]
		if bad := sensor.CheckRange("power", r.Name, r.Watts, -sensor.MaxWatts, sensor.MaxWatts); bad != nil {
			err = errors.Join(err, bad)
		} else if r.Name != total {
			dst = append(dst, s.railMeter(sensor.DomainRail, r.Name, r.Watts, now))
		}
	}
	if r := gpuRail(st.Rails); r != nil && s.gpu != nil && st.GPU.Busy.OK && r.Watts >= 0 && r.Watts <= sensor.MaxWatts {
		dst = append(dst, s.railMeter(sensor.DomainGPU, Device, r.Watts, now))
	}
	return dst, err
}

func (s *Sensor) railMeter(d sensor.Domain, zone string, watts float64, now time.Time) sensor.Meter {
	e := s.energy[zone]
	if e == nil {
		e = new(sensor.Integral)
		s.energy[zone] = e
	}
	return sensor.Meter{Domain: d, Zone: zone, Watts: watts, HasWatts: true, Joules: e.Add(now, watts), HasJoules: true}
}

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	var err error
	s.meters, err = s.ReadMeters(s.meters[:0])
	s.out.meters.Append(b, s.meters)
	st := &s.own
	if s.text != nil {
		if t, bad := s.text.Read(s.now()); bad == nil {
			st = t
		} else if s.board == nil {
			return err
		}
	}
	s.out.appendStats(b, st)
	if st.GPU.Busy.OK {
		b.Add(s.out.seriesOf(gpuSeconds), s.busy.Total())
	}
	if s.gpu != nil && s.gpu.device.Have&sensor.GPUBusy != 0 {
		s.gpu.series.AddUsed(b, &s.gpu.device, s.gpu.total)
	}
	if s.board != nil {
		s.board.appendSysfs(b, &s.out)
	}
	return err
}

// Close closes the files.
func (s *Sensor) Close() error {
	var errs []error
	if s.text != nil {
		errs = append(errs, s.text.Close())
	}
	if s.board != nil {
		errs = append(errs, s.board.Close())
	}
	if s.gpu != nil {
		errs = append(errs, s.gpu.holders.close())
	}
	return errors.Join(errs...)
}

// IsTegra reports whether the machine is a Tegra, by the names in its firmware.
func IsTegra(root string) bool {
	b, err := os.ReadFile(sysfs.Path(root, "proc/device-tree/compatible"))
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(sysfs.Path(root, "etc/nv_tegra_release"))
		return err == nil
	}
	return strings.Contains(string(b), "nvidia,tegra")
}
