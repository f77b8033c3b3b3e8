package agent

import (
	"reckon/account"
	"reckon/sensor/topology"
)

// placementReader determines which packages and kinds of processors the parts run on, so that the energy
// of each package is charged to the parts that ran there.
type placementReader struct {
	reader *topology.Reader // nil if there is nothing to distinguish
	parts  map[*account.Part]*partPlacement
	whole  uint64 // tick of the last look at every process
	seen   uint64 // boot time of the last look
}

// partPlacement combines the processor affinities of the processes of a part.
type partPlacement struct {
	tick      uint64
	packages  uint64
	anywhere  bool
	clock     float64
	processes int
}

// fullScanTicks is the number of ticks between two examinations of every process. A new process is examined at once.
const fullScanTicks = 15

// openPlaces finds out whether the machine has several packages or kinds of processors.
func (a *Agent) openPlaces() {
	r, err := topology.Open(a.config.Root)
	if err != nil {
		return // the usual case: one package of one kind
	}
	a.meter.place = placementReader{reader: r, parts: make(map[*account.Part]*partPlacement)}
	a.closers = append(a.closers, r)
}

// tickPlaces examines the processes that began since the last tick, and periodically all of them.
func (a *Agent) tickPlaces() {
	p := &a.meter.place
	if p.reader == nil {
		return
	}
	p.reader.Clocks()
	whole := p.whole == 0 || a.self.ticks-p.whole >= fullScanTicks
	if whole {
		p.whole = a.self.ticks + 1
		for part, at := range p.parts {
			if at.tick+2*fullScanTicks < a.self.ticks {
				delete(p.parts, part)
			}
		}
	}
	for i := range a.pass.Live {
		q := &a.pass.Live[i]
		if q.Kernel || (!whole && q.Start <= p.seen) {
			continue
		}
		part := a.ledger.PartOf(q.PID, q.Start)
		if part == nil {
			continue
		}
		packages, clock, ok := p.reader.Place(int(q.PID))
		if !ok { // it has ended since
			continue
		}
		at := p.parts[part]
		if at == nil {
			at = new(partPlacement)
			p.parts[part] = at
		}
		if whole && at.tick != p.whole {
			*at = partPlacement{tick: p.whole}
		}
		at.tick = max(at.tick, a.self.ticks)
		at.packages |= packages
		at.anywhere = at.anywhere || packages == 0
		at.clock += clock
		at.processes++
		packages = at.packages
		if at.anywhere {
			packages = 0
		}
		part.SetPlace(packages, at.clock/float64(at.processes))
	}
	p.seen = a.pass.Boot
}
