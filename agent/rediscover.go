package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"reckon/sensor"
	"reckon/sensor/all"
)

// Sensors that were not here when the agent started are looked for again: drivers of GPUs
// are installed by operators of their own, and modules are loaded late. The pause doubles
// from the first to the longest.
const (
	firstLook   = 30 * time.Second
	longestLook = 5 * time.Minute
)

// rediscover looks for what is missing until ctx ends or everything was found. Opening may
// take long, so it is not done by the loop, which only takes over what was opened.
func (a *Agent) rediscover(ctx context.Context, missing []all.Entry) {
	pause := firstLook
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for len(missing) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		missing = slices.DeleteFunc(missing, func(e all.Entry) bool {
			s, err := e.Open()
			if err != nil {
				return false // the reason stands in reckon_sensor_up since the start
			}
			select {
			case a.asks <- func() { a.install(e.Name, s) }:
			case <-ctx.Done():
				_ = s.Close()
			}
			return true
		})
		pause = min(2*pause, longestLook)
		timer.Reset(pause)
	}
}

// install takes over a sensor that was found after the start.
func (a *Agent) install(name string, s sensor.Sensor) {
	i := slices.IndexFunc(a.sensors, func(u *unit) bool { return u.name == name && u.sensor == nil })
	if i < 0 {
		_ = s.Close()
		return
	}
	u := a.sensors[i]
	u.sensor = s
	u.change(true, "")
	a.log.Info("sensor found", "sensor", name)
	if m, ok := s.(sensor.MeterSource); ok && a.meter != nil {
		a.meter.sources = append(a.meter.sources, &meterReader{unit: u, source: m})
	}
	if g, ok := s.(sensor.GPUSource); ok {
		a.addGPU(u, g)
	}
}

// late lists what may appear while the agent runs: sensors that are not here, but not
// those that are here and broken, or wrongly configured.
func late(e all.Entry, err error) bool { return errors.Is(err, sensor.ErrUnavailable) && e.Hotplug }
