// Package nvml reads NVIDIA GPUs through the management library of the driver
// (libnvidia-ml.so.1; https://docs.nvidia.com/deploy/nvml-api/): busy time and users,
// memory, energy, power, clocks, temperatures, throttling, memory errors and Xid errors,
// traffic over NVLink, and MIG instances as devices of their own; on Hopper and later also
// the activity of pipes and memory and the traffic over PCIe (GPM).
//
// The library is opened at run time, without cgo. A program that can do so needs the
// dynamic loader of the C library, so it is a build of its own (build tag nvml); the
// static default build reports that it cannot, with the remedy
// (doc/decisions/0410-nvml.md).
//
// Accumulated figures come from counters or from the samples that the driver keeps, so
// that nothing is lost between two readings: energy from the counter of the device (Volta
// and later; else power is integrated), busy time from the driver's samples of
// utilisation, the share of each process from its samples of SM use. Units of the library
// (millijoules, milliwatts, megahertz, percent) are converted here.
//
// A value that the driver marks as blank is absent. A lost device is reported and the
// others are still read; it is searched for again at every export. A driver that does not
// respond blocks a goroutine of the sensor, not its reader. A [Sensor] is used from one
// goroutine.
package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// Name is the file name of the driver's library.
const Name = "libnvidia-ml.so.1"

// patience is how long a reading waits for the driver. A pass over eight devices takes a
// few milliseconds.
const patience = 250 * time.Millisecond

// fresh is how long a reading is reused within the tick in which it was taken.
const fresh = 200 * time.Millisecond

// Sensor reads the devices of one machine.
type Sensor struct {
	reader *reader
	work   chan job
	done   chan error
	timer  *time.Timer
	since  time.Time // when the driver stopped responding, zero if it responds
	wait   time.Duration

	// Readings not yet consumed by each of the three readers.
	forGPU, forMeters, forRead bool
	at                         time.Time

	meters sensor.MeterSeries
	buffer []sensor.Meter
	closed bool
}

// job is a request to the goroutine that calls the driver.
type job uint8

const (
	quick job = 1 + iota // figures for every tick
	whole                // and those that are only exported
	quit
)

var (
	_ sensor.Sensor      = (*Sensor)(nil)
	_ sensor.GPUSource   = (*Sensor)(nil)
	_ sensor.MeterSource = (*Sensor)(nil)
)

// New opens the library. root is the file tree of the machine, "" or "/" for our own.
func New(root string) (*Sensor, error) {
	if root == "" {
		root = "/"
	}
	if !driver(root) {
		return nil, sensor.Unavailable("no NVIDIA driver", "", fmt.Errorf("none of %v exists", traces(root)))
	}
	l, err := find(root)
	if err != nil {
		return nil, err
	}
	return open(l, root)
}

// traces are files that exist when the driver is loaded.
func traces(root string) []string {
	return []string{
		filepath.Join(root, "proc/driver/nvidia/version"),
		filepath.Join(root, "dev/nvidiactl"),
		filepath.Join(root, "dev/dxg"), // Windows Subsystem for Linux
	}
}

func driver(root string) bool {
	for _, p := range traces(root) {
		if _, err := os.Stat(p); err == nil {
			return true
		}
	}
	return false
}

// find opens the library by the loader's search path, else from the directories of
// distributions and the GPU operator below root.
func find(root string) (library, error) {
	l, first := load(Name)
	if first == nil {
		return l, nil
	}
	for _, dir := range []string{"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib/wsl/lib",
		"run/nvidia/driver/usr/lib64", "run/nvidia/driver/usr/lib/x86_64-linux-gnu"} {
		path := filepath.Join(root, dir, Name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if l, err := load(path); err == nil {
			return l, nil
		}
	}
	return nil, first
}

// open initializes the library and searches for devices.
func open(l library, root string) (*Sensor, error) {
	switch c := l.Init(); c {
	case success:
	case driverNotLoaded:
		return nil, sensor.Unavailable("the NVIDIA driver is not loaded", "modprobe nvidia", c)
	case noPermission, 17:
		return nil, sensor.Unavailable("no permission to ask the NVIDIA driver", "let the agent open /dev/nvidiactl and /dev/nvidia*", c)
	case versionMismatch:
		return nil, sensor.Unavailable("driver and library of NVIDIA do not match", "reboot, or reload the driver", c)
	default:
		return nil, fmt.Errorf("start the management library of NVIDIA: %w", c)
	}
	r := &reader{lib: l, now: time.Now, comm: readComm(root)}
	if err := r.enumerate(); err != nil && len(r.devices) == 0 {
		l.Shutdown()
		return nil, err
	}
	if len(r.devices) == 0 {
		l.Shutdown()
		return nil, sensor.Unavailable("the NVIDIA driver shows no GPU", "", nil)
	}
	s := &Sensor{reader: r, work: make(chan job), done: make(chan error, 1), timer: time.NewTimer(time.Hour), wait: patience}
	s.timer.Stop()
	go s.serve()
	return s, nil
}

// serve is the goroutine that calls the driver. It owns the reader between a job and its
// result.
func (s *Sensor) serve() {
	for j := range s.work {
		switch j {
		case quick:
			s.done <- s.reader.quick()
		case whole:
			s.done <- s.reader.whole()
		case quit:
			s.reader.lib.Shutdown()
			s.done <- nil
			return
		}
	}
}

// errStalled reports that the driver hangs.
var errStalled = errors.New("the NVIDIA driver does not answer; look for Xid messages in the kernel log")

// ask runs a job, or returns errStalled: then nothing of the reader may be accessed.
func (s *Sensor) ask(j job) error {
	if s.closed {
		return os.ErrClosed
	}
	if !s.since.IsZero() {
		select {
		case <-s.done: // the result of a stalled job
			s.since = time.Time{}
		default:
			return errStalled
		}
	}
	s.work <- j
	s.timer.Reset(s.wait)
	select {
	case err := <-s.done:
		s.timer.Stop()
		return err
	case <-s.timer.C:
		s.since = time.Now()
		return errStalled
	}
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "nvml" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// Descs lists the series of the sensor, even where it is unavailable.
func Descs() []*metric.Desc { return append(sensor.GPUDescs(), sensor.MeterDescs()...) }

// refresh reads once for all callers in the same tick.
func (s *Sensor) refresh(done *bool) error {
	if !s.since.IsZero() || !*done || s.reader.now().Sub(s.at) > fresh {
		if err := s.ask(quick); errors.Is(err, errStalled) || errors.Is(err, os.ErrClosed) {
			return err
		}
		s.forGPU, s.forMeters, s.forRead = true, true, true
		s.at = s.reader.now()
	}
	*done = false
	return nil
}

// ReadGPU implements sensor.GPUSource.
func (s *Sensor) ReadGPU(p *sensor.GPUPass) error {
	if err := s.refresh(&s.forGPU); err != nil {
		return err
	}
	s.reader.give(p)
	return s.reader.trouble
}

// ReadMeters implements sensor.MeterSource.
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	if err := s.refresh(&s.forMeters); err != nil {
		return dst, err
	}
	return s.reader.meters(dst), s.reader.trouble
}

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	if err := s.refresh(&s.forRead); err != nil {
		return err
	}
	if err := s.ask(whole); errors.Is(err, errStalled) {
		return err
	}
	s.buffer = s.reader.meters(s.buffer[:0])
	s.meters.Append(b, s.buffer)
	for _, d := range s.reader.devices {
		d.export(b)
		s.reader.refuse(d.series.Refused())
	}
	return s.reader.trouble
}

// Close implements sensor.Sensor. It does not wait for a driver that hangs.
func (s *Sensor) Close() error {
	if s.closed {
		return nil
	}
	if err := s.ask(quit); errors.Is(err, errStalled) {
		s.closed = true
		return nil
	}
	s.closed = true
	return nil
}
