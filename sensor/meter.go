package sensor

// Domain is the part of a node that a meter measures. Domains overlap and must not be summed. For example, package
// includes core and uncore, and psys includes everything that the processor can measure on the board.
type Domain string

// The domains of energy.
const (
	DomainPackage Domain = "package" // a processor package: cores, caches, memory controller
	DomainCore    Domain = "core"    // the cores of a package; part of DomainPackage
	DomainUncore  Domain = "uncore"  // integrated graphics and the like; part of a package
	DomainDRAM    Domain = "dram"    // memory modules; beside the package
	DomainPsys    Domain = "psys"    // the platform: packages, memory and more
	DomainGPU     Domain = "gpu"     // a graphics processor or accelerator
	DomainBoard   Domain = "board"   // the whole board, chassis or node at its input
	DomainRail    Domain = "rail"    // one supply rail of a board; part of DomainBoard
)

// Meter is one reading of one meter.
type Meter struct {
	Domain Domain
	// Zone distinguishes meters of one domain: the package number or the name of the rail. It is
	// constant while the node runs.
	Zone string
	// Joules is energy since a zero that is constant while the source is open, because sources
	// correct register wrap-around. It is valid if HasJoules is set.
	Joules float64
	// Watts is the present power, for meters without a counter; valid if HasWatts is set.
	Watts     float64
	HasJoules bool
	HasWatts  bool
}

// MeterSource reads meters of energy or power.
//
// If a [Sensor] implements it, the agent reads its meters at each internal tick and attributes the energy to workloads.
// ReadMeters must not block, so a slow source reads in the background and returns its latest reading. Read may export
// the last result of ReadMeters with [MeterSeries]. A meter sets Joules if it has a counter. Otherwise it sets Watts,
// which the agent integrates. If several sources measure one domain, the agent selects one of them.
//
// ReadMeters omits a meter that cannot be read or that the hardware has not updated, because its value is unknown, not
// zero. A MeterSource is used from one goroutine and does not allocate after warm-up.
type MeterSource interface {
	Name() string
	// ReadMeters appends the readings to dst. An error names the meters that could not be read; the
	// others are valid.
	ReadMeters(dst []Meter) ([]Meter, error)
	Close() error
}

// ModelledSource is a source with meters that may come from a power model, such as that of a virtual machine's host.
// The agent prefers measurements to modelled meters.
type ModelledSource interface {
	MeterSource
	// ModelledMeters reports whether the last result of ReadMeters is modelled.
	ModelledMeters() bool
}
