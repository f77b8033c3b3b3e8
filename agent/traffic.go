package agent

import (
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/task"
)

// counting is what programs in the kernel count by process: traffic, waits, delays and requests.
//
// A reading walks tables with room for all processes, however few have an entry: for five sources about a millisecond
// on a small machine and three on one with 64 processors. So they are read every countEvery ticks, before each export
// and each tick of a live view, and, since entries of processes that ended take up room, in the tick in which
// countEnded of them have ended and the one after it.
type counting struct {
	skipped uint64               // ticks since they were read
	ended   int                  // processes that ended in these ticks
	again   bool                 // many processes had ended at the last reading: what they did in their last moments is read next
	always  bool                 // they are read in each tick
	traffic sensor.TrafficSource // nil where it can not be counted
	pass    sensor.TrafficPass

	waits    sensor.WaitSource // nil where they can not be measured
	waitPass sensor.WaitPass

	queue     sensor.QueueSource // nil where delays can not be measured
	queuePass sensor.QueuePass

	mounts    sensor.MountSource // nil where calls on file systems can not be counted
	mountPass sensor.MountPass

	counters    sensor.CounterSource // nil where there are none, or they are not to be read
	counterPass sensor.CounterPass

	links    sensor.LinkSource // nil where there is no RDMA adapter
	linkPass sensor.LinkPass

	watched []watchedProgram
}

// programs in the kernel, which can miss events.
type programs interface {
	Name() string
	Missed() uint64
}

type watchedProgram struct {
	programs
	row *metric.Series
}

// watch has the agent report what programs in the kernel miss.
func (a *Agent) watch(s any) {
	if p, ok := s.(programs); ok {
		a.kernel.watched = append(a.kernel.watched, watchedProgram{p, metric.NewSeries(agentMissed, p.Name())})
	}
}

// openMounts opens what counts calls on file systems, and returns what is missing.
func (a *Agent) openMounts(o task.Options) (notes []Note) {
	s, missing, err := task.OpenFiles(o)
	if err != nil {
		a.add("files", nil, err)
		return []Note{{"files", err}}
	}
	if s == nil {
		return nil // none are to be counted
	}
	a.kernel.mounts = s
	a.watch(s)
	a.closers = append(a.closers, s)
	a.add(s.Name(), nil, nil)
	if missing != nil {
		a.add(missing.Sensor, nil, missing.Err)
		notes = append(notes, Note(*missing))
	}
	return notes
}

// openLinks opens what reads the users of RDMA adapters, and returns what is missing.
func (a *Agent) openLinks(o task.Options) []Note {
	s, err := task.OpenLinks(o)
	if err != nil {
		a.add("rdma", nil, err)
		return []Note{{"rdma", err}}
	}
	a.kernel.links = s
	a.closers = append(a.closers, s)
	a.add(s.Name(), nil, nil)
	return nil
}

// openCounters opens what reads the counters of the processors, where that was asked for, and returns what is missing.
func (a *Agent) openCounters(o task.Options) []Note {
	if !a.config.Counters {
		return nil
	}
	s, err := task.OpenCounters(o)
	if err != nil {
		a.add("counters", nil, err)
		return []Note{{"counters", err}}
	}
	a.kernel.counters = s
	a.watch(s)
	a.closers = append(a.closers, s)
	a.add(s.Name(), nil, nil)
	return nil
}

// openQueue opens what measures delays in the run queue, and returns what is missing.
func (a *Agent) openQueue(o task.Options) []Note {
	s, err := task.OpenQueue(o)
	if err != nil {
		a.add("runqueue", nil, err)
		return []Note{{"runqueue", err}}
	}
	a.kernel.queue = s
	a.watch(s)
	a.closers = append(a.closers, s)
	a.add(s.Name(), nil, nil)
	return nil
}

// openWaits opens what measures waiting for storage, and returns what is missing.
func (a *Agent) openWaits(o task.Options) (notes []Note) {
	s, missing, err := task.OpenWaits(o)
	if err != nil {
		a.add("waits", nil, err)
		return []Note{{"waits", err}}
	}
	a.kernel.waits = s
	a.watch(s)
	a.closers = append(a.closers, s)
	a.add(s.Name(), nil, nil)
	if missing != nil {
		a.add(missing.Sensor, nil, missing.Err)
		notes = append(notes, Note(*missing))
	}
	return notes
}

// openTraffic opens what counts traffic, and returns what is missing.
func (a *Agent) openTraffic(o task.Options) (notes []Note) {
	s, missing, err := task.OpenTraffic(o)
	if err != nil {
		a.add("traffic", nil, err)
		return []Note{{"traffic", err}}
	}
	a.kernel.traffic = s
	a.watch(s)
	a.closers = append(a.closers, s)
	a.add(s.Name(), nil, nil)
	if missing != nil {
		a.add(missing.Sensor, nil, missing.Err)
		notes = append(notes, Note(*missing))
	}
	return notes
}

const (
	countEvery = 4
	countEnded = 64
)

// tickCounts reads what was counted, or puts it off. It comes after the ledger took the tick, so that who began in it is known.
func (a *Agent) tickCounts() {
	n := &a.kernel
	n.skipped++
	n.ended += len(a.pass.Exited)
	many := n.always || n.ended >= countEnded || a.tasks.Exits() == "" // or it is not known
	if !many && !n.again && n.skipped < countEvery {
		a.ledger.PutOff()
		return
	}
	a.readCounts()
	n.again = many
}

// readCounts charges what was counted up to this tick, if that was put off.
func (a *Agent) readCounts() {
	n := &a.kernel
	if n.skipped == 0 {
		return
	}
	n.skipped, n.ended, n.again = 0, 0, false
	a.tickTraffic()
	a.tickWaits()
	a.tickQueue()
	a.tickMounts()
	a.tickCounters()
}

// tickTraffic charges what was sent and received.
func (a *Agent) tickTraffic() {
	n := &a.kernel
	if n.traffic == nil {
		return
	}
	n.pass.Reset()
	err := n.traffic.ReadTraffic(&n.pass)
	a.report(n.traffic.Name(), err)
	a.ledger.Traffic(&n.pass) // what was reported before an error is reported once
}

// tickWaits charges the waits that ended.
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

// tickQueue charges the delays in the run queue.
func (a *Agent) tickQueue() {
	n := &a.kernel
	if n.queue == nil {
		return
	}
	n.queuePass.Reset()
	err := n.queue.ReadQueue(&n.queuePass)
	a.report(n.queue.Name(), err)
	a.ledger.Queue(&n.queuePass)
}

// tickCounters charges what processors counted.
func (a *Agent) tickCounters() {
	n := &a.kernel
	if n.counters == nil {
		return
	}
	n.counterPass.Reset()
	err := n.counters.ReadCounters(&n.counterPass)
	a.report(n.counters.Name(), err)
	a.ledger.Counters(&n.counterPass)
}

// tickMounts charges requests to file systems.
func (a *Agent) tickMounts() {
	n := &a.kernel
	if n.mounts == nil {
		return
	}
	n.mountPass.Reset()
	err := n.mounts.ReadMounts(&n.mountPass)
	a.report(n.mounts.Name(), err)
	a.ledger.Mounts(&n.mountPass)
}

// tickLinks charges what went through RDMA adapters, after the ledger took the tick.
func (a *Agent) tickLinks() {
	n := &a.kernel
	if n.links == nil {
		return
	}
	n.linkPass.Reset()
	err := n.links.ReadLinks(&n.linkPass)
	a.report(n.links.Name(), err)
	a.ledger.Links(&n.linkPass)
}
