package agent

import (
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload/all"
	"reckon/workload/kubernetes"
)

// Machine is everything that an agent reads, of a machine that is simulated or replayed.
type Machine interface {
	taskSource
	sensor.MachineReader
	identityReader
	Groups() sensor.CgroupReader
	UserName(uid uint32) string
	Booted() time.Time
	// Time is the moment that the next reading is of.
	Time() time.Time
}

// podLister is a simulated machine that lists its pods, as a kubelet does.
type podLister interface{ Pods() kubernetes.Pods }

// tallyMachine is a simulated machine with sources that count per process.
type tallyMachine interface{ Tallies() []sensor.Tally }

// OpenMachine returns an agent that reads m and the given sensors instead of this machine. It uses the time of m, which
// the caller advances. Call [Agent.Step] to take a reading and [Agent.TakeExport] to export. Figures of this process are
// omitted, so that the same readings give the same exports.
func OpenMachine(c Config, m Machine, sensors ...sensor.Sensor) (*Agent, error) {
	if err := c.defaults(); err != nil {
		return nil, err
	}
	a := newAgent(c)
	a.config.State = ""
	a.tasks, a.machine, a.cgroups, a.look = m, m, m.Groups(), m
	a.now, a.btime, a.user = m.Time, m.Booted().Unix(), m.UserName
	a.self.simulated = true
	a.ledger = a.newLedger()
	if k, ok := m.(podLister); ok {
		if pods := k.Pods(); pods != nil {
			a.kubernetes = kubernetes.New(kubernetes.Options{Pods: pods, Account: c.Kubelet.Account})
			a.chain = all.Resolvers(all.Options{Kubernetes: a.kubernetes})
		}
	}
	a.addSensor(m.Name(), nil, nil)
	for _, s := range sensors {
		a.addSensor(s.Name(), s, nil)
	}
	a.collectMeters()
	a.openGPUs()
	if t, ok := m.(tallyMachine); ok {
		for _, s := range t.Tallies() {
			a.addTally(s)
		}
	}
	a.kernel.always = true // the simulation forgets ended processes
	return a, nil
}

// Step performs a reading.
func (a *Agent) Step() error { return a.tick() }

// TakeExport returns an export of the readings. The batch is valid until the next Take.
func (a *Agent) TakeExport() *metric.Batch {
	a.export(a.now())
	return &a.batch
}
