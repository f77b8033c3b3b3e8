package task

import (
	"reckon/sensor"
	"reckon/sensor/task/traffic"
)

// OpenTraffic opens what counts the traffic of processes. It fails with [sensor.ErrUnavailable]
// where programs can not be loaded into the kernel, or are not to be: who asks for procfs by
// name asks for none of them. The note says what is not counted beside payload.
func OpenTraffic(o Options) (sensor.TrafficSource, *Note, error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	if o.Source == Procfs {
		return nil, nil, sensor.Unavailable("no programs are loaded into the kernel, as --source procfs says", "leave it out", nil)
	}
	if err := sameMachine(o.Root); err != nil {
		return nil, nil, err
	}
	if foreignIDs(o.Root) {
		return nil, nil, errForeign(o.Root, "")
	}
	s, err := traffic.Open(traffic.Options{Root: o.Root})
	if err != nil {
		return nil, nil, err
	}
	var note *Note
	if err := s.Missing(); err != nil {
		note = &Note{"traffic-hooks", sensor.Unavailable("some traffic is not counted", "", err)}
	}
	return s, note, nil
}
