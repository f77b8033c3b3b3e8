// Package host passes the energy of a virtual machine from its host to the agent in it.
//
// The agent of the host charges the machine like any other workload, and writes the charged
// energy to a file ([Share.Write]):
//
//	/run/reckon/guests/OWNER/NAME/energy.json
//
// The administrator shares that folder read-only with the guest, by virtiofs or 9p. In the
// guest the [Sensor] is a meter of the energy charged by the host, with the host's domains,
// and measured or modelled as there:
//
//	{"format":"reckon-guest-energy","version":1,"written":1790000000.5,
//	 "energy":[{"domain":"package","method":"measured","joules":1234.5}]}
//
// A file that did not change for 90 seconds is ignored: the host's agent has stopped.
//
// Joules, seconds. A Sensor is used from one goroutine.
package host

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// Default is the path of the host's file in a guest.
const Default = "/run/reckon-host/" + FileName

const (
	// maxFileAge is the age above which an unchanged file is ignored. It exceeds the longest usual export interval.
	maxFileAge = 90 * time.Second
	// meterZone is the zone of the meters: the file does not name the package of the host.
	meterZone = "host"
)

// guestDomains are the domains that have meters in the guest. The energy of other domains counts only for the board.
var guestDomains = [...]sensor.Domain{sensor.DomainPackage, sensor.DomainDRAM, sensor.DomainGPU}

// Sensor reads the file of one guest.
type Sensor struct {
	path     string
	raw      []byte // as last read
	spare    []byte
	share    Share
	gates    map[string]*sensor.Register // by domain and method
	refused  error                       // error that caused the last reading to be left out
	changed  time.Time
	modelled bool
	meters   []sensor.Meter
	rows     map[sensor.Domain]*[2]*metric.Series // measured, modelled
	now      func() time.Time
}

// Options configure the sensor.
type Options struct {
	Root string // of the file tree; "" or "/" is our own machine
	File string // [Default] if empty
}

// New opens the file of the host.
func New(o Options) (*Sensor, error) {
	s := &Sensor{path: sysfs.Path(o.Root, cmp.Or(o.File, Default)), rows: make(map[sensor.Domain]*[2]*metric.Series), now: time.Now,
		gates: make(map[string]*sensor.Register)}
	err := s.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, sensor.Unavailable("no host hands in the energy of this machine", "", err)
	case err != nil:
		return nil, sensor.Unavailable("what the host hands in can not be read", "", err)
	}
	return s, nil
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "host" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return []*metric.Desc{sensor.NodeEnergy} }

// load reads the file if it changed.
func (s *Sensor) load() error {
	raw, err := readLimited(s.path, s.spare)
	if err != nil {
		return err
	}
	if s.raw != nil && bytes.Equal(raw, s.raw) {
		s.spare = raw
		return nil
	}
	share, err := parseShare(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	s.spare, s.raw, s.changed, s.refused = s.raw, raw, s.now(), nil
	for _, e := range share.Energy {
		gate := s.gates[e.Domain+" "+e.Method]
		if gate == nil {
			gate = new(sensor.Register)
			s.gates[e.Domain+" "+e.Method] = gate
		}
		_, err := gate.Add(s.changed, "energy", e.Domain+" of the host", e.Joules, sensor.MaxWatts)
		s.refused = sensor.JoinRefused(s.refused, err)
	}
	if s.refused == nil {
		s.modelled = energyIncrease(&s.share, &share, true) > energyIncrease(&s.share, &share, false)
		s.share = share
	}
	return nil
}

// ModelledMeters implements sensor.ModelledSource.
func (s *Sensor) ModelledMeters() bool { return s.modelled }

// ReadMeters implements sensor.MeterSource. If the host charges any energy other than that of processors, memory and
// GPUs, the board meter is the sum of all charges. Otherwise there is no board meter.
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	if err := s.load(); err != nil {
		return dst, err
	}
	if age := s.now().Sub(s.changed); age > maxFileAge {
		return dst, fmt.Errorf("%s: the host has not written for %d s", s.path, int(age.Seconds()))
	}
	if s.refused != nil {
		return dst, s.refused // until the host writes again
	}
	all, wide := 0.0, false
	for _, e := range s.share.Energy {
		all += e.Joules
		wide = wide || !slices.Contains(guestDomains[:], sensor.Domain(e.Domain))
	}
	for _, d := range guestDomains {
		if joules, ok := s.share.energyIn(d); ok {
			dst = append(dst, sensor.Meter{Domain: d, Zone: meterZone, Joules: joules, HasJoules: true})
		}
	}
	if wide {
		dst = append(dst, sensor.Meter{Domain: sensor.DomainBoard, Zone: meterZone, Joules: all, HasJoules: true})
	}
	return dst, nil
}

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) (err error) {
	s.meters, err = s.ReadMeters(s.meters[:0])
	method, i := methodMeasured, 0
	if s.modelled {
		method, i = methodModelled, 1
	}
	for _, m := range s.meters {
		rows := s.rows[m.Domain]
		if rows == nil {
			rows = new([2]*metric.Series)
			s.rows[m.Domain] = rows
		}
		if rows[i] == nil {
			rows[i] = metric.NewSeries(sensor.NodeEnergy, string(m.Domain), m.Zone, method)
		}
		b.Add(rows[i], m.Joules)
	}
	return err
}

// Close does nothing: the file is open only while it is read.
func (*Sensor) Close() error { return nil }
