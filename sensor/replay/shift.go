package replay

import (
	"strings"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/replay/recording"
)

// loopOffset is the offset that earlier rounds of a looped recording add to the figures of the current round, so that
// readers see a machine that keeps running. In each round, the time grows by the length of the recording. Counters of
// processes that live through the whole recording grow by their increase in it.
type loopOffset struct {
	round    uint64
	boot     uint64
	survived map[procKey]*sensor.Process // with the figures to add
	machine  sensor.Machine
	groups   map[string]*sensor.Cgroup
	counters map[string]float64
}

type procKey struct {
	pid   int32
	start uint64
}

// processCounters returns the counters of a record; the other fields are levels and identities.
func processCounters(p *sensor.Process) []*uint64 {
	return []*uint64{&p.UserNanos, &p.SystemNanos, &p.ChildUserNanos, &p.ChildSystemNanos, &p.WaitNanos, &p.Voluntary, &p.Involuntary,
		&p.Turns, &p.MinorFaults, &p.MajorFaults, &p.ReadBytes, &p.WriteBytes, &p.CancelledBytes}
}

func machineCounters(m *sensor.Machine) []*uint64 {
	return []*uint64{&m.User, &m.Nice, &m.System, &m.Idle, &m.IOWait, &m.IRQ, &m.SoftIRQ, &m.Steal, &m.Forks}
}

func groupCounters(c *sensor.Cgroup) []*uint64 {
	return []*uint64{&c.UsageNanos, &c.UserNanos, &c.SystemNanos, &c.ThrottledNanos, &c.ThrottledPeriods, &c.Periods, &c.OOMKills,
		&c.MaxEvents, &c.OOMEvents, &c.RefaultAnon, &c.RefaultFile, &c.Faults, &c.MajorFaults, &c.Filled,
		&c.ReadBytes, &c.WriteBytes, &c.CPUWaitNanos, &c.MemoryStallNanos, &c.IOStallNanos}
}

// addIncrease adds the increase of each counter from a to b to sum.
func addIncrease(sum, a, b []*uint64) {
	for i := range sum {
		if *b[i] > *a[i] {
			*sum[i] += *b[i] - *a[i]
		}
	}
}

func addCounters(to, sum []*uint64) {
	for i := range to {
		*to[i] += *sum[i]
	}
}

// addRound adds the increases of one round to the offset. first and last are the first and the last pass of the recording.
// interval is the time in seconds between the last pass and the first pass of the next round.
func (s *loopOffset) addRound(first, last *recording.PassData, interval float64) {
	s.round++
	if first.Tasks != nil && last.Tasks != nil {
		s.boot += last.Tasks.Boot - first.Tasks.Boot
		s.addTaskIncreases(first.Tasks, last.Tasks)
	} else {
		s.boot += uint64(last.Time.Sub(first.Time))
	}
	s.boot += uint64(max(interval, 0.001) * 1e9)
	if first.Machine != nil && last.Machine != nil {
		addIncrease(machineCounters(&s.machine), machineCounters(first.Machine), machineCounters(last.Machine))
	}
	began := map[string]*sensor.Cgroup{}
	for i := range first.Cgroups {
		began[recording.CgroupKey(first.Cgroups[i].Paths)] = &first.Cgroups[i].Figures
	}
	if s.groups == nil {
		s.groups, s.counters = map[string]*sensor.Cgroup{}, map[string]float64{}
	}
	for i := range last.Cgroups {
		key := recording.CgroupKey(last.Cgroups[i].Paths)
		if a := began[key]; a != nil {
			if s.groups[key] == nil {
				s.groups[key] = &sensor.Cgroup{}
			}
			addIncrease(groupCounters(s.groups[key]), groupCounters(a), groupCounters(&last.Cgroups[i].Figures))
		}
	}
	s.addSensorIncreases(first, last)
}

func (s *loopOffset) addTaskIncreases(first, last *sensor.Pass) {
	if s.survived == nil {
		s.survived = map[procKey]*sensor.Process{}
	}
	began := map[procKey]*sensor.Process{}
	for i := range first.Live {
		began[processKey(&first.Live[i])] = &first.Live[i]
	}
	for i := range last.Live {
		b := &last.Live[i]
		if a := began[processKey(b)]; a != nil {
			sum := s.survived[processKey(b)]
			if sum == nil {
				sum = &sensor.Process{}
				s.survived[processKey(b)] = sum
			}
			addIncrease(processCounters(sum), processCounters(a), processCounters(b))
		}
	}
}

func (s *loopOffset) addSensorIncreases(first, last *recording.PassData) {
	began := map[string]float64{}
	for _, r := range first.Sensors {
		for _, x := range r.Samples {
			began[seriesKey(x.Series)] = x.Value
		}
	}
	for _, r := range last.Sensors {
		for _, x := range r.Samples {
			key := seriesKey(x.Series)
			if a, ok := began[key]; ok && x.Series.Desc.Kind == metric.Counter && x.Value > a {
				s.counters[key] += x.Value - a
			}
		}
	}
}

func processKey(p *sensor.Process) procKey { return procKey{p.PID, p.Start} }

func seriesKey(s *metric.Series) string {
	return s.Desc.Name + "\xff" + strings.Join(s.Values, "\xff")
}

// shiftTasks copies a pass shifted into this round.
func (s *loopOffset) shiftTasks(out, in *sensor.Pass) {
	out.Boot, out.Lost, out.Joined = in.Boot+s.boot, in.Lost, in.Joined
	out.Live = append(out.Live, in.Live...)
	out.Exited = append(out.Exited, in.Exited...)
	out.Opens = append(out.Opens, in.Opens...)
	if s.round == 0 {
		return
	}
	for _, list := range [][]sensor.Process{out.Live, out.Exited} {
		for i := range list {
			p := &list[i]
			if sum := s.survived[processKey(p)]; sum != nil {
				addCounters(processCounters(p), processCounters(sum))
			} else {
				p.Start += s.boot // another process in this round
			}
		}
	}
}

// shiftTotals moves the machine totals into this round.
func (s *loopOffset) shiftTotals(m *sensor.Machine) {
	if m.Boot != 0 {
		m.Boot += s.boot
	}
	addCounters(machineCounters(m), machineCounters(&s.machine))
}

// shiftGroup moves a control group into this round.
func (s *loopOffset) shiftGroup(key string, c *sensor.Cgroup) {
	if sum := s.groups[key]; sum != nil {
		addCounters(groupCounters(c), groupCounters(sum))
	}
}
