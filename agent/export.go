package agent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"reckon/internal/durable/filelimit"
	"reckon/metric"
	"reckon/sensor"
	"reckon/web/client"
)

// exportCopy is a copy of an export for scrapes. It keeps the histograms of the last two exports, because a scrape may
// still read an export's histograms while the next one is written.
type exportCopy struct {
	samples    []metric.Sample
	histograms [2][]metric.Histogram
	current    int // of histograms
}

// sensorState is a sensor with the result of its last readings.
type sensorState struct {
	name   string
	sensor sensor.Sensor // nil when it is not available
	series *metric.Series
	reason string
	up     bool
	failed bool // the last reading failed, and that was logged

	// Of readings that the gate of the sensor refused: how many there were, how many readings in a row had some, and the last error.
	refused   float64
	odd       int
	lastOdd   error
	oddSeries *metric.Series
}

// export fills the batch with everything that is exported at the time now.
func (a *Agent) export(now time.Time) {
	a.readCounts()
	a.batch.Reset(now)
	a.addReports()
	a.readMonitors()
	a.ledger.Export(&a.batch)
	a.ledger.EachExcessOwner(func(owner string) {
		if !a.self.crowded[owner] {
			if a.self.crowded == nil {
				a.self.crowded = map[string]bool{}
			}
			a.self.crowded[owner] = true
			a.log.Warn("a user runs more than 200 process groups: further ones are short work until they do something; logged once",
				"owner", owner)
		}
	})
	a.writeGuests(&a.batch)
	a.exportWaiting(&a.batch)
	a.observeDevices()
	a.exportPodNetwork(&a.batch)
	a.exportOwn(&a.batch)
	for _, u := range a.sensors {
		if u.sensor != nil && !a.own.isReading(u) {
			n := len(a.batch.Samples)
			a.recordReading(u, u.sensor.Read(&a.batch))
			a.steadyBoot(a.batch.Samples[n:])
		}
	}
	a.exportEnergy(&a.batch)
	if g, ok := a.cgroups.(interface{ Refused() error }); ok {
		a.recordResult("cgroup", g.Refused())
	}
	for _, u := range a.sensors {
		up := 0.0
		if u.up {
			up = 1
		}
		a.batch.Add(u.series, up)
		if _, meters := u.sensor.(sensor.MeterSource); meters || u.refused > 0 {
			if u.oddSeries == nil {
				u.oddSeries = metric.NewSeries(refusedReadings, u.name)
			}
			a.batch.Add(u.oddSeries, u.refused)
		}
	}
	a.self.exportStats(a, &a.batch)
	a.forgetEmptyGroups()

	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = a.status[:0]
	for _, u := range a.sensors {
		a.status = append(a.status, client.Sensor{Sensor: u.name, Up: u.up, Reason: u.reason})
	}
	n := len(a.batch.Samples)
	all := n
	if a.config.Expose || a.config.StoreCompat {
		all = a.exportViews(&a.batch)
	}
	if a.config.Expose {
		a.exposed.copyFrom(&a.batch)
	}
	if a.config.StoreCompat {
		a.batch.Samples = append(a.batch.Samples[:n], a.batch.Samples[all:]...)
		a.stored.addLabels(&a.batch, n)
	} else {
		a.batch.Samples = a.batch.Samples[:n] // views are for scrapes: the store keeps our names
	}
}

// copyFrom copies the samples of b, reusing memory.
func (e *exportCopy) copyFrom(b *metric.Batch) {
	e.samples = append(e.samples[:0], b.Samples...)
	e.current = 1 - e.current
	own := metric.Batch{Samples: e.samples}
	e.histograms[e.current] = own.OwnHistograms(e.histograms[e.current])
}

// Gather appends the last export to b, for an exposition. It fails before the first.
func (a *Agent) Gather(b *metric.Batch) error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	e := &a.exposed
	if len(e.samples) == 0 {
		return errors.New("nothing was measured yet; ask again in a moment")
	}
	b.Samples = append(b.Samples, e.samples...)
	return nil
}

// Sensors returns the state of every sensor as of the last export.
func (a *Agent) Sensors() []client.Sensor {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return append([]client.Sensor(nil), a.status...)
}

var sensorUp = metric.NewDesc("reckon_sensor_up", metric.Gauge, metric.None, []string{"sensor", "reason"},
	"Whether the sensor works on this node; reason has the cause if not.")

var refusedReadings = metric.NewDesc("reckon_sensor_refused_readings_total", metric.Counter, metric.None, []string{"sensor"},
	"Readings beyond the limits of the device or the control group. They are left out, and the log names them.")

// addSensor registers a sensor. err is nil if the sensor is available, and otherwise the reason why it is not.
func (a *Agent) addSensor(name string, s sensor.Sensor, err error) {
	err = explainFileLimit(err)
	u := &sensorState{name: name, sensor: s, up: err == nil}
	if err != nil {
		u.reason = shortenReason(err)
		a.log.Info("sensor not available", "sensor", name, "reason", err.Error())
	}
	u.series = metric.NewSeries(sensorUp, name, u.reason)
	a.sensors = append(a.sensors, u)
}

// Attach adds a sensor to be read at each export, in addition to the sensors of this machine. It must be
// called before Run. The agent closes the sensor.
func (a *Agent) Attach(s sensor.Sensor) { a.addSensor(s.Name(), s, nil) }

// recordResult records the result of a reading by a sensor that the agent reads in a special way.
func (a *Agent) recordResult(name string, err error) {
	for _, u := range a.sensors {
		if u.name == name {
			a.recordReading(u, err)
			return
		}
	}
	a.addSensor(name, nil, err)
}

// maxOddReadings is the number of consecutive readings with an impossible value after which a sensor counts as broken.
const maxOddReadings = 3

// recordReading records the result of a reading. The start and the end of a failure are each logged once.
// A single implausible value is counted and logged, but is not a failure.
func (a *Agent) recordReading(u *sensorState, err error) {
	err = explainFileLimit(err)
	if n, alone := sensor.Implausible(err); n > 0 {
		if err != u.lastOdd { // else it was reported by another method of the sensor
			if u.odd++; u.odd == 1 {
				a.log.Warn("reading refused", "sensor", u.name, "err", err)
			}
			u.refused, u.lastOdd = u.refused+float64(n), err
		}
		if alone && u.odd < maxOddReadings {
			return
		}
	} else if err == nil {
		u.odd = 0
	}
	switch {
	case err != nil && !u.failed:
		a.log.Warn("sensor fails", "sensor", u.name, "err", err)
		u.setState(false, shortenReason(err))
		u.failed = true
	case err == nil && u.failed:
		a.log.Info("sensor works again", "sensor", u.name)
		u.setState(true, "")
		u.failed = false
	}
}

func (u *sensorState) setState(up bool, reason string) {
	if u.up != up || u.reason != reason {
		u.up, u.reason = up, reason
		u.series = metric.NewSeries(sensorUp, u.name, reason)
	}
}

// explainFileLimit replaces the error of a source if it failed because this process has too many open files. The usual remedy of
// that source, such as a newer kernel or more privileges, would not help.
func explainFileLimit(err error) error {
	if !filelimit.Exceeded(err) {
		return err
	}
	return sensor.Unavailable("this process may not open more files", filelimit.Remedy, nil)
}

// maxReason is the maximum length of a reason in bytes, because it becomes a label.
const maxReason = 240

// shortenReason shortens an error for use as a label. It keeps the missing thing and the remedy.
func shortenReason(err error) string {
	var u *sensor.UnavailableError
	s := strings.ReplaceAll(err.Error(), "\n", "; ")
	if errors.As(err, &u) {
		s = u.Label()
	}
	if len(s) > maxReason {
		s = fmt.Sprintf("%.*s", maxReason, s)
	}
	return s
}
