package sensor

// Domain is the part of a node that a meter measures. Domains overlap: psys includes
// everything on the board that the processor can measure, package includes core and
// uncore, so they are never summed with each other.
type Domain string

// The domains of energy.
const (
	DomainPackage Domain = "package" // a processor package: cores, caches, memory controller
	DomainCore    Domain = "core"    // the cores of a package; part of it
	DomainUncore  Domain = "uncore"  // integrated graphics and the like; part of a package
	DomainDRAM    Domain = "dram"    // memory modules; beside the package
	DomainPsys    Domain = "psys"    // the platform: packages, memory and more
	DomainGPU     Domain = "gpu"     // a graphics processor or accelerator
	DomainBoard   Domain = "board"   // the whole board, chassis or node at its input
	DomainRail    Domain = "rail"    // one supply rail of a board; part of it
)

// Meter is one reading of one meter.
type Meter struct {
	Domain Domain
	// Zone distinguishes meters of one domain: the number of the package, the name of the
	// rail. It is constant while the node runs.
	Zone string
	// Joules is energy since a zero that is constant while the source is open: sources
	// correct the wrap-around of their registers. It is valid if HasJoules is set.
	Joules float64
	// Watts is the present power, for meters without a counter; valid if HasWatts is set.
	Watts     float64
	HasJoules bool
	HasWatts  bool
}

// MeterSource reads meters of energy or power.
//
// A [Sensor] that implements it needs nothing else to take part in attribution: the agent
// reads the meters of every such sensor of sensor/all at each internal tick, so
// ReadMeters never blocks (a slow source reads in the background and returns its latest
// reading) and Read may write the latest result of ReadMeters with [MeterSeries]. A meter
// with a counter sets Joules; one with only a present power sets Watts, and attribution
// integrates it. If several sources meter one domain, only one of them counts:
// attribution selects it.
//
// A meter that cannot be read, or has not been updated by the hardware, is left out: an
// absent meter is not zero. It is used from one goroutine and does not allocate after
// warm-up.
type MeterSource interface {
	Name() string
	// ReadMeters appends the readings to dst. An error names the meters that could not be
	// read; the others are valid.
	ReadMeters(dst []Meter) ([]Meter, error)
	Close() error
}

// ModelledSource is a source of meters that may come from a power model elsewhere. They then
// count as a named model: measurements take precedence.
type ModelledSource interface {
	MeterSource
	// ModelledMeters reports whether the last result of ReadMeters is modelled.
	ModelledMeters() bool
}
