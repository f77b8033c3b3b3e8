package agent

import "reckon/sensor"

// processReader reads what identifies a process, and what its children used.
type processReader interface {
	Process(pid int32) (sensor.Process, error)
}

// childTimes reads what the children of every process have used, where the source of
// processes does not report: once, in the first tick, so that a later restart finds what
// they did while nobody looked, and this one what they did before it.
func (a *Agent) childTimes(pass *sensor.Pass) {
	look, ok := a.look.(processReader)
	if !ok || a.self.ticks > 0 {
		return
	}
	for i := range pass.Live {
		p := &pass.Live[i]
		if p.Kernel || p.Have&sensor.FieldChildren != 0 {
			continue
		}
		q, err := look.Process(p.PID)
		if err != nil || !sensor.SameStart(p.Start, q.Start) {
			continue // it ended meanwhile
		}
		p.ChildUserNanos, p.ChildSystemNanos = q.ChildUserNanos, q.ChildSystemNanos
		p.Have |= sensor.FieldChildren
	}
}
