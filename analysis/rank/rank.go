// Package rank orders nodes for one piece of work. Nodes with enough free capacity and a known load come first, ordered by the watts that
// the work would add there. Nodes with free GPUs or large memory that the work would leave unused come after the others that fit. If the
// work reads data that is on some of the nodes, those with more of it come first within a tier, because moving data costs more than the
// difference in watts.
//
// The watts come from each node's own curve of power by share of its cores in use, at the expected load: the mean of its forecast over
// the time that the work stays, or the measured load, plus work that was placed and is not measured yet. Nodes with too little capacity
// left by their forecast, its band, pressure or memory come after those with enough, then nodes without fresh data, and last the nodes
// that are too small for the requests. Missing or stale data therefore never makes a node the best one.
//
// Units are cores, bytes, watts and seconds; unknown figures are NaN. The package is pure and returns no errors. [Rank] does not allocate
// if the slice passed to it is large enough; it is safe for concurrent use.
package rank

import (
	"cmp"
	"math"
	"slices"
)

// Work is the work to be placed.
type Work struct {
	Cores, Memory, GPUs float64 // requested; 0 is none
	// UseCores is the expected use of cores, or NaN for as much as requested. Work without
	// requested or expected cores counts as a twentieth of a core.
	UseCores float64
	GPUWatts float64 // per GPU that it would keep busy; 0 for the node's own figure
	Hours    float64 // how long it stays
}

// Node is a candidate for the work. Unknown figures are NaN.
type Node struct {
	Name                string
	Cores, Memory, GPUs float64 // allocatable
	// Held is the sum of requests on it, including work that was placed and is not observed yet.
	HeldCores, HeldMemory, HeldGPUs float64
	// UsedCores and UsedMemory are measured. PlacedCores and PlacedMemory are the expected use of
	// placed work that is not measured yet.
	UsedCores, UsedMemory, PlacedCores, PlacedMemory float64
	// ExpectedCores is the mean of the forecast over the time that the work stays; NaN to use the measured value.
	ExpectedCores float64
	// UpperCores and UpperMemory are the upper ends of the forecast band over the time that the work stays.
	UpperCores, UpperMemory float64
	// MemoryPerHour is the steady rise of its memory towards its limit, bytes an hour; 0 for none. Unusual marks an open anomaly.
	MemoryPerHour float64
	Unusual       bool
	Pressure      float64 // share of the time in which some task waits, 0 to 1
	Age           float64 // since the last measurement, seconds; negative if its clock is ahead
	Closed        bool    // accepts no work
	NoPartition   bool    // the batch system that has the other nodes does not have it
	Data          float64 // share of the data of the work that is on it, 0 to 1; NaN if unknown
	Curve         Curve
	GPUWatts      float64 // per busy GPU; 0 if unknown
}

// Curve is power in watts at 0, 10, ... 100 % of the cores in use. The zero Curve is unknown.
type Curve [11]float64

// Known reports whether there is a curve.
func (c *Curve) Known() bool { return c[10] > 0 }

// At returns the power at a share of the cores, interpolated linearly; beyond the ends extrapolated by the last segment.
func (c *Curve) At(share float64) float64 {
	x := max(share, 0) * 10
	i := min(int(x), 9)
	return c[i] + (x-float64(i))*(c[i+1]-c[i])
}

// Tier is the reliability of a place; the lowest is the best.
type Tier uint8

// Tiers in descending order of preference.
const (
	Room    Tier = iota // fits, is measured, and has capacity for the expected load
	Tight               // fits, but may be overloaded or is under pressure
	Unknown             // fits by requests, but there is no fresh data on its load
	NoRoom              // the requests do not fit, or it accepts no work
)

// Reason is the reason why a node is not in the first tier, or an assumption made.
type Reason uint16

// Reasons; a place may have several.
const (
	Closed Reason = 1 << iota
	TooFewCores
	TooLittleMemory
	TooFewGPUs
	NotMeasured
	Stale
	CoresTight
	MemoryTight
	UnderPressure
	NoCurve // the watts are the highest of the other nodes that have room, NaN without any
	DataElsewhere
	Strands // GPUs, or much memory, that other work needs would stay unused
	NoPartition
	NoGPUWatts // the watts are its processors' alone
	Climbs     // its memory rises towards its limit
	Unusual    // an anomaly is open: its load may differ from the forecast
)

// Place is the verdict on one node.
type Place struct {
	Node     int // index
	Tier     Tier
	Why      Reason
	Watts    float64 // added by the work; NaN if no node has a curve
	Headroom float64 // share of the cores that stays free at the upper end of the expected load; NaN if unknown
	Data     float64 // share of the data of the work that is there; 0 if unknown
}

// Config holds the thresholds.
type Config struct {
	// MaxAge is the age from which data is stale, seconds.
	MaxAge float64
	// Full is the share of cores and memory from which a node is tight, at the upper end of the expected load.
	Full float64
	// Pressure is the share of the time with waiting tasks from which a node is tight.
	Pressure float64
	// WakeIdle adds the idle power of a node to the first work on it: for sites that switch empty nodes off.
	WakeIdle bool
	// WattsOnly ranks by watts alone and ignores resources left unused on a node.
	WattsOnly bool
}

// Default returns the configuration that the server uses. MaxAge is five exports of a minute. Full leaves a tenth of a
// node for forecast errors. Pressure is the share of waiting from which work noticeably slows down.
func Default() Config { return Config{MaxAge: 300, Full: 0.9, Pressure: 0.2} }

const leastCores = 0.05

// expectedCores returns the number of cores that the work is expected to use.
func (w *Work) expectedCores() float64 {
	use := w.UseCores
	if math.IsNaN(use) || use < 0 {
		use = w.Cores
	}
	return max(use, leastCores)
}

// Rank orders the nodes for the work, the best first. It appends to out[:0] and returns the result.
func Rank(c Config, w Work, nodes []Node, out []Place) []Place {
	out = out[:0]
	most, data, large := math.NaN(), 0.0, largeMemory(nodes)
	for i := range nodes {
		p := judgeNode(&c, &w, &nodes[i])
		p.Node, p.Data = i, orZero(nodes[i].Data)
		if !c.WattsOnly && w.wastesScarce(&nodes[i], large) {
			p.Why |= Strands
		}
		data = max(data, p.Data)
		if p.Tier != NoRoom && (p.Watts > most || math.IsNaN(most)) {
			most = p.Watts
		}
		out = append(out, p)
	}
	for i := range out {
		if math.IsNaN(out[i].Watts) {
			out[i].Watts = most
			out[i].Why |= NoCurve
		}
		gpu := cmp.Or(w.GPUWatts, nodes[out[i].Node].GPUWatts)
		out[i].Watts += w.GPUs * gpu
		switch {
		case w.GPUs == 0 || gpu > 0:
		case out[i].Why&TooFewGPUs != 0:
			out[i].Watts = math.NaN()
		default:
			out[i].Why |= NoGPUWatts
		}
		if out[i].Data < data {
			out[i].Why |= DataElsewhere
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return comparePlaces(&a, &b, nodes) })
	return out
}

// largeMemory returns the minimum memory of a node with large memory: twice the geometric mean.
func largeMemory(nodes []Node) float64 {
	sum, n := 0.0, 0.0
	for i := range nodes {
		if v := nodes[i].Memory; v > 0 {
			sum, n = sum+math.Log(v), n+1
		}
	}
	return 2 * math.Exp(sum/n) // NaN, which nothing reaches, without any
}

// wastesScarce reports whether the work would waste resources that others need: free GPUs, or three quarters of a large memory.
func (w *Work) wastesScarce(n *Node, large float64) bool {
	return w.GPUs == 0 && n.GPUs > orZero(n.HeldGPUs) || w.Memory > 0 && n.Memory >= large && w.Memory < n.Memory/4
}

// comparePlaces compares two places. Equal ones are ordered by node name, so that the order of the list has no effect.
func comparePlaces(a, b *Place, nodes []Node) int {
	if a.Tier != b.Tier {
		return cmp.Compare(a.Tier, b.Tier)
	}
	if d := cmp.Compare(b.Data, a.Data); d != 0 {
		return d
	}
	if d := cmp.Compare(a.Why&Strands, b.Why&Strands); d != 0 {
		return d
	}
	// An unknown curve is no better than the worst known one.
	if d := cmp.Compare(a.Watts, b.Watts); d != 0 {
		return d
	}
	if d := cmp.Compare(a.Why&NoCurve, b.Why&NoCurve); d != 0 {
		return d
	}
	if d := cmp.Compare(b.Headroom, a.Headroom); d != 0 { // NaN sorts lowest
		return d
	}
	return cmp.Compare(nodes[a.Node].Name, nodes[b.Node].Name)
}

func judgeNode(c *Config, w *Work, n *Node) Place {
	p := Place{Watts: math.NaN(), Headroom: math.NaN()}
	p.checkRequests(w, n)
	p.checkLoad(c, w, n)
	used := n.UsedCores
	if n.ExpectedCores >= 0 {
		used = n.ExpectedCores
	}
	used += orZero(n.PlacedCores)
	if !n.Curve.Known() || !(n.Cores > 0) || math.IsNaN(used) {
		return p
	}
	p.Watts = n.Curve.At((used+w.expectedCores())/n.Cores) - n.Curve.At(used/n.Cores)
	if c.WakeIdle && orZero(n.HeldCores)+orZero(n.HeldMemory)+orZero(n.HeldGPUs) == 0 {
		p.Watts += n.Curve[0]
	}
	return p
}

// orZero returns 0 for an unknown value; use it only for terms that are added to a known figure.
func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// roundingSlack is the relative rounding error of sums.
const roundingSlack = 1e-9

// checkRequests compares the requests with the free capacity. The capacity of a requested resource must be known.
func (p *Place) checkRequests(w *Work, n *Node) {
	if n.Closed {
		p.Why |= Closed
	}
	if n.NoPartition {
		p.Why |= NoPartition
	}
	need := func(want, held, has float64, lacks Reason) {
		switch {
		case want <= 0 || orZero(held)+want <= has*(1+roundingSlack):
		case math.IsNaN(has) && lacks != TooFewGPUs: // which is unmeasured instead of lacking; unreported GPUs count as none
			p.Tier = NoRoom
		default:
			p.Why |= lacks
		}
	}
	need(w.Cores, n.HeldCores, n.Cores, TooFewCores)
	need(w.Memory, n.HeldMemory, n.Memory, TooLittleMemory)
	need(w.GPUs, n.HeldGPUs, n.GPUs, TooFewGPUs)
	if p.Why != 0 {
		p.Tier = NoRoom
	}
}

// checkLoad compares the expected load with the capacity.
func (p *Place) checkLoad(c *Config, w *Work, n *Node) {
	// Data from the future comes from a wrong clock: its age is unknown.
	if !(n.Age <= c.MaxAge && n.Age >= -c.MaxAge) {
		p.Why |= Stale
	}
	if math.IsNaN(n.UsedCores) || math.IsNaN(n.UsedMemory) || !(n.Cores > 0) || !(n.Memory > 0) {
		p.Why |= NotMeasured
	}
	if p.Why&(Stale|NotMeasured) != 0 {
		p.Tier = max(p.Tier, Unknown)
		return
	}
	cores := max(n.UsedCores, orZero(n.UpperCores)) + orZero(n.PlacedCores) + w.expectedCores()
	memory := max(n.UsedMemory+n.MemoryPerHour*w.Hours, orZero(n.UpperMemory)) + orZero(n.PlacedMemory) + w.Memory
	p.Headroom = 1 - cores/n.Cores
	if cores > c.Full*n.Cores*(1+roundingSlack) {
		p.Why |= CoresTight
	}
	if memory > c.Full*n.Memory*(1+roundingSlack) {
		p.Why |= MemoryTight
	}
	if n.Pressure >= c.Pressure {
		p.Why |= UnderPressure
	}
	if n.MemoryPerHour > 0 {
		p.Why |= Climbs
	}
	if n.Unusual {
		p.Why |= Unusual
	}
	if p.Why&(CoresTight|MemoryTight|UnderPressure) != 0 {
		p.Tier = max(p.Tier, Tight)
	}
}
