package agent

import (
	"errors"

	"reckon/metric"
	"reckon/sensor"
)

var agentMonitored = &metric.Desc{
	Name: "reckon_agent_monitored_workloads", Kind: metric.Gauge,
	Help:   "Workloads that compute now, by whether the agent made a monitoring group of the kernel (resctrl) for them (yes), or there was no room (no); with --resctrl only.",
	Labels: []string{"monitored"},
}

// monitoring follows workloads with monitoring groups of the kernel.
type monitoring struct {
	pass   sensor.MonitorPass
	wishes []sensor.MonitorWish
	rows   [2]*metric.Series
	counts [2]int // of workloads that have a group, and of those without
	made   bool   // counts are of this export
}

// followMonitors charges what monitoring groups counted, before the ledger is exported, and has some made for the largest workloads where that was asked for.
func (a *Agent) followMonitors() {
	m := &a.monitors
	m.made = false
	for _, u := range a.sensors {
		s, ok := u.sensor.(sensor.MonitorSource)
		if !ok {
			continue
		}
		m.pass.Groups = m.pass.Groups[:0]
		err := s.ReadMonitors(&m.pass)
		if err == nil {
			a.ledger.Monitored(&m.pass)
		}
		if a.config.Resctrl && err == nil {
			m.wishes = a.ledger.MonitorWishes(m.wishes[:0])
			served, err := s.Follow(m.wishes)
			a.report("resctrl-groups", err)
			m.counts, m.made = [2]int{served, max(len(m.wishes)-served, 0)}, !errors.Is(err, sensor.ErrUnavailable)
		}
	}
}

// exportMonitors says how many of the workloads are monitored.
func (a *Agent) exportMonitors(b *metric.Batch) {
	m := &a.monitors
	if !m.made {
		return
	}
	for i, word := range [...]string{"yes", "no"} {
		if m.rows[i] == nil {
			m.rows[i] = metric.NewSeries(agentMonitored, word)
		}
		b.Add(m.rows[i], float64(m.counts[i]))
	}
}
