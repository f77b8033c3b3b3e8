package agent

import (
	"reckon/sensor"
	"reckon/sensor/task"
)

// counting is what programs in the kernel count, read at each tick: traffic and waits.
type counting struct {
	traffic sensor.TrafficSource // nil where it can not be counted
	pass    sensor.TrafficPass

	waits    sensor.WaitSource // nil where they can not be measured
	waitPass sensor.WaitPass
}

// openWaits opens what measures waiting for storage, and returns what is missing.
func (a *Agent) openWaits(o task.Options) []Note {
	s, err := task.OpenWaits(o)
	if err != nil {
		a.add("waits", nil, err)
		return []Note{{"waits", err}}
	}
	a.kernel.waits = s
	a.closers = append(a.closers, s)
	a.add(s.Name(), nil, nil)
	return nil
}

// openTraffic opens what counts traffic, and returns what is missing.
func (a *Agent) openTraffic(o task.Options) (notes []Note) {
	s, missing, err := task.OpenTraffic(o)
	if err != nil {
		a.add("traffic", nil, err)
		return []Note{{"traffic", err}}
	}
	a.kernel.traffic = s
	a.closers = append(a.closers, s)
	a.add(s.Name(), nil, nil)
	if missing != nil {
		a.add(missing.Sensor, nil, missing.Err)
		notes = append(notes, Note(*missing))
	}
	return notes
}

// tickTraffic charges what was sent and received. It comes after the ledger took the tick,
// so that who began in it is known.
func (a *Agent) tickTraffic() {
	n := &a.kernel
	if n.traffic == nil {
		return
	}
	n.pass.Reset()
	err := n.traffic.ReadTraffic(&n.pass)
	a.report(n.traffic.Name(), err)
	a.ledger.Traffic(&n.pass) // what was told before an error is told once
}

// tickWaits charges the waits that ended, after the ledger took the tick, too.
func (a *Agent) tickWaits() {
	n := &a.kernel
	if n.waits == nil {
		return
	}
	n.waitPass.Reset()
	err := n.waits.ReadWaits(&n.waitPass)
	a.report(n.waits.Name(), err)
	a.ledger.Waits(&n.waitPass)
}
