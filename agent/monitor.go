package agent

import "reckon/sensor"

// readMonitors charges the counts of the kernel's monitoring groups before the ledger is exported.
func (a *Agent) readMonitors() {
	for _, u := range a.sensors {
		s, ok := u.sensor.(sensor.MonitorSource)
		if !ok {
			continue
		}
		a.monitors.Groups = a.monitors.Groups[:0]
		if s.ReadMonitors(&a.monitors) == nil {
			a.ledger.Monitored(&a.monitors)
		}
	}
}
