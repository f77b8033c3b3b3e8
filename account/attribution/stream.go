package attribution

import (
	"math"
	"reckon/sensor"
)

// Stream is a flow of energy to be split over workloads: one meter, or a wide meter minus the
// narrower meters inside it. Its index in [Meters.Streams] never changes.
type Stream struct {
	Domain string // package, dram, gpu, psys, board or rest
	Zone   string
	Model  bool
	// Package is the number of the package it belongs to, -1 for none.
	Package int

	// The energy since the stream's previous reading. Fresh reports a new reading: meters may be
	// slower than ticks, and between readings their energy is unknown. Anew reports that counting
	// began in this tick, so that only the use in this tick matters.
	Fresh, Anew  bool
	Active, Idle float64 // joules
	Seconds      float64
	// Busy is the CPU time spent on the package in those seconds, 0 if unknown.
	Busy float64

	learned idlePower
	wait    float64 // seconds since its last reading
	unseen  float64 // seconds since it was last in use
	load    float64 // utilisation·seconds of the interval
	known   float64 // seconds of wait with known utilisation
	busy    float64
	watts   float64 // at its last reading
}

// addWaiting adds to the time for which the stream waits for a reading of its meter.
func (s *Stream) addWaiting(seconds float64, l *Load) {
	s.Fresh, s.Anew, s.Active, s.Idle, s.Busy = false, false, 0, 0, 0
	s.wait += seconds
	s.unseen += seconds
	load, ok := l.CPU, !math.IsNaN(l.CPU)
	if s.Domain == string(sensor.DomainGPU) {
		load, ok = 0, false
		if l.Devices != nil {
			load, ok = l.Devices(s.Zone)
		}
	}
	if ok {
		s.load += load * seconds
		s.known += seconds
	}
	if s.Package >= 0 && s.Package < len(l.Packages) {
		s.busy += l.Packages[s.Package]
	}
}

// addEnergy adds the energy that a meter counted in the waiting time.
func (s *Stream) addEnergy(joules float64, model *Source) {
	if s.wait <= 0 && joules <= 0 {
		return
	}
	s.Fresh, s.Seconds, s.Busy = true, s.wait, s.busy
	switch {
	case s.wait <= 0: // it began in this tick: the time that the energy took is unknown
		s.Active, s.Idle = joules, 0
	case model != nil:
		s.Idle = min(max(model.Idle*s.wait, 0), joules)
		s.Active = joules - s.Idle
	case s.known > 0:
		load := s.load / s.known
		s.learned.addEnergy(joules, s.wait, load)
		s.Active, s.Idle = s.learned.splitEnergy(joules, s.wait, load)
	default: // the utilisation is unknown, and so is idle power: all counts as active
		s.Active, s.Idle = joules, 0
		if w, ok := s.learned.watts(); ok {
			s.Idle = min(w*s.wait, joules)
			s.Active = joules - s.Idle
		}
	}
	if s.wait > 0 {
		s.watts = joules / s.wait
	}
	s.wait, s.load, s.known, s.busy = 0, 0, 0, 0
}
