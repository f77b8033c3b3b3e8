package agent

import (
	"errors"
	"math"
	"slices"

	"reckon/account"
	"reckon/account/attribution"
	"reckon/metric"
	"reckon/sensor"
)

// energyReading reads the meters of the node at each tick and has the ledger split their energy.
type energyReading struct {
	sources []*sensorMeters
	list    []attribution.Source
	model   *powerModel // nil without one
	machine sensor.Machine
	primed  bool
	place   placementReader

	// The GPUs' use in this tick, for the split of their energy; see gpu.go.
	shares []account.GPUShare
	busy   func(zone string) (share float64, ok bool)
}

// sensorMeters holds the meters of one sensor.
type sensorMeters struct {
	unit   *sensorState
	source sensor.MeterSource
	meters []sensor.Meter
}

// collectMeters collects all sensors that have meters.
func (a *Agent) collectMeters() {
	a.meter = &energyReading{}
	for _, u := range a.sensors {
		if s, ok := u.sensor.(sensor.MeterSource); ok {
			a.meter.sources = append(a.meter.sources, &sensorMeters{unit: u, source: s})
		}
	}
}

// openMeters finds the sensors with meters, or the power model if there are none.
func (a *Agent) openMeters() []Note {
	a.collectMeters()
	a.openPlaces()
	var notes []Note
	m, err := openPowerModel(a.config.Root, a.config.PowerModel)
	switch {
	case err == nil:
		if a.meter.model = m; m != nil { // nil if models are not wanted
			m.inputs.gpus = a.gpu.busyDevices
			for _, s := range m.inputs.sensors {
				a.closers = append(a.closers, s)
			}
		}
	case len(a.meter.sources) > 0 && a.config.PowerModel == "":
		// A meter is better than the curve that is built in.
	default:
		a.addSensor("power-model", nil, err)
		notes = append(notes, Note{"power-model", err})
	}
	return notes
}

// tickEnergy reads the meters and charges the energy since the last tick. m is nil if the totals of
// the machine could not be read.
func (a *Agent) tickEnergy(m *sensor.Machine) {
	e := a.meter
	if e == nil {
		return
	}
	load := attribution.Load{Boot: a.pass.Boot, CPU: e.utilisation(m), Devices: e.busy}
	e.list = e.list[:0]
	for _, r := range e.sources {
		var err error
		r.meters, err = r.source.ReadMeters(r.meters[:0])
		a.recordReading(r.unit, err)
		s := attribution.Source{Name: r.source.Name(), Meters: r.meters}
		if m, ok := r.source.(sensor.ModelledSource); ok && m.ModelledMeters() {
			s.Model, s.Named = true, true
			s.GPU = slices.ContainsFunc(r.meters, func(m sensor.Meter) bool { return m.Domain == sensor.DomainGPU })
		}
		e.list = append(e.list, s)
	}
	if e.model != nil {
		if s, ok := e.model.readPower(load.CPU, load.Boot); ok {
			e.list = append(e.list, s)
		}
	}
	if len(e.list) == 0 {
		return
	}
	a.tickPlaces()
	if e.place.reader != nil {
		load.Packages = e.place.reader.Busy()
	}
	a.ledger.Energy(load, e.list, e.shares)
	if why := a.ledger.EnergyProblem(); why != "" {
		a.recordResult("energy", errors.New(why))
	} else {
		a.recordResult("energy", nil)
	}
}

// utilisation returns the busy share of the processors' time since the last tick.
func (e *energyReading) utilisation(m *sensor.Machine) float64 {
	if m == nil {
		e.primed = false
		return math.NaN()
	}
	was := e.machine
	e.machine = *m
	if !e.primed || m.Boot <= was.Boot || m.Cores != was.Cores || m.Cores == 0 {
		e.primed = true
		return math.NaN()
	}
	span := float64(m.Boot-was.Boot) * float64(m.Cores)
	unused := float64(m.Idle+m.IOWait+m.Steal) - float64(was.Idle+was.IOWait+was.Steal)
	return min(max(1-unused/span, 0), 1)
}

// exportEnergy appends the modelled power of the node, and feeds the samples of this export to the power model.
func (a *Agent) exportEnergy(b *metric.Batch) {
	if a.meter == nil || a.meter.model == nil {
		return
	}
	m := a.meter.model
	m.inputs.readExport(a.pass.Boot, b.Samples)
	if err := m.missingError(); err != nil || m.blamed {
		a.recordResult("power-model", err)
		m.blamed = true
	}
	if a.ledger.EnergyModelled() {
		m.exportModel(b)
	}
}
