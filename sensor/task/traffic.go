package task

import (
	"reckon/sensor"
	"reckon/sensor/task/counters"
	"reckon/sensor/task/disks"
	"reckon/sensor/task/files"
	"reckon/sensor/task/rdma"
	"reckon/sensor/task/runqueue"
	"reckon/sensor/task/traffic"
	"reckon/sensor/task/waits"
)

// OpenTraffic opens what counts the traffic of processes. It fails with [sensor.ErrUnavailable]
// where programs cannot be loaded into the kernel, or are not to be: who asks for procfs by
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
		note = &Note{"traffic-hooks", sensor.Refused("some traffic is not counted", "", err)}
	}
	return s, note, nil
}

// OpenWaits opens what measures for how long processes wait for storage, as [OpenTraffic] does. The note says why it is not known
// for which disks.
func OpenWaits(o Options) (sensor.WaitSource, *Note, error) {
	if err := programmable(&o); err != nil {
		return nil, nil, err
	}
	s, err := waits.Open(waits.Options{Root: o.Root, Types: o.Types})
	if err != nil {
		return nil, nil, err
	}
	var note *Note
	if err := s.Missing(); err != nil {
		note = &Note{"waits-disks", sensor.Refused("the disks that processes wait for are not known", "", err)}
	}
	return s, note, nil
}

// OpenQueue opens what measures how long processes wait for a processor, as [OpenTraffic] does.
func OpenQueue(o Options) (sensor.QueueSource, error) {
	if err := programmable(&o); err != nil {
		return nil, err
	}
	s, err := runqueue.Open(runqueue.Options{Root: o.Root, Types: o.Types})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenCounters opens what reads the performance counters of the processors, as [OpenTraffic] does.
func OpenCounters(o Options) (sensor.CounterSource, error) {
	if err := programmable(&o); err != nil {
		return nil, err
	}
	s, err := counters.Open(counters.Options{Root: o.Root, Types: o.Types})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenFiles opens what counts calls of processes on file systems, as [OpenTraffic] does. The note says which calls are not counted. It
// returns nil where none are to be.
func OpenFiles(o Options) (sensor.MountSource, *Note, error) {
	if err := programmable(&o); err != nil || o.Files == None {
		return nil, nil, err
	}
	s, err := files.Open(files.Options{Root: o.Root, Types: o.Types, All: o.Files == All})
	if err != nil {
		return nil, nil, err
	}
	var note *Note
	if err := s.Missing(); err != nil {
		note = &Note{"files-hooks", sensor.Refused("some calls on file systems are not counted", "", err)}
	}
	return s, note, nil
}

// OpenLinks opens what reads the users of RDMA adapters; no program is loaded for that.
func OpenLinks(o Options) (sensor.LinkSource, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := sameMachine(o.Root); err != nil {
		return nil, err
	}
	if foreignIDs(o.Root) {
		return nil, errForeign(o.Root, "")
	}
	s, err := rdma.Open(o.Root)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenDisks opens what measures how long disks take to answer, as [OpenTraffic] does.
func OpenDisks(o Options) (sensor.Sensor, error) {
	if err := programmable(&o); err != nil {
		return nil, err
	}
	s, err := disks.Open(disks.Options{Root: o.Root, Types: o.Types})
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
