// Package energy charges the energy of a node and the time of its GPUs to parts of workloads, and stores the charges. It does not depend
// on the type of a part: [Account] holds the charges of one, and [Consumer] its use so far.
//
// [NodeEnergy] and the accounts are used from one goroutine. Energy is joules, time of devices seconds, CPU time nanoseconds.
package energy

import (
	"reckon/account/attribution"
	"reckon/metric"
	"reckon/sensor"
)

// WorkloadEnergy is the name of the series of the energy of workloads.
const WorkloadEnergy = "reckon_workload_energy_joules_total"

// The energy of workloads and the energy that was split among them. Every joule is in exactly one
// domain, so that sums over all labels are correct; see package attribution.
var (
	workloadEnergy = metric.NewDesc(WorkloadEnergy, metric.Counter, metric.Joules, sensor.Charged("domain", "share", "method"),
		"Energy used by the workload. The share \"active\" follows its use; the share \"idle\" exists where idle energy is divided too. "+
			"Each joule is in one domain, so domains can be summed. The method says whether the energy was measured, and by what it "+
			"was divided.")
	attributedEnergy = metric.NewDesc("reckon_node_attributed_energy_joules_total", metric.Counter, metric.Joules,
		[]string{"domain", "share", "method"},
		"Energy of the node that was divided among workloads, each joule once. The share \"active\" went to workloads and other. The "+
			"share \"idle\" is what the node draws without work.")
)

// IdleShare selects the owners of the energy that a node draws without work.
type IdleShare string

// The ways to share idle energy.
const (
	IdleNone    IdleShare = "none"    // assigned to no owner: it stays with the node
	IdleRequest IdleShare = "request" // by the cores or GPUs requested; the unrequested share stays with the node
	IdleEven    IdleShare = "even"    // the same for every running workload
)

// energyAmounts is the active and the idle energy of one kind, in joules.
type energyAmounts struct {
	active, idle float64
	rows         [2]*metric.Series
}

// Account holds the energy and GPU use charged to one part. The zero value is empty.
type Account struct {
	// marks holds the part's CPU time at each stream's last reading, because meters may be slower than ticks.
	marks []int64
	used  []energyAmounts // by slot
	gpus  []deviceUse     // by number of the device
	place *placement      // nil if it may run anywhere, and it is not folded
	round uint64          // of the books, in which it was last charged
}

// successor returns the account that is charged instead of p.
func (p *Account) successor() *Account {
	for p.place != nil && p.place.into != nil {
		p = p.place.into
	}
	return p
}

// forwardTo redirects all further charges to another account.
func (p *Account) forwardTo(into *Account) { p.place = &placement{into: into} }

// placement holds the processors that a part may run on, and the account that is charged in its place.
type placement struct {
	packages uint64
	clock    float64
	into     *Account // account it was folded into, or other once that is forgotten; nil before
}

// Consumer is a part of a workload with its use so far.
type Consumer struct {
	*Account
	CPU, Tick   uint64  // CPU time so far, and in the last tick
	Cores, GPUs float64 // requested of the node, 0 if unknown, unlimited or ended
	Shares      bool    // takes an even share of idle energy
}

// energyKind is a kind of energy: a domain and the method of splitting it.
type energyKind struct {
	domain, method string
	node           energyAmounts
}

// NodeEnergy holds the energy and the GPU use of a node.
type NodeEnergy struct {
	Idle IdleShare // the owners of idle energy
	// Opens are the devices that were opened in the tick that was taken last; GPU takes them.
	Opens []sensor.Open
	began int64 // milliseconds since the Unix epoch, 0 until a meter was read

	meters  attribution.Meters
	slots   []energyKind
	devices []*gpuDevice
	round   uint64
	openers []opener

	// State of this tick.
	parts   []Consumer
	other   *Account
	use     []attribution.Use
	share   []float64
	gpuUse  []attribution.DeviceUse
	gpuPart []*Account
	gpuLeft []bool // a process of the part no longer has the device open
	shares  []Share
}

// Labeller creates the series of a part.
type Labeller interface {
	// Series returns a series with the labels of the account followed by others. Created is 0 if
	// the account may be older than the agent.
	Series(d *metric.Desc, values ...string) *metric.Series
}

// Charge records the meter readings of the last tick and charges their energy to parts, or to other if no part used it.
// now is the time of the tick in milliseconds since the Unix epoch. shares holds the use of devices in the tick, and
// cores is the number of processors. The caller omits loads and sources that could not be read.
func (e *NodeEnergy) Charge(
	now int64, load attribution.Load, sources []attribution.Source, shares []Share, parts []Consumer, other *Account, cores int,
) {
	if e.began == 0 {
		e.began = now
	}
	e.round++
	e.other = other
	streams := e.meters.Advance(load, sources)
	e.parts = parts
	for i := range parts {
		p := parts[i].Account
		p.ensureStreams(len(streams))
		p.round = e.round
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
			e.startStream(i, s.Fresh)
		}
		if s.Fresh {
			e.chargeStream(i, s, packages&(packages-1) != 0, shares, cores)
		}
	}
}

// Problem describes the fault of a meter, or returns "".
func (e *NodeEnergy) Problem() string {
	if e.began == 0 {
		return ""
	}
	return e.meters.Problem()
}

// Modelled reports whether a power model is in use because no meter is available.
func (e *NodeEnergy) Modelled() bool { return e.began != 0 && e.meters.Modelled() }

// startStream starts charging a stream, with this tick if came is set and else with the next one.
func (e *NodeEnergy) startStream(stream int, came bool) {
	for _, p := range e.parts {
		p.marks[stream] = int64(p.CPU)
		if came {
			p.marks[stream] -= int64(p.Tick)
		}
	}
}

// chargeStream charges the energy of one stream on a machine with the given number of cores.
func (e *NodeEnergy) chargeStream(index int, s *attribution.Stream, several bool, shares []Share, cores int) {
	gpu := s.Domain == string(sensor.DomainGPU)
	var method string
	var ok bool
	active := s.Active
	if gpu {
		for i := range e.parts {
			e.parts[i].addWatts(e.deviceIndex(s.Zone), 0)
		}
		if d := e.meteredDevice(s.Zone); d != nil {
			active += d.owed.joules
			if d.owed.joules = 0; d.putOff {
				d.owed.joules, active = active, 0
			}
		}
		method, ok = e.shareByDevice(s.Zone, shares)
	} else {
		method, ok = e.shareByCPU(index, s, several)
	}
	at := e.kindIndex(s.Domain, method)
	e.slots[at].node.active += active
	e.slots[at].node.idle += s.Idle
	switch {
	case active <= 0:
	case !ok: // no identified process used anything
		e.other.amountsOf(at).active += active
	default:
		for j, share := range e.share {
			if share <= 0 {
				continue
			}
			if gpu {
				e.gpuPart[j].amountsOf(at).active += active * share
				e.gpuPart[j].addWatts(e.deviceIndex(s.Zone), active*share/max(s.Seconds, 1))
			} else {
				e.parts[j].amountsOf(at).active += active * share
			}
		}
	}
	if s.Idle > 0 {
		e.shareIdle(at, s, cores)
	}
}

// shareByCPU sets the share of each part to its fraction of the CPU time since the stream's last reading.
func (e *NodeEnergy) shareByCPU(stream int, s *attribution.Stream, several bool) (method string, ok bool) {
	e.use = e.use[:0]
	for i := range e.parts {
		p := &e.parts[i]
		cpu := int64(p.CPU)
		u := attribution.Use{CPU: float64(cpu - p.marks[stream])}
		if p.place != nil {
			u.Packages = p.place.packages
			if p.place.clock > 0 {
				u.CPU *= p.place.clock
			}
		}
		e.use = append(e.use, u)
		p.marks[stream] = cpu
	}
	e.share = resizeFloats(e.share, len(e.use))
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

// shareByDevice sets the shares of the parts that have a GPU open.
func (e *NodeEnergy) shareByDevice(zone string, shares []Share) (method string, ok bool) {
	e.gpuUse, e.gpuPart = e.gpuUse[:0], e.gpuPart[:0]
	worst := 0
	for i := range shares {
		g := &shares[i]
		if g.Device != zone || g.Account == nil || g.Account.round != e.round {
			continue
		}
		e.gpuPart = append(e.gpuPart, g.Account)
		e.gpuUse = append(e.gpuUse, attribution.DeviceUse{Busy: g.Busy, Memory: g.Memory, HasBusy: g.HasBusy, HasMemory: g.HasMemory})
		worst = max(worst, g.Method)
	}
	e.share = resizeFloats(e.share, len(e.gpuUse))
	method, ok = attribution.ByDevice(e.share, e.gpuUse)
	switch {
	case len(e.gpuUse) == 1:
		method = Methods[worst]
	case method == attribution.Measured:
		method = Methods[worst]
	}
	return method, ok
}

// addWatts adds to the power in watts that a part draws from a device.
func (p *Account) addWatts(at int, watts float64) {
	if at >= 0 && at < len(p.gpus) {
		p.gpus[at].watts = watts
	}
}

// meteredDevice returns the GPU that a meter belongs to, or nil if the use of that GPU is not known.
func (e *NodeEnergy) meteredDevice(zone string) *gpuDevice {
	if i := e.deviceIndex(zone); i >= 0 {
		return e.devices[i]
	}
	return nil
}

// shareIdle charges idle energy to workloads if that is configured.
func (e *NodeEnergy) shareIdle(at int, s *attribution.Stream, cores int) {
	switch e.Idle {
	case IdleRequest:
		gpu := s.Domain == string(sensor.DomainGPU)
		whole := float64(cores)
		if gpu {
			whole = float64(e.countStreams(string(sensor.DomainGPU)))
		}
		sum := 0.0
		for _, p := range e.parts {
			sum += p.requestedAmount(gpu)
		}
		if whole = max(whole, sum); whole <= 0 {
			return
		}
		for _, p := range e.parts {
			if r := p.requestedAmount(gpu); r > 0 {
				p.amountsOf(at).idle += s.Idle * r / whole
			}
		}
	case IdleEven:
		n := 0
		for _, p := range e.parts {
			if p.Shares {
				n++
			}
		}
		for _, p := range e.parts {
			if p.Shares {
				p.amountsOf(at).idle += s.Idle / float64(n)
			}
		}
	}
}

// requestedAmount returns the number of the node's cores, or GPUs if gpu is set, that the part requested. It returns 0 if the
// request is unknown or unlimited.
func (p *Consumer) requestedAmount(ofGPUs bool) float64 {
	if ofGPUs {
		return p.GPUs
	}
	return p.Cores
}

// countStreams returns the number of streams of a domain.
func (e *NodeEnergy) countStreams(domain string) (n int) {
	for i := range e.meters.Streams() {
		if e.meters.Streams()[i].Domain == domain {
			n++
		}
	}
	return n
}

func (e *NodeEnergy) kindIndex(domain, method string) int {
	for i := range e.slots {
		if e.slots[i].domain == domain && e.slots[i].method == method {
			return i
		}
	}
	e.slots = append(e.slots, energyKind{domain: domain, method: method})
	return len(e.slots) - 1
}

func (p *Account) ensureStreams(streams int) {
	for len(p.marks) < streams {
		p.marks = append(p.marks, 0)
	}
}

func (p *Account) amountsOf(slot int) *energyAmounts {
	for len(p.used) <= slot {
		p.used = append(p.used, energyAmounts{})
	}
	return &p.used[slot]
}

// Absorb adds the energy charged to a folded part, and its use that was not yet charged.
func (p *Account) Absorb(folded *Account) {
	p.ensureStreams(len(folded.marks))
	for i, m := range folded.marks {
		p.marks[i] += m
	}
	for i := range folded.used {
		j := p.amountsOf(i)
		j.active += folded.used[i].active
		j.idle += folded.used[i].idle
	}
	p.absorbGPUs(folded)
	folded.forwardTo(p)
}

// LeaveTo adds the use of a part since the last meter readings to the use of other. cpu is all of its CPU time.
func (p *Account) LeaveTo(cpu uint64, other *Account) {
	p.forwardTo(other)
	if len(p.marks) == 0 {
		return
	}
	other.ensureStreams(len(p.marks))
	for i, m := range p.marks {
		other.marks[i] -= int64(cpu) - m
	}
}

// Joules returns the energy charged so far.
func (p *Account) Joules() (active, idle float64) {
	for i := range p.used {
		active += p.used[i].active
		idle += p.used[i].idle
	}
	return active, idle
}

// Metered reports whether energy was charged.
func (p *Account) Metered() bool { return len(p.used) > 0 }

// SetPlace sets the processors that the part may run on: one bit per package, 0 for any. clock is
// their frequency relative to the mean of all processors, 0 if unknown.
func (p *Account) SetPlace(packages uint64, clock float64) {
	p.place = &placement{packages: packages, clock: clock}
}

// Export appends the energy of a part: kinds of energy that it did not use are absent.
func (e *NodeEnergy) Export(p *Account, of Labeller, b *metric.Batch) {
	for i := range p.used {
		j := &p.used[i]
		for k, v := range [...]float64{j.active, j.idle} {
			if v <= 0 {
				continue
			}
			if j.rows[k] == nil {
				s := &e.slots[i]
				j.rows[k] = of.Series(workloadEnergy, s.domain, shareNames[k], s.method)
				j.rows[k].Created = max(j.rows[k].Created, e.began)
			}
			b.Add(j.rows[k], v)
		}
	}
}

var shareNames = [...]string{"active", "idle"}

// ExportNode appends the energy of the node that was split over its parts.
func (e *NodeEnergy) ExportNode(b *metric.Batch) {
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

func resizeFloats(s []float64, n int) []float64 {
	if cap(s) < n {
		s = make([]float64, n, n+n/4+16)
	}
	return s[:n]
}

// State is the saved energy of a node.
type State struct {
	Began  int64             `json:"began"`
	Meters attribution.State `json:"meters"`
	Slots  []SlotState       `json:"slots"`
}

// SlotState is one kind of energy of a [State].
type SlotState struct {
	Domain string  `json:"domain"`
	Method string  `json:"method"`
	Active float64 `json:"active"`
	Idle   float64 `json:"idle"`
}

// AccountState is a saved account. Marks holds the CPU time by stream at the last reading, and Joules the active and
// idle energy by kind. GPUs holds for each device the seconds by each of the first three methods, the byte-seconds, the
// sampled seconds and the peak.
type AccountState struct {
	Marks  []int64                     `json:"marks,omitempty"`
	Joules [][2]float64                `json:"joules,omitempty"`
	GPUs   [][len(Methods) + 2]float64 `json:"gpus,omitempty"`
}

// State returns the energy, nil until a meter was read.
func (e *NodeEnergy) State() *State {
	if e.began == 0 {
		return nil
	}
	s := &State{Began: e.began, Meters: e.meters.State()}
	for i := range e.slots {
		t := &e.slots[i]
		s.Slots = append(s.Slots, SlotState{t.domain, t.method, t.node.active, t.node.idle})
	}
	return s
}

// State returns the account, to be saved.
func (p *Account) State() (s AccountState) {
	s.Marks = p.marks
	for i := range p.used {
		s.Joules = append(s.Joules, [2]float64{p.used[i].active, p.used[i].idle})
	}
	for i := range p.gpus {
		a := &p.gpus[i]
		s.GPUs = append(s.GPUs, [len(Methods) + 2]float64{
			a.seconds[methodMeasured], a.seconds[methodByMemory], a.seconds[methodEqually], a.byteSeconds, a.seconds[methodBySamples],
			a.peak,
		})
	}
	return s
}

// Restore restores a saved node and its accounts. Damaged energy or device data restarts from zero.
func (e *NodeEnergy) Restore(s *State, devices []DeviceState, accounts []*Account, saved []*AccountState) {
	e.restoreEnergy(s, accounts, saved)
	e.restoreGPUs(devices, accounts, saved)
}

func (e *NodeEnergy) restoreEnergy(s *State, accounts []*Account, saved []*AccountState) {
	if s == nil {
		return
	}
	sound := func(v float64) bool { return v >= 0 && v < 1e18 }
	n := NodeEnergy{Idle: e.Idle, began: s.Began}
	if s.Began < 0 || n.meters.Restore(s.Meters) != nil {
		return
	}
	for _, t := range s.Slots {
		if !sound(t.Active) || !sound(t.Idle) || n.kindIndex(t.Domain, t.Method) != len(n.slots)-1 {
			return
		}
		node := &n.slots[len(n.slots)-1].node
		node.active, node.idle = t.Active, t.Idle
	}
	for _, a := range saved {
		for _, j := range a.Joules {
			if !sound(j[0]) || !sound(j[1]) {
				return
			}
		}
		if len(a.Joules) > len(n.slots) || len(a.Marks) > len(n.meters.Streams()) {
			return
		}
	}
	*e = n
	for i, p := range accounts {
		p.marks = append([]int64(nil), saved[i].Marks...)
		for k, j := range saved[i].Joules {
			u := p.amountsOf(k)
			u.active, u.idle = j[0], j[1]
		}
	}
}
