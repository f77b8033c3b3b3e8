// Package redfish reads the power of a machine from its management controller (DMTF DSP0266,
// Redfish) over HTTPS: PowerWatts of EnvironmentMetrics if the chassis has them, else
// PowerConsumedWatts of the first PowerControl of Power.
//
// Controllers are slow and easily overloaded. Each is polled by one goroutine, one request at a
// time, every 30 s by default; after a failure the pause doubles up to ten minutes, and is ten
// minutes at once when the controller rejects the credentials, so that no account is locked.
// Readings are valid for three intervals.
//
// Credentials come from a file that only its owner may read and appear in no error. The
// certificate is verified, by the authorities of a file or by its SHA-256 hash; verification
// cannot be disabled. Redirects are not followed.
//
// Watts. A Sensor is used from one goroutine beside its own.
package redfish

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

var requestDuration = &metric.Desc{Name: "reckon_redfish_request_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
	Labels: []string{"controller"},
	Help:   "Duration of the last power reading of a management controller."}

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc { return append(sensor.MeterDescs(), requestDuration) }

// Sensor reads the controllers of a configuration.
type Sensor struct {
	controllers []*controller
	meters      []sensor.Meter
	series      sensor.MeterSeries
	stop        context.CancelFunc
	running     sync.WaitGroup
	now         func() time.Time
}

// New reads the configuration file and starts polling the controllers. Without a file the sensor is unavailable.
func New(file string) (*Sensor, error) {
	s, err := openConfig(file)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	for _, c := range s.controllers {
		s.running.Go(func() { c.run(ctx) })
	}
	return s, nil
}

func openConfig(file string) (*Sensor, error) {
	if file == "" {
		return nil, sensor.Unavailable("no management controller is configured; the setting redfish-config names one", "", nil)
	}
	targets, err := readConfig(file)
	if err != nil {
		return nil, err
	}
	s := &Sensor{now: time.Now, stop: func() {}}
	for _, t := range targets {
		c, err := newController(t)
		if err != nil {
			return nil, err
		}
		s.controllers = append(s.controllers, c)
	}
	return s, nil
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "redfish" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// ReadMeters implements sensor.MeterSource. It returns the last readings of the controllers.
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	now := s.now()
	var failed error
	for _, c := range s.controllers {
		r, err := c.latestReading(now)
		if err != nil {
			failed = errors.Join(failed, err)
		} else if !r.at.IsZero() {
			dst = append(dst, sensor.Meter{Domain: sensor.DomainBoard, Zone: c.zone, Watts: r.watts, HasWatts: true,
				Joules: c.energy.Add(r.at, r.watts), HasJoules: true})
		}
	}
	return dst, failed
}

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	var err error
	s.meters, err = s.ReadMeters(s.meters[:0])
	s.series.Append(b, s.meters)
	now := s.now()
	for _, c := range s.controllers {
		if r, bad := c.latestReading(now); bad == nil && !r.at.IsZero() {
			b.Add(c.row, r.took.Seconds())
		}
	}
	return err
}

// Close stops the requests and waits for their end.
func (s *Sensor) Close() error {
	s.stop()
	s.running.Wait()
	for _, c := range s.controllers {
		c.client.CloseIdleConnections()
	}
	return nil
}

// run polls until ctx ends.
func (c *controller) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := c.poll(ctx)
		if err == nil {
			failures = 0
		} else {
			failures++
		}
		timer.Reset(c.retryDelay(err, failures))
	}
}

const (
	// credentialsPause keeps an account with rejected credentials from being locked.
	credentialsPause = 10 * time.Minute
	// maxFailurePause is the longest pause before a failed controller is polled again.
	maxFailurePause = 30 * time.Second
)

// retryDelay returns the time until the next request.
func (c *controller) retryDelay(err error, failures int) time.Duration {
	var refused *refusedError
	if errors.As(err, &refused) {
		return credentialsPause
	}
	return min(c.interval<<min(failures, 10), max(c.interval, maxFailurePause))
}

// poll sends one request and stores the result.
func (c *controller) poll(ctx context.Context) error {
	began := time.Now()
	watts, err := c.requestPower(ctx)
	now := time.Now()
	if err == nil {
		err = sensor.CheckRange("power", "a machine that runs", watts, math.SmallestNonzeroFloat64, sensor.PowerLimit(c.limit))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure = err; err == nil {
		c.last = powerReading{watts: watts, at: now, took: now.Sub(began)}
	}
	return err
}

// latestReading returns the newest reading, or an empty one before the first.
func (c *controller) latestReading(now time.Time) (powerReading, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.at.IsZero() && now.Sub(c.last.at) <= 3*c.interval {
		return c.last, nil
	}
	if c.failure != nil {
		return powerReading{}, fmt.Errorf("ask management controller %s: %w", c.zone, c.failure)
	}
	if c.last.at.IsZero() {
		return powerReading{}, nil
	}
	return powerReading{}, fmt.Errorf("ask management controller %s: no answer since %s", c.zone, c.last.at.UTC().Format(time.RFC3339))
}
