package hwmon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// chip is one directory hwmonN.
type chip struct {
	name   string // of the driver
	label  string // chip label of node_exporter
	meters []*meter
	values []exportedValue
	info   []*metric.Series
	slow   bool
	ask    chan struct{}
	broken error
}

// exportedValue is an attribute exported under the name of node_exporter.
type exportedValue struct {
	file   *sysfs.File
	series *metric.Series
	scale  float64
}

// isReadElsewhere reports whether another sensor reads the chip, or it meters nothing of the machine.
func isReadElsewhere(name, dir string, tegra bool) bool {
	switch {
	case name == "amdgpu" || name == "radeon" || name == "nvidia" || name == "i915" || name == "xe": // sensor/amdgpu, sensor/drm
		return true
	case tegra && strings.HasPrefix(name, "ina"):
		return true
	}
	t := sysfs.ReadWord(dir, "device/type") // registered by a power supply: see sensor/battery
	return t == "Battery" || t == "Mains" || t == "UPS" || t == "USB"
}

func isTegra(root string) bool {
	b, _ := os.ReadFile(sysfs.Path(root, "proc/device-tree/compatible"))
	return strings.Contains(string(b), "nvidia,tegra")
}

// openChip opens the attributes of a chip, or returns nil if none of them is used.
func openChip(dir string, tegra bool, labels map[string]int) *chip {
	c := &chip{name: sysfs.ReadWord(dir, "name")}
	attrs := dir
	if c.name == "" { // drivers with the old registration
		attrs = filepath.Join(dir, "device")
		c.name = sysfs.ReadWord(attrs, "name")
	}
	names := fileNames(attrs)
	if c.name == "power_meter" && !slices.Contains(names, "power1_average") {
		attrs = filepath.Join(dir, "device") // with the new registration some files are still there
		names = fileNames(attrs)
	}
	c.label = chipLabel(dir, c.name)
	if labels[c.label]++; labels[c.label] > 1 {
		c.label += "_" + strconv.Itoa(labels[c.label])
	}
	c.slow = c.name == "power_meter"
	meters := !isReadElsewhere(c.name, dir, tegra)
	for _, n := range names {
		kind, number, element, ok := splitAttribute(n)
		if !ok {
			continue
		}
		if meters {
			c.addMeter(dir, attrs, names, kind, number, element)
		}
		c.addValue(attrs, n, kind, number, element)
	}
	if len(c.values) > 0 {
		if c.name != "" {
			c.info = append(c.info, metric.NewSeries(chipNames, c.label, c.name))
		}
		for _, n := range names {
			if kind, number, element, ok := splitAttribute(n); ok && element == "label" {
				if l := sysfs.ReadWord(attrs, n); l != "" {
					c.info = append(c.info, metric.NewSeries(sensorLabel, c.label, kind+number, l))
				}
			}
		}
	}
	if len(c.meters) == 0 && len(c.values) == 0 && c.broken == nil {
		return nil
	}
	return c
}

func fileNames(dir string) []string {
	entries, _ := os.ReadDir(dir) // an unreadable directory has no attributes
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}

// splitAttribute splits "curr12_crit_alarm" into curr, 12 and crit_alarm.
func splitAttribute(name string) (kind, number, element string, ok bool) {
	head, element, ok := strings.Cut(name, "_")
	if !ok {
		return "", "", "", false
	}
	kind = strings.TrimRight(head, "0123456789")
	number = head[len(kind):]
	switch kind {
	case "temp", "fan", "in", "curr", "power", "energy":
		return kind, number, element, number != ""
	}
	return "", "", "", false
}

// addMeter adds power, energy, or the product of a voltage and a current.
func (c *chip) addMeter(dir, attrs string, names []string, kind, number, element string) {
	have := func(n string) bool { return slices.Contains(names, n) }
	m := &meter{path: filepath.Join(attrs, kind+number+"_"+element)}
	switch {
	case kind == "energy" && element == "input":
		m.kind = byEnergy
	case kind == "power" && element == "input", kind == "power" && element == "average" && !have("power"+number+"_input"):
		if have("energy" + number + "_input") {
			return // the counter is better
		}
		m.kind = byPower
	case kind == "curr" && element == "input" && have("in"+number+"_input") && !slices.ContainsFunc(names, isPowerLabel):
		m.kind = byProduct
		m.other, _ = sysfs.Open(filepath.Join(attrs, "in"+number+"_input"))
		if m.other == nil {
			return
		}
	default:
		return
	}
	label := sysfs.ReadWord(attrs, kind+number+"_label")
	if label == "" && m.kind == byProduct {
		label = sysfs.ReadWord(attrs, "in"+number+"_label")
	}
	for _, place := range []string{attrs, dir, filepath.Join(dir, "device")} {
		if label == "" && kind == "power" {
			label = sysfs.ReadWord(place, "power"+number+"_oem_info")
		}
	}
	m.classify(c, label, number)
	f, err := sysfs.Open(m.path)
	if m.domain == "" || err != nil {
		_ = m.other.Close()
		if errors.Is(err, os.ErrPermission) {
			c.broken = sensor.Unavailable("no permission to read "+m.path, "run as root, or let a udev rule make it readable", err)
		}
		return
	}
	m.file = f
	m.slow = c.slow
	m.most = sensor.MaxWatts
	if m.kind != byProduct {
		limit := filepath.Join(attrs, "power"+number)
		m.most = sensor.PowerLimit(sysfs.Micro(limit+"_max"), sysfs.Micro(limit+"_crit"), sysfs.Micro(limit+"_rated_max"),
			sysfs.Micro(limit+"_cap_max"), sysfs.Micro(limit+"_cap"))
	}
	c.meters = append(c.meters, m)
}

func isPowerLabel(n string) bool {
	kind, _, element, ok := splitAttribute(n)
	return ok && (kind == "power" || kind == "energy") && (element == "input" || element == "average")
}

// chipLabel returns the chip label that node_exporter uses. It consists of the type and name of the device. If these
// are unknown, it is the driver, or else the directory.
func chipLabel(dir, name string) string {
	if target, err := filepath.EvalSymlinks(filepath.Join(dir, "device")); err == nil && filepath.Dir(target) != dir {
		kind, own := cleanLabel(filepath.Base(filepath.Dir(target))), cleanLabel(filepath.Base(target))
		if kind != "" && own != "" {
			return kind + "_" + own
		}
	}
	if n := cleanLabel(name); n != "" {
		return n
	}
	return filepath.Base(dir)
}

func cleanLabel(s string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == ':' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToLower(s)), "_")
}

// uniquifyMeters gives different names to meters of one domain and zone, so that none is lost.
func uniquifyMeters(chips []*chip) {
	seen := make(map[meterZone]int)
	for _, c := range chips {
		for _, m := range c.meters {
			k := meterZone{m.domain, m.zone}
			if seen[k]++; seen[k] > 1 {
				m.zone += "#" + strconv.Itoa(seen[k])
			}
		}
	}
}

// Close closes the files.
func (c *chip) Close() error {
	if c.ask != nil {
		close(c.ask) // its goroutine closes the files of the meters
	}
	var errs []error
	for _, m := range c.meters {
		if c.ask == nil {
			errs = append(errs, m.Close())
		}
	}
	c.ask = nil
	for _, v := range c.values {
		errs = append(errs, v.file.Close())
	}
	return errors.Join(errs...)
}
