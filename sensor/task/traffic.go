package task

import (
	"reckon/sensor"
	"reckon/sensor/task/traffic"
	"reckon/sensor/task/waits"
)

// OpenTraffic opens what counts the traffic of processes. It fails with [sensor.ErrUnavailable]
// where programs can not be loaded into the kernel, or are not to be: who asks for procfs by
// name asks for none of them. The note says what is not counted beside payload.
func OpenTraffic(o Options) (sensor.TrafficSource, *Note, error) {
	if err := programmable(&o); err != nil {
		return nil, nil, err
	}
	s, err := traffic.Open(traffic.Options{Root: o.Root, Types: o.Types})
	if err != nil {
		return nil, nil, err
	}
	var note *Note
	if err := s.Missing(); err != nil {
		note = &Note{"traffic-hooks", sensor.Unavailable("some traffic is not counted", "", err)}
	}
	return s, note, nil
}

// OpenWaits opens what measures for how long processes wait for storage, as [OpenTraffic] does.
func OpenWaits(o Options) (sensor.WaitSource, error) {
	if err := programmable(&o); err != nil {
		return nil, err
	}
	s, err := waits.Open(waits.Options{Root: o.Root, Types: o.Types})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// programmable tells whether programs may be loaded into the kernel for what is to be read.
func programmable(o *Options) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.Source == Procfs {
		return sensor.Unavailable("no programs are loaded into the kernel, as --source procfs says", "leave it out", nil)
	}
	if err := sameMachine(o.Root); err != nil {
		return err
	}
	if foreignIDs(o.Root) {
		return errForeign(o.Root, "")
	}
	return nil
}
