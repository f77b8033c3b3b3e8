package battery

import (
	"errors"
	"path/filepath"

	"reckon/internal/sysfs"
	"reckon/metric"
)

// cell is one battery, or the battery of a UPS.
type cell struct {
	name                                   string
	status, capacity, powerNow             *sysfs.File
	current, voltage, voltageDesign        *sysfs.File
	energyNow, energyFull, chargeNow       *sysfs.File
	chargeFull, present                    *sysfs.File
	state                                  string
	watts, joules, fullJoules, share       float64
	hasWatts, hasJoules, hasFull, hasShare bool
	states                                 map[string]*metric.Series
	rows                                   [5]*metric.Series
}

func openCell(dir, name string) *cell {
	open := func(n string) *sysfs.File {
		f, _ := sysfs.Open(filepath.Join(dir, n)) // each battery has only some of these files
		return f
	}
	c := &cell{
		name: name, status: open("status"), capacity: open("capacity"), powerNow: open("power_now"),
		current: open("current_now"), voltage: open("voltage_now"), voltageDesign: open("voltage_min_design"),
		energyNow: open("energy_now"), energyFull: open("energy_full"), chargeNow: open("charge_now"),
		chargeFull: open("charge_full"), present: open("present"), states: make(map[string]*metric.Series),
	}
	if c.status == nil && c.capacity == nil && c.powerNow == nil && c.current == nil {
		_ = c.Close()
		return nil
	}
	for i, d := range []*metric.Desc{charge, watts, joules, fullJoules, timeLeft} {
		c.rows[i] = metric.NewSeries(d, name)
	}
	return c
}

// stateNames maps the kernel's names of battery states to the label values.
var stateNames = map[string]string{
	"Charging": "charging", "Discharging": "discharging", "Full": "full", "Not charging": "not charging",
}

// readMicro reads a non-negative figure in millionths.
func readMicro(f *sysfs.File) (value float64, ok bool) {
	if f == nil {
		return 0, false
	}
	v, err := f.Int()
	return float64(v) / 1e6, err == nil && v >= 0 && v < 1<<53
}

// read reads the battery. The error means that the battery does not respond at all.
func (c *cell) read() error {
	c.state, c.hasWatts, c.hasJoules, c.hasFull, c.hasShare = "", false, false, false, false
	if c.present != nil {
		if v, err := c.present.Int(); err == nil && v == 0 {
			return errors.New("it has been taken out")
		}
	}
	if c.status != nil {
		text, err := c.status.Text()
		if err != nil {
			return err
		}
		c.state = stateNames[string(text)]
	}
	if c.capacity != nil {
		if v, err := c.capacity.Int(); err == nil && v >= 0 && v <= 100 {
			c.share, c.hasShare = float64(v)/100, true
		}
	}
	c.readPower()
	volts, haveVolts := readMicro(c.voltageDesign) // charge is converted at the nominal voltage
	if !haveVolts {
		volts, haveVolts = readMicro(c.voltage)
	}
	amountOf := func(energy, charge *sysfs.File) (joules float64, ok bool) {
		if wh, ok := readMicro(energy); ok {
			return wh * 3600, true
		}
		ah, ok := readMicro(charge)
		return ah * volts * 3600, ok && haveVolts
	}
	c.joules, c.hasJoules = amountOf(c.energyNow, c.chargeNow)
	c.fullJoules, c.hasFull = amountOf(c.energyFull, c.chargeFull)
	if !c.hasShare && c.hasJoules && c.hasFull && c.fullJoules > 0 {
		c.share, c.hasShare = min(c.joules/c.fullJoules, 1), true
	}
	return nil
}

// readPower reads the magnitude of the power. The sign is taken from the status, because drivers disagree on it.
func (c *cell) readPower() {
	abs := func(f *sysfs.File) (float64, bool) {
		if f == nil {
			return 0, false
		}
		v, err := f.Int()
		if v < 0 {
			v = -v
		}
		return float64(v) / 1e6, err == nil && v >= 0 && v < 1<<53
	}
	if c.watts, c.hasWatts = abs(c.powerNow); c.hasWatts {
		return
	}
	amps, ok1 := abs(c.current)
	volts, ok2 := readMicro(c.voltage)
	c.watts, c.hasWatts = amps*volts, ok1 && ok2
}

// exportTo appends the last reading to b.
func (c *cell) exportTo(b *metric.Batch) {
	if c.hasShare {
		b.Add(c.rows[0], c.share)
	}
	if c.state != "" {
		s := c.states[c.state]
		if s == nil {
			s = metric.NewSeries(status, c.name, c.state)
			c.states[c.state] = s
		}
		b.Add(s, 1)
	}
	switch {
	case !c.hasWatts:
	case c.state == "discharging":
		b.Add(c.rows[1], c.watts)
	case c.state == "charging":
		b.Add(c.rows[1], -c.watts)
	case c.watts == 0 && c.state != "":
		b.Add(c.rows[1], 0)
	}
	if c.hasJoules {
		b.Add(c.rows[2], c.joules)
	}
	if c.hasFull {
		b.Add(c.rows[3], c.fullJoules)
	}
	if c.hasJoules && c.hasWatts && c.state == "discharging" && c.watts > 0 {
		if t := c.joules / c.watts; t < maxTimeLeft {
			b.Add(c.rows[4], t)
		}
	}
}

// Close closes the files.
func (c *cell) Close() error {
	var errs []error
	for _, f := range []*sysfs.File{c.status, c.capacity, c.powerNow, c.current, c.voltage, c.voltageDesign,
		c.energyNow, c.energyFull, c.chargeNow, c.chargeFull, c.present} {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
