package hwmon

import (
	"fmt"
	"path/filepath"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

func gauge(name, help string, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Gauge, Labels: append([]string{"chip"}, labels...)}
}

// Names, labels and help of node_exporter's hwmon collector.
var (
	chipNames   = gauge("node_hwmon_chip_names", "Annotation metric for human-readable chip names.", "chip_name")
	sensorLabel = gauge("node_hwmon_sensor_label", "Label for given chip and sensor.", "sensor", "label")

	exportedAttributes = map[string]struct {
		desc  *metric.Desc
		scale float64
	}{
		"temp_input":      {gauge("node_hwmon_temp_celsius", "Hardware monitor for temperature (input).", "sensor"), 1e-3},
		"temp_crit":       {gauge("node_hwmon_temp_crit_celsius", "Hardware monitor for temperature (crit).", "sensor"), 1e-3},
		"temp_max":        {gauge("node_hwmon_temp_max_celsius", "Hardware monitor for temperature (max).", "sensor"), 1e-3},
		"temp_crit_alarm": {gauge("node_hwmon_temp_crit_alarm_celsius", "Hardware monitor for temperature (crit_alarm).", "sensor"), 1e-3},
		"fan_input":       {gauge("node_hwmon_fan_rpm", "Hardware monitor for fan revolutions per minute (input).", "sensor"), 1},
		"fan_alarm":       {gauge("node_hwmon_fan_alarm", "Hardware sensor alarm status (fan).", "sensor"), 1},
		"in_input":        {gauge("node_hwmon_in_volts", "Hardware monitor for voltage (input).", "sensor"), 1e-3},
		"in_lcrit_alarm":  {gauge("node_hwmon_in_lcrit_alarm_volts", "Hardware monitor for voltage (lcrit_alarm).", "sensor"), 1e-3},
		"curr_input":      {gauge("node_hwmon_curr_amps", "Hardware monitor for current (input).", "sensor"), 1e-3},
	}

	// undervoltage has no unit to be wrong about: 1 is an alarm.
	undervoltage = &metric.Desc{Name: "reckon_node_undervoltage", Kind: metric.Gauge, Labels: []string{"chip", "sensor"},
		Help: "Whether the supply voltage has fallen below what the board needs (1), as reported by rpi_volt on a Raspberry Pi."}
)

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc {
	d := append(sensor.MeterDescs(), chipNames, sensorLabel, undervoltage)
	for _, v := range exportedAttributes {
		d = append(d, v.desc)
	}
	return d
}

// addValue adds an attribute that node_exporter exports.
func (c *chip) addValue(attrs, name, kind, number, element string) {
	if kind == "in" && element == "lcrit_alarm" {
		if f, err := sysfs.Open(filepath.Join(attrs, name)); err == nil {
			c.values = append(c.values, exportedValue{f, metric.NewSeries(undervoltage, c.label, kind+number), 1})
		}
	}
	v, ok := exportedAttributes[kind+"_"+element]
	if !ok {
		return
	}
	f, err := sysfs.Open(filepath.Join(attrs, name))
	if err != nil {
		return
	}
	c.values = append(c.values, exportedValue{f, metric.NewSeries(v.desc, c.label, kind+number), v.scale})
}

// minTemperature is below any real temperature of a machine, in millidegrees. Chips report -256 degrees or less for a
// part that is off.
const minTemperature = -200e3

// exportTo adds the current values of the chip to b. A part without a value (ENODATA while it sleeps) is skipped without
// an error. A missing device is an error.
func (c *chip) exportTo(b *metric.Batch) error {
	for _, s := range c.info {
		b.Add(s, 1)
	}
	var gone error
	for _, v := range c.values {
		n, err := v.file.Int()
		switch {
		case err != nil && sysfs.IsGone(err):
			gone = fmt.Errorf("read %s: %w; it is looked for again", v.file.Path(), err)
		case err != nil || n <= minTemperature || n >= 1<<40:
		default:
			b.Add(v.series, float64(n)*v.scale)
		}
	}
	if gone == nil && c.broken != nil {
		return c.broken
	}
	return gone
}
