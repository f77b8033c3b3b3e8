package agent

import "reckon/sensor"

// processReader reads the identity of a process and its child times.
type processReader interface {
	Process(pid int32) (sensor.Process, error)
}

// readChildTimes reads the child times of every process in the first tick, if the source of processes does not report
// them. From this first reading, the agent knows what children used while it was down, and what they used before it
// first ran.
func (a *Agent) readChildTimes(pass *sensor.Pass) {
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
