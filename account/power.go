package account

import (
	"math"

	"reckon/account/attribution"
	"reckon/account/energy"
	"reckon/sensor"
)

// IdleShare selects the owners of the energy that a node draws without work.
type IdleShare = energy.IdleShare

// The ways to share idle energy.
const (
	IdleNone    = energy.IdleNone
	IdleRequest = energy.IdleRequest
	IdleEven    = energy.IdleEven
)

// WorkloadEnergy is the name of the series of the energy of workloads.
const WorkloadEnergy = energy.WorkloadEnergy

// GPUShare is the use of one device by one part since the previous tick. The ledger splits the energy of the device by these shares.
type GPUShare = energy.Share

// power is the ledger's state of energy and GPUs.
type power struct {
	energy.NodeEnergy
	parts    []energy.Consumer
	accounts []*energy.Account
	find     func(pid int32) (*energy.Account, bool)
}

// consumers returns the open parts with their use so far. The slice is valid until the next call.
func (w *power) consumers(parts []*Part) []energy.Consumer {
	w.parts = w.parts[:0]
	for _, p := range parts {
		if p.rejectsCharges() {
			continue
		}
		w.parts = append(w.parts, energy.Consumer{Account: &p.energy, CPU: p.CPU(), Tick: p.now.cpu})
		if w.Idle == IdleNone || w.Idle == "" || p.end != 0 {
			continue
		}
		c := &w.parts[len(w.parts)-1]
		c.Cores, c.GPUs, c.Shares = p.requestedCores(), p.facts.RequestGPUs, !p.kind.Sum()
	}
	return w.parts
}

// requestedCores returns the cores that the part requested of the node, 0 if unknown or unlimited.
func (p *Part) requestedCores() float64 {
	switch {
	case p.facts.RequestCores > 0:
		return p.facts.RequestCores
	case p.cg.Have&sensor.CgroupCPUMax != 0 && !math.IsInf(p.cg.CPUMax, 0):
		return p.cg.CPUMax
	}
	return 0
}

// Energy records the meter readings of the last tick and charges their energy. gpus are the device shares that
// [Ledger.GPU] returned for this tick. The caller omits loads and sources that could not be read.
func (l *Ledger) Energy(load attribution.Load, sources []attribution.Source, gpus []GPUShare) {
	if l.parts.other == nil {
		return // no tick yet
	}
	parts := l.power.consumers(l.parts.order)
	l.power.Charge(l.at.unixMillis(), load, sources, gpus, parts, &l.parts.other.energy, l.node.machine.Cores)
}

// GPU records the state of the devices and their use by processes in the last tick, and returns the
// shares of each part for [Ledger.Energy]. The shares are valid until the next call. See
// [energy.NodeEnergy.GPU].
func (l *Ledger) GPU(pass *sensor.GPUPass) []GPUShare {
	if l.parts.other == nil {
		return nil // no tick yet
	}
	w := &l.power
	if w.find == nil {
		w.find = l.accountOfProcess
	}
	w.accounts = w.accounts[:0]
	for _, p := range l.parts.order {
		w.accounts = append(w.accounts, &p.energy)
	}
	return w.NodeEnergy.GPU(l.at.unixMillis(), pass, w.find, w.accounts, &l.parts.other.energy)
}

// accountOfProcess returns the account of a process that lives or ended a moment ago; nil if no pass has shown it.
func (l *Ledger) accountOfProcess(pid int32) (of *energy.Account, ended bool) {
	e := l.table.byID[pid]
	if e == nil || e.part == nil {
		return nil, false
	}
	if e.part.rejectsCharges() && e.part.phase != absorbed {
		return &l.parts.other.energy, e.gone
	}
	return &e.part.energy, e.gone
}

// EnergyProblem describes the fault of a meter, or returns "".
func (l *Ledger) EnergyProblem() string { return l.power.Problem() }

// EnergyModelled reports whether a power model is in use because no meter is available.
func (l *Ledger) EnergyModelled() bool { return l.power.Modelled() }

// SetPlace sets the processors that the part may run on: one bit per package, 0 for any. clock is
// their frequency relative to the mean of all processors, 0 if unknown.
func (p *Part) SetPlace(packages uint64, clock float64) { p.energy.SetPlace(packages, clock) }

// Joules returns the energy charged to the part so far.
func (p *Part) Joules() (active, idle float64) { return p.energy.Joules() }
