package account

import (
	"time"

	"reckon/account/tally"
	"reckon/figure"
	"reckon/sensor"
	"reckon/workload"
)

// Live is the current activity of one workload, or of one part of it.
type Live struct {
	Workload workload.ID
	Part     string
	Owner    string
	Name     string
	Command  string
	Start    time.Time

	Cores            float64 // over the last tick
	CPUSeconds       float64 // since the start
	Memory, Peak     uint64  // bytes
	Wait             float64 // cores wanted but not available, over the last tick
	ReadRate         float64 // bytes per second over the last tick
	WriteRate        float64
	ReceiveRate      float64 // payload at sockets, loopback left out
	TransmitRate     float64
	Processes        int
	Threads          int
	KnowMemory       bool
	KnowIO, KnowWait bool
	KnowNetwork      bool
	// bytes per second between caches and memory: since the reading before, of cache misses or of a monitoring group
	TrafficRate float64
	KnowTraffic bool
	// mean number of GPUs that compute for it over the last reading, GPU memory in bytes, and their watts
	GPU, GPUMemory, GPUWatts float64
	KnowGPU                  bool
	Exactness                figure.Degrees // of the figures that were not exact at the last export
}

// Live appends the activity of every running part in the last tick to rows.
func (l *Ledger) Live(rows []Live) []Live {
	if l.at.span <= 0 {
		return rows
	}
	for _, p := range l.parts.order {
		if p.end != 0 || (p.kind.Folded() && p.now.cpu == 0) {
			continue
		}
		name := p.facts.Name
		if name == "" {
			name = p.id.Name()
		}
		comm, _ := p.commands.mainProgram()
		rows = append(rows, Live{
			Workload: p.id, Part: p.part, Owner: p.owner, Name: name, Command: comm.String(),
			Start:      time.Unix(0, l.at.epoch+int64(p.start)).UTC(),
			Cores:      float64(p.now.cpu) / 1e9 / l.at.span,
			CPUSeconds: toSeconds(p.CPU()),
			Memory:     p.memory.resident(),
			Wait:       float64(p.now.used.wait) / 1e9 / l.at.span,
			ReadRate:   float64(p.now.used.read) / l.at.span,
			WriteRate:  float64(p.now.used.write) / l.at.span,
			Processes:  int(p.live), Threads: int(p.thread),
			KnowMemory: p.have&sensor.FieldMemory != 0,
			KnowIO:     p.have&sensor.FieldIO != 0,
			KnowWait:   p.have&sensor.FieldWait != 0,
			Exactness:  l.judge.inexactFigures(p),
		})
		r := &rows[len(rows)-1]
		r.GPU, r.GPUMemory, r.GPUWatts, r.KnowGPU = p.energy.Now()
		r.Peak, _, _ = p.peaks()
		r.TrafficRate, r.KnowTraffic = p.memoryRate(l.parts.tallies, l.at.tick)
		r.ReceiveRate, r.KnowNetwork = l.parts.tallies.Rate(&p.tally, sensor.RateReceive, l.at.tick)
		r.TransmitRate, _ = l.parts.tallies.Rate(&p.tally, sensor.RateTransmit, l.at.tick)
	}
	return rows
}

// memoryRate returns the bytes per second that a part moves between caches and memory. ok is false if they are not counted.
func (p *Part) memoryRate(tallies *tally.Tallies, tick uint64) (rate float64, ok bool) {
	switch {
	case p.monitored != nil && p.monitored.now:
		return p.monitored.rate, true
	case !p.tally.Has(sensor.RateMemory):
		return 0, false
	}
	rate, _ = tallies.Rate(&p.tally, sensor.RateMemory, tick)
	return rate, true
}

// Busy returns the mean number of busy cores over the last tick, as the kernel counts them. ok is false before the
// second tick, and after processors were added or removed. The sum over workloads may exceed it, because some CPU time
// arrives late.
func (l *Ledger) Busy() (cores float64, ok bool) { return l.node.busy, l.node.haveBusy }

// Parts calls f for every running part, so that callers can split machine totals over them.
func (l *Ledger) Parts(f func(*Part)) {
	for _, p := range l.parts.order {
		if p.end == 0 {
			f(p)
		}
	}
}

// Total returns the CPU time in nanoseconds charged to all workloads and other since the ledger began. It includes
// parts that were dropped and the use found by the first tick.
func (l *Ledger) Total() uint64 {
	sum := l.parts.forgotten
	for _, p := range l.parts.order {
		if p.phase != absorbed { // with its use in another part
			sum += p.CPU()
		}
	}
	return sum
}

// Counts returns the number of parts and processes in the ledger, and the number of exit records
// lost since it began.
func (l *Ledger) Counts() (parts, processes int, lost uint64) {
	for _, p := range l.parts.order {
		if p.phase < flushed {
			parts++
		}
	}
	return parts, len(l.table.byID), l.node.lost
}
