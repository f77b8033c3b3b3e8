// Package thermal reads the thermal zones, cooling devices and throttling of a machine
// (Documentation/driver-api/thermal/sysfs-api.rst), on boards of every make:
//
//	/sys/class/thermal/thermal_zone0/temp        48312 (thousandths of a degree Celsius)
//	/sys/class/thermal/cooling_device0/cur_state 0
//	/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count  (x86)
//	/sys/devices/platform/soc/soc:firmware/get_throttled  (Raspberry Pi) bits in hexadecimal
//
// Zones and coolers have the names of node_exporter. A zone that is off (Tegra writes
// -256000, or the reading fails) is absent. The undervoltage alarm of newer Raspberry Pi kernels is read by
// sensor/hwmon. A Sensor is used from one goroutine.
package thermal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

func gauge(name, help string, unit metric.Unit, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Gauge, Unit: unit, Labels: labels}
}

var (
	zoneTemp = gauge("node_thermal_zone_temp", "Zone temperature in Celsius.", metric.None, "zone", "type")
	coolCur  = gauge("node_cooling_device_cur_state", "Current throttle state of the cooling device.", metric.None, "name", "type")
	coolMax  = gauge("node_cooling_device_max_state", "Maximum throttle state of the cooling device.", metric.None, "name", "type")
	core     = &metric.Desc{Name: "node_cpu_core_throttles_total", Kind: metric.Counter, Labels: []string{"package", "core"},
		Help: "Number of times this CPU core has been throttled."}
	pack = &metric.Desc{Name: "node_cpu_package_throttles_total", Kind: metric.Counter, Labels: []string{"package"},
		Help: "Number of times this CPU package has been throttled."}
	throttle = gauge("reckon_node_throttled", "Whether the firmware of a Raspberry Pi holds the board back now (1), by cause.",
		metric.None, "cause")
)

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc { return []*metric.Desc{zoneTemp, coolCur, coolMax, core, pack, throttle} }

// throttleCauses are the names of the bits of get_throttled for the present conditions. The bits from 16 on show whether the
// same conditions have occurred since boot.
var throttleCauses = [...]string{"undervoltage", "frequency capped", "throttled", "soft temperature limit"}

// Sensor reads the zones of one machine.
type Sensor struct {
	values   []exportedValue
	firmware *sysfs.File
	causes   [len(throttleCauses)]*metric.Series
}

type exportedValue struct {
	file   *sysfs.File
	series *metric.Series
	scale  float64
}

// New finds the zones below root; "" or "/" is our own machine.
func New(root string) (*Sensor, error) {
	s := new(Sensor)
	for _, dir := range globBelow(root, "sys/class/thermal/thermal_zone*") {
		n := strings.TrimPrefix(filepath.Base(dir), "thermal_zone")
		s.addFile(filepath.Join(dir, "temp"), 1e-3, zoneTemp, n, sysfs.ReadWord(dir, "type"))
	}
	for _, dir := range globBelow(root, "sys/class/thermal/cooling_device*") {
		n, kind := strings.TrimPrefix(filepath.Base(dir), "cooling_device"), sysfs.ReadWord(dir, "type")
		s.addFile(filepath.Join(dir, "cur_state"), 1, coolCur, n, kind)
		s.addFile(filepath.Join(dir, "max_state"), 1, coolMax, n, kind)
	}
	s.addThrottles(root)
	if files := append(globBelow(root, "sys/devices/platform/soc/*firmware/get_throttled"),
		globBelow(root, "sys/devices/platform/*firmware/get_throttled")...); len(files) > 0 {
		s.firmware, _ = sysfs.Open(files[0])
		for i, c := range throttleCauses {
			s.causes[i] = metric.NewSeries(throttle, c)
		}
	}
	if len(s.values) == 0 && s.firmware == nil {
		return nil, sensor.Unavailable("the kernel shows no thermal zones", "",
			errors.New("nothing in "+sysfs.Path(root, "sys/class/thermal")))
	}
	return s, nil
}

func globBelow(root, pattern string) []string {
	names, _ := filepath.Glob(sysfs.Path(root, pattern)) // our own pattern is well-formed
	slices.Sort(names)
	return names
}

func (s *Sensor) addFile(path string, scale float64, d *metric.Desc, labels ...string) {
	if f, err := sysfs.Open(path); err == nil {
		s.values = append(s.values, exportedValue{f, metric.NewSeries(d, labels...), scale})
	}
}

// addThrottles adds the x86 counters once per core and package, because the threads of a core share one counter.
func (s *Sensor) addThrottles(root string) {
	seen := make(map[[2]string]bool)
	for _, dir := range globBelow(root, "sys/devices/system/cpu/cpu[0-9]*") {
		p, c := sysfs.ReadWord(dir, "topology/physical_package_id"), sysfs.ReadWord(dir, "topology/core_id")
		if k := [2]string{p, c}; p != "" && c != "" && !seen[k] {
			seen[k] = true
			s.addFile(filepath.Join(dir, "thermal_throttle/core_throttle_count"), 1, core, p, c)
		}
		if k := [2]string{p, "package"}; p != "" && !seen[k] {
			seen[k] = true
			s.addFile(filepath.Join(dir, "thermal_throttle/package_throttle_count"), 1, pack, p)
		}
	}
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "thermal" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// minTemperature is below any real temperature of a zone.
const minTemperature = -200e3

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	for _, v := range s.values {
		n, err := v.file.Int()
		if err != nil || v.series.Desc == zoneTemp && (n <= minTemperature || n > 1e6) {
			continue // reading a zone of a sleeping device fails
		}
		b.Add(v.series, float64(n)*v.scale)
	}
	if s.firmware == nil {
		return nil
	}
	text, err := s.firmware.Text()
	if err != nil {
		return fmt.Errorf("read %s: %w", s.firmware.Path(), err)
	}
	bits, ok := parseHex(text)
	if !ok {
		return fmt.Errorf("read %s: %q is no number in hexadecimal", s.firmware.Path(), text)
	}
	for i, series := range s.causes {
		b.Add(series, float64(bits>>i&1))
	}
	return nil
}

// parseHex reads "50005" or "0x50005".
func parseHex(b []byte) (v uint64, ok bool) {
	if len(b) > 2 && b[0] == '0' && b[1] == 'x' {
		b = b[2:]
	}
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, false
		}
		if v >= 1<<60 {
			return 0, false
		}
		v = v<<4 | uint64(c)
	}
	return v, len(b) > 0
}

// Close closes the files.
func (s *Sensor) Close() error {
	errs := []error{s.firmware.Close()}
	for _, v := range s.values {
		errs = append(errs, v.file.Close())
	}
	return errors.Join(errs...)
}
