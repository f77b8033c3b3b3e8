package sensor

import "reckon/metric"

// Origin says where figures come from that somebody else than reckon measured: a script,
// an exporter, a file. Who is behind it is found out by who knows workloads.
type Origin struct {
	// Workload is what the figures say that they are about, as kind/name; empty when they
	// do not say.
	Workload string
	// PID is the process that they came from, 0 when it is not known.
	PID int32
	// UID is the user whose figures they are, where HasUID.
	UID    uint32
	HasUID bool
	// Placed figures are of the workload that Workload names, which the sensor knows and
	// they did not say themselves.
	Placed bool
	// Trusted figures come from the administrator: they may be about any workload and
	// about the machine.
	Trusted bool
}

// OwnSample is a figure that somebody else measured.
type OwnSample struct {
	Series *metric.Series
	Value  float64
	Origin *Origin
	Input  int // index in OwnPass.Inputs
}

// OwnInput is one file or address that figures are read from.
type OwnInput struct {
	Name string
	Err  error // why nothing, or not all of it, was taken
}

// OwnPass is one reading of such figures. Its memory is reused.
type OwnPass struct {
	Samples []OwnSample
	Inputs  []OwnInput
}

// Reset empties p and keeps its memory.
func (p *OwnPass) Reset() { p.Samples, p.Inputs = p.Samples[:0], p.Inputs[:0] }

// Input adds an input and returns its index.
func (p *OwnPass) Input(name string, err error) int {
	p.Inputs = append(p.Inputs, OwnInput{name, err})
	return len(p.Inputs) - 1
}

// OwnSource reads figures that others measure. A [Sensor] that is one as well needs
// nothing else: before each export the agent calls ReadOwn, finds the workload behind
// each origin and adds its labels.
//
// ReadOwn fills p, which was reset. A series keeps its pointer as long as it is there,
// and an Origin from one call to the next as long as it says the same. It may take
// long: the agent goes on without it, and does not call it again before it is back.
type OwnSource interface {
	Name() string
	ReadOwn(p *OwnPass)
	Close() error
}
