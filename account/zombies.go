package account

import (
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// zombieAfter is the time in nanoseconds after which a dead process that was not reaped counts as a zombie. Every
// process is dead but not reaped for a moment, and a source may list it until its exit record arrives.
const zombieAfter = uint64(time.Minute)

var zombies = metric.NewDesc("reckon_zombie_processes", metric.Gauge, metric.None, []string{"owner"},
	"Processes of the owner that ended at least a minute ago and that their parent did not wait for. Absent if there are none.")

// zombieCount is the number of zombies of an owner.
type zombieCount struct {
	n      uint32
	series *metric.Series // nil until there was one to report
}

// countZombie counts a process as a zombie in this tick if it has been dead for zombieAfter.
func (tab *table) countZombie(e *process, p *sensor.Process) {
	switch {
	case !isZombie(p):
		e.dead = 0
		return
	case e.dead == 0:
		e.dead = max(tab.lastAt, 1)
	}
	if counterIncrease(e.dead, tab.lastAt) < zombieAfter {
		return
	}
	d := tab.dead[e.part.owner]
	if d == nil {
		d = new(zombieCount)
		tab.dead[e.part.owner] = d
	}
	d.n++
}

// exportZombies appends the number of zombies of each owner, and a final 0 once there are none.
func (tab *table) exportZombies(b *metric.Batch) {
	for owner, d := range tab.dead {
		if d.n == 0 {
			if d.series != nil {
				b.Samples = append(b.Samples, metric.Sample{Series: d.series, Last: true}) // a zero, once
			}
			delete(tab.dead, owner)
			continue
		}
		if d.series == nil {
			d.series = metric.NewSeries(zombies, owner)
		}
		b.Add(d.series, float64(d.n))
	}
}
