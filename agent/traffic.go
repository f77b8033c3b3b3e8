package agent

import (
	"reckon/sensor"
	"reckon/sensor/task"
)

// networking reads what processes send and receive at each tick.
type networking struct {
	source sensor.TrafficSource // nil where it can not be counted
	pass   sensor.TrafficPass
}

// openTraffic opens what counts traffic, and returns what is missing.
func (a *Agent) openTraffic() (notes []Note) {
	s, missing, err := task.OpenTraffic(task.Options{Root: a.config.Root, Source: a.config.Source, Exits: a.config.Exits})
	if err != nil {
		a.add("traffic", nil, err)
		return []Note{{"traffic", err}}
	}
	a.network.source = s
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
	n := &a.network
	if n.source == nil {
		return
	}
	n.pass.Reset()
	err := n.source.ReadTraffic(&n.pass)
	a.report(n.source.Name(), err)
	a.ledger.Traffic(&n.pass) // what was told before an error is told once
}
