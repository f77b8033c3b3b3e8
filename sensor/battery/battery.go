// Package battery reads the power supplies of a machine: batteries, uninterruptible supplies
// and mains (Documentation/power/power_supply_class.rst,
// Documentation/ABI/testing/sysfs-class-power).
//
//	/sys/class/power_supply/BAT0/capacity     83 %
//	.../status                                Discharging
//	.../power_now                             5200000 µW, or current_now µA times voltage_now µV
//	.../energy_now, energy_full               µWh, or charge_now µAh times voltage
//
// While the batteries discharge and nothing else feeds the machine, their power is the power of
// the machine: their sum is then a meter of the board. While they charge, or mains is
// connected, it is not, and the meter is absent. Batteries of devices (a mouse; scope Device)
// are not counted, nor are USB-C ports that only show negotiated values.
//
// Shares of 1, watts, joules, seconds. A Sensor is used from one goroutine.
package battery

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

func gauge(name, help string, unit metric.Unit, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Gauge, Unit: unit, Labels: append([]string{"supply"}, labels...)}
}

var (
	charge = gauge("reckon_battery_charge_ratio", "State of charge of a battery, 1 is full.", metric.Ratio)
	status = gauge("reckon_battery_state", "What a battery does, as a label: charging, discharging, full, not charging.", metric.None,
		"state")
	watts      = gauge("reckon_battery_power_watts", "Power out of a battery; negative while it charges.", metric.Watts)
	joules     = gauge("reckon_battery_energy_joules", "Energy in a battery.", metric.Joules)
	fullJoules = gauge("reckon_battery_energy_full_joules", "Energy in a battery when it is full, which falls with its age.", metric.Joules)
	timeLeft   = gauge("reckon_battery_left_seconds", "Time until a battery that discharges is empty, at its power now.", metric.Seconds)
	online     = gauge("reckon_supply_online", "Whether mains, a UPS or another supply that is not a battery feeds the machine (1).",
		metric.None, "type")
	allLeft = &metric.Desc{Name: "reckon_node_battery_left_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help: "Time until all batteries of the node are empty, at the power that they give now."}
)

const (
	rescanInterval = time.Minute     // interval of the search for added and removed batteries
	maxTimeLeft    = 366 * 24 * 3600 // s; a longer battery life is not worth a forecast
)

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc {
	return append(sensor.MeterDescs(), charge, status, watts, joules, fullJoules, timeLeft, online, allLeft)
}

// Sensor reads the supplies of one machine.
type Sensor struct {
	root    string
	cells   []*cell
	mains   []*mainsSupply
	energy  sensor.Integral
	meters  []sensor.Meter
	series  sensor.MeterSeries
	allLeft *metric.Series
	looked  time.Time
	now     func() time.Time
}

type mainsSupply struct {
	file   *sysfs.File
	series *metric.Series
}

// New finds the supplies below root; "" or "/" is our own machine.
func New(root string) (*Sensor, error) {
	s := &Sensor{root: root, now: time.Now, allLeft: metric.NewSeries(allLeft)}
	s.openSupplies()
	if len(s.cells)+len(s.mains) == 0 {
		return nil, sensor.Unavailable("no battery or power supply that the kernel shows", "",
			errors.New("nothing in "+sysfs.Path(root, "sys/class/power_supply")))
	}
	return s, nil
}

// openSupplies opens all supplies again, because batteries can be added and removed.
func (s *Sensor) openSupplies() {
	_ = s.Close()
	s.looked = s.now()
	dirs, _ := filepath.Glob(sysfs.Path(s.root, "sys/class/power_supply/*"))
	slices.Sort(dirs)
	for _, dir := range dirs {
		name, kind := filepath.Base(dir), sysfs.ReadWord(dir, "type")
		switch {
		case sysfs.ReadWord(dir, "scope") == "Device":
		case kind == "Battery" || kind == "UPS":
			if c := openCell(dir, name); c != nil {
				s.cells = append(s.cells, c)
			}
		case kind == "":
		default:
			if f, err := sysfs.Open(filepath.Join(dir, "online")); err == nil {
				s.mains = append(s.mains, &mainsSupply{f, metric.NewSeries(online, name, kind)})
			}
		}
	}
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "battery" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// hasExternalPower reports whether a source other than the batteries supplies the machine.
func (s *Sensor) hasExternalPower() bool {
	for _, m := range s.mains {
		if v, err := m.file.Int(); err == nil && v != 0 {
			return true
		}
	}
	return false
}

// ReadMeters implements sensor.MeterSource.
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	now := s.now()
	if now.Sub(s.looked) >= rescanInterval {
		s.openSupplies()
	}
	if len(s.cells) == 0 {
		return dst, nil
	}
	var failed error
	watts, complete := 0.0, !s.hasExternalPower()
	for _, c := range s.cells {
		if err := c.read(); err != nil {
			if failed == nil {
				failed = fmt.Errorf("read battery %s: %w", c.name, err)
			}
			complete = false
			continue
		}
		switch {
		case c.state == "discharging" && c.hasWatts:
			watts += c.watts
		case c.state == "full" || c.state == "not charging": // it rests while another one discharges
		default:
			complete = false
		}
	}
	if complete {
		if err := sensor.CheckRange("power", "the batteries", watts, 0, sensor.MaxWatts); err != nil {
			return dst, sensor.JoinRefused(failed, err)
		}
	}
	if !complete || watts == 0 {
		return dst, failed
	}
	return append(dst, sensor.Meter{Domain: sensor.DomainBoard, Zone: "battery", Watts: watts, HasWatts: true,
		Joules: s.energy.Add(now, watts), HasJoules: true}), failed
}

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	var err error
	s.meters, err = s.ReadMeters(s.meters[:0])
	s.series.Append(b, s.meters)
	joules, known := 0.0, len(s.meters) == 1
	for _, c := range s.cells {
		c.exportTo(b)
		joules, known = joules+c.joules, known && c.hasJoules
	}
	if known {
		b.Add(s.allLeft, joules/s.meters[0].Watts)
	}
	for _, m := range s.mains {
		if v, bad := m.file.Int(); bad == nil && v >= 0 {
			b.Add(m.series, float64(min(v, 1)))
		}
	}
	return err
}

// Close closes the files.
func (s *Sensor) Close() error {
	var errs []error
	for _, c := range s.cells {
		errs = append(errs, c.Close())
	}
	for _, m := range s.mains {
		errs = append(errs, m.file.Close())
	}
	s.cells, s.mains = nil, nil
	return errors.Join(errs...)
}
