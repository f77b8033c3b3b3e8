// Package rank orders nodes for one piece of work: first those that have room for it and whose load is known, by the watts
// that the work would add there. Where the work reads data that is on some of them, those with more of it come first among equally sure
// places: data that has to be moved costs more than the difference in watts.
//
// The watts come from each node's own curve of power by share of its cores in use, at the load that is expected there: the mean of its
// forecast over the time that the work stays, or what is measured now, plus what was placed and is not measured yet. Nodes whose forecast band, pressure or memory leaves too little
// room come after those with room, nodes of which nothing fresh is known after these, and nodes that the requests do not
// fit on come last: missing or stale data never makes a node the best one.
//
// Units are cores, bytes, watts and seconds; NaN is what is not known. Pure: no file, no clock; there are no errors. [Rank]
// allocates nothing when the slice that it is given is large enough; it is safe for concurrent use.
package rank

import (
	"cmp"
	"math"
	"slices"
)

// Work is what is to be placed.
type Work struct {
	Cores, Memory, GPUs float64 // requested; 0 is nothing
	// UseCores is what it is expected to use of the cores; NaN for as much as requested. Work that requests no cores and is
	// expected to use none counts as a twentieth of a core.
	UseCores float64
	GPUWatts float64 // of each GPU that it would keep busy; 0 for what a busy GPU adds on the node
}

// Node is where work may go. Figures of which nothing is known are NaN.
type Node struct {
	Name                string
	Cores, Memory, GPUs float64 // to give out
	// Held is what requests on it hold, work placed and not seen yet included.
	HeldCores, HeldMemory, HeldGPUs float64
	// UsedCores and UsedMemory are measured; PlacedCores and PlacedMemory are what work will use that was placed and is
	// not measured yet.
	UsedCores, UsedMemory, PlacedCores, PlacedMemory float64
	// ExpectedCores is the mean of the forecast over the time that the work stays; NaN for what is measured now.
	ExpectedCores float64
	// UpperCores and UpperMemory are the upper ends of the forecast band over the time that the work stays.
	UpperCores, UpperMemory float64
	Pressure                float64 // share of the time in which some task waits, 0 to 1
	Age                     float64 // since it was measured last, seconds; below zero where its clock is ahead
	Closed                  bool    // takes no work
	Data                    float64 // share of the data of the work that is on it, 0 to 1; NaN where that is not known
	Curve                   Curve
	GPUWatts                float64 // that a busy GPU of it adds; 0 where that is not known
}

// Curve is power in watts at 0, 10, ... 100 % of the cores in use. The zero Curve is unknown.
type Curve [11]float64

// Known reports whether there is a curve.
func (c *Curve) Known() bool { return c[10] > 0 }

// At is the power at a share of the cores, by a line between the points; beyond them by the last line.
func (c *Curve) At(share float64) float64 {
	x := max(share, 0) * 10
	i := min(int(x), 9)
	return c[i] + (x-float64(i))*(c[i+1]-c[i])
}

// Tier is how sure the place is; the lowest is the best.
type Tier uint8

// The tiers.
const (
	Room    Tier = iota // fits, is measured, and has room for what is expected
	Tight               // fits, and may be overloaded or is under pressure
	Unknown             // fits by requests, and nothing fresh is known of its load
	NoRoom              // the requests do not fit, or it takes no work
)

// Reason says why a node is not in the first tier, or what was assumed.
type Reason uint16

// The reasons; a place may have several.
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
	NoCurve // the watts are the highest of the others
	DataElsewhere
)

// Place is the verdict on one node.
type Place struct {
	Node     int // index
	Tier     Tier
	Why      Reason
	Watts    float64 // that the work adds; NaN where no node has a curve
	Headroom float64 // share of the cores that stays free at the upper end of what is expected; NaN where not known
	Data     float64 // share of the data of the work that is there; 0 where that is not known
}

// Config holds the thresholds.
type Config struct {
	// MaxAge is from which age data is stale, seconds.
	MaxAge float64
	// Full is the share of cores and memory from which a node is tight, at the upper end of what is expected.
	Full float64
	// Pressure is the share of the time with waiting tasks from which it is.
	Pressure float64
	// WakeIdle charges the idle power of a node to the first work on it: for sites that switch empty nodes off.
	WakeIdle bool
}

// Default is the configuration of the server: five export intervals of a minute, a tenth kept free for what forecasts miss, and the
// pressure at which work visibly waits.
func Default() Config { return Config{MaxAge: 300, Full: 0.9, Pressure: 0.2} }

const leastCores = 0.05

// use is how many cores the work is expected to use.
func (w *Work) use() float64 {
	use := w.UseCores
	if math.IsNaN(use) || use < 0 {
		use = w.Cores
	}
	return max(use, leastCores)
}

// Rank orders the nodes for work, the best first, into out, which it returns.
func Rank(c Config, w Work, nodes []Node, out []Place) []Place {
	out = out[:0]
	most, data := math.NaN(), 0.0
	for i := range nodes {
		p := judge(&c, &w, &nodes[i])
		p.Node, p.Data = i, known(nodes[i].Data)
		data = max(data, p.Data)
		if p.Watts > most || math.IsNaN(most) {
			most = p.Watts
		}
		out = append(out, p)
	}
	for i := range out {
		if math.IsNaN(out[i].Watts) {
			out[i].Watts = most
			out[i].Why |= NoCurve
		}
		if out[i].Data < data {
			out[i].Why |= DataElsewhere
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return better(&a, &b, nodes) })
	return out
}

// better compares two places; equal ones go by the name of the node, so that the order does not depend on that of the list.
func better(a, b *Place, nodes []Node) int {
	if a.Tier != b.Tier {
		return cmp.Compare(a.Tier, b.Tier)
	}
	if d := cmp.Compare(b.Data, a.Data); d != 0 {
		return d
	}
	// A curve that is not known is not better than the worst that is.
	if d := cmp.Compare(a.Watts, b.Watts); d != 0 {
		return d
	}
	if d := cmp.Compare(a.Why&NoCurve, b.Why&NoCurve); d != 0 {
		return d
	}
	if d := cmp.Compare(b.Headroom, a.Headroom); d != 0 { // NaN is the least
		return d
	}
	return cmp.Compare(nodes[a.Node].Name, nodes[b.Node].Name)
}

func judge(c *Config, w *Work, n *Node) Place {
	p := Place{Watts: math.NaN(), Headroom: math.NaN()}
	p.fit(w, n)
	p.load(c, w, n)
	used := n.UsedCores
	if n.ExpectedCores >= 0 {
		used = n.ExpectedCores
	}
	used += known(n.PlacedCores)
	if !n.Curve.Known() || !(n.Cores > 0) || math.IsNaN(used) {
		return p
	}
	gpu := w.GPUWatts
	if gpu == 0 {
		gpu = n.GPUWatts
	}
	p.Watts = n.Curve.At((used+w.use())/n.Cores) - n.Curve.At(used/n.Cores) + w.GPUs*gpu
	if c.WakeIdle && known(n.HeldCores)+known(n.HeldMemory)+known(n.HeldGPUs) == 0 {
		p.Watts += n.Curve[0]
	}
	return p
}

// known is 0 for what is not known: only for what adds to a figure that is.
func known(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// slack is by how much sums may be off in their last digits.
const slack = 1e-9

// fit compares the requests with what is not held. What a node has to give out must be known where it is asked for.
func (p *Place) fit(w *Work, n *Node) {
	if n.Closed {
		p.Why |= Closed
	}
	// The negated comparison holds for NaN too.
	if w.Cores > 0 && !(known(n.HeldCores)+w.Cores <= n.Cores*(1+slack)) {
		p.Why |= TooFewCores
	}
	if w.Memory > 0 && !(known(n.HeldMemory)+w.Memory <= n.Memory*(1+slack)) {
		p.Why |= TooLittleMemory
	}
	if w.GPUs > 0 && !(known(n.HeldGPUs)+w.GPUs <= n.GPUs*(1+slack)) {
		p.Why |= TooFewGPUs
	}
	if p.Why != 0 {
		p.Tier = NoRoom
	}
}

// load compares what is expected with what there is.
func (p *Place) load(c *Config, w *Work, n *Node) {
	// Data from the future is of a clock that is wrong: how old it is nobody knows.
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
	cores := max(n.UsedCores, known(n.UpperCores)) + known(n.PlacedCores) + w.use()
	memory := max(n.UsedMemory, known(n.UpperMemory)) + known(n.PlacedMemory) + w.Memory
	p.Headroom = 1 - cores/n.Cores
	if cores > c.Full*n.Cores*(1+slack) {
		p.Why |= CoresTight
	}
	if memory > c.Full*n.Memory*(1+slack) {
		p.Why |= MemoryTight
	}
	if n.Pressure >= c.Pressure {
		p.Why |= UnderPressure
	}
	if p.Why&(CoresTight|MemoryTight|UnderPressure) != 0 {
		p.Tier = max(p.Tier, Tight)
	}
}
