package account

import (
	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// ExportFast appends the current totals of the containers that want accepts: CPU, memory, storage, page faults and
// context switches. Call it after Tick, between two full exports. It starts and ends no series, so a new container
// first appears in a full Export.
func (l *Ledger) ExportFast(b *metric.Batch, want func(*workload.ContainerFacts) bool) {
	for _, p := range l.parts.order {
		if p.container == nil || p.phase != exported || p.end != 0 || !want(p.container.facts) {
			continue
		}
		r := p.rows
		b.Add(r.user, toSeconds(p.total.user))
		b.Add(r.system, toSeconds(p.total.system))
		if p.have&sensor.FieldMemory != 0 {
			for i, t := range [...]string{"anon", "file", "shmem"} {
				b.Add(p.seriesOnce(&r.memory[i], memoryBytes, t), float64(p.memory.types[i]))
			}
		}
		if p.have&sensor.FieldWait != 0 {
			b.Add(p.addOmittedSeries(&r.wait, waitSeconds), toSeconds(p.total.wait))
		}
		p.exportCounts(b)
		b.Add(p.seriesOnce(&r.threads, threads), float64(p.thread))
	}
}
