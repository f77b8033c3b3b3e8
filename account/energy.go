package account

import (
	"math"

	"reckon/account/attribution"
	"reckon/metric"
	"reckon/sensor"
)

// WorkloadEnergy is the name of the series of the energy of workloads.
const WorkloadEnergy = "reckon_workload_energy_joules_total"

// The energy of workloads and the energy that was split. Every joule is in exactly one
// domain, so that sums over all labels are right; see package attribution.
var (
	workloadEnergy = &metric.Desc{
		Name: WorkloadEnergy, Kind: metric.Counter, Unit: metric.Joules,
		Help:   "Energy caused by the workload: share active by its use, share idle where idle energy is shared too; each joule is in one domain, so sums are right. The method is whether it was measured, and the basis of the split if that is not the use of the component itself.",
		Labels: with("domain", "share", "method"),
	}
	attributedEnergy = &metric.Desc{
		Name: "reckon_node_attributed_energy_joules_total", Kind: metric.Counter, Unit: metric.Joules,
		Help:   "Energy of the node that was split, each joule once: share active went to workloads and other, share idle is what the node draws without work.",
		Labels: []string{"domain", "share", "method"},
	}
)

// IdleShare selects the owners of the energy that a node draws without work.
type IdleShare string

// The ways to share idle energy.
const (
	IdleNone    IdleShare = "none"    // assigned to no owner: it stays with the node
	IdleRequest IdleShare = "request" // by the cores or GPUs requested; the unrequested share stays with the node
	IdleEven    IdleShare = "even"    // the same for every running workload
)

// joules is energy of one kind.
type joules struct {
	active, idle float64
	rows         [2]*metric.Series
}

// partEnergy is the energy of one part.
type partEnergy struct {
	// marks holds, for each stream, the CPU time of the part at the stream's last
	// reading: meters may be slower than ticks.
	marks []int64
	used  []joules // by slot
}

// slot is one distinguished kind of energy.
type slot struct {
	domain, method string
	node           joules
}

// energy is the ledger's energy state.
type energy struct {
	ledger *registry
	shared IdleShare // the owners of idle energy
	meters attribution.Meters
	slots  []slot
	began  int64 // milliseconds since the Unix epoch

	// State of this tick.
	parts   []*Part
	use     []attribution.Use
	share   []float64
	gpuUse  []attribution.DeviceUse
	gpuPart []*Part
}

// Energy takes in the meter readings of the tick that the ledger took last, and charges
// them. gpus are the shares of devices in the same tick. A load or a source that could
// not be read is absent.
func (l *Ledger) Energy(load attribution.Load, sources []attribution.Source, gpus []GPUShare) {
	if l.parts.other == nil {
		return // no tick yet
	}
	e := l.energy
	if e == nil {
		e = &energy{began: l.at.millis(), ledger: l.parts, shared: l.config.Idle}
		l.energy = e
	}
	streams := e.meters.Advance(load, sources)
	e.parts = e.parts[:0]
	for _, p := range l.parts.order {
		if p.closed() {
			continue
		}
		p.energy.grow(len(streams))
		e.parts = append(e.parts, p)
	}
	packages := uint64(0)
	for i := range streams {
		if s := &streams[i]; s.Domain == string(sensor.DomainPackage) && s.Package >= 0 {
			packages |= 1 << s.Package
		}
	}
	for i := range streams {
		s := &streams[i]
		if s.Anew {
			e.mark(i, s.Fresh)
		}
		if s.Fresh {
			e.settle(i, s, packages&(packages-1) != 0, gpus, l.node.machine.Cores)
		}
	}
}

// EnergyProblem describes what is wrong with a meter, "" if nothing is.
func (l *Ledger) EnergyProblem() string {
	if l.energy == nil {
		return ""
	}
	return l.energy.meters.Problem()
}

// EnergyModelled reports whether a power model is in use because no meter is available.
func (l *Ledger) EnergyModelled() bool { return l.energy != nil && l.energy.meters.Modelled() }

// mark starts a stream now, or with this tick if it has a reading already.
func (e *energy) mark(stream int, came bool) {
	for _, p := range e.parts {
		p.energy.marks[stream] = int64(p.CPU())
		if came {
			p.energy.marks[stream] -= int64(p.now.cpu)
		}
	}
}

// settle charges the energy of one stream of a machine with so many cores.
func (e *energy) settle(i int, s *attribution.Stream, several bool, gpus []GPUShare, cores int) {
	var method string
	var ok bool
	parts := e.parts
	if s.Domain == string(sensor.DomainGPU) {
		method, ok = e.byDevice(s.Zone, gpus)
		parts = e.gpuPart
	} else {
		method, ok = e.byCPU(i, s, several)
	}
	at := e.slot(s.Domain, method)
	e.slots[at].node.active += s.Active
	e.slots[at].node.idle += s.Idle
	if s.Active > 0 {
		if !ok { // no identified process used anything
			e.ledger.other.energy.at(at).active += s.Active
		} else {
			for j, p := range parts {
				if e.share[j] > 0 {
					p.energy.at(at).active += s.Active * e.share[j]
				}
			}
		}
	}
	if s.Idle > 0 {
		e.shareIdle(at, s, cores)
	}
}

// byCPU fills in the shares of all parts by the CPU time since the stream's last reading.
func (e *energy) byCPU(stream int, s *attribution.Stream, several bool) (method string, ok bool) {
	e.use = e.use[:0]
	for _, p := range e.parts {
		cpu := int64(p.CPU())
		u := attribution.Use{CPU: float64(cpu - p.energy.marks[stream]), Packages: p.packages}
		if p.clock > 0 {
			u.CPU *= p.clock
		}
		e.use = append(e.use, u)
		p.energy.marks[stream] = cpu
	}
	e.share = room(e.share, len(e.use))
	exact := !several && s.Package >= 0 || !several && s.Domain == string(sensor.DomainPackage)
	if several && s.Package >= 0 && s.Busy > 0 {
		if ok = attribution.ByPackage(e.share, e.use, s.Package, s.Busy*1e9); ok {
			exact = true
		}
	}
	if !ok {
		ok = attribution.ByCPU(e.share, e.use)
	}
	switch {
	case s.Model:
		return attribution.Modelled, ok
	case exact && s.Domain == string(sensor.DomainPackage):
		return attribution.Measured, ok
	}
	return attribution.MeasuredByCPU, ok
}

// byDevice fills in the shares of the parts that have a GPU open.
func (e *energy) byDevice(zone string, gpus []GPUShare) (method string, ok bool) {
	e.gpuUse, e.gpuPart = e.gpuUse[:0], e.gpuPart[:0]
	for i := range gpus {
		g := &gpus[i]
		if g.Device != zone || g.Part == nil || g.Part.closed() {
			continue
		}
		e.gpuPart = append(e.gpuPart, g.Part)
		e.gpuUse = append(e.gpuUse, attribution.DeviceUse{Busy: g.Busy, Memory: g.Memory, HasBusy: g.HasBusy, HasMemory: g.HasMemory})
	}
	e.share = room(e.share, len(e.gpuUse))
	return attribution.ByDevice(e.share, e.gpuUse)
}

// shareIdle gives idle energy to workloads where that is configured.
func (e *energy) shareIdle(at int, s *attribution.Stream, cores int) {
	switch e.shared {
	case IdleRequest:
		gpu := s.Domain == string(sensor.DomainGPU)
		whole := float64(cores)
		if gpu {
			whole = float64(e.count(string(sensor.DomainGPU)))
		}
		sum := 0.0
		for _, p := range e.parts {
			sum += p.request(gpu)
		}
		if whole = max(whole, sum); whole <= 0 {
			return
		}
		for _, p := range e.parts {
			if r := p.request(gpu); r > 0 {
				p.energy.at(at).idle += s.Idle * r / whole
			}
		}
	case IdleEven:
		n := 0
		for _, p := range e.parts {
			if p.shares() {
				n++
			}
		}
		for _, p := range e.parts {
			if p.shares() {
				p.energy.at(at).idle += s.Idle / float64(n)
			}
		}
	}
}

// shares reports whether a part takes an even share of idle energy.
func (p *Part) shares() bool {
	return p.end == 0 && !p.kind.Sum()
}

// request returns the cores or GPUs that the part requested of the node, 0 if unknown or
// unlimited.
func (p *Part) request(gpu bool) float64 {
	switch {
	case p.end != 0:
		return 0
	case gpu:
		return p.facts.RequestGPUs
	case p.facts.RequestCores > 0:
		return p.facts.RequestCores
	case p.cg.Have&sensor.CgroupCPUMax != 0 && !math.IsInf(p.cg.CPUMax, 0):
		return p.cg.CPUMax
	}
	return 0
}

// count is the number of streams of a domain.
func (e *energy) count(domain string) (n int) {
	for i := range e.meters.Streams() {
		if e.meters.Streams()[i].Domain == domain {
			n++
		}
	}
	return n
}

func (e *energy) slot(domain, method string) int {
	for i := range e.slots {
		if e.slots[i].domain == domain && e.slots[i].method == method {
			return i
		}
	}
	e.slots = append(e.slots, slot{domain: domain, method: method})
	return len(e.slots) - 1
}

func (p *partEnergy) grow(streams int) {
	for len(p.marks) < streams {
		p.marks = append(p.marks, 0)
	}
}

func (p *partEnergy) at(slot int) *joules {
	for len(p.used) <= slot {
		p.used = append(p.used, joules{})
	}
	return &p.used[slot]
}

// absorb takes over the energy of a folded part, and the use of it that was not charged
// yet.
func (p *partEnergy) absorb(o *partEnergy) {
	p.grow(len(o.marks))
	for i, m := range o.marks {
		p.marks[i] += m
	}
	for i := range o.used {
		j := p.at(i)
		j.active += o.used[i].active
		j.idle += o.used[i].idle
	}
}

// leave adds the use of a part since the last meter readings to the use of other.
func (p *Part) leave(other *Part) {
	if other == nil || p == other || len(p.energy.marks) == 0 {
		return
	}
	other.energy.grow(len(p.energy.marks))
	for i, m := range p.energy.marks {
		other.energy.marks[i] -= int64(p.CPU()) - m
	}
}

// Joules returns the energy charged to the part so far.
func (p *Part) Joules() (active, idle float64) {
	for i := range p.energy.used {
		active += p.energy.used[i].active
		idle += p.energy.used[i].idle
	}
	return active, idle
}

// exportPart appends the energy of a part: kinds of energy that it did not use are absent.
func (e *energy) exportPart(p *Part, b *metric.Batch) {
	for i := range p.energy.used {
		j := &p.energy.used[i]
		for k, v := range [...]float64{j.active, j.idle} {
			if v <= 0 {
				continue
			}
			if j.rows[k] == nil {
				s := &e.slots[i]
				j.rows[k] = p.series(workloadEnergy, s.domain, shareNames[k], s.method)
				j.rows[k].Created = max(p.created, e.began)
			}
			b.Add(j.rows[k], v)
		}
	}
}

var shareNames = [...]string{"active", "idle"}

// exportNode appends the energy that was split.
func (e *energy) exportNode(b *metric.Batch) {
	for i := range e.slots {
		s := &e.slots[i]
		for k, v := range [...]float64{s.node.active, s.node.idle} {
			if s.node.rows[k] == nil {
				s.node.rows[k] = metric.NewSeries(attributedEnergy, s.domain, shareNames[k], s.method)
				s.node.rows[k].Created = e.began
			}
			b.Add(s.node.rows[k], v)
		}
	}
}

func room(s []float64, n int) []float64 {
	if cap(s) < n {
		s = make([]float64, n, n+n/4+16)
	}
	return s[:n]
}

// SetPlace sets the processors that the part may run on: a bit for each package, 0 for
// any, and their clock frequency relative to the mean of all processors, 0 when unknown.
func (p *Part) SetPlace(packages uint64, clock float64) { p.packages, p.clock = packages, clock }

// energyState is the serialized energy of a ledger.
type energyState struct {
	Began  int64             `json:"began"`
	Meters attribution.State `json:"meters"`
	Slots  []slotState       `json:"slots"`
}

type slotState struct {
	Domain string  `json:"domain"`
	Method string  `json:"method"`
	Active float64 `json:"active"`
	Idle   float64 `json:"idle"`
}

func (e *energy) state() *energyState {
	if e == nil {
		return nil
	}
	s := &energyState{Began: e.began, Meters: e.meters.State()}
	for i := range e.slots {
		t := &e.slots[i]
		s.Slots = append(s.Slots, slotState{t.domain, t.method, t.node.active, t.node.idle})
	}
	return s
}

// restoreEnergy restores the energy of a saved ledger; if it is damaged, energy counts from zero.
func (l *Ledger) restoreEnergy(s *energyState, parts []*Part, saved []partState) {
	if s == nil {
		return
	}
	sound := func(v float64) bool { return v >= 0 && v < 1e18 }
	e := &energy{began: s.Began, ledger: l.parts, shared: l.config.Idle}
	if s.Began < 0 || e.meters.Restore(s.Meters) != nil {
		return
	}
	for _, t := range s.Slots {
		if !sound(t.Active) || !sound(t.Idle) || e.slot(t.Domain, t.Method) != len(e.slots)-1 {
			return
		}
		n := &e.slots[len(e.slots)-1].node
		n.active, n.idle = t.Active, t.Idle
	}
	for i := range saved {
		for _, j := range saved[i].Joules {
			if !sound(j[0]) || !sound(j[1]) {
				return
			}
		}
		if len(saved[i].Joules) > len(e.slots) || len(saved[i].Marks) > len(e.meters.Streams()) {
			return
		}
	}
	l.energy = e
	for i, p := range parts {
		p.energy.marks = append([]int64(nil), saved[i].Marks...)
		for k, j := range saved[i].Joules {
			u := p.energy.at(k)
			u.active, u.idle = j[0], j[1]
		}
	}
}

func (p *partEnergy) state() (marks []int64, used [][2]float64) {
	for i := range p.used {
		used = append(used, [2]float64{p.used[i].active, p.used[i].idle})
	}
	return p.marks, used
}
