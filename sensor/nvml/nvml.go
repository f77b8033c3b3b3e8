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

// maxReadWait is the time that a reading waits for the driver if the reading was not started earlier. A reading of
// eight devices takes a few milliseconds.
const maxReadWait = 250 * time.Millisecond

// startedReadWait is the time that ReadGPU waits for a reading that was started at the beginning of the tick. It is
// short, because ReadGPU delays the reading of processes.
const startedReadWait = time.Millisecond / 2

// maxCallTime is the time that the driver may take for one call before the sensor counts as down.
const maxCallTime = time.Minute

// reuseFor is the time for which a reading is reused within its tick.
const reuseFor = 200 * time.Millisecond

// Sensor reads the NVIDIA devices of one machine. A single goroutine calls the driver, one request at a time, because a
// call into C cannot be cancelled. The result of a slow call is used at a later tick, with the time of its reading.
type Sensor struct {
	reader *reader
	work   chan job
	done   chan error
	timer  *time.Timer
	wait   time.Duration // patience
	moment time.Duration

	flying   job       // request that the driver has not answered; 0 for none
	asked    time.Time // when
	started  bool      // a reading of this tick was started before it is taken
	ahead    bool      // readings are started: figures are from the tick before
	show     bool      // an export follows, and the figures for it are to be read
	current  bool      // taken is of this tick
	overdue  bool      // the reading that is taken was started a tick ago
	taken    *tickReading
	spare    *tickReading
	figures  *metric.Batch
	pending  *metric.Batch
	hasShown bool
	refused  error // error of the last reading of figures
	series   sensor.MeterSeries

	// Readings not yet consumed by each of the three readers.
	forGPU, forMeters, forRead bool
	at                         time.Time
	closed                     bool
}

// tickReading is the result of a job for a tick.
type tickReading struct {
	pass   sensor.GPUPass
	meters []sensor.Meter
	err    error
}

// job is a request to the goroutine that calls the driver.
type job uint8

const (
	jobTick       job = 1 + iota // figures for every tick
	jobTickEnergy                // the same, with the counter of energy
	jobExport                    // figures that are only exported
	jobQuit
)

var (
	_ sensor.Sensor      = (*Sensor)(nil)
	_ sensor.GPUSource   = (*Sensor)(nil)
	_ sensor.GPUStarter  = (*Sensor)(nil)
	_ sensor.MeterSource = (*Sensor)(nil)
)

// New opens the library. root is the file tree of the machine, "" or "/" for our own.
func New(root string) (*Sensor, error) {
	if root == "" {
		root = "/"
	}
	if !isDriverLoaded(root) {
		return nil, sensor.Unavailable("no NVIDIA driver", "", fmt.Errorf("none of %v exists", driverFiles(root)))
	}
	l, err := findLibrary(root)
	if err != nil {
		return nil, err
	}
	return openSensor(l, root)
}

// driverFiles returns files that exist if the driver is loaded.
func driverFiles(root string) []string {
	return []string{
		filepath.Join(root, "proc/driver/nvidia/version"),
		filepath.Join(root, "dev/nvidiactl"),
		filepath.Join(root, "dev/dxg"), // Windows Subsystem for Linux
	}
}

func isDriverLoaded(root string) bool {
	for _, p := range driverFiles(root) {
		if _, err := os.Stat(p); err == nil {
			return true
		}
	}
	return false
}

// findLibrary opens the library in the loader's search path. If it is not there, find tries the directories of Linux
// distributions and of NVIDIA's GPU operator below root.
func findLibrary(root string) (library, error) {
	l, first := loadLibrary(Name)
	if first == nil {
		return l, nil
	}
	for _, dir := range []string{"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib/wsl/lib",
		"run/nvidia/driver/usr/lib64", "run/nvidia/driver/usr/lib/x86_64-linux-gnu"} {
		path := filepath.Join(root, dir, Name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if l, err := loadLibrary(path); err == nil {
			return l, nil
		}
	}
	return nil, first
}

// openSensor initializes the library and searches for devices.
func openSensor(l library, root string) (*Sensor, error) {
	switch c := l.Init(); c {
	case codeSuccess:
	case codeDriverNotLoaded:
		return nil, sensor.Unavailable("the NVIDIA driver is not loaded", "modprobe nvidia", c)
	case codeNoPermission, 17:
		return nil, sensor.Unavailable("no permission to ask the NVIDIA driver", "let the agent open /dev/nvidiactl and /dev/nvidia*", c)
	case codeVersionMismatch:
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
	s := &Sensor{
		reader: r, work: make(chan job, 1), done: make(chan error, 1), timer: time.NewTimer(time.Hour), wait: maxReadWait,
		moment: startedReadWait, taken: new(tickReading), spare: new(tickReading), figures: new(metric.Batch), pending: new(metric.Batch),
	}
	s.timer.Stop()
	go s.serve()
	return s, nil
}

// serve runs the jobs in the goroutine that calls the driver. Between a job and its result, only serve uses reader,
// spare and pending.
func (s *Sensor) serve() {
	for j := range s.work {
		switch j {
		case jobTick, jobTickEnergy:
			r := s.spare
			r.err = s.reader.readTick(j == jobTickEnergy)
			r.pass.Reset()
			s.reader.appendTo(&r.pass)
			r.meters = s.reader.appendMeters(r.meters[:0])
			s.done <- r.err
		case jobExport:
			err := s.reader.readExported()
			s.pending.Samples = s.pending.Samples[:0]
			for _, d := range s.reader.devices {
				d.export(s.pending)
				err = sensor.JoinRefused(err, d.series.Refused())
			}
			s.done <- err
		case jobQuit:
			s.reader.lib.Shutdown()
			s.done <- nil
			return
		}
	}
}

// errStalled reports that the driver hangs.
var errStalled = errors.New("the NVIDIA driver does not answer; look for Xid messages in the kernel log")

// sendJob sends a job to the driver if it is idle.
func (s *Sensor) sendJob(j job) {
	if s.flying == 0 {
		s.flying, s.asked = j, time.Now()
		s.work <- j
	}
}

// awaitAnswer waits for the answer of the driver for at most the given time, and reports whether it came.
func (s *Sensor) awaitAnswer(wait time.Duration) bool {
	if s.flying == 0 {
		return true
	}
	var err error
	select {
	case err = <-s.done:
	default:
		s.timer.Reset(wait)
		select {
		case err = <-s.done:
			s.timer.Stop()
		case <-s.timer.C:
			return false
		}
	}
	switch s.flying {
	case jobTick, jobTickEnergy:
		s.taken, s.spare = s.spare, s.taken
		s.current = true
	case jobExport:
		s.figures, s.pending, s.hasShown, s.refused = s.pending, s.figures, true, err
	}
	s.flying = 0
	return true
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "nvml" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc { return append(sensor.GPUDescs(), sensor.MeterDescs()...) }

// StartGPU implements sensor.GPUStarter.
func (s *Sensor) StartGPU(soon, now bool) {
	if s.closed {
		return
	}
	s.started, s.ahead, s.current = true, true, false
	s.show = s.show || soon || now
	if s.flying == jobExport {
		s.awaitAnswer(0)
	}
	s.overdue = s.flying == jobTick || s.flying == jobTickEnergy
	if now {
		s.sendJob(jobTickEnergy)
	} else {
		s.sendJob(jobTick)
	}
}

// startNext handles the result of a request and starts the next one.
func (s *Sensor) startNext() error {
	s.started = false
	for s.awaitAnswer(s.moment) && s.flying == 0 {
		switch {
		case !s.current:
			s.sendJob(jobTick) // figures for an export came late
		case s.show:
			s.show = false
			s.sendJob(jobExport)
			return nil
		case s.overdue:
			s.sendJob(jobTick) // taken in the next tick
			return nil
		default:
			return nil
		}
	}
	if s.flying != 0 && time.Since(s.asked) > maxCallTime {
		return errStalled
	}
	return nil
}

// refresh performs one reading for all callers in the same tick.
func (s *Sensor) refresh(done *bool) error {
	switch {
	case s.closed:
		return os.ErrClosed
	case s.started:
		if err := s.startNext(); err != nil {
			return err
		}
		s.forGPU, s.forMeters, s.forRead = true, true, true
	case s.ahead:
		if s.flying != 0 && time.Since(s.asked) > maxCallTime {
			return errStalled
		}
	case s.flying != 0 || !*done || s.reader.now().Sub(s.at) > reuseFor:
		if s.flying != 0 && !s.awaitAnswer(0) {
			return errStalled
		}
		s.sendJob(jobTickEnergy)
		if !s.awaitAnswer(s.wait) {
			return errStalled
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
	devices, uses := len(p.Devices), len(p.Uses)
	p.Devices = append(p.Devices, s.taken.pass.Devices...)
	p.Uses = append(p.Uses, s.taken.pass.Uses...)
	if s.ahead && !s.current { // the driver has not answered: nothing is new
		for i := range p.Devices[devices:] {
			p.Devices[devices+i].Span, p.Devices[devices+i].Busy = 0, 0
		}
		for i := range p.Uses[uses:] {
			p.Uses[uses+i].Busy = 0
		}
	}
	return s.taken.err
}

// ReadMeters implements sensor.MeterSource.
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	if err := s.refresh(&s.forMeters); err != nil {
		return dst, err
	}
	return append(dst, s.taken.meters...), s.taken.err
}

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	if err := s.refresh(&s.forRead); err != nil {
		return err
	}
	if !s.ahead || !s.hasShown { // no reading was started in advance
		if !s.awaitAnswer(s.wait) {
			return errStalled
		}
		if !s.ahead || !s.hasShown {
			if s.sendJob(jobExport); !s.awaitAnswer(s.wait) {
				return errStalled
			}
		}
	}
	s.series.Append(b, s.taken.meters)
	b.Samples = append(b.Samples, s.figures.Samples...)
	return sensor.JoinRefused(s.taken.err, s.refused)
}

// Close implements sensor.Sensor. It does not wait for a driver that hangs.
func (s *Sensor) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.awaitAnswer(s.moment) {
		s.sendJob(jobQuit)
		s.awaitAnswer(s.wait)
	}
	return nil
}
