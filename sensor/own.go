package sensor

import "reckon/metric"

// Origin is the source of external figures, such as a script, an exporter or a file. The agent determines the
// workload of the figures from it.
type Origin struct {
	// Workload is the workload that the figures claim, as kind/name, or empty.
	Workload string
	// PID is the process that they came from, 0 if unknown.
	PID int32
	// UID is the user that the figures belong to, if HasUID is set.
	UID    uint32
	HasUID bool
	// Placed means that the sensor itself determined Workload, instead of a claim in the figures.
	Placed bool
	// Trusted figures come from the administrator. They may belong to any workload and to the machine.
	Trusted bool
}

// OwnSample is a figure measured by another program.
type OwnSample struct {
	Series *metric.Series
	Value  float64
	Origin *Origin
	Input  int // index in OwnPass.Inputs
}

// OwnInput is one file or address that figures are read from.
type OwnInput struct {
	Name string
	Err  error // why all or a part of the input was rejected
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

// OwnSource reads external figures. A [Sensor] that implements it needs no other integration. Before each export the
// agent calls ReadOwn, determines the workload of each origin and adds its labels.
//
// ReadOwn fills p, which is empty. A series keeps its pointer while it exists, and an Origin keeps its pointer while it
// is unchanged. ReadOwn may take long. The agent continues without its result, and does not call it again until it has
// returned.
type OwnSource interface {
	Name() string
	ReadOwn(p *OwnPass)
	Close() error
}
