package agent

import (
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/task"
)

// tallyReader reads the per-process counts of kernel programs: traffic, waits, delays and calls.
//
// A reading walks tables with room for all processes, even if few have an entry: for five sources about a millisecond
// on a small machine and three with 64 processors. They are therefore read every countInterval ticks, before each export,
// and at each tick of a live view. Because entries of ended processes take up room, they are also read in the tick in
// which maxEndedUncounted of them ended and in the next.
type tallyReader struct {
	skipped uint64 // ticks since they were read
	ended   int    // processes that ended in these ticks
	again   bool   // many processes had ended at the last reading: read their last moments next
	always  bool   // they are read in each tick
	tallies []*tally

	links    sensor.LinkSource // nil if there is no RDMA adapter
	linkPass sensor.LinkPass

	watched []watchedProgram
}

// tally is a source with its latest reading.
type tally struct {
	sensor.Tally
	pass sensor.TallyPass
}

// missReporter is a set of kernel programs that can miss events.
type missReporter interface{ Missed() uint64 }

type watchedProgram struct {
	missReporter
	row *metric.Series
}

// reportMissedEvents makes the agent report events missed by kernel programs.
func (a *Agent) reportMissedEvents(name string, s any) {
	if p, ok := s.(missReporter); ok {
		a.kernel.watched = append(a.kernel.watched, watchedProgram{p, metric.NewSeries(agentMissed, name)})
	}
}

// openTallies opens the sources of per-process counts and returns the unavailable ones.
func (a *Agent) openTallies(o task.Options) (notes []Note) {
	for _, t := range task.Tallies() {
		name := t.Spec.Name
		s, missing, err := t.Open(o)
		if err != nil {
			a.addSensor(name, nil, err)
			notes = append(notes, Note{name, err})
			continue
		}
		if s == nil {
			continue // it is not wanted
		}
		a.addTally(s)
		a.reportMissedEvents(name, s)
		a.closers = append(a.closers, s)
		a.addSensor(name, nil, nil)
		if missing != nil {
			a.addSensor(missing.Sensor, nil, missing.Err)
			notes = append(notes, Note(*missing))
		}
	}
	return notes
}

func (a *Agent) addTally(s sensor.Tally) {
	a.kernel.tallies = append(a.kernel.tallies, &tally{Tally: s})
}

// openLinks opens the reader of RDMA users. It returns a note if that is unavailable.
func (a *Agent) openLinks(o task.Options) []Note {
	s, err := task.OpenLinks(o)
	if err != nil {
		a.addSensor("rdma", nil, err)
		return []Note{{"rdma", err}}
	}
	a.kernel.links = s
	a.closers = append(a.closers, s)
	a.addSensor(s.Name(), nil, nil)
	return nil
}

const (
	countInterval     = 4
	maxEndedUncounted = 64
)

// tickCounts reads or postpones the counts. It must run after the ledger took the tick, so that new processes are known.
func (a *Agent) tickCounts() {
	n := &a.kernel
	n.skipped++
	n.ended += len(a.pass.Exited)
	many := n.always || n.ended >= maxEndedUncounted || a.tasks.Exits() == "" // or it is not known
	if !many && !n.again && n.skipped < countInterval {
		a.ledger.SkipCounts()
		return
	}
	a.readCounts()
	n.again = many
}

// readCounts charges the counts up to this tick if they were postponed.
func (a *Agent) readCounts() {
	n := &a.kernel
	if n.skipped == 0 {
		return
	}
	n.skipped, n.ended, n.again = 0, 0, false
	for _, t := range n.tallies {
		t.pass.Reset()
		a.recordResult(t.Spec().Name, t.Read(&t.pass))
		a.ledger.Tally(t.Spec(), &t.pass) // rows before an error are reported once
	}
}

// tickLinks charges the traffic of RDMA adapters after the ledger took the tick.
func (a *Agent) tickLinks() {
	n := &a.kernel
	if n.links == nil {
		return
	}
	n.linkPass.Reset()
	err := n.links.ReadLinks(&n.linkPass)
	a.recordResult(n.links.Name(), err)
	a.ledger.Links(&n.linkPass)
}
