package task

import (
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/task/counters"
	"reckon/sensor/task/disks"
	"reckon/sensor/task/files"
	"reckon/sensor/task/rdma"
	"reckon/sensor/task/runqueue"
	"reckon/sensor/task/traffic"
	"reckon/sensor/task/waits"
)

// Tally is a source of per-process counts that this machine may have.
type Tally struct {
	Spec *sensor.TallySpec
	open func(Options) (sensor.Tally, error)
	// unwanted reports that the options leave it out; nil for never.
	unwanted func(*Options) bool
}

// Tallies returns the sources of per-process counts.
func Tallies() []Tally {
	return []Tally{
		{Spec: traffic.Spec, open: func(o Options) (sensor.Tally, error) {
			return openedTally(traffic.Open(traffic.Options{Root: o.Root, Types: o.Types}))
		}},
		{Spec: waits.Spec, open: func(o Options) (sensor.Tally, error) {
			return openedTally(waits.Open(waits.Options{Root: o.Root, Types: o.Types}))
		}},
		{Spec: runqueue.Spec, open: func(o Options) (sensor.Tally, error) {
			return openedTally(runqueue.Open(runqueue.Options{Root: o.Root, Types: o.Types}))
		}},
		{Spec: files.Spec, open: func(o Options) (sensor.Tally, error) {
			return openedTally(files.Open(files.Options{Root: o.Root, Types: o.Types, All: o.Files == All}))
		}, unwanted: func(o *Options) bool { return o.Files == None }},
		{Spec: counters.Spec, open: func(o Options) (sensor.Tally, error) {
			return openedTally(counters.Open(counters.Options{Root: o.Root, Types: o.Types}))
		}, unwanted: func(o *Options) bool { return !o.Counters }},
	}
}

// openedTally makes a nil interface of a source that could not be opened.
func openedTally[T sensor.Tally](s T, err error) (sensor.Tally, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Open opens the source, or returns nil if it is not wanted. If programs cannot be loaded, or must not be because
// procfs was selected by name, the error matches [sensor.ErrUnavailable]. The note lists counts that are missing.
func (t *Tally) Open(o Options) (tally sensor.Tally, note *Note, err error) {
	if t.unwanted != nil && t.unwanted(&o) {
		return nil, nil, nil
	}
	if err := checkProgrammable(&o); err != nil {
		return nil, nil, err
	}
	s, err := t.open(o)
	if err != nil {
		return nil, nil, err
	}
	if p, ok := s.(sensor.PartialTally); ok {
		if name, missing := p.Missing(); missing != nil {
			return s, &Note{name, missing}, nil
		}
	}
	return s, nil, nil
}

// TallySpecs returns the specifications of [Tallies].
func TallySpecs() (all []*sensor.TallySpec) {
	for _, t := range Tallies() {
		all = append(all, t.Spec)
	}
	return all
}

// TallyDescs returns the series of [Tallies], each once.
func TallyDescs() (all []*metric.Desc) {
	seen := map[*metric.Desc]bool{nil: true, sensor.MemoryTraffic: true} // package account has that for monitoring groups
	for _, t := range Tallies() {
		for _, set := range t.Spec.Sets {
			for i := range set.Series {
				for _, d := range []*metric.Desc{set.Series[i].Desc, set.Series[i].Total} {
					if !seen[d] {
						seen[d] = true
						all = append(all, d)
					}
				}
			}
		}
	}
	return all
}

// OpenLinks opens the reader of RDMA users, which loads no program.
func OpenLinks(o Options) (sensor.LinkSource, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := sameMachine(o.Root); err != nil {
		return nil, err
	}
	if hasForeignIDs(o.Root) {
		return nil, foreignError(o.Root, "")
	}
	s, err := rdma.Open(o.Root)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenDisks opens the measurement of disk response times, like [Tally.Open].
func OpenDisks(o Options) (sensor.Sensor, error) {
	if err := checkProgrammable(&o); err != nil {
		return nil, err
	}
	s, err := disks.Open(disks.Options{Root: o.Root, Types: o.Types})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// checkProgrammable returns an error if programs may not be loaded into the kernel.
func checkProgrammable(o *Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.Source == Procfs {
		return sensor.Unavailable("no programs are loaded into the kernel, because of --source procfs", "leave it out", nil)
	}
	if err := sameMachine(o.Root); err != nil {
		return err
	}
	if hasForeignIDs(o.Root) {
		return foreignError(o.Root, "")
	}
	return nil
}
