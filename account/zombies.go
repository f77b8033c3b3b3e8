package account

import (
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// zombieAfter is for how long a process must have been dead and not waited for to
// count: every process is a zombie for a moment, and a source may report one that ended
// as a zombie until its exit record has come.
const zombieAfter = uint64(time.Minute)

var zombies = &metric.Desc{
	Name: "reckon_zombie_processes", Kind: metric.Gauge,
	Help:   "Processes of the owner that ended a minute ago or longer and that their parent has not waited for; absent while there is none.",
	Labels: []string{"owner"},
}

// dead is how many zombies an owner has.
type dead struct {
	n      uint32
	series *metric.Series // nil until there was one to report
}

// isZombie reports whether no thread of the process is left.
func isZombie(p *sensor.Process) bool { return p.State == 'Z' && p.Threads <= 1 }

// bury counts a process of this tick if it has been dead for long.
func (l *Ledger) bury(e *process, p *sensor.Process) {
	switch {
	case !isZombie(p):
		e.dead = 0
		return
	case e.dead == 0:
		e.dead = max(l.lastAt, 1)
	}
	if grown(e.dead, l.lastAt) < zombieAfter {
		return
	}
	d := l.dead[e.part.owner]
	if d == nil {
		d = new(dead)
		l.dead[e.part.owner] = d
	}
	d.n++
}

// exportZombies appends how many zombies each owner has, and once that there are none any
// more.
func (l *Ledger) exportZombies(b *metric.Batch) {
	for owner, d := range l.dead {
		if d.n == 0 {
			if d.series != nil {
				b.Samples = append(b.Samples, metric.Sample{Series: d.series, Last: true}) // a zero, once
			}
			delete(l.dead, owner)
			continue
		}
		if d.series == nil {
			d.series = metric.NewSeries(zombies, owner)
		}
		b.Add(d.series, float64(d.n))
	}
}
