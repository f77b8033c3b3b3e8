package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"reckon/sensor"
	"reckon/sensor/all"
)

// Sensors that were missing when the agent started are opened again later, because GPU drivers may be installed and
// modules loaded after that. The pause between attempts doubles from minRetryPause to maxRetryPause.
const (
	minRetryPause = 30 * time.Second
	maxRetryPause = 5 * time.Minute
)

// rediscover tries to open missing sensors until ctx ends or all are open. It runs in a goroutine beside the main loop,
// because opening a sensor may take long.
func (a *Agent) rediscover(ctx context.Context, missing []all.Entry) {
	pause := minRetryPause
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
			case a.asks <- func() { a.installSensor(e.Name, s) }:
			case <-ctx.Done():
				_ = s.Close()
			}
			return true
		})
		pause = min(2*pause, maxRetryPause)
		timer.Reset(pause)
	}
}

// installSensor adds a sensor that became available after the start.
func (a *Agent) installSensor(name string, s sensor.Sensor) {
	i := slices.IndexFunc(a.sensors, func(u *sensorState) bool { return u.name == name && u.sensor == nil })
	if i < 0 {
		_ = s.Close()
		return
	}
	u := a.sensors[i]
	u.sensor = s
	u.setState(true, "")
	a.log.Info("sensor found", "sensor", name)
	if m, ok := s.(sensor.MeterSource); ok && a.meter != nil {
		a.meter.sources = append(a.meter.sources, &sensorMeters{unit: u, source: m})
	}
	if g, ok := s.(sensor.GPUSource); ok {
		a.addGPU(u, g)
	}
}

// mayAppear reports whether a sensor may still appear while the agent runs. Broken and misconfigured sensors do not.
func mayAppear(e all.Entry, err error) bool {
	return errors.Is(err, sensor.ErrUnavailable) && e.Hotplug
}
